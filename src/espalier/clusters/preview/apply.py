"""An object after a manifest is applied to it, as its API server would store it, computed locally."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from espalier.api import conditions as condition_list
from espalier.api.meta import Tree
from espalier.api.trees import json_trees
from espalier.kube.objects import Object, encode_json
from espalier.kube.server_side_apply import managed_fields
from espalier.kube.server_side_apply.managed_fields import Manager
from espalier.kube.server_side_apply.structure import node_of

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
COMMAND_LINE = "eks-a-cli"
KUBECTL = "kubectl"

_OPEN = node_of({}, open_objects=True)
"""The schema of kinds in whose specs maps are merged and lists are replaced: that of all manifests."""

_NEVER_REMOVED = (("spec", "eksaVersion"),)
"""Fields that this program never removes: `espalier upgrade cluster` sets them where a manifest omits them."""


def applied(live: Object | None, manifest: Tree, *, now: datetime, by_espalier: bool = False) -> Object:
    """The object after applying the manifest to the live one.

    As `kubectl apply` does, if it created the object; else as server-side apply by the last applier, kubectl or this
    program; with `by_espalier`, as by this program. So a field that was applied and is now omitted is removed, and so
    is a field of the spec that is set to null.
    """
    stamp = condition_list.timestamp(now)
    gone = [name for name, value in (manifest.get("spec") or {}).items() if value is None]
    manifest = {
        **manifest,
        "spec": {name: value for name, value in (manifest.get("spec") or {}).items() if value is not None},
    }
    if live is None:
        metadata = {"uid": "planned", "generation": 1, "creationTimestamp": stamp, **manifest["metadata"]}
        return _object({**manifest, "metadata": metadata | {"resourceVersion": "0"}})
    tree = live.tree
    owners = managed_fields.decode(tree["metadata"].pop("managedFields", ()))
    config = {name: value for name, value in manifest.items() if name not in ("apiVersion", "kind", "status")}
    last = None if by_espalier else _last_applied(tree)
    with_metadata = {**config, "metadata": {"annotations": {}, "labels": {}, **config["metadata"]}}
    base = _without_dropped(tree, last, with_metadata) if last is not None else tree
    api_version = live.head.api_version
    appliers = (COMMAND_LINE,) if by_espalier else (KUBECTL, COMMAND_LINE)
    me = _applier(owners, api_version, appliers) if last is None else Manager("", "Apply", api_version)
    new, _ = managed_fields.apply(base, config, owners, me, _OPEN, stamp, force=True)
    for part, name in _NEVER_REMOVED if me.name == COMMAND_LINE else ():
        before = tree.get(part, {}).get(name)
        if before is not None and new.get(part, {}).get(name) is None and name not in manifest.get(part, {}):
            new = {**new, part: {**new[part], name: before}}
    if gone:
        new = {**new, "spec": {name: value for name, value in new["spec"].items() if name not in gone}}
    system = {**new["metadata"], **{name: tree["metadata"][name] for name in _SYSTEM if name in tree["metadata"]}}
    if new.get("spec") != tree.get("spec"):
        system["generation"] = int(system.get("generation") or 0) + 1
    if live.metadata.managed_fields is not None:
        system["managedFields"] = msgspec.Raw(bytes(live.metadata.managed_fields))
    return _object({**new, "metadata": system})


_SYSTEM = ("uid", "generation", "creationTimestamp", "deletionTimestamp", "resourceVersion")


def _object(tree: Tree) -> Object:
    return Object(encode_json({name: value for name, value in tree.items() if value is not None}))


def _last_applied(tree: Tree) -> Tree | None:
    text = (tree["metadata"].get("annotations") or {}).get(LAST_APPLIED)
    try:
        last = json_trees.decode(text) if text else None
    except msgspec.DecodeError:
        return None
    return last if isinstance(last, dict) else None


def _applier(owners: managed_fields.Managers, api_version: str, names: Sequence[str]) -> Manager:
    """The last applier of the object among these; by default this program."""
    appliers = [owner for owner in owners if owner.operation == "Apply" and not owner.subresource]
    for name in names:
        for owner in appliers:
            if owner.name == name:
                return owner
    return Manager(COMMAND_LINE, "Apply", api_version)


def _without_dropped(live: Any, last: Any, config: Any) -> Any:
    """The live value without the parts of the last manifest that this one omits."""
    if not (isinstance(live, dict) and isinstance(last, dict) and isinstance(config, dict)):
        return live
    return {
        name: _without_dropped(value, last.get(name), config.get(name))
        for name, value in live.items()
        if name in config or name not in last or name in ("apiVersion", "kind", "metadata", "status")
    }
