"""Admission: requests of an API server to review a write, and our responses (`admission.k8s.io/v1`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Raw

from espalier.api.meta import Part, Tree
from espalier.api.resource import Resource
from espalier.api.text.printable import in_one_line
from espalier.api.text.violations import Violation
from espalier.api.trees import json_trees
from espalier.kube.errors import Forbidden, Invalid, StatusCause
from espalier.kube.objects import Object, encode_json
from espalier.kube.transports.wire import User

API_VERSION, KIND = "admission.k8s.io/v1", "AdmissionReview"

Operation: TypeAlias = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


class AdmissionRequest(msgspec.Struct, frozen=True):
    """A write to review. `object` is None for deletions, `old` for creations."""

    operation: Operation
    kind: str
    namespace: str
    name: str
    user: User
    object: Object | None = None
    old: Object | None = None
    subresource: str = ""
    dry_run: bool = False


class AdmissionResponse(msgspec.Struct, frozen=True):
    """The response to a write. A refusal has a message, a code with its reason, and a cause for each wrong field.

    `changed` is the whole mutated object; None leaves it unchanged.
    """

    allowed: bool = True
    message: str = ""
    code: int = 403
    reason: str = "Forbidden"
    causes: tuple[StatusCause, ...] = ()
    warnings: tuple[str, ...] = ()
    changed: Tree | None = None

    @classmethod
    def refuse(
        cls, object_: Object, violations: Sequence[Violation], warnings: tuple[str, ...] = ()
    ) -> AdmissionResponse:
        """A refusal of an object with all its violations."""
        causes = tuple(
            StatusCause(reason="FieldValueInvalid", message=violation.sentence, field=violation.field)
            for violation in violations
        )
        text = (
            "; ".join(map(str, violations))
            if len(violations) == 1
            else "".join(f"\n* {violation}" for violation in violations)
        )
        return cls.refuse_fields(f'{object_.kind} "{object_.name}" is refused: {text}', causes, warnings)

    @classmethod
    def refuse_fields(
        cls, message: str, causes: tuple[StatusCause, ...], warnings: tuple[str, ...] = ()
    ) -> AdmissionResponse:
        """A refusal because of wrong fields (422 Invalid)."""
        return cls(False, message, Invalid.code, Invalid.reason, causes, warnings)

    def of_an_existing(self) -> AdmissionResponse:
        """The response to a change of an object that exists: a refusal is 403 Forbidden instead of 422 Invalid.

        Some appliers (Flux with `force`) take 422 for a field that can't be changed in place, and delete the object to
        create it anew: a typing error would delete what runs.
        """
        if self.allowed or self.code != Invalid.code:
            return self
        return msgspec.structs.replace(self, code=Forbidden.code, reason=Forbidden.reason)


def not_ready(program: str, why: str) -> AdmissionResponse:
    """The refusal of a program whose caches are not filled: `why` is what its `/readyz` says."""
    why = why or "its caches are not filled yet"
    return AdmissionResponse(False, f"the {program} is not ready: {why}; try again then", 503, "ServiceUnavailable")


Handler: TypeAlias = Callable[[AdmissionRequest], AdmissionResponse]
"""A function that answers immediately, from the request and caches."""


WRITES = ("CREATE", "UPDATE")


class AdmissionWebhook(NamedTuple):
    """An admission webhook, as a webhook configuration registers it. A component serves it at `path`."""

    verb: str
    """The prefix of the webhook's name: `mutate` for a mutating webhook; all others validate."""
    resource: Resource
    path: str
    operations: tuple[str, ...] = WRITES
    failure_policy: str = "Fail"
    watched: bool = False
    """True if the webhook is called only for objects in the namespaces that the manager watches."""
    subresource: str = ""
    """Called for writes of this subresource instead of the resource. (API servers call only for those in a rule.)"""
    namespace: str = ""
    """Called only for objects in this namespace."""

    @property
    def name(self) -> str:
        """The name in a webhook configuration."""
        group = self.resource.group or "core"
        return ".".join(filter(None, (self.verb, self.subresource, self.resource.plural, group)))

    @property
    def rule(self) -> Tree:
        """The rule by which API servers call it."""
        resource = self.resource
        return {
            "apiGroups": [resource.group],
            "apiVersions": [resource.version],
            "operations": list(self.operations),
            "resources": [f"{resource.plural}/{self.subresource}" if self.subresource else resource.plural],
            "scope": "Namespaced" if resource.namespaced else "Cluster",
        }

    @property
    def mutates(self) -> bool:
        """True for a mutating webhook."""
        return self.verb == "mutate"


