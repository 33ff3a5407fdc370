"""Admission webhooks without I/O: AdmissionReview requests, and the effects of responses.

`mutate` and `validate` are generators. They yield batches of calls that may run at the same time, and are sent one
result for each: the body of the answer, or the `CallFailed` that came instead. They raise the `ApiError` that the
client gets when the write is denied. Words and rules are those of kube-apiserver (admission.k8s.io/v1).
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import msgspec

from espalier.api.meta import Part, Tree
from espalier.api.resource import Resource
from espalier.api.trees import json_trees
from espalier.apiserver.builtin.webhook_rules import Admission, Webhook
from espalier.apiserver.fields.json_patch import json_patch
from espalier.kube.errors import ApiError, BadRequest, ServerFailure, Status, error_of
from espalier.kube.objects import encode_json
from espalier.kube.transports.wire import User

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"

_log = logging.getLogger(__name__)


class CallFailed(Exception):
    """A webhook call failed; the message has the reason."""


@dataclass(frozen=True, slots=True)
class WebhookCall:
    """One call to make: POST `body` to `url`, trusting `ca_bundle` (PEM; empty: the authorities of the system).

    `timeout` is in seconds. An empty `url` is a reference to a Service: `service` names it, with `port` and `path`.
    """

    webhook: str
    url: str
    ca_bundle: bytes
    timeout: float
    body: bytes
    service: str = ""
    path: str = ""
    port: int = 443


CallWebhook: TypeAlias = Callable[[WebhookCall], Awaitable[bytes]]
"""Makes a call and returns the body of the response. Raises `CallFailed`."""

Result: TypeAlias = bytes | CallFailed


@dataclass(frozen=True, slots=True)
class Admitted:
    """The write is admitted: `object` after the webhooks, and warnings for the client."""

    object: Tree | None
    warnings: tuple[str, ...] = ()


Calls: TypeAlias = Generator[list[WebhookCall], Sequence[Result], Admitted]
NewUid: TypeAlias = Callable[[], str]


def mutate(webhooks: Iterable[Webhook], admission: Admission, new_uid: NewUid) -> Calls:
    """Call mutating webhooks one after the other, each seeing what those before it changed.

    Those with reinvocationPolicy IfNeeded are called once more if the object changed after their turn.
    """
    warnings: list[str] = []
    again: list[tuple[Webhook, Tree | None]] = []
    for webhook in webhooks:
        admission = yield from _mutate_by(webhook, admission, new_uid, warnings)
        if webhook.reinvocation_policy == "IfNeeded":
            again.append((webhook, admission.object))
    for webhook, left in again:
        if admission.object != left:
            admission = yield from _mutate_by(webhook, admission, new_uid, warnings)
    return Admitted(admission.object, tuple(warnings))


def validate(webhooks: Iterable[Webhook], admission: Admission, new_uid: NewUid) -> Calls:
    """Call validating webhooks, all at once; the error is that of the first one, in order, that denies."""
    chosen = [
        (webhook, resource, new_uid()) for webhook in webhooks if (resource := webhook.matches(admission)) is not None
    ]
    if not chosen:
        return Admitted(admission.object)
    results = yield [_call(webhook, resource, admission, uid) for webhook, resource, uid in chosen]
    warnings: list[str] = []
    for (webhook, _, uid), result in zip(chosen, results, strict=True):
        _answer(webhook, uid, result, warnings)
    return Admitted(admission.object, tuple(warnings))


def _mutate_by(
    webhook: Webhook, admission: Admission, new_uid: NewUid, warnings: list[str]
) -> Generator[list[WebhookCall], Sequence[Result], Admission]:
    resource = webhook.matches(admission)
    if resource is None:
        return admission
    uid = new_uid()
    (result,) = yield [_call(webhook, resource, admission, uid)]
    answer = _answer(webhook, uid, result, warnings)
    if answer is None or not answer.patch or admission.object is None:
        return admission
    changed = _apply_patch(webhook, _as_version(admission.object, resource), answer.patch)
    return replace(admission, object=_as_version(changed, admission.resource))


class _Answer(Part):
    uid: str = ""
    allowed: bool = False
    status: Status | None = None
    patch: str = ""
    patch_type: str | None = None
    warnings: list[str] = []  # noqa: RUF012  (msgspec copies empty defaults)


class _Review(Part):
    api_version: str = ""
    kind: str = ""
    response: _Answer | None = None


_decode_review = json_trees.decoder(_Review)


def _call(webhook: Webhook, resource: Resource, admission: Admission, uid: str) -> WebhookCall:
    if admission.dry_run and webhook.side_effects not in ("None", "NoneOnDryRun"):
        raise BadRequest.of(f'admission webhook "{webhook.name}" does not support dry run')
    request = {
        "uid": uid,
        "kind": _kind(admission, resource),
        "resource": _resource(resource),
        "requestKind": _kind(admission, admission.resource),
        "requestResource": _resource(admission.resource),
        "name": admission.name,
        "operation": admission.operation,
        "userInfo": user_info(admission.user),
        "object": admission.object and _as_version(admission.object, resource),
        "oldObject": admission.old_object and _as_version(admission.old_object, resource),
        "dryRun": admission.dry_run,
        "options": admission.options or None,
    }
    if admission.subresource:
        request |= {"subResource": admission.subresource, "requestSubResource": admission.subresource}
    if admission.namespace:
        request["namespace"] = admission.namespace
    service = webhook.client_config.service
    return WebhookCall(
        webhook=webhook.name,
        url=webhook.client_config.url,
        ca_bundle=webhook.client_config.ca_bundle,
        timeout=webhook.timeout_seconds,
        body=encode_json({"apiVersion": API_VERSION, "kind": KIND, "request": request}),
        service=f"{service.namespace}/{service.name}" if service is not None else "",
        path=service.path if service is not None else "",
        port=service.port if service is not None else 443,
    )


def _answer(webhook: Webhook, uid: str, result: Result, warnings: list[str]) -> _Answer | None:
    """The response of a webhook; None for an ignored failure. Raises the client's error otherwise."""
    try:
        if isinstance(result, CallFailed):
            raise result
        answer = _read(result, uid)
    except CallFailed as failed:
        message = f'failed calling webhook "{webhook.name}": {failed}'
        if webhook.failure_policy == "Ignore":
            _log.warning("%s; its failurePolicy is Ignore", message)
            return None
        raise ServerFailure.of(f"Internal error occurred: {message}") from failed
    warnings += answer.warnings
    if not answer.allowed:
        raise _denial(webhook, answer.status)
    return answer


