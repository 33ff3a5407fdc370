"""T2: clusters through their lives under the real Cluster API controllers, which decide what happens to machines."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from espalier.api.resource import Key
from tests.journeys.asking import GARDEN, NAMESPACE
from tests.journeys.machine_stories import CHANGES, KUBERNETES, happens_as_planned, lives
from tests.support.cluster_api import RealClusterApi

pytestmark = [pytest.mark.capi, pytest.mark.asyncio(loop_scope="session")]

ORCHARD = Key(NAMESPACE, "orchard")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def life(real: RealClusterApi) -> AsyncIterator[asyncio.Task[None]]:
    """The whole life of a cluster, lived beside the other tests: it mostly waits."""
    task = asyncio.create_task(live(real))
    yield task
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def live(world: RealClusterApi) -> None:
    """Nothing is prepared but the etcd: Cluster API makes authority and kubeconfig itself."""
    await world.provide_etcd("garden")
    await world.apply()
    await world.until_ready()
    await world.without_pods_to_drain("garden")
    await lives(world, GARDEN)


async def test_what_was_planned_is_what_the_real_controllers_do(real: RealClusterApi, life: asyncio.Task[None]) -> None:
    assert not life.done()
    draw = random.Random(20261121)
    await real.provide_etcd("orchard")
    await real.head_start("orchard", KUBERNETES["1.34"])
    await real.apply(name="orchard", kubernetesVersion="1.34")
    await real.until_ready(ORCHARD)
    await real.without_pods_to_drain("orchard")
    for change in draw.sample(CHANGES, len(CHANGES)):
        await happens_as_planned(real, ORCHARD, change, draw)


async def test_a_manifest_becomes_a_cluster_that_grows_shrinks_is_upgraded_and_goes(life: asyncio.Task[None]) -> None:
    await life
