"""The upgrade of a manager of many steady clusters on two releases, on a real API server that counts writes.

They come from a restore: on a simulated clock they are made in a minute.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
import pytest_asyncio

from espalier.apiserver.server import Server
from espalier.clusters import Isolation
from espalier.kube.client import Client
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.providers.kinds import KINDS
from espalier.releases import Releases
from espalier.simulator.workload_clusters.stores import MemoryStores
from tests.support.environments.control_plane import ControlPlane, find_assets, why_no_assets
from tests.support.environments.managed_clusters import AccountedClusters
from tests.support.environments.prepared_cluster import prepare
from tests.support.environments.real_api_server import managed_on
from tests.support.environments.steady_clusters import Steady, steady
from tests.support.histories.isolation_stories import (
    NEXT,
    everything_of_the_garden,
    is_synced,
    machines,
    restore,
    scaling_replaces_all_of_its_machines_and_no_others,
    scaling_replaces_no_machine,
)
from tests.support.servers.audit import Asked, following, requests_of

pytestmark = [pytest.mark.envtest, pytest.mark.soak, pytest.mark.asyncio(loop_scope="session")]

CLUSTERS = int(os.environ.get("ESPALIER_QUIET_CLUSTERS", "50"))
"""How many there are; two hundred take five minutes."""
MANAGER_AGENT = "espalier"
CALM, RESYNC, PATIENCE = 3.0, max(0.5, CLUSTERS / 40), 900.0
"""Seconds. A round of drift checks over all of them takes about as long as `RESYNC`."""


@pytest.fixture(scope="module")
def before() -> Steady:
    """As of an hour ago, so that no certificate is of the future."""
    if find_assets() is None:
        pytest.skip(why_no_assets())
    return steady(CLUSTERS, since=datetime.now(UTC) - timedelta(hours=1))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def restored(control_plane: ControlPlane, before: Steady) -> MemoryStores:
    """All of them in the real API server, looked after for a while by a manager of the build that made them."""
    server = Server(before.store, now=lambda: before.at, random=random.Random(1))
    await server.start()
    objects = await everything_of_the_garden(Client(InProcessTransport(server)))
    await server.close()
    client = control_plane.client()
    await prepare(client, Releases.load(), KINDS)
    await restore(objects, client, with_status=True)
    await client.close()
    async with asyncio.timeout(PATIENCE), managed_on(control_plane, before.stores):
        await until_calm(control_plane)
    return before.stores


async def until_calm(control_plane: ControlPlane) -> None:
    """Wait until nobody has written anything for a while."""
    async with following(control_plane.audit_log, since=control_plane.audit_log.stat().st_size) as requests:
        while await requests.writes(CALM):
            pass


async def upgrade_of_the_manager(
    control_plane: ControlPlane,
    stores: MemoryStores,
    isolation: Isolation,
    then: Callable[[AccountedClusters], Awaitable[None]],
) -> None:
    """Upgrade the manager; an isolated one holds through ten resync periods, and after."""
    client = control_plane.client()
    present = await machines(client)
    await client.close()
    since = control_plane.audit_log.stat().st_size
    async with (
        asyncio.timeout(PATIENCE),
        managed_on(control_plane, stores, isolation=isolation, layers=NEXT, resync=RESYNC) as env,
    ):
        await until_more_than_statuses_are_written(control_plane, since, 10 * 1.1 * RESYNC)
        written = writes_of_the_manager(control_plane, since)
        assert {item.target.full_resource for item in written} <= {"clusters/status"}, "more than statuses were written"
        assert max(Counter(item.target.name for item in written).values(), default=0) <= 1
        assert await machines(env.client) == present
        await then(env)


async def until_more_than_statuses_are_written(control_plane: ControlPlane, since: int, seconds: float) -> None:
    """Wait for so long at most."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds), following(control_plane.audit_log, since=since) as requests:
            async for asked in requests:
                if is_of_the_manager(asked) and asked.target.subresource != "status":
                    return


def writes_of_the_manager(control_plane: ControlPlane, since: int) -> list[Asked]:
    """Its successful writes to anything but events, from a byte of the audit log on."""
    return [asked for asked in requests_of(control_plane.audit_log, since=since) if is_of_the_manager(asked)]


def is_of_the_manager(asked: Asked) -> bool:
    """True for a write of the manager that is not an event."""
    return (
        asked.user_agent == MANAGER_AGENT and asked.is_write and asked.code < 400 and asked.target.resource != "events"
    )


@pytest.mark.demand("I6")
async def test_layers_keep_all_of_them_as_they_are(control_plane: ControlPlane, restored: MemoryStores) -> None:
    """And each is said to be as its own release renders it."""

    async def then(env: AccountedClusters) -> None:
        results = [cluster for cluster in env.clusters.list() if cluster.name != "laptop"]
        assert len(results) == CLUSTERS
        assert all(map(is_synced, results))
        await scaling_replaces_no_machine(env)

    await upgrade_of_the_manager(control_plane, restored, Isolation.LAYERS, then)


@pytest.mark.demand("I19", "I28")
async def test_first_change_replaces_the_foreseen_machines(control_plane: ControlPlane, restored: MemoryStores) -> None:
    then = partial(scaling_replaces_all_of_its_machines_and_no_others, first=2)
    await upgrade_of_the_manager(control_plane, restored, Isolation.GATE, then)


@pytest.mark.demand("I29")
async def test_the_same_without_isolation_fails(control_plane: ControlPlane, restored: MemoryStores) -> None:
    """The proof that the tests above can fail; the last one, as it leaves clusters that are being rolled."""
    then = partial(scaling_replaces_no_machine, first=4)
    with pytest.raises(AssertionError, match="more than statuses were written"):
        await upgrade_of_the_manager(control_plane, restored, Isolation.OFF, then)
