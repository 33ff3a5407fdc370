"""Bodies of writes: decoded, and checked against the URL."""

from __future__ import annotations

from typing import Any

import msgspec

from espalier.api.meta import Tree
from espalier.apiserver.builtin import builtin
from espalier.apiserver.requests.requests import RequestInfo
from espalier.apiserver.schema.pruning import Pruner
from espalier.apiserver.wire import content, failures, go_json, options
from espalier.kube.errors import ApiError

EVICTION, EVICTION_VERSION = "Eviction", "policy/v1"


SCHEME = 'in scheme "pkg/runtime/scheme.go:111"'
"""The scheme that kube-apiserver's messages name."""

_TYPED = {
    kind: f"io.k8s.api.{group}.v1.{kind}"
    for group, kinds in {
        "autoscaling": ("Scale",),
        "core": ("Binding",),
        "policy": ("Eviction",),
        "authorization": (
            "LocalSubjectAccessReview",
            "SelfSubjectAccessReview",
            "SelfSubjectRulesReview",
            "SubjectAccessReview",
        ),
        "authentication": ("SelfSubjectReview", "TokenReview"),
    }.items()
    for kind in kinds
}

_NO_VERSION = "couldn't get version/kind; json parse error: "


def object_of(info: RequestInfo, kind: str = "", api_version: str = "") -> Tree:
    """The object in the body of a request; some subresources have another kind than the path's.

    Raises `BadRequest` and `Invalid` as kube-apiserver does.
    """
    if info.verb in ("create", "update"):
        content.check_object_type(info.request.headers.get("content-type", ""))
    resource = info.kind.resource
    custom = info.kind.custom and not kind
    kind, api_version = kind or resource.kind, api_version or resource.api_version
    tree = decoded(info.request.body, kind, api_version)
    if problem := go_json.head_problem(tree) if tree is not None else "":
        raise _unrecognized(kind, f"{_NO_VERSION}{problem}", info.request.body)
    tree = tree or {}
    if custom:
        _require_head(info, tree)
    if (tree.get("apiVersion") or "").count("/") > 1:
        raise _unrecognized(kind, f"unexpected GroupVersion string: {tree['apiVersion']}", info.request.body)
    tree["apiVersion"] = tree.get("apiVersion") or api_version
    tree["kind"] = tree.get("kind") or kind
    if not custom and (tree["apiVersion"], tree["kind"]) != (api_version, kind):
        _refuse_kind(tree, kind, api_version)
    if isinstance(tree.get("metadata", {}), list | str | int | float):
        wanted = f"struct field {kind}.metadata of type v1.ObjectMeta"
        raise unhandled(tree["kind"], api_version, kind, go_json.mistyped(tree["metadata"], wanted))
    if kind in _TYPED:
        _check_types(kind, api_version, tree)
    if info.query.get("fieldValidation") == "Strict" and (twice := go_json.duplicate_fields(info.request.body)):
        sentences = ", ".join(f'duplicate field "{name}"' for name in twice)
        raise unhandled(kind, api_version, kind, f"strict decoding error: {sentences}")
    ensure_matches_url(info, tree, kind, api_version)
    return tree


def _check_types(kind: str, api_version: str, tree: Tree) -> None:
    """Validate kinds that are never stored."""
    node = builtin.node(_TYPED[kind])
    pruner = Pruner(node, typed=True)
    pruner.object(tree, node)
    if pruner.mistyped:
        raise unhandled(kind, api_version, kind, pruner.mistyped)


def decoded(body: bytes, kind: str, api_version: str) -> Any:
    """JSON of a body that is an object of a kind."""
    try:
        return go_json.decoded(body)
    except go_json.OutOfRange as error:
        raise unhandled(kind, api_version, kind, str(error)) from error
    except go_json.Malformed as error:
        raise _unrecognized(kind, f"{_NO_VERSION}{error}", body) from error


def unhandled(kind: str, api_version: str, wanted: str, problem: str) -> ApiError:
    """The error for an object of a known kind that can't be converted to the wanted one."""
    version = api_version.rpartition("/")[2]
    return failures.bad_request(f'{kind} in version "{version}" cannot be handled as a {wanted}: {problem}')


def _unrecognized(kind: str, problem: str, body: bytes) -> ApiError:
    return failures.bad_request(
        f"the object provided is unrecognized (must be of type {kind}): {problem} ({go_json.summary(body)})"
    )


def _require_head(info: RequestInfo, tree: Tree) -> None:
    """Require apiVersion and kind in custom resources."""
    text = info.request.body.decode("utf-8", "replace")
    for field, shown in (("kind", "Kind"), ("apiVersion", "apiVersion")):
        if not tree.get(field):
            problem = f"Object '{shown}' is missing in '{text}'"
            raise _unrecognized(info.kind.resource.kind, problem, info.request.body)


