"""Backups of one member while it is the leader. They are restarted after any failure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NoReturn

import structlog

from espalier.etcd.client import Client
from espalier.etcd.errors import EtcdError
from espalier.etcd.results import Member
from espalier.etcdbackup.snapshots.malformed import Malformed
from espalier.etcdbackup.snapshots.names import Compression, Kind
from espalier.etcdbackup.snapshots.sets import StoredSnapshot
from espalier.etcdbackup.snapshotter.collection import Retention, collect_periodically
from espalier.etcdbackup.snapshotter.defragmentation import defragment_on_schedule
from espalier.etcdbackup.snapshotter.measures import Measures
from espalier.etcdbackup.snapshotter.requests import Inactive
from espalier.etcdbackup.snapshotter.schedule import Schedule
from espalier.etcdbackup.snapshotter.snapshotter import Behind, Snapshotter
from espalier.etcdbackup.stores.errors import StoreError
from espalier.etcdbackup.stores.store import Store
from espalier.runtime.clock import Clock

log = structlog.get_logger(__name__)

PERIOD = 5.0
"""Seconds between two checks for the leader, and before backups that have ended are restarted."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The schedule of snapshots, and their retention."""

    schedule: Schedule
    retention: Retention
    compression: Compression = Compression.GZIP


class Backups:
    """Takes snapshots of a member while it leads, deletes old snapshots, defragments all members."""

    def __init__(
        self,
        etcd: Client,
        client_of: Callable[[Member], Client],
        store: Store,
        clock: Clock,
        settings: Settings,
        measures: Measures,
        *,
        may_delete: Callable[[], bool] = lambda: True,
    ) -> None:
        self._snapshotter = Snapshotter(
            etcd, store, clock, settings.schedule, measures, compression=settings.compression
        )
        self.follows = False
        """Another member leads: its agent takes the snapshots."""
        self._etcd = etcd
        self._client_of = client_of
        self._store = store
        self._clock = clock
        self._settings = settings
        self._measures = measures
        self._may_delete = may_delete

    @property
    def trouble(self) -> str:
        """The reason why writes would be lost with etcd's disk; empty if none would be, or if another agent backs them
        up."""
        if self.follows:
            return ""
        failures = self._snapshotter.failures
        return self._snapshotter.inactive or "; ".join(failures[kind] for kind in sorted(failures))

    @property
    def latest(self) -> Mapping[Kind, datetime]:
        """When the newest snapshot of each kind was taken."""
        return self._snapshotter.latest

    @property
    def unstored_since(self) -> datetime | None:
        """The time since which etcd has writes that no snapshot has."""
        return self._snapshotter.unstored_since

    @property
    def delta_period(self) -> float:
        """Seconds within which a write is stored, as long as the store is available."""
        return self._settings.schedule.delta_period

    async def full(self, *, is_final: bool = False) -> StoredSnapshot:
        """Take a full snapshot that begins after this call. Raises `Inactive`, `EtcdError`, `StoreError`,
        `Malformed`."""
        self._check_leads()
        return await self._snapshotter.full(is_final=is_final)

    async def delta(self) -> StoredSnapshot | None:
        """Take a delta with all that was acknowledged before this call; None if the store has all of it. Raises as
        `full`."""
        self._check_leads()
        return await self._snapshotter.delta()

    async def run(self) -> NoReturn:
        """Run until cancelled."""
        while True:
            try:
                status = await self._etcd.status()
                self.follows = not status.leads and status.leader != 0
                if status.leads:
                    await self._while_leading()
            except (EtcdError, StoreError, Malformed, Behind, OSError) as error:  # such as no room for temporary files
                log.warning("backups have stopped and will be retried", error=str(error))
            await asyncio.sleep(PERIOD)

    def _check_leads(self) -> None:
        if self.follows:
            raise Inactive("another member is the leader; ask its agent, which takes the snapshots")

    async def _while_leading(self) -> None:
        schedule = self._settings.schedule
        work: list[Coroutine[object, object, object]] = [self._snapshotter.run(), self._until_another_leads()]
        if schedule.collection_period >= 1:
            retention, period = self._settings.retention, schedule.collection_period
            work.append(
                collect_periodically(self._store, self._clock, retention, self._measures, self._may_collect, period)
            )
        if schedule.defragmentation:
            work.append(
                defragment_on_schedule(
                    self._etcd, self._client_of, self._clock, self._measures, schedule.defragmentation
                )
            )
        tasks = [asyncio.create_task(coroutine) for coroutine in work]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _until_another_leads(self) -> None:
        """Raises `EtcdError` if the member does not answer."""
        while True:
            await asyncio.sleep(PERIOD)
            status = await self._etcd.status()
            if not status.leads:
                self.follows = status.leader != 0
                log.info("this member is no longer the leader", leader=f"{status.leader:x}")
                return

    def _may_collect(self) -> bool:
        """True once a snapshot was taken that makes older snapshots unneeded, unless a copy may still need them."""
        return not self._snapshotter.inactive and self._may_delete()
