"""The data directory of an etcd in memory, for virtual time."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import replace
from typing import Protocol

from espalier.etcd.bbolt.reading import Damaged, Database
from espalier.etcd.database.backend import Record, State, read_records, read_state
from espalier.etcdbackup.restore import plan
from espalier.etcdbackup.restore.errors import NothingToRestore
from espalier.etcdbackup.restore.records import History
from espalier.etcdbackup.restore.restorer import LEASE_TTL
from espalier.etcdbackup.running.parts import Origin
from espalier.etcdbackup.snapshots.malformed import Malformed
from espalier.etcdbackup.snapshots.reading import content, corrupt, events
from espalier.etcdbackup.snapshots.sets import Inventory
from espalier.etcdbackup.stores.store import Store


class Disk(Protocol):
    """Where an etcd in memory keeps its data (`simulator.etcd.guarded.MemoryGuard`)."""

    @property
    def has_data(self) -> bool:
        """True if an etcd ran with it, or data were loaded."""

    def load(self, records: Iterable[Record], state: State) -> None:
        """Replace all data."""

    def wipe(self) -> None:
        """Delete all data."""


class MemoryData:
    """`Data` on such a disk. `damaged` is set by tests."""

    def __init__(self, disk: Disk) -> None:
        self.damaged = ""
        self._disk = disk
        self._origin: Origin | None = None

    async def is_present(self) -> bool:
        """See `Data`."""
        return self._disk.has_data

    async def origin(self) -> Origin | None:
        """See `Data`."""
        return self._origin

    async def damage(self) -> str:
        """See `Data`."""
        return self.damaged

    async def create_empty(self, origin: Origin) -> None:
        """See `Data`."""
        self._disk.wipe()
        self._origin = origin

    async def restore(self, store: Store, inventory: Inventory, bump: int, origin: Origin) -> None:
        """See `Data`."""
        records, state = await restore_latest(store, inventory, bump=bump)
        self._disk.load(records, state)
        self._origin, self.damaged = origin, ""

    def lose(self) -> None:
        """Lose the volume."""
        self._disk.wipe()
        self._origin = None


async def restore_latest(store: Store, inventory: Inventory, *, bump: int) -> tuple[list[Record], State]:
    """Restore records and state from the latest of these snapshots, `bump` revisions later.

    Raises `StoreError`, `RestoreError`, `Malformed`.
    """
    full = plan.full_snapshots(inventory, where=store.where)[0]
    async with aclosing(content(store, full)) as pieces:
        database = Database.of(b"".join([piece async for piece in pieces]), full.name)
    try:
        records, state = list(read_records(database)), read_state(database)
    except Damaged as error:
        raise corrupt(store, full, Malformed(str(error))) from None
    history = History(state.revision)
    for delta in plan.path(full, state.revision, inventory).deltas:
        async with aclosing(events(store, delta)) as batches:
            async for batch in batches:
                records += [Record.decode(key, value) for key, value in history.records(batch)]
    if history.revision <= 1:
        raise NothingToRestore(f"{full.name} is a snapshot of an empty etcd")
    leases = {**dict.fromkeys(history.leases, LEASE_TTL), **state.leases}
    served = history.revision + bump
    compacted = served if bump else state.compacted
    return records, replace(state, revision=served, compacted=compacted, leases=leases)
