"""Sets of snapshots, each a full snapshot and the deltas after it: the revision that each leads to, and gaps.

The order is by last revision, then deltas before full snapshots, then by time; the latest
set is the last full snapshot and every delta after it. A final snapshot has no special rank. etcd-backup-restore orders
by last revision and time alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

from espalier.etcdbackup.snapshots import names
from espalier.etcdbackup.snapshots.names import Chunk, Kind, Snapshot
from espalier.etcdbackup.stores.store import StoredObject


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """A snapshot, and its place in a store."""

    snapshot: Snapshot
    key: str
    size: int
    """Bytes in the store."""

    @property
    def order(self) -> tuple[int, bool, int, str]:
        """The snapshot's position in the order of all."""
        return self.snapshot.last, self.snapshot.kind is Kind.FULL, self.snapshot.created, self.key

    @property
    def name(self) -> str:
        """Name of the object."""
        return str(self.snapshot)


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk, and its place in a store."""

    chunk: Chunk
    key: str
    size: int


@dataclass(frozen=True, slots=True)
class Inventory:
    """Everything that a store has below its prefix."""

    snapshots: tuple[StoredSnapshot, ...] = ()
    """In order."""
    chunks: tuple[StoredChunk, ...] = ()
    foreign: tuple[str, ...] = ()
    """Keys that are not a snapshot's: sync objects, or objects of other programs."""

    def without(self, keys: Collection[str]) -> Inventory:
        """The same without some snapshots."""
        return replace(self, snapshots=tuple(stored for stored in self.snapshots if stored.key not in keys))

    @property
    def sets(self) -> tuple[SnapshotSet, ...]:
        """The sets, oldest first. Deltas before the first full snapshot are in none (`stray`)."""
        sets: list[tuple[StoredSnapshot, list[StoredSnapshot]]] = []
        for stored in self.snapshots:
            if stored.snapshot.kind is Kind.FULL:
                sets.append((stored, []))
            elif sets:
                sets[-1][1].append(stored)
        return tuple(SnapshotSet(full, tuple(deltas)) for full, deltas in sets)

    @property
    def latest(self) -> SnapshotSet | None:
        """The set from which etcd is restored; None where there is no full snapshot."""
        sets = self.sets
        return sets[-1] if sets else None

    @property
    def stray(self) -> tuple[StoredSnapshot, ...]:
        """Deltas before the first full snapshot."""
        first = next((at for at, stored in enumerate(self.snapshots) if stored.snapshot.kind is Kind.FULL), None)
        return self.snapshots[:first]


def inventory_of(objects: Iterable[StoredObject]) -> Inventory:
    """Sort the objects of a store."""
    snapshots, chunks, foreign = [], [], []
    for stored in objects:
        match names.parse_key(stored.key):
            case Snapshot() as snapshot:
                snapshots.append(StoredSnapshot(snapshot, stored.key, stored.size))
            case Chunk() as chunk:
                chunks.append(StoredChunk(chunk, stored.key, stored.size))
            case None:
                foreign.append(stored.key)
    snapshots.sort(key=lambda stored: stored.order)
    return Inventory(tuple(snapshots), tuple(chunks), tuple(sorted(foreign)))


class FindingReason(StrEnum):
    """Reasons of findings about a set, from the names of its snapshots."""

    GAP = "Gap"
    """Revisions that no snapshot has: nothing after them can be restored."""
    OVERLAP = "Overlap"
    """Revisions that two deltas have, as after a change of leaders. It is no error if their events are the same, which
    only their content shows: each revision is applied once."""
    FORK = "Fork"
    """Revisions and times of snapshots that are applied disagree: there may be two histories, or clocks differ."""
    CONFLICT = "Conflict"
    """Two deltas have different events for the same revisions: two etcds wrote them."""
    EMPTY = "Empty"
    """An object without content."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding about a set: the reason, and a message for people."""

    reason: FindingReason
    message: str

    @property
    def is_fault(self) -> bool:
        """True if the set does not lead to the last revision that its names mention, or leads to two states."""
        return self.reason in (FindingReason.GAP, FindingReason.EMPTY, FindingReason.CONFLICT)


@dataclass(frozen=True, slots=True)
class SharedRevisions:
    """Revisions that two deltas both have."""

    before: StoredSnapshot
    after: StoredSnapshot

    @property
    def first(self) -> int:
        """The first of these revisions."""
        return max(self.before.snapshot.start, self.after.snapshot.start)

    @property
    def last(self) -> int:
        """The last of these revisions."""
        return min(self.before.snapshot.last, self.after.snapshot.last)


