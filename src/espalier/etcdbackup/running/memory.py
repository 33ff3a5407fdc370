"""The data directory of an etcd in memory, for virtual time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from espalier.etcd.backend import Record, State
from espalier.etcdbackup.restore.in_memory import restored
from espalier.etcdbackup.running.parts import Origin
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

    async def begin(self, origin: Origin) -> None:
        """See `Data`."""
        self._disk.wipe()
        self._origin = origin

    async def restore(self, store: Store, stock: Inventory, bump: int, origin: Origin) -> None:
        """See `Data`."""
        records, state = await restored(store, stock, bump=bump)
        self._disk.load(records, state)
        self._origin, self.damaged = origin, ""

    def lose(self) -> None:
        """Lose the volume."""
        self._disk.wipe()
        self._origin = None
