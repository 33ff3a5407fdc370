"""The changes that an unfinished upgrade may have made to a node, noted on its Machine before it starts. Pure.

A Machine and its KubeadmConfig describe the last state that was reached. After an interrupted upgrade a node may have
parts of both states, so the next upgrade writes all files and kubelet flags that differ.
"""

from __future__ import annotations

import msgspec
from msgspec import json, structs

from espalier.api.eksa.vocabulary.upgrade_keys import UNFINISHED
from espalier.api.meta import Tree
from espalier.api.trees import json_trees
from espalier.clusterapi.changes.bootstrap_changes import Traits
from espalier.kube.objects import Object

_UNKNOWN = "\0"
"""A value that no KubeadmConfig can ask for."""


class Unfinished(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The names of what may have changed, and the uid of the NodeUpgrade that started first."""

    upgrade: str = ""
    files: tuple[str, ...] = ()
    kubelet_args: tuple[str, ...] = ()
    patches: bool = False


def of(machine: Object) -> Unfinished | None:
    """The note on a Machine; None without a note. An unreadable note names nothing."""
    text = machine.metadata.annotations.get(UNFINISHED)
    if text is None:
        return None
    try:
        return json_trees.decode(text, Unfinished)
    except msgspec.MsgspecError:
        return Unfinished()


def noted(machine: Object, upgrade: str, changes: Tree) -> str:
    """The note for a NodeUpgrade with these files and flags, added to what was noted before."""
    before = of(machine) or Unfinished(upgrade)
    files = {file["path"] for file in changes.get("files") or ()} | set(changes.get("removedFiles") or ())
    flags = {argument["name"] for argument in changes.get("kubeletArgs") or ()} | set(
        changes.get("removedKubeletArgs") or ()
    )
    unfinished = structs.replace(
        before,
        files=tuple(sorted(files.union(before.files))),
        kubelet_args=tuple(sorted(flags.union(before.kubelet_args))),
        patches=before.patches or "patches" in changes,
    )
    return json.encode(unfinished).decode()


def uncertain(known: Traits, machine: Object) -> Traits:
    """The known traits of a node, without those that may have changed."""
    note = of(machine) or Unfinished()
    return Traits(
        known.files | dict.fromkeys(note.files, _UNKNOWN),
        known.kubelet_args | {name: [_UNKNOWN] for name in note.kubelet_args},
        _UNKNOWN if note.patches else known.patches,
    )
