"""Objects as received: encoded, and decoded only as needed.

A cache of ten thousand objects stays near its wire size because an `Object` holds the bytes and its metadata;
`decode` gives a typed view, `tree` a plain one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec import Raw, Struct

from espalier.api.meta import Head, ObjectMeta, Part
from espalier.api.resource import Key
from espalier.api.trees import json_trees

T = TypeVar("T")


decode_head: Callable[[bytes], Head] = json_trees.decoder(Head)
"""The start of an object, from its bytes."""

encode_json: Callable[[Any], bytes] = msgspec.json.Encoder().encode


VIEWS = 1024
"""Limit of remembered typed views of all objects together."""


@lru_cache(maxsize=VIEWS)
def _view(raw: bytes, type_: type[object]) -> object:
    try:
        return msgspec.json.decode(raw, type=type_)
    except RecursionError:
        raise json_trees.TooDeep from None


_tree: Callable[[bytes], dict[str, Any]] = json_trees.decoder(dict[str, Any])


class _WithSpec(Struct):
    spec: Raw = Raw(b"null")


_decode_spec: Callable[[bytes], _WithSpec] = json_trees.decoder(_WithSpec)


class Object:
    """One object of the API. Equal when the bytes are. The values it gives are shared: treat them as read-only."""

    __slots__ = ("head", "raw")

    def __init__(self, raw: bytes, head: Head | None = None) -> None:
        self.raw = raw
        self.head: Head = head if head is not None else decode_head(raw)

    @property
    def metadata(self) -> ObjectMeta:
        """The decoded `metadata`."""
        return self.head.metadata

    @property
    def kind(self) -> str:
        """The kind, as the object says."""
        return self.head.kind

    @property
    def name(self) -> str:
        """`metadata.name`."""
        return self.head.metadata.name

    @property
    def namespace(self) -> str:
        """`metadata.namespace`, empty for cluster-scoped objects."""
        return self.head.metadata.namespace

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return Key(self.head.metadata.namespace, self.head.metadata.name)

    @property
    def resource_version(self) -> str:
        """`metadata.resourceVersion`: opaque, compare for equality only."""
        return self.head.metadata.resource_version

    def decode(self, type_: type[T]) -> T:
        """A typed view, shared like the rest. Raises `msgspec.ValidationError` when the bytes do not fit.

        Some are cached: reconciles read an object many times before it changes.
        """
        return _view(self.raw, type_)  # type: ignore[arg-type,return-value]  # types are hashable, and T stays T

    @property
    def tree(self) -> dict[str, Any]:
        """The whole object as dicts and lists, built again at each call (so it may be changed)."""
        return _tree(self.raw)

    @property
    def raw_spec(self) -> bytes:
        """The bytes of `spec`; those of null if there is none."""
        return bytes(_decode_spec(self.raw).spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Object) and self.raw == other.raw

    def __hash__(self) -> int:
        return hash(self.raw)

    def __repr__(self) -> str:
        return f"<{self.kind} {self.key}@{self.resource_version}>"


Body: TypeAlias = Struct | Mapping[str, Any] | bytes | Object
"""Content of a write: a typed object, a tree, encoded JSON, or an object that was read."""


class ListMeta(Part):
    """`metadata` of a list; `continue_` is the token of the next page, empty on the last."""

    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")
    remaining_item_count: int | None = None


class ListHead(Part):
    """A list whose items stay undecoded."""

    api_version: str = ""
    kind: str = ""
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[Raw] = msgspec.field(default_factory=list)


class ObjectList(NamedTuple):
    """Objects of a list (one page or all of them) and the resource version to start a watch from."""

    items: list[Object]
    resource_version: str


def to_bytes(body: Body) -> bytes:
    """The JSON of anything that may be written."""
    if isinstance(body, Object):
        return body.raw
    if isinstance(body, bytes):
        return body
    return encode_json(body)


def readable(objects: Iterable[Object], type_: type[T]) -> Iterator[T]:
    """The typed views of the objects whose bytes fit. Others may be in the format of a newer build."""
    for object_ in objects:
        with suppress(msgspec.ValidationError):
            yield object_.decode(type_)
