"""The stories of isolation on a real API server: what is hidden from generations, linked objects, and restores."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from espalier.clusters import Isolation
from espalier.providers.kinds import CLUSTER_API_KINDS, EKSA_KINDS
from espalier.releases import Releases
from espalier.simulator.workload_clusters.stores import MemoryStores
from tests.support.environments.control_plane import ControlPlane, find_assets, real_control_plane
from tests.support.environments.prepared_cluster import prepare
from tests.support.environments.real_api_server import delete_all, managed_on, stop
from tests.support.histories import isolation_stories, linked_stories
from tests.support.histories.isolation_stories import NEXT, Backup
from tests.support.providers.orchard import KINDS, ORCHARD
from tests.support.sampling import sampled

pytestmark = [pytest.mark.envtest, pytest.mark.asyncio(loop_scope="session")]

gated = partial(managed_on, isolation=Isolation.GATE)
"""With the gate alone: what a later manager does is then seen in the machines, once the gate opens."""
CLUSTERS, PATIENCE = 2, 900.0
"""One of each release."""


@pytest_asyncio.fixture(loop_scope="session")
async def stores(control_plane: ControlPlane) -> AsyncIterator[MemoryStores]:
    """Those of the workload clusters. Whatever a story leaves is deleted after it."""
    stores = MemoryStores()
    yield stores
    async with asyncio.timeout(PATIENCE), managed_on(control_plane, stores) as env:
        await delete_all(env)


@pytest.mark.demand("I6", "I13")
@pytest.mark.soak
@pytest.mark.parametrize("name", sampled(isolation_stories.STORIES, 0))
async def test_changes_without_a_manager_are_seen_by_next(
    control_plane: ControlPlane, stores: MemoryStores, name: str
) -> None:
    story = isolation_stories.STORIES[name]()
    async with asyncio.timeout(PATIENCE):
        async with gated(control_plane, stores) as env:
            await isolation_stories.plant(env)
            await stop(env)
            await story.before(env)
        async with gated(control_plane, stores, layers=NEXT) as env:
            await story.after(env)


orchard = partial(gated, providers=ORCHARD, kinds=KINDS)
"""With a provider whose linked objects have content, and name a Secret."""


@pytest_asyncio.fixture(loop_scope="session")
async def uprooted(control_plane: ControlPlane, stores: MemoryStores) -> AsyncIterator[None]:
    """Linked objects are deleted after a story as well."""
    yield
    client = control_plane.client()
    await linked_stories.uproot(client)
    await client.close()


@pytest.mark.demand("I3", "I14", "I15", I13="with content in the children")
@pytest.mark.soak
@pytest.mark.usefixtures("uprooted")
@pytest.mark.parametrize("name", sampled(linked_stories.STORIES, 0))
async def test_linked_changes_without_a_manager_are_seen(
    control_plane: ControlPlane, stores: MemoryStores, name: str
) -> None:
    story = linked_stories.STORIES[name]()
    async with asyncio.timeout(PATIENCE):
        async with orchard(control_plane, stores) as env:
            await linked_stories.plant(env)
            await stop(env)
            await story.before(env)
        async with orchard(control_plane, stores, layers=NEXT) as env:
            await story.after(env)


async def test_restore_into_empty_api_server_opens_no_gate(
    control_plane: ControlPlane, stores: MemoryStores, tmp_path: Path
) -> None:
    async with asyncio.timeout(PATIENCE):
        async with gated(control_plane, stores) as env:
            await isolation_stories.plant(env)
            backup = await isolation_stories.back_up(env)
        async with restored(backup, tmp_path) as empty, gated(empty, stores, layers=NEXT) as env:
            await backup.is_left_alone(env)


@pytest.mark.soak
@pytest.mark.usefixtures("uprooted")
async def test_restore_with_linked_objects_opens_no_gate(
    control_plane: ControlPlane, stores: MemoryStores, tmp_path: Path
) -> None:
    async with asyncio.timeout(PATIENCE):
        async with orchard(control_plane, stores) as env:
            await linked_stories.plant(env)
            backup = await linked_stories.back_up(env)
        async with restored(backup, tmp_path) as empty, orchard(empty, stores, layers=NEXT) as env:
            await backup.is_left_alone(env)


@asynccontextmanager
async def restored(backup: Backup, folder: Path) -> AsyncIterator[ControlPlane]:
    """An API server that knows nothing but the backup."""
    assets = find_assets()
    assert assets is not None
    async with real_control_plane(folder, assets) as empty:
        client = empty.client()
        try:
            await prepare(client, Releases.load(), (*EKSA_KINDS, *CLUSTER_API_KINDS, *KINDS))
            await backup.restore(client)
        finally:
            await client.close()
        yield empty
