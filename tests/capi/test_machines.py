"""T2: clusters through their lives under the real Cluster API controllers, which decide what happens to machines."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from espalier.api.eksa.cluster import Cluster
from espalier.api.resource import Key
from espalier.local.real.processes import State
from tests.journeys.asking import GARDEN, NAMESPACE
from tests.journeys.machine_stories import CHANGES, KUBERNETES, happens_as_planned, lives
from tests.support.cluster_api import RealClusterApi

pytestmark = [pytest.mark.capi, pytest.mark.asyncio(loop_scope="session")]


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


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def orchard(real: RealClusterApi) -> Key:
    """A cluster to make changes to."""
    await real.provide_etcd("orchard")
    await real.head_start("orchard", KUBERNETES["1.34"])
    await real.apply(name="orchard", kubernetesVersion="1.34")
    key = Key(NAMESPACE, "orchard")
    await real.until_ready(key)
    await real.without_pods_to_drain("orchard")
    return key


async def test_what_was_planned_is_what_the_real_controllers_do(
    real: RealClusterApi, life: asyncio.Task[None], orchard: Key
) -> None:
    draw = random.Random(20261121)
    for change in draw.sample(CHANGES, len(CHANGES)):
        await happens_as_planned(real, orchard, change, draw)


async def test_a_manager_of_cluster_api_that_is_killed_is_started_again_and_goes_on(
    real: RealClusterApi, orchard: Key
) -> None:
    (core,) = (report for report in real.supervisor.reports if report.name == "cluster-api-core")
    assert core.pid is not None
    os.kill(core.pid, signal.SIGKILL)
    cluster = await real.client.get(Cluster.resource, orchard.name, orchard.namespace)
    spec = cluster.tree["spec"]
    spec["workerNodeGroupConfigurations"][0]["count"] += 1
    await real.change(orchard, **spec)
    await real.until_ready(orchard)
    (again,) = (report for report in real.supervisor.reports if report.name == "cluster-api-core")
    assert (again.state, again.restarts, again.last_exit) == (State.RUNNING, 1, -signal.SIGKILL)


async def test_a_manifest_becomes_a_cluster_that_grows_shrinks_is_upgraded_and_goes(life: asyncio.Task[None]) -> None:
    await life
