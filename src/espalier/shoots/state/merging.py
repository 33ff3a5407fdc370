"""Merges the entries of a ShootState with the states in the seed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

import msgspec
from msgspec import Raw

from espalier.api.gardener import SHOOT_EXTENSION_KINDS, ownership
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.garden.shoot_state import ExtensionState
from espalier.api.gardener.ownership import OwnershipError
from espalier.api.gardener.responsibility import operation_of_shoot, seed_of
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.gardener.vocabulary.operations import OperationType
from espalier.api.meta import Tree
from espalier.shoots.state import pieces
from espalier.shoots.state.document import Entry, digest_of, digested_state
from espalier.shoots.state.limits import LARGEST_INLINE, LARGEST_SHOOT_STATE
from espalier.shoots.state.resource_states import ResourceState, StateKey

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


def is_current(cached: Sequence[ExtensionState], seed_states: SeedStates, mode: Mode, epoch: int = 0) -> bool:
    """True if a cached ShootState has all states of a seed, so that nothing has to be read or written."""
    entries = {StateKey(entry.kind, entry.name, entry.purpose): entry for entry in cached}
    epochs = {key: entry.epoch for key, entry in entries.items()}
    return not _stale_keys(epochs, seed_states, Task(mode, epoch)) and all(
        _is_stored(entries.get(state.key), state, mode) for state in _counted(seed_states, mode)
    )


def merged(
    entries: Sequence[Entry], seed_states: SeedStates, task: Task, shoot_uid: str, others: int
) -> tuple[list[Entry], list[Tree]]:
    """All entries, and the Secrets of those that are too large. `others`: bytes of the other parts of the ShootState.

    Unchanged entries are kept, in their places.
    """
    by_key = {entry.key: entry for entry in entries}
    for key in _stale_keys({key: entry.state.epoch for key, entry in by_key.items()}, seed_states, task):
        del by_key[key]
    for resource_state in _counted(seed_states, task.mode):
        entry = _merged_entry(by_key.get(resource_state.key), resource_state, task)
        if entry is not None:
            by_key[resource_state.key] = entry
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


def _stale_keys(epochs: Mapping[StateKey, int], seed_states: SeedStates, task: Task) -> list[StateKey]:
    """Entries, given with their epochs, of resources that no longer have a state, or are deleted on purpose, and of
    kinds that gardenlets do not render those that are gone. Those of such kinds that an earlier epoch has written are
    not gone: nobody has created their resources here yet.

    An emptied namespace is no reason to delete entries: other resources must still be there.
    """
    if task.mode is Mode.MERGE or not seed_states.states:
        return []
    counted = {state.key for state in _counted(seed_states, task.mode) if state.text or state.problem or state.waits}
    present = {state.key for state in seed_states.states}
    return [
        key
        for key, epoch in epochs.items()
        if key.kind in seed_states.kinds
        and key not in counted
        and (key in present or (key.kind not in RENDERED_KINDS and epoch >= task.epoch))
    ]


def _counted(seed_states: SeedStates, mode: Mode) -> Iterable[ResourceState]:
    """The states that are stored: of a settled shoot not those of resources that are deleted on purpose."""
    return (state for state in seed_states.states if mode is Mode.MERGE or not state.is_deleted)


def _merged_entry(present: Entry | None, resource_state: ResourceState, task: Task) -> Entry | None:
    """The entry of a resource; None if there is none."""
    if _is_stored(_digested(present), resource_state, task.mode):
        return present
    if resource_state.problem:
        state = (
            present.state
            if present is not None
            else ExtensionState(
                kind=resource_state.key.kind, name=resource_state.key.name, purpose=resource_state.key.purpose
            )
        )
        return Entry.of(msgspec.structs.replace(state, outdated=resource_state.problem))
    return Entry.of(_state(resource_state, task.epoch))


def _digested(entry: Entry | None) -> ExtensionState | None:
    """An entry as cached; None if it can't be parsed."""
    try:
        return digested_state(entry.state) if entry is not None else None
    except msgspec.MsgspecError:
        return None


def _state(state: ResourceState, epoch: int) -> ExtensionState:
    kind, name, purpose = state.key
    return ExtensionState(kind=kind, name=name, purpose=purpose, state=Raw(state.text), epoch=epoch)


def _is_stored(cached: ExtensionState | None, state: ResourceState, mode: Mode) -> bool:
    """True if nothing of a resource has to be written."""
    if state.waits:
        return True
    if state.problem:
        return cached is not None and cached.outdated == state.problem
    if not state.text:
        return cached is None or mode is Mode.MERGE
    if cached is None or cached.outdated:
        return False
    if cached.state_ref is not None:
        return digest_of(cached) == state.text_digest
    return not state.is_large and digest_of(cached) == state.digest
