"""A steady environment is quiet: nothing is written but Leases, however many clusters there are."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from espalier.api.core import CONFIG_MAP
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.resource import Key
from espalier.kube.client import Client
from espalier.providers.docker.kinds import DockerDatacenterConfig
from espalier.runtime import virtual
from espalier.runtime.virtual import Simulation
from tests.support.environments.control_plane import ControlPlane
from tests.support.environments.managed_clusters import NAMESPACE, manifests
from tests.support.environments.managed_environment import CALM, managed_environment
from tests.support.environments.management import production
from tests.support.environments.many_clusters import CALM_SECONDS, all_ready, apply, heard
from tests.support.servers.audit import following

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
SECONDS = 60.0
"""How long a real environment is listened to."""
REAL = int(os.environ.get("ESPALIER_QUIET_CLUSTERS", "3"))
"""How many clusters there are on a real API server."""


@pytest.mark.soak
@pytest.mark.embedded
def test_whoever_writes_every_now_and_then_is_heard() -> None:
    """How quiet many clusters are is told in test_isolation.py."""

    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as env:
            await apply(env.client, 1)
            await all_ready(env.clusters, 1, seconds=900)
            await asyncio.sleep(CALM)
            workload = env.workloads.reach(Key(SYSTEM_NAMESPACE, "garden-000"))
            assert workload is not None
            restless = [asyncio.create_task(write_always(client, 25)) for client in (env.client, workload.client)]
            result = await heard(env, 1)
            for task in restless:
                task.cancel()
            assert result == {
                ("patch", "configmaps", "", "journey"): 24,
                ("patch", "configmaps", "", "espalier-laptop"): 24,
            }

    virtual.run(main, epoch=EPOCH, seed=1)


async def write_always(client: Client, seconds: float) -> None:
    """Write the same again and again: it changes nothing, but it is a write."""
    while True:
        await client.apply(CONFIG_MAP, {"metadata": {"name": "restless", "namespace": NAMESPACE}, "data": {"a": "b"}})
        await asyncio.sleep(seconds)


@pytest.mark.soak
@pytest.mark.envtest
async def test_steady_clusters_are_quiet_on_real_api_server(control_plane: ControlPlane, tmp_path: Path) -> None:
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
