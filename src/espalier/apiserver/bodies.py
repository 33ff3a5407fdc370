"""Bodies of writes: decoded, and held to what the URL says of them."""

from __future__ import annotations

from typing import Any

import msgspec

from espalier.api import json_trees
from espalier.api.meta import Tree
from espalier.apiserver import failures
from espalier.apiserver.requests import Ask


def object_of(ask: Ask) -> Tree:
    """The object in the body of a request. Raises `BadRequest` and `Invalid` as kube-apiserver does."""
    kind = ask.kind
    tree = decoded(ask.request.body, f"the object provided is unrecognized (must be of type {kind.resource.kind})")
    if not isinstance(tree, dict):
        raise failures.bad_request(f"the object provided is unrecognized (must be of type {kind.resource.kind})")
    tree.setdefault("apiVersion", kind.resource.api_version)
    tree.setdefault("kind", kind.resource.kind)
    hold_to_url(ask, tree)
    return tree


def decoded(body: bytes, what: str) -> Any:
    """JSON of a body; `what` begins the message when it is none."""
    try:
        return json_trees.decode(body)
    except msgspec.MsgspecError as error:
        raise failures.bad_request(f"{what}: couldn't get version/kind; json parse error: {error}") from error


def hold_to_url(ask: Ask, tree: Tree) -> None:
    """Refuse an object that is not of the kind, name and namespace that the URL says; fill in what it leaves out."""
    resource = ask.kind.resource
    if tree.get("apiVersion") != resource.api_version:
        raise failures.bad_request(
            f"the API version in the data ({tree.get('apiVersion')}) does not match the expected API version "
            f"({resource.api_version})"
        )
    metadata = tree.setdefault("metadata", {})
    if metadata is None:
        metadata = tree["metadata"] = {}
    if not isinstance(metadata, dict):
        raise failures.bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: json: cannot '
            "unmarshal into Go struct field .metadata of type v1.ObjectMeta"
        )
    if tree.get("kind") != resource.kind:
        cause = failures.invalid("kind", tree.get("kind"), f"must be {resource.kind}")
        raise failures.invalid_object(str(tree.get("kind")), resource.group, str(metadata.get("name", "")), [cause])
    if ask.name and metadata.setdefault("name", ask.name) != ask.name:
        raise failures.bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({ask.name})"
        )
    if resource.namespaced and metadata.setdefault("namespace", ask.namespace) != ask.namespace:
        if metadata["namespace"]:
            raise failures.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        metadata["namespace"] = ask.namespace
    if not resource.namespaced:
        metadata.pop("namespace", None)


class DeleteOptions(msgspec.Struct, rename="camel"):
    """How to delete; what the body does not say, the query may."""

    propagation_policy: str | None = None
    grace_period_seconds: int | None = None
    preconditions: dict[str, str] | None = None
    dry_run: list[str] = []
    orphan_dependents: bool | None = None


class _Eviction(msgspec.Struct, rename="camel"):
    delete_options: DeleteOptions = msgspec.field(default_factory=DeleteOptions)


_PROPAGATION = ("Foreground", "Background", "Orphan")


def delete_options(ask: Ask) -> DeleteOptions:
    """The options of a deletion. Raises `BadRequest`, `Invalid`."""
    body = ask.request.body or b"{}"
    try:
        if ask.subresource == "eviction":
            options = json_trees.decode(body, _Eviction).delete_options
        else:
            options = json_trees.decode(body, DeleteOptions)
    except msgspec.MsgspecError as error:
        raise failures.bad_request(f"the body of a deletion is DeleteOptions: {error}") from error
    options.propagation_policy = options.propagation_policy or ask.query.get("propagationPolicy") or None
    if options.orphan_dependents and not options.propagation_policy:
        options.propagation_policy = "Orphan"
    if options.grace_period_seconds is None and "gracePeriodSeconds" in ask.query:
        try:
            options.grace_period_seconds = int(ask.query["gracePeriodSeconds"])
        except ValueError as error:
            raise failures.bad_request("gracePeriodSeconds is a number of seconds") from error
    if ask.dry_run:
        options.dry_run = ["All"]
    policy = options.propagation_policy
    if policy is not None and policy not in _PROPAGATION:
        cause = failures.unsupported("propagationPolicy", policy, (*_PROPAGATION, ""))
        raise failures.invalid_object("DeleteOptions", "meta.k8s.io", "", [cause])
    return options
