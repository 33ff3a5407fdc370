"""Bodies of requests and responses: decoded only as needed, and encoded with apiVersion and kind."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from espalier.api.meta import Head
from espalier.api.resource import Resource
from espalier.api.trees import json_trees
from espalier.kube.errors import NotKubernetes
from espalier.kube.objects import Body, ListHead, Object, ObjectList, decode_head, to_bytes

_decode_list = json_trees.decoder(ListHead)


class Target(NamedTuple):
    """Head of a body."""

    raw: bytes
    name: str
    namespace: str


def identify(resource: Resource, body: Body) -> Target:
    """Encode a body and read its metadata; a missing `apiVersion` or `kind` is added."""
    raw = to_bytes(body)
    head = body.head if isinstance(body, Object) else decode_head(raw)
    return Target(_named(raw, head, resource), head.metadata.name, head.metadata.namespace)


def decode_object(raw: bytes, resource: Resource | None = None) -> Object:
    """An object from a response body. Raises `NotKubernetes` for other content."""
    try:
        return _object(raw, resource)
    except msgspec.MsgspecError as error:
        raise _not_kubernetes(raw) from error


def decode_list(raw: bytes, resource: Resource) -> tuple[ObjectList, str]:
    """A page and the token of the next one, empty on the last. Items are copied, so that the page can be freed. API
    servers omit `apiVersion` and `kind` of items of built-in kinds; they are filled in."""
    try:
        page = _decode_list(raw)
        items = [_object(bytes(item), resource) for item in page.items]
    except msgspec.MsgspecError as error:
        raise _not_kubernetes(raw) from error
    return ObjectList(items, page.metadata.resource_version), page.metadata.continue_


def is_status(raw: bytes) -> bool:
    """True if a response body is a `Status` and not an object."""
    try:
        head = decode_head(raw)
    except msgspec.MsgspecError as error:
        raise _not_kubernetes(raw) from error
    return head.kind == "Status" and head.api_version == "v1"


def _object(raw: bytes, resource: Resource | None) -> Object:
    item = Object(raw)
    if resource is not None and not (item.head.kind and item.head.api_version):
        item.raw = _named(raw, item.head, resource)
        item.head.kind, item.head.api_version = resource.kind, resource.api_version
    return item


def _named(raw: bytes, head: Head, resource: Resource) -> bytes:
    fields = b""
    if not head.api_version:
        fields += b'"apiVersion":"%s",' % resource.api_version.encode()
    if not head.kind:
        fields += b'"kind":"%s",' % resource.kind.encode()
    if not fields:
        return raw
    rest = raw.lstrip()[1:]
    if rest.lstrip().startswith(b"}"):
        fields = fields[:-1]
    return b"{" + fields + rest


def _not_kubernetes(raw: bytes) -> NotKubernetes:
    start = raw[:80].decode("utf-8", "replace")
    return NotKubernetes(f"the answer is not from a Kubernetes API server; it begins with: {start!r}")
