"""Field ownership: `metadata.managedFields`, with the semantics of Kubernetes' structured merge.

`apply` is server-side apply, `update` every other write. Both are pure.

Each manager (a name, an operation, a version of the API, a subresource) has a set of fields. A field may have several
managers; nobody owns the object's identity and what the server sets.

An update gives all fields that it changed to the writer alone. A field that it removed has no manager any more.

An apply says which fields its manager wants from now on, by a configuration:

1. merge the configuration into the live object (`merging.py`): maps by field, lists by the keys of their schema;
2. remove what the manager applied before, leaves out now, and no other manager owns;
3. compare the result with the live object. A changed field that another manager owns is a conflict, unless forced; then
   that manager loses it. A field that is applied with the value it has is shared;
4. the manager owns what the configuration has, no more. Time and set stay as they were if nothing changed, so a
   repeated apply writes nothing.

Two cases come from before server-side apply. An object without managers gives all its fields to `before-first-apply`,
so the first apply conflicts where it changes something. kubectl takes over what its client-side apply wrote, which it
finds in an annotation.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from espalier.api.meta import Tree
from espalier.api.trees import json_trees
from espalier.kube import fields
from espalier.kube.errors import Conflict, StatusCause, StatusDetails
from espalier.kube.fields import SELF, FieldSet
from espalier.kube.objects import encode_json
from espalier.kube.server_side_apply.field_set_diff import difference, fields_of
from espalier.kube.server_side_apply.merging import merge, prune
from espalier.kube.server_side_apply.structure import Node

MAX_UPDATERS = 10
"""The maximum number of managers with operation Update; the fields of older ones go to `ancient-changes`."""

KUBECTL = "kubectl"
"""kubectl's field manager for server-side apply."""

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation of kubectl's client-side apply."""

BEFORE_FIRST_APPLY = "before-first-apply"
ANCIENT = "ancient-changes"

_UNOWNED: FieldSet = {
    "f:apiVersion": {},
    "f:kind": {},
    "f:metadata": {
        SELF: {},
        "f:name": {},
        "f:namespace": {},
        "f:creationTimestamp": {},
        "f:selfLink": {},
        "f:uid": {},
        "f:generation": {},
        "f:managedFields": {},
        "f:resourceVersion": {},
        "f:deletionTimestamp": {},
        "f:deletionGracePeriodSeconds": {},
    },
}
"""Fields that no manager owns: those of the server, and the object's identity."""


class Manager(NamedTuple):
    """A field manager: its name and operation."""

    name: str
    operation: str
    api_version: str
    subresource: str = ""


class Owned(msgspec.Struct, frozen=True):
    """The fields of a manager, and the time of its last change (RFC 3339)."""

    fields: FieldSet
    time: str


Managers = dict[Manager, Owned]


_sorted = msgspec.json.Encoder(order="sorted").encode


def decode(entries: bytes | Iterable[Any]) -> Managers:
    """Decode `managedFields`.

    Invalid entries are dropped: they own nothing.
    """
    managers: Managers = {}
    for entry, _ in fields.entries(entries if isinstance(entries, bytes) else encode_json(entries)):
        try:
            owned = fields.parse(bytes(entry.fields_v1))
        except ValueError:
            continue
        manager = Manager(entry.manager, entry.operation, entry.api_version, entry.subresource)
        managers[manager] = Owned(owned, entry.time)
    return managers


def encode(managers: Managers) -> list[Tree]:
    """Encode `managedFields`: operation Apply first, then by time and name."""
    ordered = sorted(managers.items(), key=lambda entry: (entry[0].operation, entry[1].time, entry[0]))
    return [_entry(manager, owned) for manager, owned in ordered if owned.fields]


def _entry(manager: Manager, owned: Owned) -> Tree:
    entry: Tree = {"manager": manager.name, "operation": manager.operation, "apiVersion": manager.api_version}
    if owned.time:
        entry["time"] = owned.time
    entry["fieldsType"] = "FieldsV1"
    entry["fieldsV1"] = msgspec.Raw(fields.serialize(owned.fields))
    if manager.subresource:
        entry["subresource"] = manager.subresource
    return entry


def update(old: Tree, new: Tree, managers: Managers, me: Manager, node: Node, now: str) -> Managers:
    """The managers after `me` updated `old` to `new`: `me` alone owns changed fields; removed ones have no manager."""
    changed, removed = difference(_bare(old), _bare(new), node)
    changed, removed = _owned(changed), _owned(removed)
    if not changed and not removed:
        return managers
    result: Managers = {}
    for manager, owned in managers.items():
        rest = fields.without_below(
            fields.difference(owned.fields, changed) if manager != me else owned.fields, removed
        )
        if rest:
            result[manager] = owned if rest == owned.fields else replace(owned, fields=rest)
    if changed:
        own = result.get(me)
        result[me] = Owned(fields.union(own.fields, changed) if own is not None else changed, now)
    return _without_oldest_updaters(result)


