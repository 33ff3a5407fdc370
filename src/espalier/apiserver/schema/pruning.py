"""Prunes and defaults a new object by its schema, and collects unknown fields, wrong types and duplicates.

Built-in kinds (and the metadata of all) are checked for types here, with the messages of Go's decoder, as in
kube-apiserver. Objects of CRDs are checked by JSON schema afterwards (`validation`).
"""

from __future__ import annotations

from typing import Any

import msgspec

from espalier.api.meta import Tree
from espalier.apiserver.wire import failures, go_json
from espalier.kube.errors import StatusCause
from espalier.kube.server_side_apply.list_items import element_of
from espalier.kube.server_side_apply.structure import Node

Path = tuple[Any, ...]
"""The path of the walk, innermost first: (name or index, path of the parent); empty at the root."""

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
_NONE: Tree = {}
_ABSENT = object()
_CONTAINERS = frozenset({dict, list})
_WANTED = {"integer": "int", "number": "float64", "boolean": "bool", "array": "slice", "object": "struct"}
_ORDERS: dict[tuple[str, ...], tuple[str, ...]] = {
    tuple(sorted(order)): order
    for order in (
        ("Always", "OnFailure", "Never"),
        ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
        ("NoSchedule", "PreferNoSchedule", "NoExecute"),
    )
}
"""Enumerations that kube-apiserver does not sort when it lists them."""


class Pruner:
    """Prunes and defaults an object. `unknown` are the removed fields, `causes` and `mistyped` the violations.

    Parts that are identical to a version that satisfies the same schema are skipped.
    """

    def __init__(self, root: Node, *, typed: bool) -> None:
        self.root = root
        self.unknown: list[str] = []
        self.causes: list[StatusCause] = []
        self.mistyped = ""
        self.typed = typed

    def object(self, value: Tree, node: Node, path: Path = (), valid: Tree = _NONE) -> None:
        """Prune and default a map, in place; `valid` is the same map of a valid version."""
        for name in node.defaulted:
            if value.get(name) is None and not (name in value and node.properties[name].nullable):
                default = node.properties[name].default
                if default is not None:
                    value[name] = msgspec.json.decode(default)
        properties, values, typed = node.properties, node.values, self.typed
        for name, part in list(value.items()):
            if valid and part is valid.get(name, _ABSENT):
                continue
            child = properties.get(name) or values
            if child is None:
                if not node.preserve and not (node.embedded and name in ("apiVersion", "kind", "metadata")):
                    self.unknown.append(path_text((name, path)))
                    del value[name]
                continue
            if part is None:
                if not child.nullable:
                    del value[name]
                continue
            if typed or type(part) in _CONTAINERS:
                self._part(part, child, (name, path), valid.get(name))
        if self.typed and node.required:
            self._check_required(value, node, path)

    def _part(self, part: Any, node: Node, path: Path, valid: Any = None) -> None:
        kind = type(part)
        if self.typed and node.type and not is_of_type(part, node):
            self._record_type_error(part, node, path)
        elif kind is dict:
            if node.properties or node.values is not None or not node.preserve:
                self.object(part, node, path, valid if type(valid) is dict else _NONE)
        elif kind is list:
            if node.items is not None:
                for index, item in enumerate(part):
                    self._part(item, node.items, (index, path))
            if node.list_type != "atomic":
                self._check_duplicates(part, node, path)
        elif self.typed and node.enum and part not in node.enum and part != "":
            self.causes.append(
                failures.unsupported(path_text(path), part, _ORDERS.get(tuple(sorted(node.enum)), sorted(node.enum)))
            )
        elif self.typed and not self.mistyped and (node.format == "byte" or node.struct in go_json.CHECKED):
            self.mistyped = go_json.text_problem(part, node.struct)

    def _check_duplicates(self, items: list[Any], node: Node, path: Path) -> None:
        seen = set()
        for index, item in enumerate(items):
            element = element_of(item, node)
            if element in seen:
                shown = {key: item.get(key) for key in node.keys} if isinstance(item, dict) and node.keys else item
                self.causes.append(failures.duplicate(path_text((index, path)), shown))
            seen.add(element)

    def _check_required(self, value: Tree, node: Node, path: Path) -> None:
        """Only below spec: elsewhere Go's OpenAPI calls fields required that may well be missing."""
        if path and _root(path) == "spec":
            self.causes += [
                failures.required(path_text((name, path))) for name in node.required if value.get(name) is None
            ]

    def _record_type_error(self, part: Any, node: Node, path: Path) -> None:
        if self.mistyped:
            return
        struct, steps, current = self.root.struct, [], self.root
        for step in _steps(path):
            struct = current.struct or struct
            below = current.items if isinstance(step, int) else current.child(step)
            if not isinstance(step, int) and step in current.properties:
                steps.append(step)
            if below is None:
                break
            current = below
        field = ".".join([struct, *steps])
        self.mistyped = go_json.mistyped(part, f"struct field {field} of type {_go_type(node)}")


def is_of_type(value: Any, node: Node) -> bool:
    """True if a value has the schema's type."""
    return type(value) in _TYPES[node.type]


def _go_type(node: Node) -> str:
    if node.format == "byte":
        return "[]uint8"
    if node.struct:
        return f"v1.{node.struct}"
    if node.items is not None:
        return f"[]{_go_type(node.items)}"
    if node.values is not None:
        return f"map[string]{_go_type(node.values)}"
    wanted = _WANTED.get(node.type, node.type)
    return node.format if node.format.startswith("int") and wanted == "int" else wanted


def _steps(path: Path) -> list[Any]:
    steps = []
    while path:
        step, path = path
        steps.append(step)
    return steps[::-1]


def _root(path: Path) -> Any:
    while path[1]:
        path = path[1]
    return path[0]


def path_text(path: Path) -> str:
    """The text of a path: `spec.parts[0].id`."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in _steps(path))
    return "".join(steps).removeprefix(".")
