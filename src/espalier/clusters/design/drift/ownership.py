"""Compares the fields that we own of an object, by its managedFields, with the desired ones, to avoid needless writes.

Only our fields are compared. Fields of other managers and server defaults are ignored; a field that we own and no
longer render is a difference, because applying without it removes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec

from espalier.api.meta import Tree
from espalier.api.text import paths
from espalier.api.trees import json_trees
from espalier.clusters.design.names import FIELD_MANAGER
from espalier.kube import fields as field_sets
from espalier.kube.objects import Object

_NOT_FIELDS = ("apiVersion", "kind", "metadata")
_NOT_IN_METADATA = ("name", "namespace")


_SETS = 1024
"""The size of the cache of field sets: those of clusters alike are equal."""

_decode_fields = lru_cache(maxsize=_SETS)(json_trees.decoder(dict[str, Any]))
_encode_sorted = msgspec.json.Encoder(order="sorted").encode


def owned_fields(live: Object, manager: str = FIELD_MANAGER) -> dict[str, Any] | None:
    """The fields (FieldsV1) that a manager applied to an object, shared by all that read them; None if it never did."""
    entry = _entry(live, manager)
    if entry is None or entry.api_version not in ("", live.head.api_version):
        return None  # its paths are those of another version: EKS Anywhere applied Cluster API's v1beta1
    return _decode_fields(bytes(entry.fields_v1))


def is_applied(live: Object, manager: str = FIELD_MANAGER) -> bool:
    """True if a manager applied an object, in whatever version of its kind."""
    return _entry(live, manager) is not None


def _entry(live: Object, manager: str) -> field_sets.Entry | None:
    managed = live.metadata.managed_fields
    for entry, _ in field_sets.entries(bytes(managed)) if managed is not None else ():
        if entry.manager == manager and entry.operation == "Apply" and not entry.subresource:
            return entry
    return None


def owned_part(live: Object, *path: str) -> Any:
    """The part that we applied of a field and of those below it; all of it if we never applied the object. None if it
    is not there.
    """
    value: Any = live.tree
    fields: Any = owned_fields(live)
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
        fields = fields.get(f"f:{name}") if fields is not None else None
        if value is None or (fields is None and owned_fields(live) is not None):
            return None
    return value if fields is None else _owned(value, fields)


def _owned(value: Any, fields: dict[str, Any]) -> Any:
    if not _has_inner(fields):
        return value
    if isinstance(value, dict):
        named = ((name[2:], below) for name, below in fields.items() if name.startswith("f:"))
        return {name: _owned(value[name], below) for name, below in named if name in value}
    if isinstance(value, list):
        items = [(field_sets.item(value, key), below) for key, below in fields.items() if key[:2] in ("k:", "v:")]
        there = [(value.index(item), item, below) for item, below in items if item is not None]
        return [_owned(item, below) for _, item, below in sorted(there, key=lambda placed: placed[0])]
    return value


def differences(wanted: Tree, live: Object) -> list[str]:
    """Paths of the owned fields that differ from the desired object, in order; empty: nothing to write."""
    fields = owned_fields(live)
    if fields is None:
        return ["metadata.managedFields"]
    return sorted(set(_differences(_comparable(wanted), live.tree, fields, ())))


def after_apply(live: Object, wanted: Tree) -> Tree:
    """The object after applying the desired one: fields that we owned and no longer render are removed."""
    fields = owned_fields(live) or {}
    tree = live.tree
    body = {name: value for name, value in wanted.items() if name != "metadata"}
    rest = {name: value for name, value in tree.items() if name != "metadata"}
    merged: Tree = _apply_fields(rest, body, {name: below for name, below in fields.items() if name != "f:metadata"})
    metadata = _apply_fields(tree["metadata"], wanted["metadata"], fields.get("f:metadata", {}))
    return {**merged, "metadata": metadata}


def as_applied(live: Object, wanted: Tree) -> Tree:
    """The object without edits by others: what they have set of the fields that we want is as we want it."""
    return _as_applied(live.tree, wanted, owned_fields(live) or {})  # type: ignore[no-any-return]


def has_content(wanted: Tree, live: Object) -> bool:
    """True if a template has the desired `spec`, under whatever name.

    Of a template that we did not apply (an older manager made it), only the desired fields are compared.
    """
    fields = owned_fields(live)
    spec = live.tree.get("spec") or {}
    if fields is None:
        return not any(_lacking(wanted["spec"], spec, ()))
    return not any(_differences(wanted["spec"], spec, fields.get("f:spec", {}), ()))


def _comparable(wanted: Tree) -> Tree:
    metadata = {name: value for name, value in wanted["metadata"].items() if name not in _NOT_IN_METADATA}
    rest = {name: value for name, value in wanted.items() if name not in _NOT_FIELDS}
    return rest | {"metadata": metadata} if metadata else rest


def _differences(wanted: Any, live: Any, fields: dict[str, Any], path: tuple[paths.PathStep, ...]) -> Iterator[str]:
    """`fields` is the set of owned fields below this path; without any, the whole value is owned."""
    if wanted == {} and isinstance(live, dict) and not _has_inner(fields):
        return  # we own the map itself; its entries belong to others
    if not _has_inner(fields) or type(wanted) is not type(live):
        yield from _unequal(wanted, live, path)
    elif isinstance(wanted, dict):
        for name, value in wanted.items():
            below = fields.get(f"f:{name}")
            if below is None:
                yield from list(_lacking(value, live.get(name), (*path, name))) or [paths.render((*path, name))]
            elif below or value != live.get(name):
                yield from _differences(value, live.get(name), below, (*path, name))
        for name in (key[2:] for key in fields if key != "." and key[2:] not in wanted):
            yield from list(_unequal(None, live.get(name), (*path, name))) or [paths.render((*path, name))]
    elif len(wanted) != len(fields) - ("." in fields):
        yield paths.render(path)
    else:
        for key, below in fields.items():
            if key == ".":
                continue
            ours, theirs = field_sets.item(wanted, key), field_sets.item(live, key)
            if ours is None or theirs is None:
                yield paths.render(path)
            elif isinstance(ours, dict):
                yield from _differences(ours, theirs, below, path)


def _has_inner(fields: dict[str, Any]) -> bool:
    """True if there are fields below; `.` stands for the value itself."""
    return len(fields) > ("." in fields)


def _apply_fields(live: Any, wanted: Any, fields: dict[str, Any]) -> Any:
    if live == wanted:
        return live
    if isinstance(live, dict) and isinstance(wanted, dict):
        remaining = {name: value for name, value in live.items() if name in wanted or f"f:{name}" not in fields}
        over = {
            name: _apply_fields(live.get(name), value, fields.get(f"f:{name}", {})) for name, value in wanted.items()
        }
        return remaining | over
    keys = [key for key in fields if key.startswith("k:")]
    if isinstance(live, list) and isinstance(wanted, list) and keys:
        names = field_sets.identity(keys[0])[1].keys()

        def identity(item: Any) -> bytes:
            return _encode_sorted({name: item.get(name) for name in names})

        there = {identity(item): item for item in live}
        below = {_encode_sorted(field_sets.identity(key)[1]): fields[key] for key in keys}
        asked = [(identity(item), item) for item in wanted]
        ours = [_apply_fields(there.get(name), item, below.get(name, {})) for name, item in asked]
        known = below.keys() | {name for name, _ in asked}
        return [*ours, *(item for name, item in there.items() if name not in known)]
    return wanted


def _as_applied(live: Any, wanted: Any, fields: dict[str, Any]) -> Any:
    if not isinstance(live, dict) or not isinstance(wanted, dict):
        return live
    merged = dict(live)
    for name in live.keys() & wanted.keys():
        below = fields.get(f"f:{name}")
        merged[name] = wanted[name] if below is None else _as_applied(live[name], wanted[name], below)
    return merged


def _unequal(wanted: Any, live: Any, path: tuple[paths.PathStep, ...]) -> Iterator[str]:
    """The paths at which two values differ, descending into objects. Editing a field takes over its ownership."""
    return (paths.render(where) for where, _, _ in paths.differences(live, wanted, path))


def _lacking(wanted: Any, live: Any, path: tuple[paths.PathStep, ...]) -> Iterator[str]:
    """The desired fields that are missing or different in a value that we do not own. Additional fields are ignored."""
    if isinstance(wanted, dict) and isinstance(live, dict):
        for name, value in wanted.items():
            yield from _lacking(value, live.get(name), (*path, name))
    elif wanted != live:
        yield paths.render(path)
