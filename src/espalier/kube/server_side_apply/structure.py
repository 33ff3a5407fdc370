"""Schemas as trees of `Node`, used by pruning, defaulting, patches and server-side apply.

A `Node` is made from an OpenAPI v3 schema, whether of a CRD or of a built-in kind, and is never changed afterwards.
Where no node is known (a field kept by x-kubernetes-preserve-unknown-fields), maps are merged field by field, and
lists are replaced as a whole.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from espalier.api.meta import Tree
from espalier.kube.objects import encode_json

PRESERVE = "x-kubernetes-preserve-unknown-fields"
LIST_TYPE = "x-kubernetes-list-type"
LIST_KEYS = "x-kubernetes-list-map-keys"
MAP_TYPE = "x-kubernetes-map-type"
INT_OR_STRING = "x-kubernetes-int-or-string"
EMBEDDED = "x-kubernetes-embedded-resource"
PATCH_STRATEGY = "x-kubernetes-patch-strategy"
PATCH_MERGE_KEY = "x-kubernetes-patch-merge-key"

SCHEMAS = 256
"""The size of the cache of schemas."""

Resolve = Callable[[str], "Node"]


class Node(msgspec.Struct, eq=False):
    """One place in a schema. `type` is empty where several are allowed; `default` is encoded JSON."""

    type: str = ""
    format: str = ""
    struct: str = ""
    """Name of the Go type, as messages have it; of built-in kinds only."""
    properties: dict[str, Node] = {}
    required: tuple[str, ...] = ()
    values: Node | None = None
    items: Node | None = None
    preserve: bool = False
    nullable: bool = False
    embedded: bool = False
    atomic: bool = False
    list_type: str = "atomic"
    keys: tuple[str, ...] = ()
    merge_key: str = ""
    strategies: frozenset[str] = frozenset()
    enum: tuple[str, ...] = ()
    default: bytes | None = None
    defaulted: tuple[str, ...] = ()
    """Names of the properties that have a default."""
    always: bool = False
    """A struct of a built-in kind that is no pointer: an object without it has an empty one."""

    def child(self, name: str) -> Node | None:
        """The node of a field or of a map's value."""
        return self.properties.get(name) or self.values


def node_of(schema: Tree, resolve: Resolve | None = None, *, open_objects: bool = False) -> Node:
    """The node of a schema; `resolve` gives the nodes of `$ref`s.

    With `open_objects`, objects without declared fields keep all fields (built-in kinds), otherwise none (CRDs).
    """
    node = Node()
    fill(node, schema, resolve, open_objects=open_objects)
    return node


def fill(node: Node, schema: Tree, resolve: Resolve | None, *, open_objects: bool) -> None:
    """Fill an empty node from a schema. Separate from `node_of` for recursive schemas."""

    def below(part: Tree) -> Node:
        reference = part.get("$ref")
        if resolve is None or not isinstance(reference, str):
            return node_of(part, resolve, open_objects=open_objects)
        if len(part) == 1:
            return resolve(reference)
        target = resolve(reference)
        changed = Node(**{name: getattr(target, name) for name in Node.__struct_fields__})
        _annotate(changed, part)
        if part.get("default") == {}:
            changed.default, changed.always = target.default, True
        return changed

    node.type = "" if schema.get(INT_OR_STRING) else schema.get("type", "")
    node.format = schema.get("format", "")
    node.properties = {name: below(part) for name, part in schema.get("properties", {}).items()}
    node.required = tuple(schema.get("required", ()))
    node.nullable = bool(schema.get("nullable"))
    node.embedded = bool(schema.get(EMBEDDED))
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        node.values = below(additional)
    items = schema.get("items")
    if isinstance(items, dict):
        node.items = below(items)
    declares = bool(node.properties) or additional is not None
    node.preserve = bool(schema.get(PRESERVE)) or additional is True or (open_objects and not declares)
    node.atomic = open_objects and not declares and node.type == "object"
    node.enum = tuple(value for value in schema.get("enum", ()) if isinstance(value, str))
    node.defaulted = tuple(name for name, part in node.properties.items() if part.default is not None)
    _annotate(node, schema)


def _annotate(node: Node, schema: Tree) -> None:
    """Keywords that are allowed beside a reference."""
    if "default" in schema:
        node.default = encode_json(schema["default"])
    if schema.get(MAP_TYPE) == "atomic":
        node.atomic = True
    if LIST_TYPE in schema:
        node.list_type = schema[LIST_TYPE]
        node.keys = tuple(schema.get(LIST_KEYS, ()))
    if PATCH_STRATEGY in schema:
        node.strategies = frozenset(schema[PATCH_STRATEGY].split(","))
        node.merge_key = schema.get(PATCH_MERGE_KEY, "")
