"""The stories of isolation on a real API server: what is hidden from generations, a restore, the gate alone, none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from espalier.clusters import Isolation
from espalier.local.management import prepare
from espalier.local.stores import MemoryStores
from espalier.releases import Releases
from tests.journeys.asking import AccountedClusters
from tests.journeys.isolation_stories import (
    NEXT,
    STORIES,
    Backup,
)
from tests.support.control_plane import ControlPlane, find_assets, real_control_plane
from tests.support.real_api_server import CALM, delete_all, managed_on, stop

pytestmark = [pytest.mark.envtest, pytest.mark.asyncio(loop_scope="session")]

gated = partial(managed_on, isolation=Isolation.GATE)
"""With the gate alone: what a later manager does is then seen in the machines, once the gate opens."""
CLUSTERS, PATIENCE = 2, 60.0
"""One of each release."""


async def a_steady_garden(world: AccountedClusters) -> None:
    await world.apply()
    await world.until_ready()
    await asyncio.sleep(CALM)


@pytest_asyncio.fixture(loop_scope="session")
async def stores(control_plane: ControlPlane) -> AsyncIterator[MemoryStores]:
    """Those of the workload clusters. Whatever a story leaves is deleted after it."""
    stores = MemoryStores()
    yield stores
    async with asyncio.timeout(PATIENCE), managed_on(control_plane, stores) as world:
        await delete_all(world)


@pytest.mark.parametrize("name", STORIES)
async def test_what_happened_without_a_manager_is_seen_by_the_later_one(
    control_plane: ControlPlane, stores: MemoryStores, name: str
) -> None:
    story = STORIES[name]()
    async with asyncio.timeout(PATIENCE):
        async with gated(control_plane, stores) as world:
            await a_steady_garden(world)
            await stop(world)
            await story.before(world)
        async with gated(control_plane, stores, layers=NEXT) as world:
            await story.after(world)


async def test_a_restore_of_everything_into_an_empty_api_server_opens_no_gate_and_moves_no_machine(
    control_plane: ControlPlane, stores: MemoryStores, tmp_path: Path
) -> None:
    backup, assets = Backup(), find_assets()
    assert assets is not None
    async with asyncio.timeout(PATIENCE):
        async with gated(control_plane, stores) as world:
            await a_steady_garden(world)
            await world.change(workerNodeGroupConfigurations=[{"name": "md-0", "count": 1}])
            await world.until_ready()
            await asyncio.sleep(CALM)
            await backup.take(world)
        async with real_control_plane(tmp_path, assets) as empty:
            client = empty.client()
            await prepare(client, Releases.load())
            await backup.restore(client)
            await client.close()
            async with gated(empty, stores, layers=NEXT) as world:
                await backup.is_left_alone(world)
