"""Create, replace, patch and apply: from the body of a request to a draft of what is to be stored.

While webhooks are called, other requests run. A write whose object has changed meanwhile is retried (patches) or fails
(writes with a resource version).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn, TypeAlias

import msgspec

from espalier.api import conditions as condition_list
from espalier.api import core as builtin
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.apiserver.builtin import signing_requests
from espalier.apiserver.builtin.scaling import scale_of, set_replicas
from espalier.apiserver.core.admission import AdmissionWebhooks
from espalier.apiserver.core.core import Core, RequestSteps, is_valid, to_served_version, to_storage_version
from espalier.apiserver.core.storage_pipeline import Draft, StoragePipeline, manager_of
from espalier.apiserver.documents import definitions
from espalier.apiserver.fields import patches, typed_patch
from espalier.apiserver.fields.json_patch import json_patch
from espalier.apiserver.requests import bodies
from espalier.apiserver.requests.requests import APPLY, RequestInfo, attributes_of
from espalier.apiserver.schema import metadata
from espalier.apiserver.schema.pruning import Pruner
from espalier.apiserver.schema.registry import ServedKind
from espalier.apiserver.wire import failures, go_json
from espalier.apiserver.wire.content import UnsupportedMediaType
from espalier.kube.errors import ApiError, StatusDetails
from espalier.kube.objects import Object, encode_json
from espalier.kube.server_side_apply import managed_fields
from espalier.kube.server_side_apply.managed_fields import Managers

SCALE = ("Scale", "autoscaling/v1")
ATTEMPTS = 10
"""The maximum attempts of a write whose object changes while webhooks are called."""

MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
STRATEGIC = patches.STRATEGIC
_KEEPS_STATUS = frozenset({builtin.NODE})
"""Kinds that are created with their status, unlike others that have a status subresource."""

Change: TypeAlias = Callable[[Tree], Tree]


class Writer:
    """Carries out writes."""

    def __init__(self, core: Core, webhooks: AdmissionWebhooks) -> None:
        self._core = core
        self._pipeline = StoragePipeline(core, webhooks)

    def create(self, info: RequestInfo) -> RequestSteps:
        """POST of an object."""
        tree = to_storage_version(bodies.object_of(info), info.kind)
        if tree["metadata"].get("resourceVersion"):
            raise failures.internal_error("resourceVersion should not be set on objects to be created")
        base = "" if tree["metadata"].get("name") else str(tree["metadata"].get("generateName") or "")
        for _ in range(ATTEMPTS):
            draft = self._new_draft(info, dict(tree), base)
            answer = yield from self._pipeline.finish(draft)
            if answer is not None:
                return answer
            if not base:
                break
        raise failures.already_exists(info.kind.resource, draft.info.name)

    def update(self, info: RequestInfo) -> RequestSteps:
        """PUT of an object, or of a subresource."""
        if info.subresource == "scale":
            body = bodies.object_of(info, *SCALE)
            return (yield from self.modify(info, self._scale_change(info, lambda _: body)))
        tree = to_storage_version(bodies.object_of(info), info.kind)
        if info.kind.custom and not tree["metadata"].get("resourceVersion"):
            cause = failures.invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise failures.invalid_object(info.kind.resource.plural, info.kind.resource.group, info.name, [cause])
        return (yield from self.modify(info, lambda _: tree))

    def patch(self, info: RequestInfo) -> RequestSteps:
        """PATCH of an object, or of a subresource."""
        if info.content_type == APPLY:
            return (yield from self._apply(info))
        change = self._patch_change(info)
        return (
            yield from self.modify(info, self._scale_change(info, change) if info.subresource == "scale" else change)
        )

    def modify(self, info: RequestInfo, change: Change) -> RequestSteps:
        """Change an existing object by a function from the old to the new tree."""
        for _ in range(ATTEMPTS):
            old = self._existing(info)
            before, owned = self._decode(old, info.kind)
            new = change(_with_managers(before, owned) if b"managedFields" in info.request.body else before)
            submitted_managers = (new.get("metadata") or {}).pop("managedFields", None)
            draft = Draft(info, old, before, self._merge_writable_parts(info, before, new), owned)
            draft.submitted_managers = _submitted_managers(info, submitted_managers, owned)
            self._check_preconditions(info, old, new)
            answer = yield from self._pipeline.finish(draft)
            if answer is not None:
                return answer
            if new["metadata"].get("resourceVersion") and info.verb == "update":
                break
        raise failures.conflict(info.kind.resource, info.name, failures.MODIFIED)

    def _apply(self, info: RequestInfo) -> RequestSteps:
        if not info.query.get("fieldManager"):
            cause = failures.required("fieldManager", "is required for apply patch")
            raise failures.invalid_object("PatchOptions", "meta.k8s.io", "", [cause])
        if info.subresource == "scale":
            raise failures.bad_request("the scale subresource takes merge and JSON patches")
        config = self._applied_configuration(info)
        for _ in range(ATTEMPTS):
            table = self._core.store.table(info.kind.table)
            old = table.objects.get(info.key)
            if old is None and info.subresource:
                raise failures.not_found(info.kind.resource, info.name)
            if old is None and config["metadata"].get("uid"):
                uid = config["metadata"]["uid"]
                sentence = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                raise failures.conflict(info.kind.resource, info.name, sentence)
            if old is None:
                self._require_right_to_create(info)
            before, owned = self._decode(old, info.kind) if old is not None else ({}, {})
            new, after = managed_fields.apply(
                before,
                config,
                owned,
                manager_of(info, "Apply"),
                info.kind.node,
                condition_list.timestamp(self._core.now()),
                force=info.flag("force"),
            )
            applied = {"apiVersion": info.kind.resource.api_version, "kind": info.kind.resource.kind, **config}
            new = managed_fields.update_last_applied(before, applied, new, manager_of(info, "Apply"))
            if old is None:
                draft = self._new_draft(info, new, "")
            else:
                self._check_preconditions(info, old, config)
                draft = Draft(info, old, before, self._merge_writable_parts(info, before, new), owned)
            draft.managers = after
            answer = yield from self._pipeline.finish(draft, applied=True)
            if answer is not None:
                if old is None:
                    answer.status = 201
                return answer
        raise failures.conflict(info.kind.resource, info.name, failures.MODIFIED)

    def _require_right_to_create(self, info: RequestInfo) -> None:
        """Require the right to create: that to patch does not include it."""
        if not self._core.authorizer(replace(attributes_of(info), verb="create"), info.user):
            raise failures.forbidden(info.user, "create", info.kind.resource, "", info.namespace, info.name)

    # New objects.

    def _new_draft(self, info: RequestInfo, new: Tree, base: str) -> Draft:
        kind = info.kind
        new["apiVersion"], new["kind"] = kind.storage_version, kind.resource.kind
        new["metadata"] = system = dict(new.get("metadata") or {})
        self._require_namespace(info)
        if kind.custom and not self._is_accepting(kind):
            message = "create not allowed while custom resource definition is terminating"
            raise failures.MethodNotAllowed.of(message)
        for name in (*metadata.SYSTEM, "managedFields", "resourceVersion"):
            system.pop(name, None)
        if "status" in kind.subresources and kind.resource not in _KEEPS_STATUS:
            new.pop("status", None)
        if base:
            system["name"] = metadata.generated_name(base, self._core.rng)
        if kind.resource.namespaced:
            system["namespace"] = info.namespace
        system["uid"] = metadata.new_uid(self._core.rng)
        system["creationTimestamp"] = condition_list.timestamp(self._core.now())
        if kind.generation:
            system["generation"] = 1
        if kind.resource == builtin.CERTIFICATE_SIGNING_REQUEST:
            signing_requests.with_requester(new, info.user)
        named = replace(info, name=str(system.get("name") or ""))
        return Draft(named, None, {}, new, {})

    def _require_namespace(self, info: RequestInfo) -> None:
        if not info.namespace:
            return
        resource = builtin.NAMESPACE
        namespace = self._core.store.table(resource.group_resource).objects.get(Key("", info.namespace))
        if namespace is None:
            raise failures.not_found(resource, info.namespace)
        if namespace.head.metadata.deletion_timestamp:
            cause = failures.cause(
                "NamespaceTerminating", "metadata.namespace", f"namespace {info.namespace} is being terminated"
            )
            sentence = f"unable to create new content in namespace {info.namespace} because it is being terminated"
            raise failures.refused(info.kind.resource, info.name, sentence, [cause])

    def _is_accepting(self, kind: ServedKind) -> bool:
        definition = self._core.store.table(definitions.TABLE).objects.get(Key("", kind.table))
        return definition is not None and definition.head.metadata.deletion_timestamp is None

    # Changes of existing objects.

    def _existing(self, info: RequestInfo) -> Object:
        old = self._core.store.table(info.kind.table).objects.get(info.key)
        if old is None:
            raise failures.not_found(info.kind.resource, info.name)
        return old

    def _decode(self, old: Object, kind: ServedKind) -> tuple[Tree, Managers]:
        """The tree of a stored object under the current schema, and its managed fields separately."""
        entries = bytes(old.head.metadata.managed_fields or b"[]")
        # Metadata stands before all that clients fill in freely, and in text quotes are escaped: nothing else is found.
        tree: Tree = msgspec.json.decode(old.raw.replace(entries, b"[]", 1))
        tree["apiVersion"] = kind.storage_version
        tree["metadata"].pop("managedFields", None)
        if not is_valid(old, kind):
            Pruner(kind.node, typed=False).object(tree, kind.node)
        return tree, managed_fields.decode(entries)

    def _merge_writable_parts(self, info: RequestInfo, before: Tree, new: Tree) -> Tree:
        """The object with the parts that this path may change from the write, and all others unchanged."""
        stored = dict(before["metadata"])
        if info.kind.resource == builtin.CERTIFICATE_SIGNING_REQUEST:
            return self._merge_signing_request(info, before, new)
        if info.subresource == "status":
            return {**before, "metadata": stored, **({"status": new["status"]} if "status" in new else {})}
        if info.subresource == "finalize":
            return {**before, "metadata": stored, "spec": new.get("spec") or {}}
        merged = self._with_system_metadata(new, before)
        if "status" in info.kind.subresources:
            merged.pop("status", None)
            if "status" in before:
                merged["status"] = before["status"]
        return merged

    @staticmethod
    def _with_system_metadata(new: Tree, before: Tree) -> Tree:
        stored = before["metadata"]
        own = {
            **{name: part for name, part in new["metadata"].items() if name not in metadata.SYSTEM},
            **{name: stored[name] for name in metadata.SYSTEM if name in stored},
            "resourceVersion": stored["resourceVersion"],
        }
        return {**new, "metadata": own}

    def _merge_signing_request(self, info: RequestInfo, before: Tree, new: Tree) -> Tree:
        """As kube-apiserver: the spec is written once, and a decision and a certificate have a path each."""
        changed = {
            "approval": signing_requests.conditions_by_approval(before, new),
            "status": signing_requests.status_by_status(before, new),
        }.get(info.subresource)
        if info.subresource == "status" and (causes := list(signing_requests.decided_beside(before, new))):
            resource = info.kind.resource
            raise failures.invalid_object(resource.kind, resource.group, info.name, causes)
        if changed is None:
            return self._with_system_metadata({**before, "metadata": new["metadata"]}, before)
        status = signing_requests.timed(changed, before, condition_list.timestamp(self._core.now()))
        return {**before, "status": status}

    def _check_preconditions(self, info: RequestInfo, old: Object, new: Tree) -> None:
        resource, wanted = info.kind.resource, new.get("metadata") or {}
        version = str(wanted.get("resourceVersion") or "")
        if version.isdecimal() and version != old.head.metadata.resource_version:
            raise failures.conflict(resource, info.name, failures.MODIFIED)
        if version and not (version.isascii() and version.isdecimal()):
            raise failures.internal_error(f'strconv.ParseUint: parsing "{version}": invalid syntax')
        uid = wanted.get("uid")
        if uid and uid != old.head.metadata.uid:
            if info.verb == "patch":
                cause = failures.immutable("metadata.uid", uid)
                raise failures.invalid_object(resource.kind, resource.group, info.name, [cause])
            sentence = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old.head.metadata.uid}"
            raise failures.conflict(resource, info.name, sentence)

    def _patch_change(self, info: RequestInfo) -> Change:
        kind, media = info.kind, info.content_type
        accepted = {JSON_PATCH, MERGE} if kind.custom else {JSON_PATCH, MERGE, STRATEGIC}
        if media not in accepted:
            self._refuse_media(info)
        try:
            patch = go_json.decoded(info.request.body)
        except go_json.Malformed as error:
            raise failures.bad_request(f"error decoding patch: {error}") from error
        if media == MERGE:
            if patch is None:
                raise failures.bad_request("Invalid JSON Patch")
            if not isinstance(patch, dict):
                problem = go_json.mistyped(patch, "value of type map[string]interface {}")
                raise failures.bad_request(f"error decoding patch: {problem}")
            apply: Change = lambda tree: patches.merge(tree, patch)  # noqa: E731
        elif media == JSON_PATCH:
            apply = lambda tree: json_patch(tree, info.request.body)  # noqa: E731
        else:
            if not isinstance(patch, dict):
                raise failures.bad_request(go_json.mistyped(patch, "value of type map[string]interface {}"))
            apply = lambda tree: patches.strategic(tree, patch, kind.node)  # noqa: E731
        if info.subresource == "scale":
            return apply

        def change(tree: Tree) -> Tree:
            patched = apply(to_served_version(tree, kind))
            if not kind.custom:
                _check_patched(kind, patched)
            bodies.ensure_matches_url(info, patched)
            return to_storage_version(patched, kind)

        return change

    def _refuse_media(self, info: RequestInfo) -> NoReturn:
        """Raise the error for an unsupported media type, listing the supported patches."""
        if info.content_type not in (JSON_PATCH, MERGE, STRATEGIC):
            raise UnsupportedMediaType.of("415: Unsupported Media Type", StatusDetails())
        accepted = ", ".join((JSON_PATCH, MERGE, APPLY))
        raise UnsupportedMediaType.of(
            f"the body of the request was in an unknown format - accepted media types include: {accepted}"
        )

    def _scale_change(self, info: RequestInfo, change: Change) -> Change:
        """A change of the scale as a change of the object."""

        def on_object(tree: Tree) -> Tree:
            scale = change(scale_of(info.kind, tree))
            result = set_replicas(info.kind, tree, scale)
            wanted = scale.get("metadata") or {}
            result["metadata"] = {**result["metadata"], "resourceVersion": wanted.get("resourceVersion", "")}
            return result

        return on_object

    def _applied_configuration(self, info: RequestInfo) -> Tree:
        """The applied parts that this path accepts, in stored form. Raises `BadRequest`, `ServerFailure`."""
        resource = info.kind.resource
        try:
            tree = go_json.decoded(info.request.body)
        except go_json.Malformed as error:
            raise failures.bad_request(f"error decoding YAML: {error}") from error
        if not isinstance(tree, dict):
            problem = go_json.mistyped(tree, "value of type map[string]interface {}")
            raise failures.bad_request(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {problem}")
        version, kind = tree.get("apiVersion") or "", tree.get("kind") or ""
        if (version, kind) != (resource.api_version, resource.kind):
            shown = version if "/" in str(version) else f"/{version}"
            raise failures.bad_request(f"invalid object type: {shown}, Kind={kind}")
        identity = _applied_identity(tree, info.kind)
        bodies.ensure_matches_url(info, tree)
        config = _accepted_part(info, to_storage_version(tree, info.kind))
        # Unknown fields are refused, regardless of fieldValidation: they could have no owner.
        if problem := typed_patch.problem(config, info.kind.node):
            raise _untyped(resource, identity, problem)
        return config


def _applied_identity(tree: Tree, kind: ServedKind) -> Key:
    """Namespace and name in an applied configuration, as far as they are there. Raises `ServerFailure`."""
    metadata = tree.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise _untyped(kind.resource, Key("", ""), f".metadata: expected map, got &{{{patches.as_go(metadata)}}}")
    named = {field: part for field, part in (metadata or {}).items() if field in ("namespace", "name")}
    texts = {field: part for field, part in named.items() if isinstance(part, str)}
    identity = Key(texts.get("namespace", ""), texts.get("name", ""))
    if problem := typed_patch.problem({"metadata": named}, kind.node):
        raise _untyped(kind.resource, identity, problem)
    return identity


def _untyped(resource: Resource, identity: Key, problem: str) -> ApiError:
    shown = resource.api_version if resource.group else f"/{resource.api_version}"
    which = f"{identity.namespace}/{identity.name}; {shown}, Kind={resource.kind}"
    return failures.internal_error(f"failed to create typed patch object ({which}): {problem}")


def _with_managers(tree: Tree, owned: Managers) -> Tree:
    """A tree with its managed fields, for patches that contain them."""
    return {**tree, "metadata": {**tree["metadata"], "managedFields": _encode_managers(owned)}}


def _encode_managers(owned: Managers) -> list[Tree]:
    entries: list[Tree] = msgspec.json.decode(encode_json(managed_fields.encode(owned)))
    return entries


def _submitted_managers(info: RequestInfo, entries: Any, owned: Managers) -> Managers | None:
    """The managed fields in a write; None if it has none."""
    if entries in ([], [{}]):
        return {}
    if info.verb != "patch" or not isinstance(entries, list) or entries == _encode_managers(owned):
        return None
    return managed_fields.decode(entries)


def _check_patched(kind: ServedKind, patched: Tree) -> None:
    """Check that a patched object is still of the kind. Raises with the whole object in the message."""
    resource = kind.resource
    if (patched.get("apiVersion"), patched.get("kind")) != (resource.api_version, resource.kind):
        named = f"{patched.get('kind')} in version {failures.shown(resource.version)}"
        problem = f"{named} cannot be handled as a {resource.kind}"
        cause = failures.invalid("patch", failures.shown(patched), problem)
        raise failures.invalid_object("", "", "", [cause])


def _accepted_part(info: RequestInfo, tree: Tree) -> Tree:
    """The part of an applied configuration that its path accepts."""
    if info.subresource == "status":
        named = {name: part for name, part in tree["metadata"].items() if name in _IDENTITY}
        return {"metadata": named, **({"status": tree["status"]} if "status" in tree else {})}
    if "managedFields" in tree["metadata"]:
        raise failures.bad_request("metadata.managedFields must be nil")
    without = {"apiVersion", "kind"} | ({"status"} if "status" in info.kind.subresources else set())
    return {name: part for name, part in tree.items() if name not in without}


_IDENTITY = frozenset({"name", "namespace", "uid", "resourceVersion"})
