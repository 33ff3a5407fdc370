"""Verifies sets of snapshots from end to end, without an etcd: every byte of every object, and that they are
continuous."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from espalier.etcdbackup.snapshots import reading
from espalier.etcdbackup.snapshots.names import Kind
from espalier.etcdbackup.snapshots.reading import Progress, silent
from espalier.etcdbackup.snapshots.sets import Finding, SnapshotSet, StoredSnapshot
from espalier.etcdbackup.stores.errors import Corrupt, NotFound
from espalier.etcdbackup.stores.store import Store

PARALLEL = 4
"""Objects that are read at the same time."""


@dataclass(frozen=True, slots=True)
class Checked:
    """An object that was read completely."""

    stored: StoredSnapshot
    problem: str = ""
    """Its problem; empty if every byte is right."""
    size: int = 0
    """Bytes of its content."""
    events: int = 0
    """The number of events of a delta."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of reading a whole set."""

    snapshots: SnapshotSet
    checked: tuple[Checked, ...]
    """In the order of the set."""
    findings: tuple[Finding, ...] = field(default=())

    @property
    def problems(self) -> list[str]:
        """All reasons why the set does not lead to its last revision."""
        broken = [one.problem for one in self.checked if one.problem]
        return broken + [finding.message for finding in self.findings if finding.is_fault]

    @property
    def reach(self) -> int | None:
        """The revision that can be restored from intact objects; None without an intact full snapshot."""
        whole = {one.stored.key for one in self.checked if not one.problem}
        if self.snapshots.full.key not in whole:
            return None
        deltas = tuple(stored for stored in self.snapshots.deltas if stored.key in whole)
        return SnapshotSet(self.snapshots.full, deltas).reach


async def verify(store: Store, snapshots: SnapshotSet, progress: Progress = silent) -> Verdict:
    """Read a whole set. Raises `StoreError` if it can't be read, which says nothing about the set."""
    checked = await _in_parallel(store, snapshots.members, progress)
    return Verdict(snapshots, tuple(checked), tuple(snapshots.findings()))


async def _in_parallel(store: Store, members: Sequence[StoredSnapshot], progress: Progress) -> list[Checked]:
    found: dict[str, Checked] = {}
    waiting = iter(members)

    async def work() -> None:
        for stored in waiting:
            found[stored.key] = await check(store, stored, progress)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(PARALLEL, len(members))):
                group.create_task(work())
    except ExceptionGroup as errors:  # Python before 3.11.4 regroups what is raised in `except*`
        raise errors.exceptions[0] from None
    return [found[stored.key] for stored in members]


async def check(store: Store, stored: StoredSnapshot, progress: Progress = silent) -> Checked:
    """Read a whole object. Raises `StoreError` if it can't be read."""
    try:
        if stored.snapshot.kind is Kind.FULL:
            async with aclosing(reading.content(store, stored, progress)) as pieces:
                size = sum([len(piece) async for piece in pieces])
            return Checked(stored, size=size)
        async with aclosing(reading.events(store, stored, progress)) as batches:
            return Checked(stored, events=sum([len(batch) async for batch in batches]))
    except Corrupt as error:
        return Checked(stored, str(error))
    except NotFound:
        return Checked(stored, f"{store.where}/{stored.key}: it was listed but no longer exists")
