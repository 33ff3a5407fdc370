"""The backups of an agent, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from espalier.etcdbackup.agent.backups import Backups, Settings
from espalier.etcdbackup.snapshots.retention import Newest
from espalier.etcdbackup.snapshotter.collection import Retention
from tests.support.etcd.snapshotting import Setting

THREE = Retention(Newest(3))


@asynccontextmanager
async def backing_up(
    one: Setting, retention: Retention = THREE, may_delete: Callable[[], bool] = lambda: True
) -> AsyncIterator[Backups]:
    settings = Settings(one.schedule, retention)
    backups = Backups(
        one.client, lambda member: one.client, one.store, one.simulation.clock, settings, one.measures,
        may_delete=may_delete,
    )  # fmt: skip
    task = asyncio.create_task(backups.run())
    try:
        yield backups
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
