"""Field changes of a write to an object, with possible secrets hidden."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from espalier.api.meta import Tree
from espalier.api.text import paths
from espalier.api.text.redaction import shown

Verb = Literal["create", "change", "delete"]

_NAMES = ("name", "path", "key")
"""The fields that identify items of lists."""


class FieldChange(NamedTuple):
    """A field before and after, in a form that may be shown; None: it does not exist."""

    field: str
    old: Any
    new: Any


class ObjectChange(NamedTuple):
    """An object that would be written or deleted."""

    verb: Verb
    api_version: str
    kind: str
    namespace: str
    name: str
    fields: tuple[FieldChange, ...] = ()
    instead_of: str = ""
    """For a new template: the one that it replaces; `fields` are the differences between the two."""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


def field_changes(old: Tree, new: Tree, kind: str = "") -> tuple[FieldChange, ...]:
    """The differences of two objects in the parts that users write: labels, annotations, spec and the like."""
    return tuple(
        FieldChange(paths.render(path), shown(path, before, kind=kind), shown(path, after, kind=kind))
        for path, before, after in paths.differences(asked_for(old), asked_for(new), parts=_by_name)
    )


def asked_for(tree: Tree) -> Tree:
    """An object without the fields that its server and its controllers set."""
    metadata = tree.get("metadata") or {}
    shown = {name: metadata[name] for name in ("labels", "annotations") if metadata.get(name)}
    rest = {name: value for name, value in tree.items() if name not in ("apiVersion", "kind", "metadata", "status")}
    return rest | ({"metadata": shown} if shown else {})


def _by_name(value: Any) -> dict[str, Any] | None:
    """The parts of a map, or of a list whose items have names; None for values that are compared as a whole."""
    if isinstance(value, dict):
        return value
    if not isinstance(value, list):
        return None
    for key in _NAMES:
        named = {item[key]: item for item in value if isinstance(item, dict) and isinstance(item.get(key), str)}
        if named and len(named) == len(value):
            return named
    return None
