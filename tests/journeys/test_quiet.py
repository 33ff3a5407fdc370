"""A steady world is quiet: nothing is written but Leases, however many clusters there are."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from espalier.api.core import CONFIG_MAP
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.group import SYSTEM_NAMESPACE
from espalier.api.resource import Key
from espalier.apiserver.server import Server
from espalier.kube.client import Client
from espalier.kube.objects import Object
from espalier.providers.docker.kinds import DockerDatacenterConfig
from espalier.providers.kinds import CATALOG
from espalier.runtime import virtual
from espalier.runtime.cache import Cache
from espalier.runtime.virtual import Simulation
from tests.journeys.asking import NAMESPACE, manifests
from tests.journeys.managed import CALM, ManagedLaptop, managed_laptop
from tests.support.audit import following
from tests.support.control_plane import READING_VERBS, ControlPlane
from tests.support.management import production

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
SIMULATED_SECONDS, SECONDS = 600.0, 60.0
"""How long a steady world is listened to; simulated time costs nothing."""
CALM_SECONDS = 5.0
"""A real world is steady once it has not written for so long."""
REAL = int(os.environ.get("ESPALIER_QUIET_CLUSTERS", "10"))
"""How many clusters there are on a real API server."""

Writes = Counter[tuple[str, ...]]


async def apply(client: Client, count: int) -> None:
    for tree in manifests(count):
        await client.apply(CATALOG.resource_of(tree["apiVersion"], tree["kind"]), tree, field_manager="kubectl")


async def all_ready(clusters: Cache, count: int, *, seconds: float) -> None:
    """Wait until so many Clusters are ready, besides that of the management cluster."""
    ready: set[Key] = set()
    enough = asyncio.Event()

    def look(_old: Object | None, new: Object | None, _first: bool) -> None:
        if new is not None and new.name.startswith("garden-") and new.decode(Cluster).status.ready:
            ready.add(new.key)
        if len(ready) == count:
            enough.set()

    stop = clusters.subscribe(look)
    try:
        for found in clusters.list():
            look(None, found, True)
        async with asyncio.timeout(seconds):
            await enough.wait()
    finally:
        stop()


def writes(servers: list[Server]) -> Writes:
    """What was asked of these servers so far, but for reads and Leases."""
    total: Writes = Counter()
    for server in servers:
        total += Counter(
            {
                asked: count
                for asked, count in server.requests.items()
                if asked[0] not in READING_VERBS and asked[1] != "leases"
            }
        )
    return total


def servers(world: ManagedLaptop, count: int) -> list[Server]:
    """The management cluster's API server, and those of all workload clusters."""
    found = [world.server]
    for number in range(count):
        workload = world.workloads.reach(Key(SYSTEM_NAMESPACE, f"garden-{number:03}"))
        assert workload is not None
        found.append(workload.server)
    return found


async def heard(world: ManagedLaptop, count: int) -> Writes:
    """What is written while a world with so many steady clusters is listened to."""
    all_servers = servers(world, count)
    before = writes(all_servers)
    await asyncio.sleep(SIMULATED_SECONDS)
    return writes(all_servers) - before


@pytest.mark.embedded
def test_whoever_writes_every_now_and_then_is_heard() -> None:
    """How quiet many clusters are is told in test_isolation.py."""

    async def main(simulation: Simulation) -> None:
        async with managed_laptop(simulation.clock) as world:
            await apply(world.client, 1)
            await all_ready(world.clusters, 1, seconds=900)
            await asyncio.sleep(CALM)
            workload = world.workloads.reach(Key(SYSTEM_NAMESPACE, "garden-000"))
            assert workload is not None
            restless = [asyncio.create_task(write_always(client, 25)) for client in (world.client, workload.client)]
            found = await heard(world, 1)
            for task in restless:
                task.cancel()
            assert found == {
                ("patch", "configmaps", "", "journey"): 24,
                ("patch", "configmaps", "", "espalier-laptop"): 24,
            }

    virtual.run(main, epoch=EPOCH, seed=1)


async def write_always(client: Client, seconds: float) -> None:
    """Write the same again and again: it changes nothing, but it is a write."""
    while True:
        await client.apply(CONFIG_MAP, {"metadata": {"name": "restless", "namespace": NAMESPACE}, "data": {"a": "b"}})
        await asyncio.sleep(seconds)


@pytest.mark.envtest
async def test_steady_clusters_are_quiet_on_a_real_api_server(control_plane: ControlPlane, tmp_path: Path) -> None:
    """`ESPALIER_QUIET_CLUSTERS` says how many there are."""
    async with production(control_plane, tmp_path) as management, following(control_plane.audit_log) as requests:
        clusters = management.caches.of(Cluster.resource)
        patience = management.kubectl.patience = 60 + 6 * REAL
        await apply(management.client, REAL)
        await all_ready(clusters, REAL, seconds=patience)
        async with asyncio.timeout(120):
            while await requests.writes(CALM_SECONDS):
                pass
        assert await requests.writes(SECONDS) == []

        restless = asyncio.create_task(write_always(management.client, 1))
        heard = await requests.writes(CALM_SECONDS)
        restless.cancel()
        assert heard
        assert all("configmaps/restless" in write for write in heard)

        names = [tree["metadata"]["name"] for tree in manifests(REAL) if tree["kind"] == Cluster.resource.kind]
        await management.kubectl("delete", Cluster.resource.group_resource, *names)
        await management.kubectl("delete", DockerDatacenterConfig.resource.group_resource, *names, "--ignore-not-found")
        await management.kubectl("delete", "configmap", "restless")
