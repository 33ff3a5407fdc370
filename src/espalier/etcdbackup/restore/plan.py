"""Selects the snapshots that lead to the last revision that a store knows of. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from espalier.etcdbackup.restore.errors import Incomplete, NothingToRestore
from espalier.etcdbackup.snapshots.names import Kind
from espalier.etcdbackup.snapshots.sets import Inventory, SnapshotSet, StoredSnapshot

BUMP = 10**9
"""Revisions that a restore skips if it may have lost writes, so that no revision that a client knows is used again. It
is what etcd's documentation recommends for `etcdutl snapshot restore --bump-revision`."""


@dataclass(frozen=True, slots=True)
class Path:
    """A full snapshot, and the deltas that are applied to it."""

    full: StoredSnapshot
    deltas: tuple[StoredSnapshot, ...]


def target(inventory: Inventory) -> int:
    """The last revision that a name mentions."""
    return max((stored.snapshot.last for stored in inventory.snapshots), default=0)


def full_snapshots(
    inventory: Inventory, *, partial: bool = False, where: str = "the store"
) -> tuple[StoredSnapshot, ...]:
    """The candidates, newest first: the latest set, and older sets whose deltas lead as far, or, if `partial`, all.

    `where` is the store, for messages. Raises `NothingToRestore`.
    """
    fulls = [snapshot_set.full for snapshot_set in reversed(inventory.sets)]
    if not fulls:
        raise NothingToRestore(f"no full snapshot found in {where}")
    latest, *older = fulls
    return latest, *(
        full for full in older if partial or _set(full, full.snapshot.last, inventory).reach >= target(inventory)
    )


def path(full: StoredSnapshot, revision: int, inventory: Inventory, *, partial: bool = False) -> Path:
    """The deltas that lead from a full snapshot to the last revision.

    `revision` is that of its content, which may differ from its name: etcd accepts writes between the query of its
    revision and the snapshot. Deltas of all sets count. Raises `Incomplete` for a gap, unless `partial`.
    """
    snapshot_set = _set(full, revision, inventory)
    if snapshot_set.reach < target(inventory) and not partial:
        raise Incomplete(_missing(full, revision, snapshot_set.reach, inventory))
    return Path(full, snapshot_set.chain)


def is_final(inventory: Inventory) -> bool:
    """True if the newest snapshot says that etcd took no writes after it."""
    return bool(inventory.snapshots) and inventory.snapshots[-1].snapshot.is_final


def _set(full: StoredSnapshot, revision: int, inventory: Inventory) -> SnapshotSet:
    deltas = tuple(stored for stored in inventory.snapshots if stored.snapshot.kind is Kind.DELTA)
    return SnapshotSet(replace(full, snapshot=replace(full.snapshot, last=revision)), deltas)


def _missing(full: StoredSnapshot, revision: int, reach: int, inventory: Inventory) -> str:
    sentence = f"revision {reach} can be restored from {full.name}"
    if revision != full.snapshot.last:
        sentence += f", whose content ends at revision {revision}, not {full.snapshot.last},"
    after = next(
        (
            stored
            for stored in inventory.snapshots
            if stored.snapshot.kind is Kind.DELTA and stored.snapshot.last > reach
        ),
        None,
    )
    if after is not None and after.snapshot.start > reach + 1:
        sentence += (
            f" but {after.name} begins at {after.snapshot.start}: {reach + 1} to {after.snapshot.start - 1} are missing"
        )
    else:
        sentence += f" but the last one in the store is {target(inventory)}"
    return f"{sentence}; look for deleted deltas, or restore revision {reach} with --partial"
