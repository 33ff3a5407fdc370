"""How control planes of shoots run in the seeds of a garden, and where their backups are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from espalier.api.etcd.timing import Timing
from espalier.cli.backups import backup_reads
from espalier.cli.local.environment.garden.buckets import Buckets
from espalier.cli.local.environment.seed_programs.agent import Agents, StoreConfig
from espalier.cli.local.environment.seed_programs.assembly import in_process
from espalier.etcdbackup.agent.backups import Settings as BackupSettings
from espalier.runtime.clock import Clock
from espalier.shoots.gardenlet.context import Connect, ReadBackup
from espalier.shoots.local_provider.backups import Stores
from espalier.simulator.connections import Link
from espalier.simulator.pods.runtimes.in_process import InProcessProgram


class ControlPlanes(Protocol):
    """The programs of control planes, and the buckets."""

    def link_to_buckets(self, name: str) -> Link:
        """The network from a new seed to the buckets."""
        ...

    def programs(self, bucket: Link, timing: Timing, backups: BackupSettings) -> Mapping[str, InProcessProgram]:
        """The programs of a seed by the last word of their images; `bucket` is its network to the buckets."""
        ...

    def stores(self, bucket: Link) -> Stores:
        """The buckets, as the extensions of a seed create and delete them."""
        ...

    def read_backup(self, bucket: Link) -> ReadBackup:
        """Reads a small object of a bucket, with given credentials."""
        ...

    def connect(self, bucket: Link) -> Connect:
        """Connects to the stores of any seed."""
        ...


class InProcessControlPlanes:
    """Simulated etcds and embedded API servers; they also run on virtual time (`ControlPlanes`)."""

    def __init__(self, clock: Clock) -> None:
        self._buckets = Buckets(clock)

    def link_to_buckets(self, name: str) -> Link:
        """See `ControlPlanes`."""
        return Link(name)

    def programs(self, bucket: Link, timing: Timing, backups: BackupSettings) -> Mapping[str, InProcessProgram]:
        """See `ControlPlanes`."""
        return in_process(Agents(self._buckets.through(bucket), timing, backups))

    def stores(self, bucket: Link) -> Stores:
        """See `ControlPlanes`."""
        return self._buckets.managed_through(bucket)

    def read_backup(self, bucket: Link) -> ReadBackup:
        """See `ControlPlanes`."""
        opened = self._buckets.through(bucket)
        return backup_reads.through(lambda url, credentials: opened(StoreConfig(url, "", credentials)))

    def connect(self, bucket: Link) -> Connect:
        """See `ControlPlanes`."""

        async def connect(_place: str) -> str:
            return "no route to host" if bucket.is_cut else ""

        return connect
