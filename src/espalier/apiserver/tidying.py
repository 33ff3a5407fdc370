"""One walk over a new object beside its schema: unknown fields go, defaults come, wrong types and doubles are noted.

Built-in kinds (and the metadata of all) are checked for types here, in the words of Go's decoder, for that is what
clients of kube-apiserver see. Objects of CRDs are checked by JSON schema afterwards (`validation`).
"""

from __future__ import annotations

from typing import Any

import msgspec

from espalier.api.meta import Tree
from espalier.apiserver import failures
from espalier.apiserver.comparing import element_of
from espalier.apiserver.structure import Node
from espalier.kube.errors import StatusCause

Path = tuple[Any, ...]
"""Where the walk is, innermost first: (name or index, path of the parent); empty at the root."""

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
_FOUND = {str: "string", int: "number", float: "number", bool: "bool", list: "array", dict: "object"}
_WANTED = {"integer": "int", "number": "float64", "boolean": "bool", "array": "slice", "object": "struct"}


class Tidying:
    """What a walk found. `unknown` are fields that were removed, `causes` and `mistyped` what is wrong.

    The walk passes by what is the very same as in a version that is tidy by the same schema, if there is one.
    """

    def __init__(self, *, typed: bool) -> None:
        self.unknown: list[str] = []
        self.causes: list[StatusCause] = []
        self.mistyped = ""
        self.typed = typed

    def object(self, value: Tree, node: Node, path: Path = (), tidy: Tree = _NONE) -> None:
        """Tidy a map, in place; `tidy` is the same map of a version that is tidy."""
        for name in node.defaulted:
            if value.get(name) is None and not (name in value and node.properties[name].nullable):
                default = node.properties[name].default
                if default is not None:
                    value[name] = msgspec.json.decode(default)
        for name, part in list(value.items()):
            if part is tidy.get(name, _ABSENT):
                continue
            child = node.properties.get(name) or node.values
            if child is None:
                if not node.preserve and not (node.embedded and name in ("apiVersion", "kind", "metadata")):
                    self.unknown.append(rendered((name, path)))
                    del value[name]
                continue
            if part is None:
                if not child.nullable:
                    del value[name]
                continue
            if self.typed or type(part) in _CONTAINERS:
                self._part(part, child, (name, path), tidy.get(name))
        if self.typed and node.required:
            self._check_required(value, node, path)

    def _part(self, part: Any, node: Node, path: Path, tidy: Any = None) -> None:
        kind = type(part)
        if self.typed and node.type and kind not in _TYPES[node.type]:
            self._mistyped(part, node, path)
        elif kind is dict:
            if node.properties or node.values is not None or not node.preserve:
                self.object(part, node, path, tidy if type(tidy) is dict else _NONE)
        elif kind is list:
            if node.items is not None:
                for index, item in enumerate(part):
                    self._part(item, node.items, (index, path))
            if node.list_type != "atomic":
                self._check_doubles(part, node, path)
        elif self.typed and node.enum and part not in node.enum and part != "":
            self.causes.append(failures.unsupported(rendered(path), part, sorted(node.enum)))

    def _check_doubles(self, items: list[Any], node: Node, path: Path) -> None:
        seen = set()
        for index, item in enumerate(items):
            element = element_of(item, node)
            if element in seen:
                shown = {key: item.get(key) for key in node.keys} if isinstance(item, dict) and node.keys else item
                self.causes.append(failures.duplicate(rendered((index, path)), shown))
            seen.add(element)

    def _check_required(self, value: Tree, node: Node, path: Path) -> None:
        """Only below spec: elsewhere Go's OpenAPI calls fields required that may well be missing."""
        if path and _root(path) == "spec":
            self.causes += [
                failures.required(rendered((name, path))) for name in node.required if value.get(name) is None
            ]

    def _mistyped(self, part: Any, node: Node, path: Path) -> None:
        if not self.mistyped:
            found, wanted = _FOUND.get(type(part), "null"), _WANTED.get(node.type, node.type)
            wanted = node.format if node.format.startswith("int") and wanted == "int" else wanted
            wanted = "map[string]string" if wanted == "struct" and node.values is not None else wanted
            self.mistyped = f"json: cannot unmarshal {found} into Go struct field .{rendered(path)} of type {wanted}"


def _root(path: Path) -> Any:
    while path[1]:
        path = path[1]
    return path[0]


def rendered(path: Path) -> str:
    """The text of a path: `spec.parts[0].id`."""
    steps = []
    while path:
        step, path = path
        steps.append(f"[{step}]" if isinstance(step, int) else f".{step}")
    return "".join(reversed(steps)).removeprefix(".")
