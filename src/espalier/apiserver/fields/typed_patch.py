"""Validation of applied configurations against the schema before merging: only declared fields can be owned."""

from __future__ import annotations

from typing import Any

import msgspec

from espalier.apiserver.schema.pruning import is_of_type
from espalier.kube.server_side_apply.list_items import element_of
from espalier.kube.server_side_apply.structure import Node

_WANTED = {"integer": "int", "number": "number", "boolean": "boolean", "array": "list", "object": "map"}


def problem(value: Any, node: Node, path: str = "") -> str:
    """Violations of a value, in the words of Kubernetes' structured merge; empty when nothing is."""
    if value is None:
        return ""
    if node.type and not is_of_type(value, node):
        wanted = _WANTED.get(node.type, node.type)
        got = f", got &value.valueUnstructured{{Value:{_as_go(value)}}}"
        return f"{path}: expected {wanted}{'' if wanted in ('list', 'map') else got}"
    if isinstance(value, dict):
        return _map_problem(value, node, path)
    if isinstance(value, list) and node.items is not None:
        return _list_problem(value, node, node.items, path)
    return ""


def _map_problem(value: dict[str, Any], node: Node, path: str) -> str:
    for name, part in value.items():
        child = node.child(name)
        if child is None:
            if node.preserve or (node.embedded and name in ("apiVersion", "kind", "metadata")):
                continue
            return f"{path}.{name}: field not declared in schema"
        if violation := problem(part, child, f"{path}.{name}"):
            return violation
    return ""


def _list_problem(items: list[Any], node: Node, inner: Node, path: str) -> str:
    seen = set()
    for index, item in enumerate(items):
        if violation := problem(item, inner, f"{path}[{index}]"):
            return violation
        if node.list_type == "atomic":
            continue
        if item is None:
            if node.keys:
                return f"{path}: element {index}: associative list with keys may not have a null element"
            return f"{path}: element {index}: associative list without keys has an element that's an explicit null"
        if node.keys and not any(key in item or _default(inner, key) for key in node.keys):
            return (
                f"{path}: element {index}: associative list with keys has an element that omits all key fields "
                f"{msgspec.json.encode(node.keys).decode()} (and doesn't have default values for any key fields)"
            )
        element = element_of(item, node)
        if element in seen:
            keys = ",".join(f"{key}={msgspec.json.encode(item.get(key)).decode()}" for key in node.keys)
            shown = f"[{keys}]" if node.keys else msgspec.json.encode(item).decode()
            return f"{path}: duplicate entries for key {shown}"
        seen.add(element)
    return ""


def _default(node: Node, key: str) -> bytes | None:
    child = node.child(key)
    return child.default if child is not None else None


def _as_go(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else str(value)