def apply(
    live: Tree, config: Tree, managers: Managers, me: Manager, node: Node, now: str, *, force: bool
) -> tuple[Tree, Managers]:
    """The live object and its managers after `me` applied `config`.

    Raises `Conflict` when a changed field belongs to another manager, unless forced. kubectl takes over the fields of
    its client-side apply, which its annotation lists.
    """
    own = _applied_by_kubectl(live, node) if me.name == KUBECTL and not force else {}
    config = _bare(config)
    # An object from before server-side apply: somebody owns it all.
    if live and not managers:
        managers = {
            Manager(BEFORE_FIRST_APPLY, "Update", me.api_version): Owned(
                _owned(fields_of(_bare(live), node, containers=True)), now
            )
        }
    wanted = _owned(fields_of(config, node, containers=False))
    before = managers.get(me)
    others = {manager: owned for manager, owned in managers.items() if manager != me}
    result = merge(live, config, node)
    # Fields that the manager applied before and leaves out now.
    if before is not None and before.fields != wanted:
        retained = wanted
        for owned in others.values():
            retained = fields.union(retained, owned.fields)
        abandoned = fields.difference(before.fields, wanted)
        if abandoned:
            result = prune(result, abandoned, retained, node)
    # Only what really changes can conflict: equal values are shared.
    changed, removed = difference(_bare(live), _bare(result), node)
    changed, removed = _owned(changed), _owned(removed)
    conflicts = [
        (manager, claimed)
        for manager, owned in others.items()
        if (claimed := fields.difference(fields.intersection(owned.fields, changed), own))
    ]
    if conflicts and not force:
        raise _conflict(conflicts)
    # Others lose what was changed by force, and everything below what was removed.
    after: Managers = {}
    for manager, owned in others.items():
        rest = fields.without_below(fields.difference(owned.fields, changed), removed)
        if rest:
            after[manager] = owned if rest == owned.fields else replace(owned, fields=rest)
    same = before is not None and before.fields == wanted and not changed and not removed
    after[me] = before if before is not None and same else Owned(wanted, now)
    return result, after


def _applied_by_kubectl(live: Tree, node: Node) -> FieldSet:
    """Fields of kubectl's client-side apply that are unchanged since."""
    text = ((live.get("metadata") or {}).get("annotations") or {}).get(LAST_APPLIED)
    try:
        last = json_trees.decode(text or "{}", type=Tree)
    except msgspec.MsgspecError:
        return {}
    changed, removed = difference(last, _bare(live), node)
    return fields.without_below(fields.difference(fields_of(last, node, containers=False), changed), removed)


def update_last_applied(live: Tree, config: Tree, result: Tree, me: Manager) -> Tree:
    """The result of kubectl's apply with `LAST_APPLIED` updated, if the live object has it."""
    annotations = (live.get("metadata") or {}).get("annotations") or {}
    if me.name != KUBECTL or LAST_APPLIED not in annotations:
        return result
    metadata = result["metadata"]
    updated = {**(metadata.get("annotations") or {}), LAST_APPLIED: _sorted(_bare(config)).decode() + "\n"}
    return {**result, "metadata": {**metadata, "annotations": updated}}


def _bare(tree: Tree) -> Tree:
    """The object without `managedFields`, which no manager owns."""
    metadata = tree.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return tree
    return {**tree, "metadata": {name: part for name, part in metadata.items() if name != "managedFields"}}


def _owned(names: FieldSet) -> FieldSet:
    """A set without the fields that no manager owns."""
    return fields.difference(names, _UNOWNED)


def _without_oldest_updaters(managers: Managers) -> Managers:
    updaters = [manager for manager in managers if manager.operation == "Update" and not manager.subresource]
    if len(updaters) <= MAX_UPDATERS:
        return managers
    updaters.sort(key=lambda manager: managers[manager].time)
    result = dict(managers)
    while len(updaters) > MAX_UPDATERS - 1:
        oldest = updaters.pop(0)
        ancient = Manager(ANCIENT, "Update", oldest.api_version)
        owned = result.pop(oldest)
        present = result.get(ancient)
        result[ancient] = Owned(fields.union(present.fields, owned.fields) if present else owned.fields, owned.time)
    return result


def _conflict(conflicts: list[tuple[Manager, FieldSet]]) -> Exception:
    causes = [
        StatusCause(
            reason="FieldManagerConflict", message=f"conflict with {_described(manager)}", field=path_text(path)
        )
        for manager, conflicting in conflicts
        for path in fields.paths(conflicting)
    ]
    if len(causes) == 1:
        message = f"Apply failed with 1 conflict: {causes[0].message}: {causes[0].field}"
    else:
        lines = [f"Apply failed with {len(causes)} conflicts: "]
        for manager, conflicting in conflicts:
            paths = [path_text(path) for path in fields.paths(conflicting)]
            if len(paths) == 1:
                lines.append(f"conflict with {_described(manager)}: {paths[0]}")
            else:
                lines.append(f"conflicts with {_described(manager)}:" + "".join(f"\n- {path}" for path in paths))
        message = lines[0] + "\n".join(lines[1:])
    return Conflict.of(message, StatusDetails(causes=causes))


def _described(manager: Manager) -> str:
    through = f' with subresource "{manager.subresource}"' if manager.subresource else ""
    since = f" using {manager.api_version}" if manager.operation == "Update" else ""
    return f'"{manager.name}"{through}{since}'


def path_text(path: tuple[str, ...]) -> str:
    """A path as messages have it: `.spec.containers[name="a"].image`."""
    text = ""
    for element in path:
        kind, value = element[0], element[2:]
        if kind == "f":
            text += f".{value}"
        elif kind == "k":
            keys = json_trees.decode(value)
            text += "[" + ",".join(f"{name}={msgspec.json.encode(key).decode()}" for name, key in keys.items()) + "]"
        else:
            text += f"[={value}]" if kind == "v" else f"[{value}]"
    return text
