"""Sets of fields, as `metadata.managedFields` has them (FieldsV1): their algebra, and the part of an object in a set.

A `FieldSet` is a nested dict whose keys are path elements:
`f:name` a field, `k:{"name":"x"}` a list's item by its keys, `v:"x"` by its value, `i:0` by its index.
An empty dict below an element means that the element itself is in the set; `"."` means so where others follow below.
The empty dict as a whole is the empty set. Sets are values: no function here changes its arguments, and results may
share parts with them, so nobody may.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from espalier.api.meta import Tree
from espalier.api.trees import json_trees

FieldSet: TypeAlias = dict[str, Any]

SELF = "."

KNOWN_PARTS = 1024
"""The size of the cache of parsed parts; most sets equal that of the previous write."""


class Entry(msgspec.Struct, rename="camel"):
    """An entry of `metadata.managedFields`."""

    manager: str = ""
    operation: str = ""
    api_version: str = ""
    time: str = ""
    fields_v1: msgspec.Raw = msgspec.Raw(b"{}")
    subresource: str = ""


_encode_sorted = msgspec.json.Encoder(order="sorted").encode
_decode_parts = json_trees.decoder(dict[str, msgspec.Raw])
_decode_entries = json_trees.decoder(list[msgspec.Raw])
_decode_entry = json_trees.decoder(Entry)


def entries(managed_fields: bytes) -> Iterator[tuple[Entry, bytes]]:
    """The entries of `managedFields`, each with its bytes. Invalid ones are left out: they own nothing."""
    for encoded in map(bytes, _decode_entries(managed_fields)):
        try:
            yield _decode_entry(encoded), encoded
        except msgspec.MsgspecError:
            continue


def item_by_keys(keys: Mapping[str, Any]) -> str:
    """The path element of a list item that some of its fields identify."""
    return f"k:{_encode_sorted(keys).decode()}"


def item_by_value(value: Any) -> str:
    """The path element of an item of a list that is a set."""
    return f"v:{_encode_sorted(value).decode()}"


@lru_cache(maxsize=KNOWN_PARTS)
def identity(element: str) -> tuple[str, Any]:
    """The identity of a list item: "k" and its keys with their values, or "v" and its value."""
    kind, _, text = element.partition(":")
    return kind, json_trees.decode(text.encode())


def item(items: list[Any], element: str) -> Any:
    """The item of a list that a path element names; None if there is none."""
    kind, value = identity(element)
    if kind == "v":
        return value if value in items else None
    if len(value) == 1:  # the usual case
        ((key, wanted),) = value.items()
        for entry in items:
            if entry.get(key) == wanted:
                return entry
        return None
    return next((entry for entry in items if all(entry.get(name) == part for name, part in value.items())), None)


def parse(raw: bytes | Tree) -> FieldSet:
    """The set that FieldsV1 (encoded, or decoded already) describes. Raises `ValueError` when it describes none."""
    try:
        parts = _decode_parts(raw if isinstance(raw, bytes) else _encode_sorted(raw))
        return {_canonical(element): _part(bytes(below)) for element, below in parts.items() if element != SELF}
    except msgspec.MsgspecError as error:
        raise ValueError(f"not a set of fields: {error}") from error


@lru_cache(maxsize=KNOWN_PARTS)
def _part(raw: bytes) -> FieldSet:
    """The fields below a top-level element. Those of spec and status are alike in many objects, unlike the whole."""
    return _parsed(json_trees.decode(raw))


def _parsed(tree: Any) -> FieldSet:
    if not isinstance(tree, dict):
        raise ValueError(f"not a set of fields: {tree!r} below a path element")
    if len(tree) == 1 and SELF in tree:
        return {}
    return {_canonical(element): _parsed(below) for element, below in tree.items()}


def _canonical(element: str) -> str:
    kind, value = element[:2], element[2:]
    if kind in ("k:", "v:"):
        return kind + _encode_sorted(json_trees.decode(value)).decode()
    if kind == "f:" or element == SELF or (kind == "i:" and value.isdecimal()):
        return element
    raise ValueError(f"not a path element: {element!r}")


def owns(fields: Mapping[str, Any], *path: str) -> bool:
    """True if a field is in a set, or has fields below that are. The path has names of fields alone."""
    below: object = fields
    for name in path:
        if not isinstance(below, dict) or f"f:{name}" not in below:
            return False
        below = below[f"f:{name}"]
    return True


def serialize(fields: FieldSet) -> bytes:
    """FieldsV1, elements in order."""
    return _encode_sorted(fields)


def paths(fields: FieldSet) -> Iterator[tuple[str, ...]]:
    """All paths in the set."""
    for element, below in fields.items():
        if element == SELF:
            continue
        if not below or SELF in below:
            yield (element,)
        for path in paths(below):
            yield (element, *path)


def union(fields: FieldSet, other: FieldSet) -> FieldSet:
    """Union."""
    if not fields or fields is other:
        return other
    if not other:
        return fields
    result = dict(fields)
    for element, below in other.items():
        present = result.get(element)
        result[element] = below if present is None else _union_below(present, below)
    return result


def _union_below(fields: FieldSet, other: FieldSet) -> FieldSet:
    """Union below one element; here an empty dict is the element itself."""
    if fields == other:
        return fields
    if not fields:
        return {SELF: {}, **other}
    if not other:
        return {SELF: {}, **fields}
    return union(fields, other)


def intersection(fields: FieldSet, other: FieldSet) -> FieldSet:
    """Intersection."""
    result: FieldSet = {}
    for element, below in fields.items():
        if element in other and element != SELF:
            common = _intersection_below(below, other[element])
            if common is not None:
                result[element] = common
    return result


def _intersection_below(fields: FieldSet, other: FieldSet) -> FieldSet | None:
    member = (not fields or SELF in fields) and (not other or SELF in other)
    return _node(member, intersection(fields, other))


def difference(fields: FieldSet, other: FieldSet) -> FieldSet:
    """Difference: the first without the second."""
    if not other:
        return fields
    result: FieldSet = {}
    for element, below in fields.items():
        if element == SELF:
            continue
        if element not in other:
            result[element] = below
            continue
        rest = _difference_below(below, other[element])
        if rest is not None:
            result[element] = rest
    return result


def _difference_below(fields: FieldSet, other: FieldSet) -> FieldSet | None:
    member = (not fields or SELF in fields) and not (not other or SELF in other)
    below = (
        difference(fields, other) if other else {element: part for element, part in fields.items() if element != SELF}
    )
    return _node(member, below)


def without_below(fields: FieldSet, other: FieldSet) -> FieldSet:
    """The fields in the first that are neither in the second nor below a path of it."""
    result: FieldSet = {}
    for element, below in fields.items():
        if element == SELF:
            continue
        if element not in other:
            result[element] = below
        elif other[element] and SELF not in other[element]:
            rest = _node(not below or SELF in below, without_below(below, other[element]))
            if rest is not None:
                result[element] = rest
    return result


def _node(member: bool, below: FieldSet) -> FieldSet | None:
    """The node of an element that is in the set or not, and has these fields below it; None for neither."""
    if member:
        return {SELF: {}, **below} if below else {}
    return below or None
