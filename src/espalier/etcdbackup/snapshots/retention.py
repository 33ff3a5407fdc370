"""Selects the snapshots that are no longer needed, by the two policies of etcd-backup-restore; times are UTC.

Never selected: the latest set, and, for a week, the end of an earlier history. Callers must make sure that no copy
from the store is running.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

from espalier.etcdbackup.snapshots.names import Kind
from espalier.etcdbackup.snapshots.sets import Inventory, SnapshotSet, StoredChunk, StoredSnapshot

DAILY_DAYS = 7
"""The number of days before today for which one full snapshot each is kept."""
WEEKLY_WEEKS = 4
"""The number of weeks before those days for which one snapshot each is kept."""
LAST_OF_A_HISTORY = timedelta(days=7)
"""How long the last set before a loss is kept complete, counted from the full snapshot that begins the next set."""
LOSS = 10**9
"""Revisions that a restore skips if writes may be lost (`restore.plan.BUMP`, and etcd's documentation). No etcd writes
as many between two full snapshots."""


@dataclass(frozen=True, slots=True)
class Exponential:
    """Full snapshots: all of this hour, the last of each hour of today, of each of 7 days, of each of 4 weeks."""


@dataclass(frozen=True, slots=True)
class Newest:
    """The number of full snapshots (`LimitBased`)."""

    count: int = 7

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"number of backups to keep: found {self.count}, allowed is 1 or more")


Policy = Exponential | Newest


def deletable(
    inventory: Inventory, policy: Policy, now: datetime, *, delta_retention: timedelta = timedelta()
) -> list[StoredSnapshot | StoredChunk]:
    """The snapshots that may be deleted, oldest first; deltas before the full snapshot that they need.

    Deltas of all sets but the latest are deleted once they are older than `delta_retention`, and a full snapshot is
    kept as long as one of its deltas. A full snapshot without content is ignored: nothing is deleted because of it. A
    set that the next set does not continue is kept complete for a week: it may have what the next set lacks.
    """
    sets = [snapshot_set for snapshot_set in inventory.sets if snapshot_set.full.size]
    if not sets:
        return []
    ends, begins = _ends_of_histories(sets, inventory, now)
    keys_to_keep = _keys_to_keep(sets, policy, now) | begins
    oldest = now - delta_retention
    deletable_objects: list[StoredSnapshot | StoredChunk] = [
        stored for stored in inventory.stray if stored.snapshot.time <= oldest
    ]
    latest = sets[-1]
    for snapshot_set in inventory.sets:
        if snapshot_set.full.order >= latest.full.order:
            break
        if snapshot_set.full.key in ends:
            continue
        deltas = [delta for delta in snapshot_set.deltas if delta.snapshot.time <= oldest]
        deletable_objects += deltas
        if snapshot_set.full.key not in keys_to_keep and len(deltas) == len(snapshot_set.deltas):
            deletable_objects.append(snapshot_set.full)
    return deletable_objects + _chunks(inventory, latest)


def _ends_of_histories(sets: list[SnapshotSet], inventory: Inventory, now: datetime) -> tuple[set[str], set[str]]:
    """Keys of the full snapshots of sets that the next set does not continue, if the next set began within a week;
    and those of the next sets, which are kept as well: the week counts from them.

    Deltas that lead across the next full snapshot prove that it continues the set. A set without deltas may have had
    them: such a set is the end of a history only if revisions were skipped after it, as by a restore.
    """
    deltas = tuple(stored for stored in inventory.snapshots if stored.snapshot.kind is Kind.DELTA)
    ends, begins = set[str](), set[str]()
    for snapshot_set, following in pairwise(sets):
        following_full = following.full.snapshot
        reach = SnapshotSet(snapshot_set.full, deltas).reach if snapshot_set.deltas else snapshot_set.full.snapshot.last
        is_end = reach < following_full.last if snapshot_set.deltas else following_full.last - reach >= LOSS
        if is_end and now - following_full.time < LAST_OF_A_HISTORY:
            ends.add(snapshot_set.full.key)
            begins.add(following.full.key)
    return ends, begins


def _keys_to_keep(sets: list[SnapshotSet], policy: Policy, now: datetime) -> set[str]:
    newest_first = [snapshot_set.full for snapshot_set in reversed(sets)]
    if isinstance(policy, Newest):
        return {full.key for full in newest_first[: policy.count]}
    keys, windows = set(), set[Hashable]()
    for full in newest_first:
        window = _window(full.snapshot.time, now.astimezone(UTC))
        if window is None or (window in windows and not _is_this_hour(window, now)):
            continue
        windows.add(window)
        keys.add(full.key)
    return keys


def _window(time: datetime, now: datetime) -> tuple[str, date | int, int] | None:
    """The window of which one snapshot is kept; None for a snapshot that is too old."""
    days = (now.date() - time.date()).days
    if days <= 0:  # also times in the future, by another machine's clock
        return ("hour", time.date(), time.hour)
    if days <= DAILY_DAYS:
        return ("day", time.date(), 0)
    week = (days - 1) // 7
    return ("week", week, 0) if week <= WEEKLY_WEEKS else None


def _is_this_hour(window: tuple[str, date | int, int], now: datetime) -> bool:
    now = now.astimezone(UTC)
    return window >= ("hour", now.date(), now.hour) if window[0] == "hour" else False


def _chunks(inventory: Inventory, latest: SnapshotSet) -> list[StoredSnapshot | StoredChunk]:
    """Chunks that were combined, or that are older than the latest set, and so belong to no running upload."""
    combined = {stored.name for stored in inventory.snapshots}
    return [
        stored
        for stored in inventory.chunks
        if str(stored.chunk.snapshot) in combined or stored.chunk.snapshot.last < latest.full.snapshot.last
    ]
