"""Objects in etcd: the keys of kube-apiserver, and its JSON.

A key is `/registry/<resource>[/<namespace>]/<name>`; the resource is the plural for built-in kinds, with a few names
from Kubernetes' first days (`SpecialDefaultResourcePrefixes` in its `default_storage_factory_builder.go`), and
`<group>/<plural>` for kinds of definitions. The value is the object as JSON without `metadata.resourceVersion`: that is
the key's revision. (kube-apiserver keeps built-in kinds as protobuf, unless `--storage-media-type` says otherwise.)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from espalier.api.resource import Key
from espalier.apiserver.schema.registry import ServedKind
from espalier.kube.errors import UNREADABLE
from espalier.kube.objects import Object, encode_json

PREFIX = "/registry"

_SPECIAL = {
    "endpoints": "services/endpoints",
    "ingresses.networking.k8s.io": "ingress",
    "nodes": "minions",
    "replicationcontrollers": "controllers",
    "services": "services/specs",
}
_WITH_GROUP = frozenset({"apiextensions.k8s.io", "apiregistration.k8s.io"})
"""Groups whose built-in kinds are served by servers of their own within kube-apiserver, which keep the group."""
_START, _METADATA = b'{"apiVersion":"', b'"metadata":{'
_LATEST_METADATA = 1000
"""Bytes of an object before its metadata at most: apiVersion and kind."""


class UnreadableValue(ValueError):
    """The value of a key is not its object; the message names the key."""


class Place(NamedTuple):
    """The table and the key of an object."""

    table: str
    key: Key


class Keys:
    """Keys of etcd below a prefix, for these built-in kinds and any others."""

    def __init__(self, kinds: Iterable[ServedKind], prefix: str = PREFIX) -> None:
        self.prefix = f"{prefix.rstrip('/')}/".encode()
        """All keys begin with it."""
        self._folders: dict[str, str] = {}
        for kind in kinds:
            group, plural = kind.resource.group, kind.resource.plural
            folder = f"{group}/{plural}" if group in _WITH_GROUP else plural
            self._folders[kind.table] = _SPECIAL.get(kind.table, folder)
        self._tables = {folder: table for table, folder in self._folders.items()}

    def of(self, table: str, key: Key) -> bytes:
        """The key of an object."""
        folder = self._folders.get(table)
        if folder is None:
            plural, _, group = table.partition(".")
            folder = f"{group}/{plural}"
        return self.prefix + "/".join((folder, *filter(None, key))).encode()

    def place(self, path: bytes) -> Place | None:
        """The object of a key; None for a key of something else (as kube-apiserver keeps some)."""
        try:
            parts = path.removeprefix(self.prefix).decode().split("/")
        except UnicodeDecodeError:
            return None
        for length in (1, 2):
            folder, rest = "/".join(parts[:length]), parts[length:]
            table = self._tables.get(folder)
            if table is None and length == 2 and "." in parts[0]:
                table = f"{parts[1]}.{parts[0]}" if len(parts) > 1 else None
            if table is not None and len(rest) in (1, 2) and all(rest):
                return Place(table, Key(rest[0] if len(rest) == 2 else "", rest[-1]))
        return None


def with_resource_version(value: bytes, revision: int) -> bytes:
    """An object as this server wrote it, with its revision as the resource version."""
    start = value.index(_METADATA) + len(_METADATA)
    return b'%s"resourceVersion":"%d",%s' % (value[:start], revision, value[start:])


def stored_object(path: bytes, key: Key, value: bytes, revision: int) -> Object:
    """The object of a value, with its revision as the resource version. Raises `UnreadableValue`."""
    try:
        if value.startswith(_START) and value.find(_METADATA, 0, _LATEST_METADATA) > 0:
            item = Object(with_resource_version(value, revision))
            if item.key == key and item.resource_version == str(revision):
                return item
        return _reordered(path, key, value, revision)
    except UNREADABLE as error:
        raise UnreadableValue(f"the value of {path!r} is not an object of Kubernetes in JSON: {error}") from error


def _reordered(path: bytes, key: Key, value: bytes, revision: int) -> Object:
    """The object of a value with other field order, written by others."""
    tree = msgspec.json.decode(value, type=dict[str, object])
    metadata = tree.get("metadata")
    if not (
        isinstance(metadata, dict) and isinstance(tree.get("apiVersion"), str) and isinstance(tree.get("kind"), str)
    ):
        raise UnreadableValue(f"the value of {path!r} lacks apiVersion, kind or metadata")
    first = {"apiVersion": tree["apiVersion"], "kind": tree["kind"]}
    metadata["resourceVersion"] = str(revision)
    item = Object(encode_json({**first, "metadata": metadata, **{k: v for k, v in tree.items() if k not in first}}))
    if item.key != key:
        raise UnreadableValue(f"the value of {path!r} is the object {item.key}")
    return item
