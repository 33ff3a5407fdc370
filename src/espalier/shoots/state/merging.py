"""Merges the entries of a ShootState with the states in the seed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

import msgspec
from msgspec import Raw

from espalier.api.gardener import SHOOT_EXTENSION_KINDS, metadata_keys, ownership
from espalier.api.gardener.operations import OperationType
from espalier.api.gardener.ownership import OwnershipError
from espalier.api.gardener.responsibility import operation_of_shoot, seed_of
from espalier.api.gardener.shoot import Shoot
from espalier.api.gardener.shoot_state import ExtensionState
from espalier.api.meta import Tree
from espalier.shoots.state import pieces
from espalier.shoots.state.document import Entry, digest_of, digested_state
from espalier.shoots.state.found import ResourceState, StateKey
from espalier.shoots.state.limits import LARGEST_INLINE, LARGEST_SHOOT_STATE

_OVERHEAD = 64 * 1024
"""Bytes for the API server's additions, mainly managed fields."""


RENDERED_KINDS = frozenset(kind.resource.kind for kind in SHOOT_EXTENSION_KINDS)
"""Kinds of which gardenlets know which resources a shoot needs: they drop the states of the others themselves."""


class Mode(Enum):
    """The meaning of a missing state in the seed."""

    EXACT = "exact"
    """There is no state: the shoot is settled in this seed."""
    MERGE = "merge"
    """Nothing: resources are being created, restored, migrated or deleted."""


class Task(msgspec.Struct, frozen=True):
    """The task of a seed that writes the ShootState of a shoot: how to merge, and its epoch."""

    mode: Mode
    epoch: int


class SeedStates(msgspec.Struct, frozen=True):
    """The states in a shoot's namespace, of all kinds that the seed has: entries of other kinds stay."""

    states: tuple[ResourceState, ...]
    kinds: frozenset[str]


def task_of(shoot: Shoot, seed: str) -> Task | None:
    """The task of a seed; None if another one has the shoot, or if that can't be determined."""
    if seed_of(shoot) != seed:
        return None
    try:
        current = ownership.parse(shoot.metadata.annotations.get(metadata_keys.OWNERSHIP)).current
    except OwnershipError:
        return None  # nobody acts: the flow reports the error
    if current is not None and current.seed != seed:
        return None
    settled = operation_of_shoot(shoot) is OperationType.RECONCILE
    return Task(Mode.EXACT if settled else Mode.MERGE, current.epoch if current else 0)


def is_current(cached: Sequence[ExtensionState], found: SeedStates, mode: Mode, epoch: int = 0) -> bool:
    """True if a cached ShootState has all states of a seed, so that nothing has to be read or written."""
    entries = {StateKey(one.kind, one.name, one.purpose): one for one in cached}
    epochs = {key: one.epoch for key, one in entries.items()}
    return not _stale_keys(epochs, found, Task(mode, epoch)) and all(
        _is_stored(entries.get(one.key), one, mode) for one in _counted(found, mode)
    )


def merged(
    entries: Sequence[Entry], found: SeedStates, task: Task, shoot_uid: str, others: int
) -> tuple[list[Entry], list[Tree]]:
    """All entries, and the Secrets of those that are too large. `others`: bytes of the other parts of the ShootState.

    Unchanged entries are kept, in their places.
    """
    by_key = {entry.key: entry for entry in entries}
    for key in _stale_keys({key: entry.state.epoch for key, entry in by_key.items()}, found, task):
        del by_key[key]
    for one in _counted(found, task.mode):
        entry = _merged_entry(by_key.get(one.key), one, task)
        if entry is not None:
            by_key[one.key] = entry
    secrets: list[Tree] = []
    inline = {key: len(entry.raw) for key, entry in by_key.items() if entry.state.state is not None}
    size = others + _OVERHEAD + sum(len(entry.raw) for entry in by_key.values())
    for key in sorted(inline, key=lambda key: -inline[key]):
        if inline[key] <= LARGEST_INLINE and size <= LARGEST_SHOOT_STATE:
            break
        state = by_key[key].state
        reference, new_secrets = pieces.split(bytes(state.state), shoot_uid, task.epoch)
        by_key[key] = Entry.of(msgspec.structs.replace(state, state=None, state_ref=reference))
        secrets += new_secrets
        size += len(by_key[key].raw) - inline[key]
    return list(by_key.values()), secrets


def _stale_keys(epochs: Mapping[StateKey, int], found: SeedStates, task: Task) -> list[StateKey]:
    """Entries, given with their epochs, of resources that no longer have a state, or are deleted on purpose, and of
    kinds that gardenlets do not render those that are gone. Those of such kinds that an earlier epoch has written are
    not gone: nobody has created their resources here yet.

    An emptied namespace is no reason to delete entries: other resources must still be there.
    """
    if task.mode is Mode.MERGE or not found.states:
        return []
    kept = {one.key for one in _counted(found, task.mode) if one.text or one.problem or one.waits}
    present = {one.key for one in found.states}
    return [
        key
        for key, epoch in epochs.items()
        if key.kind in found.kinds
        and key not in kept
        and (key in present or (key.kind not in RENDERED_KINDS and epoch >= task.epoch))
    ]


def _counted(found: SeedStates, mode: Mode) -> Iterable[ResourceState]:
    """The states that are stored: of a settled shoot not those of resources that are deleted on purpose."""
    return (one for one in found.states if mode is Mode.MERGE or not one.is_deleted)


def _merged_entry(present: Entry | None, one: ResourceState, task: Task) -> Entry | None:
    """The entry of a resource; None if there is none."""
    if _is_stored(_digested(present), one, task.mode):
        return present
    if one.problem:
        state = (
            present.state
            if present is not None
            else ExtensionState(kind=one.key.kind, name=one.key.name, purpose=one.key.purpose)
        )
        return Entry.of(msgspec.structs.replace(state, outdated=one.problem))
    return Entry.of(_state(one, task.epoch))


def _digested(entry: Entry | None) -> ExtensionState | None:
    """An entry as cached; None if it can't be parsed."""
    try:
        return digested_state(entry.state) if entry is not None else None
    except msgspec.MsgspecError:
        return None


def _state(one: ResourceState, epoch: int) -> ExtensionState:
    kind, name, purpose = one.key
    return ExtensionState(kind=kind, name=name, purpose=purpose, state=Raw(one.text), epoch=epoch)


def _is_stored(cached: ExtensionState | None, one: ResourceState, mode: Mode) -> bool:
    """True if nothing of a resource has to be written."""
    if one.waits:
        return True
    if one.problem:
        return cached is not None and cached.outdated == one.problem
    if not one.text:
        return cached is None or mode is Mode.MERGE
    if cached is None or cached.outdated:
        return False
    if cached.state_ref is not None:
        return digest_of(cached) == one.text_digest
    return not one.is_large and digest_of(cached) == one.digest
