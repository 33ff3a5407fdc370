"""What an upgrade that did not come to its end may have changed on a node: noted on its Machine before it begins. Pure.

A Machine and its KubeadmConfig say what was reached last. Between two states a node has some of each, so that files and
kubelet flags that differ are brought to it again, whichever way it goes on.
"""

from __future__ import annotations

import msgspec
from msgspec import json, structs

from espalier.api import json_trees
from espalier.api.eksa.upgrades import UNFINISHED
from espalier.api.meta import Tree
from espalier.clusterapi.bootstrap_changes import Traits
from espalier.kube.objects import Object

_UNKNOWN = "\0"
"""In the place of what no KubeadmConfig can ask for."""


class Unfinished(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Names of what may have changed, and the NodeUpgrade that began first, by uid."""

    upgrade: str = ""
    files: tuple[str, ...] = ()
    kubelet_args: tuple[str, ...] = ()
    patches: bool = False


def of(machine: Object) -> Unfinished | None:
    """The note on a Machine; None without one. One that can't be read names nothing."""
    text = machine.metadata.annotations.get(UNFINISHED)
    if text is None:
        return None
    try:
        return json_trees.decode(text, Unfinished)
    except msgspec.MsgspecError:
        return Unfinished()


def noted(machine: Object, upgrade: str, changes: Tree) -> str:
    """The note once a NodeUpgrade begins that brings these files and flags: what was noted before stays."""
    before = of(machine) or Unfinished(upgrade)
    files = {one["path"] for one in changes.get("files") or ()} | set(changes.get("removedFiles") or ())
    flags = {one["name"] for one in changes.get("kubeletArgs") or ()} | set(changes.get("removedKubeletArgs") or ())
    found = structs.replace(
        before,
        files=tuple(sorted(files.union(before.files))),
        kubelet_args=tuple(sorted(flags.union(before.kubelet_args))),
        patches=before.patches or "patches" in changes,
    )
    return json.encode(found).decode()


def uncertain(known: Traits, machine: Object) -> Traits:
    """What is known of a node, without what may have changed."""
    note = of(machine) or Unfinished()
    return Traits(
        known.files | dict.fromkeys(note.files, _UNKNOWN),
        known.kubelet_args | {name: [_UNKNOWN] for name in note.kubelet_args},
        _UNKNOWN if note.patches else known.patches,
    )
