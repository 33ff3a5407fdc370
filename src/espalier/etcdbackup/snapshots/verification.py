"""Verifies sets of snapshots from end to end, without an etcd: every byte of every object, and that they are
continuous."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

import msgspec

from espalier.etcdbackup.snapshots import reading
from espalier.etcdbackup.snapshots.deltas import Event
from espalier.etcdbackup.snapshots.names import Kind
from espalier.etcdbackup.snapshots.reading import Progress, silent
from espalier.etcdbackup.snapshots.sets import Finding, FindingReason, SharedRevisions, SnapshotSet, StoredSnapshot
from espalier.etcdbackup.stores.errors import Corrupt, NotFound
from espalier.etcdbackup.stores.store import Store

PARALLEL = 4
"""Objects that are read at the same time."""

Revisions = tuple[int, int]
"""The first and the last of a range."""


@dataclass(frozen=True, slots=True)
class Checked:
    """An object that was read completely."""

    stored: StoredSnapshot
    problem: str = ""
    """The problem of the object; empty if every byte is right."""
    size: int = 0
    """Bytes of its content."""
    events: int = 0
    """The number of events of a delta."""
    digests: Mapping[Revisions, bytes] = field(default_factory=dict)
    """Of the events of a delta in each range that it was asked about: changes alone, not the times at which they
    arrived."""


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
        broken = [checked.problem for checked in self.checked if checked.problem]
        return broken + [finding.message for finding in self.findings if finding.is_fault]

    @property
    def reach(self) -> int | None:
        """The revision that can be restored from intact objects; None without an intact full snapshot."""
        intact_keys = {checked.stored.key for checked in self.checked if not checked.problem}
        if self.snapshots.full.key not in intact_keys:
            return None
        deltas = tuple(stored for stored in self.snapshots.deltas if stored.key in intact_keys)
        return SnapshotSet(self.snapshots.full, deltas).reach


async def verify(store: Store, snapshots: SnapshotSet, progress: Progress = silent) -> Verdict:
    """Read a whole set. Raises `StoreError` if it can't be read, which says nothing about the set."""
    checked = await _in_parallel(store, snapshots, progress)
    by_key = {result.stored.key: result for result in checked}
    conflicts = [
        _conflict(shared)
        for shared in snapshots.shared
        if _differ(by_key[shared.before.key], by_key[shared.after.key], (shared.first, shared.last))
    ]
    return Verdict(snapshots, tuple(checked), (*snapshots.findings(), *conflicts))


async def _in_parallel(store: Store, snapshots: SnapshotSet, progress: Progress) -> list[Checked]:
    results: dict[str, Checked] = {}
    members = snapshots.members
    waiting = iter(members)
    ranges: dict[str, set[Revisions]] = {}
    for shared in snapshots.shared:
        for stored in (shared.before, shared.after):
            ranges.setdefault(stored.key, set()).add((shared.first, shared.last))

    async def work() -> None:
        for stored in waiting:
            results[stored.key] = await check(store, stored, progress, ranges.get(stored.key, ()))

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(PARALLEL, len(members))):
                group.create_task(work())
    except ExceptionGroup as errors:  # Python before 3.11.4 regroups what is raised in `except*`
        raise errors.exceptions[0] from None
    return [results[stored.key] for stored in members]


async def check(
    store: Store, stored: StoredSnapshot, progress: Progress = silent, ranges: Iterable[Revisions] = ()
) -> Checked:
    """Read a whole object, with digests of a delta's changes in these ranges. Raises `StoreError` if that fails."""
    try:
        if stored.snapshot.kind is Kind.FULL:
            async with aclosing(reading.content(store, stored, progress)) as pieces:
                size = sum([len(piece) async for piece in pieces])
            return Checked(stored, size=size)
        digests, events = _Digests(ranges), 0
        async with aclosing(reading.events(store, stored, progress)) as batches:
            async for batch in batches:
                events += len(batch)
                digests.add(batch)
        return Checked(stored, events=events, digests=digests.finished())
    except Corrupt as error:
        return Checked(stored, str(error))
    except NotFound:
        return Checked(stored, f"{store.where}/{stored.key}: it was listed but no longer exists")


class _Digests:
    """Digests of the changes in ranges of revisions."""

    def __init__(self, ranges: Iterable[Revisions]) -> None:
        self._hashes = {revisions: hashlib.sha256() for revisions in ranges}
        self._encoder = msgspec.msgpack.Encoder()

    def add(self, events: Sequence[Event]) -> None:
        if not self._hashes:
            return
        for event in events:
            encoded: bytes | None = None
            for (first, last), digest in self._hashes.items():
                if first <= event.revision <= last:
                    encoded = encoded or self._encoder.encode((event.etcd_event.type, event.etcd_event.kv))
                    digest.update(encoded)

    def finished(self) -> dict[Revisions, bytes]:
        return {revisions: digest.digest() for revisions, digest in self._hashes.items()}


def _differ(before: Checked, after: Checked, revisions: Revisions) -> bool:
    """True if two deltas that are intact have different changes in a range."""
    if before.problem or after.problem:
        return False
    return before.digests[revisions] != after.digests[revisions]


def _conflict(shared: SharedRevisions) -> Finding:
    sentence = f"{shared.before.name} and {shared.after.name} differ between revisions {shared.first} and {shared.last}"
    advice = "keep the one whose etcd serves, delete the other, and take a full snapshot"
    return Finding(FindingReason.CONFLICT, f"{sentence}: two etcds wrote them; {advice}")
