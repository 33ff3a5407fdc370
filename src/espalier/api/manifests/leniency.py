"""Objects as EKS Anywhere's command reads them: names of fields in any letter case, and text without quotes.

Its reader knows which fields are text, so `port: 443` and `kubernetesVersion: 1.30` are; kubectl and the API server
refuse these. It also takes `NO` for "false" and `1.10` for "1.1", which nobody means: such values stay what they are,
and the schema refuses them (decision 0128).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import yaml

from espalier.api.definitions.structural import Schema, metadata_schema, object_schema
from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.api.text import paths
from espalier.api.trees.yaml_trees import child, fields, rename, written

_VERSION = "kubernetesVersion"
_MOST_NOTES = 100
_OF_SERVERS = frozenset(
    {"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields"}
    | {"ownerReferences", "resourceVersion", "selfLink", "uid"}
)
"""Fields of metadata that are removed. `ownerReferences` too: an object whose owner is gone would be garbage collected.
"""


class Note(NamedTuple):
    """A field that is read differently from how it is written."""

    field: str
    message: str


class Lenient(NamedTuple):
    """An object, and its fields that are read differently from how they are written."""

    tree: Tree
    notes: tuple[Note, ...]


def read(kind: type[KubeObject], tree: Tree, node: yaml.Node) -> Lenient:
    """The object, without status and metadata that servers set: both are in the output of `kubectl get -o yaml`,
    but belong to the earlier object.

    Names of fields are corrected in `node` as well, by which their lines are found.
    """
    reader = _Reader()
    schemas: Schema = {"metadata": metadata_schema(), "spec": object_schema(kind)["properties"].get("spec", {})}
    nodes = fields(node)
    read_ = {name: reader.value(schemas.get(name, {}), value, nodes.get(name), (name,)) for name, value in tree.items()}
    read_.pop("status", None)
    if isinstance(read_.get("metadata"), dict):
        read_["metadata"] = {name: value for name, value in read_["metadata"].items() if name not in _OF_SERVERS}
    return Lenient(read_, tuple(reader.notes))


class _Reader:
    def __init__(self) -> None:
        self.notes: list[Note] = []

    def value(self, schema: Schema, value: Any, node: yaml.Node | None, path: tuple[paths.PathStep, ...]) -> Any:
        """A value converted to the type in its schema, if possible."""
        if isinstance(value, dict) and schema.get("type") == "object":
            return dict(self._fields(schema, value, node, path))
        if isinstance(value, list):
            items: Schema = schema.get("items", {})
            return [self.value(items, item, _child(node, index), (*path, index)) for index, item in enumerate(value)]
        if schema.get("type") == "string" and isinstance(value, bool | int | float):
            return self._text(value, node, path)
        return value

    def _fields(
        self, schema: Schema, value: Tree, node: yaml.Node | None, path: tuple[paths.PathStep, ...]
    ) -> Iterator[tuple[str, Any]]:
        properties: dict[str, Schema] = schema.get("properties", {})
        others: Schema = schema.get("additionalProperties") or {}
        given, nodes = Counter(key.lower() for key in value), fields(node)
        for key, item in value.items():
            field = _meant(key, given, properties)
            if field != key:
                self._note((*path, field), f"{key} is read as {field}; kubectl accepts no other")
                rename(node, key, field)
            yield field, self.value(properties.get(field, others), item, nodes.get(key), (*path, field))

    def _text(self, value: bool | float, node: yaml.Node | None, path: tuple[paths.PathStep, ...]) -> Any:
        text = written(node)
        canonical = str(value).lower() if isinstance(value, bool) else repr(value)
        is_version = path[-1] == _VERSION and not isinstance(value, bool)
        if not text or (text != canonical and not is_version):
            return value
        self._note(path, f'read as text; kubectl requires quotes: "{text}"')
        return text

    def _note(self, path: tuple[paths.PathStep, ...], message: str) -> None:
        if len(self.notes) < _MOST_NOTES:
            self.notes.append(Note(paths.render(path), message))


def _meant(key: str, given: Mapping[str, int], properties: dict[str, Schema]) -> str:
    """The field with this name in another letter case, unless both are given; else the name."""
    if key in properties or given[key.lower()] > 1:
        return key
    return next((field for field in properties if field.lower() == key.lower()), key)


def _child(node: yaml.Node | None, step: paths.PathStep) -> yaml.Node | None:
    entry = child(node, step) if node is not None else None
    return entry[1] if entry is not None else None