def _read(body: bytes, uid: str) -> _Answer:
    """The response in an AdmissionReview. Raises `CallFailed` when it is invalid, or of another request."""
    try:
        review = _decode_review(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CallFailed(f"could not read the answer: {error}") from error
    if (review.api_version, review.kind) != (API_VERSION, KIND):
        group_kind = f"{review.api_version}, Kind={review.kind}"
        raise CallFailed(f"expected webhook response of {API_VERSION}, Kind={KIND}, got {group_kind}")
    answer = review.response
    if answer is None:
        raise CallFailed("webhook response was absent")
    if answer.uid != uid:
        raise CallFailed(f'expected response.uid="{uid}", got "{answer.uid}"')
    if answer.patch and not answer.patch_type:
        raise CallFailed("webhook returned response.patch but not response.patchType")
    if answer.patch_type and not answer.patch:
        raise CallFailed("webhook returned response.patchType but not response.patch")
    if answer.patch and answer.patch_type != "JSONPatch":
        raise CallFailed(f'invalid response.patchType: expected "JSONPatch", got "{answer.patch_type}"')
    return answer


def _apply_patch(webhook: Webhook, tree: Tree, patch: str) -> Tree:
    try:
        return json_patch(tree, base64.b64decode(patch, validate=True))
    except (binascii.Error, ApiError) as error:
        raise ServerFailure.of(
            f'Internal error occurred: the patch of admission webhook "{webhook.name}" could not be applied: {error}'
        ) from error


def _denial(webhook: Webhook, status: Status | None) -> ApiError:
    status = status or Status()
    explanation = status.message or status.reason
    denied = f'admission webhook "{webhook.name}" denied the request'
    status.message = f"{denied}: {explanation}" if explanation else f"{denied} without explanation"
    status.status = "Failure"
    # A denial is an error, whatever code the webhook gave.
    return error_of(max(status.code, 400), encode_json(status))


def _kind(admission: Admission, resource: Resource) -> Tree:
    """The kind of the object sent: not the resource's own for subresources such as `scale`."""
    tree = admission.object or admission.old_object or {}
    group, _, version = tree.get("apiVersion", resource.api_version).rpartition("/")
    kind = tree.get("kind", resource.kind)
    if kind == resource.kind:
        group, version = resource.group, resource.version
    return {"group": group, "version": version, "kind": kind}


def _resource(resource: Resource) -> Tree:
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}


def _as_version(tree: Tree, resource: Resource) -> Tree:
    """The object as another served version shows it: only `apiVersion` differs (conversion strategy None)."""
    if tree.get("kind") != resource.kind or tree.get("apiVersion") == resource.api_version:
        return tree
    return {**tree, "apiVersion": resource.api_version}


def user_info(user: User) -> Tree:
    """A user, as reviews have it."""
    return {"username": user.name, "groups": list(user.groups)}
