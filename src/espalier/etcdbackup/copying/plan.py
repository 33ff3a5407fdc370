"""Selects the snapshots to copy, and finds those that are there already. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from espalier.etcdbackup.snapshots.names import Kind, Snapshot
from espalier.etcdbackup.snapshots.sets import Inventory, SnapshotSet, StoredSnapshot


@dataclass(frozen=True, slots=True)
class Choice:
    """Selects the sets to copy. The latest set is always copied, however old: without it the target would seem
    empty."""

    most: int | None = None
    """The number of newest sets; None: all."""
    age: timedelta | None = None
    """Sets whose full snapshot is younger than this; None: all."""

    def __post_init__(self) -> None:
        if self.most is not None and self.most < 1:
            raise ValueError(f"number of backups to copy: found {self.most}, allowed is 1 or more")
        if self.age is not None and self.age <= timedelta():
            raise ValueError(f"age of backups to copy: found {self.age}, allowed is more than 0")


LATEST = Choice(most=1)
"""The selection for a control plane that moves."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A snapshot to copy."""

    source: StoredSnapshot
    target: Snapshot
    """The name without `.final`, as in etcd-backup-restore: etcd continues in the target."""
    present: StoredSnapshot | None = None
    """An object of that name and size, which may be the copy of an earlier run."""


@dataclass(frozen=True, slots=True)
class SetCopy:
    """A set to copy: its deltas first and the full snapshot last, so that a set with a full snapshot is complete."""

    deltas: tuple[Copy, ...]
    full: Copy

    @property
    def all(self) -> tuple[Copy, ...]:
        """In the order in which they are copied."""
        return (*self.deltas, self.full)


@dataclass(frozen=True, slots=True)
class Plan:
    """The sets to copy, oldest first."""

    sets: tuple[SetCopy, ...]
    conflicting: tuple[StoredSnapshot, ...] = ()
    """Snapshots of the target that are not copies and come after the latest full one of the source: a restore would
    take them for its set."""

    @property
    def copies(self) -> tuple[Copy, ...]:
        """All of them."""
        return tuple(copy for set_copy in self.sets for copy in set_copy.all)


def plan(source: Inventory, target: Inventory, choice: Choice, now: datetime) -> Plan:
    """Plan a copy. It has no sets if the source has no full snapshot."""
    chosen = _select(source, choice, now)
    if not chosen:
        return Plan(())
    present = {stored.key: stored for stored in target.snapshots}
    copies: dict[str, Copy] = {}
    for stored in (stored for snapshot_set in chosen for stored in snapshot_set.members):
        name = stored.snapshot.without_final()
        existing = present.get(name.key)
        copies[stored.key] = Copy(
            stored, name, existing if existing is not None and existing.size == stored.size else None
        )
    sets = tuple(
        SetCopy(tuple(copies[delta.key] for delta in snapshot_set.deltas), copies[snapshot_set.full.key])
        for snapshot_set in chosen
    )
    copied = {copy.target.key for copy in copies.values()}
    first = chosen[-1].full.order
    return Plan(
        sets, tuple(stored for stored in target.snapshots if stored.order >= first and stored.key not in copied)
    )


def _select(source: Inventory, choice: Choice, now: datetime) -> list[SnapshotSet]:
    sets = list(source.sets)
    if choice.age is not None:
        sets = [
            snapshot_set for snapshot_set in sets[:-1] if now - snapshot_set.full.snapshot.time < choice.age
        ] + sets[-1:]
    if choice.most is not None:
        sets = sets[-choice.most :]
    return sets


def is_final(inventory: Inventory) -> bool:
    """True if etcd took no writes after the latest full snapshot."""
    latest = inventory.latest
    return latest is not None and latest.full.snapshot.kind is Kind.FULL and latest.full.snapshot.is_final