def _refuse_kind(tree: Tree, wanted: str, expected: str) -> None:
    api_version, kind = tree["apiVersion"], tree["kind"]
    if builtin.is_known(api_version, kind):
        package = expected.rpartition("/")[0].partition(".")[0] or "core"
        version = api_version.rpartition("/")[2]
        problem = f"converting ({version}.{kind}) to ({package}.{wanted}): unknown conversion"
    else:
        problem = f'no kind "{kind}" is registered for version "{api_version}" {SCHEME}'
    raise unhandled(kind, api_version, wanted, problem)


def ensure_matches_url(info: RequestInfo, tree: Tree, kind: str = "", api_version: str = "") -> None:
    """Refuse an object whose kind, name or namespace differ from the URL's; set the missing ones."""
    resource = info.kind.resource
    kind, api_version = kind or resource.kind, api_version or resource.api_version
    if tree.get("apiVersion") != api_version:
        raise failures.bad_request(
            f"the API version in the data ({tree.get('apiVersion')}) does not match the expected API version "
            f"({api_version})"
        )
    metadata = tree.setdefault("metadata", {})
    if not isinstance(metadata, dict):
        metadata = tree["metadata"] = {}
    if tree.get("kind") != kind:
        cause = failures.invalid("kind", tree.get("kind"), f"must be {kind}")
        raise failures.invalid_object(str(tree.get("kind")), resource.group, str(metadata.get("name", "")), [cause])
    if info.name and not metadata.get("name"):
        raise failures.bad_request(
            f"the name of the object ({info.name} based on URL) was undeterminable: name must be provided"
        )
    if info.name and metadata["name"] != info.name:
        if kind == EVICTION:
            raise failures.bad_request("name in URL does not match name in Eviction object")
        raise failures.bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({info.name})"
        )
    if resource.namespaced and metadata.setdefault("namespace", info.namespace) != info.namespace:
        if metadata["namespace"]:
            raise failures.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        metadata["namespace"] = info.namespace
    if not resource.namespaced:
        metadata.pop("namespace", None)


class DeleteOptions(msgspec.Struct, rename="camel"):
    """DeleteOptions, from the body, else from the query."""

    propagation_policy: str | None = None
    grace_period_seconds: int | None = None
    preconditions: dict[str, str] | None = None
    dry_run: list[str] = []
    orphan_dependents: bool | None = None


def delete_options(info: RequestInfo) -> DeleteOptions:
    """The options of a deletion. Raises `BadRequest`, `Invalid`."""
    body = info.request.body or b"{}"
    if info.subresource == "eviction":
        tree = object_of(info, EVICTION, EVICTION_VERSION).get("deleteOptions") or {}
    else:
        try:
            tree = go_json.decoded(body)
        except go_json.Malformed as error:
            raise failures.bad_request(f"{_NO_VERSION}{error}") from error
        if problem := go_json.head_problem(tree) if tree is not None else "":
            raise failures.bad_request(f"{_NO_VERSION}{problem}")
        tree = tree or {}
        kind = tree.get("kind") or "DeleteOptions"
        if kind != "DeleteOptions":
            version = tree.get("apiVersion", "")
            raise failures.bad_request(f'no kind "{kind}" is registered for version "{version}" {SCHEME}')
    options_ = _options_of(tree)
    policy = options_.propagation_policy
    causes = [*options.propagation(policy, options_.orphan_dependents), *options.dry_run(options_.dry_run)]
    if causes:
        raise failures.invalid_object("DeleteOptions", "meta.k8s.io", "", causes)
    options_.propagation_policy = policy or info.query.get("propagationPolicy") or None
    if options_.orphan_dependents is None and not info.request.body and "orphanDependents" in info.query:
        options_.orphan_dependents = options.flag(info.query, "orphanDependents")
    if options_.orphan_dependents and not policy:
        options_.propagation_policy = "Orphan"
    if options_.grace_period_seconds is None:
        options_.grace_period_seconds = options.number(info.query, "gracePeriodSeconds")
    if info.dry_run:
        options_.dry_run = ["All"]
    return options_


def _options_of(tree: Tree) -> DeleteOptions:
    grace = tree.get("gracePeriodSeconds")
    if grace is not None and type(grace) is not int:
        wanted = "struct field DeleteOptions.gracePeriodSeconds of type int64"
        raise failures.bad_request(go_json.mistyped(grace, wanted))
    try:
        return msgspec.convert(tree, type=DeleteOptions)
    except msgspec.ValidationError as error:
        raise failures.bad_request(f"json: cannot unmarshal into Go value of type v1.DeleteOptions: {error}") from error