@dataclass(frozen=True, slots=True)
class SnapshotSet:
    """A full snapshot, and the deltas after it in their order."""

    full: StoredSnapshot
    deltas: tuple[StoredSnapshot, ...] = ()

    @property
    def members(self) -> tuple[StoredSnapshot, ...]:
        """All snapshots of the set."""
        return (self.full, *self.deltas)

    @property
    def last(self) -> int:
        """The last revision that its names mention."""
        return max(stored.snapshot.last for stored in self.members)

    @property
    def size(self) -> int:
        """Bytes in the store."""
        return sum(stored.size for stored in self.members)

    @property
    def newest(self) -> int:
        """Seconds since 1970 at which its newest snapshot was taken."""
        return max(stored.snapshot.created for stored in self.members)

    @property
    def chain(self) -> tuple[StoredSnapshot, ...]:
        """The deltas that lead furthest from the full snapshot, in the order in which they are applied.

        Deltas that add nothing are left out; a delta may begin with revisions that an earlier delta has.
        """
        return _chain(self.full.snapshot.last, self.deltas)

    @property
    def reach(self) -> int:
        """The revision to which the set can be restored."""
        chain = self.chain
        return chain[-1].snapshot.last if chain else self.full.snapshot.last

    def findings(self) -> list[Finding]:
        """The findings about the set."""
        findings = [
            Finding(FindingReason.EMPTY, f"{stored.name} is empty: delete it, and take a full snapshot")
            for stored in self.members
            if not stored.size
        ]
        findings += self.forks
        findings += [_overlap(shared) for shared in self.shared]
        previous = (self.full, *self.chain)[-1]
        reach = previous.snapshot.last
        for stored in self.deltas:
            if stored.snapshot.last <= reach:
                continue
            if stored.snapshot.start > reach + 1:
                findings.append(_gap(previous, stored, reach))
            reach, previous = stored.snapshot.last, stored
        return findings

    @property
    def forks(self) -> list[Finding]:
        """The findings about snapshots that are applied after one which was taken later."""
        return [
            _fork(previous, stored)
            for previous, stored in pairwise((self.full, *self.chain))
            if stored.snapshot.created < previous.snapshot.created
        ]

    @property
    def shared(self) -> tuple[SharedRevisions, ...]:
        """The deltas that begin before the end of another, each with the delta that begins before it and ends last."""
        shared: list[SharedRevisions] = []
        furthest: StoredSnapshot | None = None
        for stored in sorted(self.deltas, key=lambda delta: (delta.snapshot.start, -delta.snapshot.last, delta.order)):
            if furthest is not None and stored.snapshot.start <= furthest.snapshot.last:
                shared.append(SharedRevisions(furthest, stored))
            if furthest is None or stored.snapshot.last > furthest.snapshot.last:
                furthest = stored
        return tuple(shared)


def _chain(reach: int, deltas: Sequence[StoredSnapshot]) -> tuple[StoredSnapshot, ...]:
    """Of the deltas that begin by the next revision, take the delta that ends last; and so on."""
    chain: list[StoredSnapshot] = []
    remaining = sorted(deltas, key=lambda delta: delta.snapshot.start)
    at = 0
    best: StoredSnapshot | None = None
    while True:
        while at < len(remaining) and remaining[at].snapshot.start <= reach + 1:
            best = remaining[at] if best is None or remaining[at].order > best.order else best
            at += 1
        if best is None or best.snapshot.last <= reach:
            return tuple(chain)
        chain.append(best)
        reach = best.snapshot.last


def _gap(before: StoredSnapshot, after: StoredSnapshot, reach: int) -> Finding:
    first, last = reach + 1, after.snapshot.start - 1
    missing = f"revision {first} is" if first == last else f"revisions {first} to {last} are"
    return Finding(FindingReason.GAP, f"{missing} missing between {before.name} and {after.name}")


def _overlap(shared: SharedRevisions) -> Finding:
    before, after = shared.before, shared.after
    if after.snapshot.last <= before.snapshot.last:
        return Finding(FindingReason.OVERLAP, f"{after.name} has only revisions that {before.name} has too")
    return Finding(FindingReason.OVERLAP, f"{after.name} begins before the end of {before.name}")


def _fork(before: StoredSnapshot, after: StoredSnapshot) -> Finding:
    seconds = before.snapshot.created - after.snapshot.created
    sentence = f"{after.name} has newer revisions than {before.name}, but was taken {seconds} s before it"
    advice = "check what a restore makes of them, and take a full snapshot"
    return Finding(FindingReason.FORK, f"{sentence}: two histories may have been written, or clocks differ; {advice}")
