"""The fields of an object, and the fields in which two of its versions differ, as field sets by its schema.

Lists with list type map or set are compared item by item; other lists, and maps with map type atomic, are one field.
Without a schema (node None), maps are compared field by field, and lists as a whole.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from espalier.api.trees import json_trees
from espalier.kube.fields import SELF, FieldSet
from espalier.kube.server_side_apply.list_items import elements_of, is_list, is_map
from espalier.kube.server_side_apply.structure import Node


class Difference(NamedTuple):
    """Fields that are new or have another value, and fields that are gone."""

    changed: FieldSet
    removed: FieldSet


NOTHING = Difference({}, {})
_ABSENT = object()


def fields_of(value: Any, node: Node | None, *, containers: bool) -> FieldSet:
    """All fields below a value. With `containers`, maps that hold others are in the set as well (items always are)."""
    if is_map(value, node):
        fields: FieldSet = {}
        for name, part in value.items():
            below: FieldSet = {}
            if isinstance(part, dict | list):
                below = fields_of(part, node.child(name) if node is not None else None, containers=containers)
            fields[f"f:{name}"] = _member(below) if containers else below
        return fields
    if node is not None and is_list(value, node):
        return {
            element: _member(fields_of(item, node.items, containers=containers))
            for element, item in elements_of(value, node).items()
        }
    return {}


def _member(below: FieldSet) -> FieldSet:
    return {SELF: {}, **below} if below else {}


def difference(old: Any, new: Any, node: Node | None) -> Difference:
    """How two versions of a value differ, in fields below it. Both are maps, or both are lists."""
    if is_map(new, node):
        before, after = old, new
    elif node is not None and is_list(new, node):
        before, after = elements_of(old, node), elements_of(new, node)
    else:
        return NOTHING
    changed: FieldSet = {}
    removed: FieldSet = {}
    for name, value in after.items():
        was = before.get(name, _ABSENT)
        if json_trees.same(was, value):
            continue
        element, below = _below(name, new, node)
        if was is _ABSENT and _is_always_there(name, value, new, node):
            was = type(value)()
        if was is _ABSENT:
            changed[element] = _member(fields_of(value, below, containers=True))
        elif (is_map(value, below) and is_map(was, below)) or (is_list(value, below) and is_list(was, below)):
            inner = difference(was, value, below)
            if inner.changed:
                changed[element] = inner.changed
            if inner.removed:
                removed[element] = inner.removed
        else:
            changed[element] = {}
            lost = fields_of(was, below, containers=True)
            if lost:
                removed[element] = lost
    for name, was in before.items():
        if name not in after:
            element, below = _below(name, new, node)
            lost = fields_of(was, below, containers=True)
            removed[element] = lost if _is_always_there(name, was, new, node) else _member(lost)
    return Difference(changed, removed)


def _is_always_there(name: str, value: Any, parent: Any, node: Node | None) -> bool:
    """True for a part that every object of a built-in kind has, if only an empty one: nobody adds or removes it.

    That is a struct that is no pointer, and a list that is required.
    """
    child = node.child(name) if node is not None and isinstance(parent, dict) else None
    if node is None or child is None:
        return False
    return child.always or (bool(node.struct) and isinstance(value, list) and name in node.required)


def _below(name: str, value: Any, node: Node | None) -> tuple[str, Node | None]:
    """The path element of a part of a value, and its node; the parts of a list have their elements as names."""
    if isinstance(value, list):
        return name, node and node.items
    return f"f:{name}", node and node.child(name)
