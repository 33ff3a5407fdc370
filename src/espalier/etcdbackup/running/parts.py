"""The parts of an agent, besides its store."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

import msgspec

from espalier.api.etcd.calls import BackupStatus, CopyOperationStatus, InitiateCopyOperation
from espalier.api.etcd.ownership import Epoch, Name
from espalier.etcd.client import Client
from espalier.etcd.results import Member
from espalier.etcdbackup.agent.backups import Settings as BackupSettings
from espalier.etcdbackup.snapshots.sets import Inventory
from espalier.etcdbackup.snapshotter.collection import Retention
from espalier.etcdbackup.snapshotter.schedule import Schedule
from espalier.etcdbackup.stores.store import Store


class NotStarted(Exception):
    """etcd does not start. The message gives the reason, as far as known."""


class Guard(Protocol):
    """The parent of etcd, and the proxy through which clients reach it. Calls wait while it is unreachable."""

    async def is_running(self) -> bool:
        """True if etcd runs. False also if the guard was unreachable for a while."""

    async def start(self) -> None:
        """Start etcd unless it runs, and wait until it answers. Raises `NotStarted`."""

    async def stop(self) -> None:
        """End etcd, and return when it has ended."""

    async def ended(self) -> None:
        """Return when etcd does not run, or no longer runs."""

    async def open(self, until: float) -> None:
        """Let clients pass until this time of the clock (`CLOCK_BOOTTIME`)."""

    async def shut(self) -> float | None:
        """Let nothing pass from now on, and cut all connections. Returns once that is done: the time of the clock since
        when no client is connected; None if that is not known."""


class Origin(msgspec.Struct, frozen=True, rename="camel"):
    """The origin of the data in a data directory. Stored in it."""

    epoch: Epoch
    """The epoch for which they were made."""
    cluster: Name
    complete: bool
    """True if they have all that this epoch ever acknowledged: they were not restored after clients had written."""


class Data(Protocol):
    """The data directory. While etcd runs, only `is_present` and `origin` may be called."""

    async def is_present(self) -> bool:
        """True if there are data, intact or not."""

    async def origin(self) -> Origin | None:
        """Their origin; None if it was not recorded, or can't be read."""

    async def damage(self) -> str:
        """The reason why no etcd can start from them, proven by reading them; empty if they look intact."""

    async def create_empty(self, origin: Origin) -> None:
        """Prepare an empty data directory and record its origin. Existing data are moved aside."""

    async def restore(self, store: Store, inventory: Inventory, bump: int, origin: Origin) -> None:
        """Restore these snapshots, and skip so many revisions. Existing data are moved aside in the same step.

        Raises `StoreError`, `RestoreError`; then everything is unchanged.
        """


class Standing(Enum):
    """The standing of a member among the others, as they know it."""

    UNKNOWN = "Unknown"
    """None of them answers, or they have no quorum."""
    MEMBER = "Member"
    LEARNER = "Learner"
    """It has no vote: it is getting the data."""
    REMOVED = "Removed"


class Peers(Protocol):
    """The members of an etcd that has several, as one of them deals with them."""

    @property
    def is_first(self) -> bool:
        """True for the member that begins an epoch alone."""

    @property
    def first(self) -> str:
        """The name of that member."""

    def configure(self, *, begins: bool = False) -> None:
        """Configure etcd to go on with its data, or to begin without others. Raises `OSError`, `ValueError`."""

    async def join(self) -> int:
        """Have the others admit this member, which must have no data, and configure etcd for it. Returns a revision
        that they have reached. Raises `NotStarted`, `OSError`, `ValueError`."""

    async def standing(self) -> Standing:
        """The standing of this member among the others."""

    async def settle(self, etcd: Client) -> None:
        """Return once this member, whose etcd runs, has a vote and can be reached by its peers."""

    @property
    def others(self) -> tuple[str, ...]:
        """The names of the other members."""

    async def ask(self, name: str, call: InitiateCopyOperation) -> CopyOperationStatus:
        """Call `copyop/initiate` of another member's agent: both know that the epoch has ended. Raises `OSError`,
        `ValueError`, `TimeoutError`."""

    async def backup_status(self, name: str) -> BackupStatus:
        """Call `backup/status` of another member's agent. Raises as `ask`."""

    def client_of(self, member: Member) -> Client:
        """A client of another member, to be closed. Raises `EtcdError` for a member that somebody has added."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of one agent."""

    store: Store
    guard: Guard
    data: Data
    etcd: Client
    """A client of this member that bypasses the proxy."""
    backups: BackupSettings = field(default_factory=lambda: BackupSettings(Schedule(), Retention()))
    peers: Peers | None = None
    """None: the etcd has one member."""