class NoReview(ValueError):
    """The body is not an AdmissionReview."""


class _UserInfo(Part):
    username: str = ""
    groups: list[str] = msgspec.field(default_factory=list)


class _Kind(Part):
    kind: str = ""


class _Request(Part):
    uid: str
    operation: Operation
    kind: _Kind = msgspec.field(default_factory=_Kind)
    name: str = ""
    namespace: str = ""
    sub_resource: str = ""
    user_info: _UserInfo = msgspec.field(default_factory=_UserInfo)
    object: Raw = Raw(b"null")
    old_object: Raw = Raw(b"null")
    dry_run: bool | None = None


class _Review(Part):
    request: _Request


_decode = json_trees.decoder(_Review)


def review(body: bytes, handler: Handler) -> tuple[bytes, AdmissionResponse]:
    """Answer one AdmissionReview. Raises `NoReview`, and whatever the handler does."""
    try:
        json_trees.require_flat(body)
        parsed = _decode(body).request
        request = AdmissionRequest(
            parsed.operation,
            parsed.kind.kind,
            parsed.namespace,
            parsed.name,
            User(parsed.user_info.username, tuple(parsed.user_info.groups)),
            _object(parsed.object),
            _object(parsed.old_object),
            parsed.sub_resource,
            bool(parsed.dry_run),
        )
    except json_trees.TooDeep as error:
        return _refused_unread(body, error)
    except msgspec.MsgspecError as error:
        raise NoReview(f"not an {KIND} of {API_VERSION}: {error}") from error
    response = handler(request)
    if request.operation == "UPDATE":
        response = response.of_an_existing()
    return encode(parsed.uid, request.object, response), response


_UID = re.compile(rb'"uid": ?"([0-9a-f-]{1,64})"')


def _refused_unread(body: bytes, error: json_trees.TooDeep) -> tuple[bytes, AdmissionResponse]:
    """A refusal of an object nested too deeply; its review's uid comes before the object in the body."""
    uid = _UID.search(body, 0, 4096)
    if uid is None:
        raise NoReview(f"not an {KIND} of {API_VERSION}: {error}") from error
    response = AdmissionResponse(False, f"the object cannot be read: {error}; reduce its nesting", 422, Invalid.reason)
    return encode(uid[1].decode(), None, response), response


def uid_of(body: bytes) -> str:
    """The uid of a review, to answer it even if our handler failed."""
    return _decode(body).request.uid


def encode(uid: str, object_: Object | None, response: AdmissionResponse) -> bytes:
    """The AdmissionReview with `response`."""
    answer: dict[str, Any] = {"uid": uid, "allowed": response.allowed}
    if response.warnings:
        answer["warnings"] = [in_one_line(warning) for warning in response.warnings]  # each becomes a header
    if not response.allowed:
        answer["status"] = {
            "apiVersion": "v1",
            "kind": "Status",
            "metadata": {},
            "status": "Failure",
            "message": response.message,
            "reason": response.reason,
            "code": response.code,
        }
        if response.causes:
            details: dict[str, Any] = {"causes": msgspec.to_builtins(response.causes)}
            if object_ is not None:  # kubectl begins its error message with these
                details |= {"name": object_.name, "kind": object_.kind}
            answer["status"]["details"] = details
    elif response.changed is not None and object_ is not None:
        import jsonpatch  # noqa: PLC0415  needed where answers go over the wire

        patch = jsonpatch.make_patch(object_.tree, response.changed).patch
        if patch:
            answer["patchType"] = "JSONPatch"
            answer["patch"] = encode_json(patch)  # base64 on the wire, as msgspec has it for bytes
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, "response": answer})


def _object(raw: Raw) -> Object | None:
    content = bytes(raw)
    return None if content == b"null" else Object(content)
