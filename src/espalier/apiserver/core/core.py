"""Shared parts of the core, and its responses."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.apiserver.access.webhooks import WebhookCall
from espalier.apiserver.requests.requests import Authorizer
from espalier.apiserver.schema.registry import Registry, ServedKind
from espalier.apiserver.storage.store import Store, Write
from espalier.kube.objects import Object, encode_json


@dataclass(frozen=True, slots=True)
class Core:
    """An API server's state, clock and random number generator."""

    store: Store
    registry: Registry
    now: Callable[[], datetime]
    rng: random.Random
    authorizer: Authorizer


@dataclass(slots=True)
class Answer:
    """A response to send once `revision` is durable."""

    body: bytes
    revision: int
    status: int = 200
    warnings: list[str] = field(default_factory=list)


RequestStep: TypeAlias = list[WebhookCall] | Write
"""A step that a request waits for: calls of webhooks, answered by their results, or a write, answered by
`Store.commit`.
Meanwhile other requests may run."""
RequestSteps: TypeAlias = Generator[RequestStep, Any, Answer]
"""The steps of a request."""
Writing: TypeAlias = Generator[Write, Object | None, Object | None]
"""The step of a write; gives the stored object, or None if another request has changed it."""

_PREFIX = b'{"apiVersion":"'


def encode_stored(tree: Tree, kind: ServedKind) -> bytes:
    """The encoding of a stored object: apiVersion and kind come first."""
    return encode_json(
        {
            "apiVersion": kind.storage_version,
            "kind": kind.resource.kind,
            "metadata": tree["metadata"],
            **{name: part for name, part in tree.items() if name not in ("apiVersion", "kind", "metadata")},
        }
    )


def raw_in_served_version(raw: bytes, kind: ServedKind) -> bytes:
    """A stored object in the version in which a kind is served."""
    end = raw.index(b'"', len(_PREFIX))
    version = kind.resource.api_version.encode()
    if raw[len(_PREFIX) : end] == version:
        return raw
    if kind.renamed:
        return encode_json(to_served_version(Object(raw).tree, kind))
    return _PREFIX + version + raw[end:]


def item_of_list(raw: bytes, kind: ServedKind) -> bytes:
    """A stored object as an item of a list: those of built-in kinds don't repeat what the list says of all."""
    served = raw_in_served_version(raw, kind)
    if kind.custom:
        return served
    head = b'%s%s","kind":"%s",' % (_PREFIX, kind.resource.api_version.encode(), kind.resource.kind.encode())
    return b"{" + served[len(head) :] if served.startswith(head) else served


def to_served_version(tree: Tree, kind: ServedKind) -> Tree:
    """A stored tree in the version in which a kind is served. Parts are shared."""
    if tree.get("apiVersion") == kind.resource.api_version:
        return tree
    names = {inner: outer for outer, inner in kind.renamed.items()}
    renamed = {names.get(name, name): part for name, part in tree.items()} if names else tree
    return {**renamed, "apiVersion": kind.resource.api_version}


def to_storage_version(tree: Tree, kind: ServedKind) -> Tree:
    """A tree of a served version as it is stored. Parts are shared."""
    if tree.get("apiVersion") == kind.storage_version:
        return tree
    renamed = {kind.renamed.get(name, name): part for name, part in tree.items()} if kind.renamed else tree
    return {**renamed, "apiVersion": kind.storage_version}


class Stored(Object):
    """An object that was written since the start of the server.

    `valid_as` is the kind, as served then, whose schema and rules it satisfies; None if unknown.
    """

    __slots__ = ("valid_as",)

    def __init__(self, raw: bytes, valid_as: ServedKind | None) -> None:
        super().__init__(raw)
        self.valid_as = valid_as


def is_valid(item: Object, kind: ServedKind) -> bool:
    """True if an object is known to satisfy schema and rules of a kind as served now."""
    return isinstance(item, Stored) and item.valid_as is kind


def put(
    kind: ServedKind, key: Key, before: Object | None, tree: Tree, *, deleted: bool = False, valid: bool = False
) -> Writing:
    """Store a tree (in its stored version) in place of `before`, or delete it; gives the object as stored.

    `valid`: it satisfies schema and rules of its kind.
    """

    def at(revision: int) -> bytes:
        if revision:
            tree["metadata"]["resourceVersion"] = str(revision)
        else:
            tree["metadata"].pop("resourceVersion", None)
        return encode_stored(tree, kind)

    return (yield Write(kind.table, key, before, at, lambda raw: Stored(raw, kind if valid else None), deleted))
