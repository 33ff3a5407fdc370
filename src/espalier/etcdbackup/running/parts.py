"""What an agent works with, besides its store."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from espalier.api.etcd.ownership import Epoch, Name
from espalier.etcd.client import Client
from espalier.etcdbackup.agent.backups import Settings as BackupSettings
from espalier.etcdbackup.snapshots.sets import Inventory
from espalier.etcdbackup.snapshotter.collection import Retention
from espalier.etcdbackup.snapshotter.schedule import Schedule
from espalier.etcdbackup.stores.store import Store


class NotStarted(Exception):
    """etcd does not come up. The message says why, as far as it is known."""


class Guard(Protocol):
    """The parent of etcd, and the door through which clients reach it. Calls wait while it can't be reached."""

    async def is_running(self) -> bool:
        """True if etcd runs. False also where the guard can't be reached for a while."""

    async def start(self) -> None:
        """Have etcd run, if it does not, and wait until it answers. Raises `NotStarted`."""

    async def stop(self) -> None:
        """End etcd, and return when it has ended."""

    async def ended(self) -> None:
        """Return when etcd does not run, or does not any more."""

    async def open(self, until: float) -> None:
        """Let clients pass until this time of the clock (`CLOCK_BOOTTIME`)."""

    async def shut(self) -> float | None:
        """Let nothing pass from now on, and cut what is connected. Returns when that is so: the time of the clock
        since when no client has been connected; None where nobody knows it."""


class Origin(msgspec.Struct, frozen=True, rename="camel"):
    """Where the data of a data directory come from. Kept in it."""

    epoch: Epoch
    """The epoch for which they were made."""
    cluster: Name
    complete: bool
    """True if all is in them that this epoch ever acknowledged: they were not restored after clients had written."""


class Data(Protocol):
    """The data directory. Nobody calls anything here but `is_present` and `origin` while etcd runs."""

    async def is_present(self) -> bool:
        """True if there are data, whole or not."""

    async def origin(self) -> Origin | None:
        """Where they come from; None where nobody has said it, or it can't be read."""

    async def damage(self) -> str:
        """Why no etcd can start from them, proven by reading them; empty if they look whole."""

    async def begin(self, origin: Origin) -> None:
        """Make a place for an etcd that starts empty."""

    async def restore(self, store: Store, stock: Inventory, bump: int, origin: Origin) -> None:
        """Restore these snapshots, and skip so many revisions. Data that are there are put aside in the same step.

        Raises `StoreError`, `RestoreError`; then everything is as it was.
        """


@dataclass(frozen=True, slots=True)
class Parts:
    """What one agent works with."""

    store: Store
    guard: Guard
    data: Data
    etcd: Client
    """A client of this member that does not go through the door."""
    backups: BackupSettings = field(default_factory=lambda: BackupSettings(Schedule(), Retention()))
