"""A manager has one client, with its connections, for each workload cluster, whichever components reach it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from espalier.api.eksa.cluster import Cluster
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.in_place_environment import spec
from tests.support.environments.managed_environment import GARDEN, managed_environment
from tests.support.environments.upgraders import Upgraders

pytestmark = pytest.mark.embedded

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.soak
def test_cluster_has_one_client_until_it_is_gone() -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock, seed=1) as env:
            await env.apply(**spec(1, 1))
            await env.until_ready()
            assert len(env.manager.remotes) == 1
            Upgraders(env.workloads)
            await env.change(kubernetesVersion="1.36")
            await env.until_ready()
            assert len(env.manager.remotes) == 1
            await env.client.delete(Cluster.resource, GARDEN.name, GARDEN.namespace)
            await env.until_gone()
            assert len(env.manager.remotes) == 0

    run(main, epoch=EPOCH, seed=1)
