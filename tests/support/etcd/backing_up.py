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
    setting: Setting, retention: Retention = THREE, may_delete: Callable[[], bool] = lambda: True
) -> AsyncIterator[Backups]:
    settings = Settings(setting.schedule, retention)
    backups = Backups(
        setting.client,
        lambda member: setting.client,
        setting.store,
        setting.simulation.clock,
        settings,
        setting.measures,
        may_delete=may_delete,
    )
    task = asyncio.create_task(backups.run())
    try:
        yield backups
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
