"""Items of lists by their path elements, as list types and keys in a schema say."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from espalier.api.meta import Tree
from espalier.api.trees import json_trees
from espalier.kube.fields import KNOWN_PARTS, item_by_keys, item_by_value
from espalier.kube.server_side_apply.structure import Node


def is_map(value: Any, node: Node | None) -> bool:
    """True if a value is compared field by field."""
    return isinstance(value, dict) and not (node is not None and node.atomic)


def is_list(value: Any, node: Node | None) -> bool:
    """True if a value is compared item by item."""
    return isinstance(value, list) and node is not None and node.list_type in ("map", "set")


def element_of(item: Any, node: Node) -> str:
    """The path element of a list's item. Keys that are missing have their default, if there is one."""
    if node.list_type == "set" or not isinstance(item, dict):
        return item_by_value(item)
    if len(node.keys) == 1 and type(value := item.get(node.keys[0])) is str:  # the usual case
        return _element_by_name(node.keys[0], value)
    keys: Tree = {}
    for name in node.keys:
        value = item.get(name)
        if value is None and node.items is not None:
            default = node.items.properties[name].default if name in node.items.properties else None
            value = json_trees.decode(default) if default is not None else None
        if value is not None:
            keys[name] = value
    return item_by_keys(keys)


@lru_cache(maxsize=KNOWN_PARTS)
def _element_by_name(key: str, value: str) -> str:
    return item_by_keys({key: value})


def elements_of(items: list[Any], node: Node) -> dict[str, Any]:
    """Items by their path elements; of duplicates the first."""
    elements: dict[str, Any] = {}
    for item in items:
        elements.setdefault(element_of(item, node), item)
    return elements
