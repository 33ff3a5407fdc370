"""A cluster of each provider on a real API server: machines are replaced exactly where the plan says so."""

from __future__ import annotations

import asyncio

import pytest

from espalier.simulator.workload_clusters.stores import MemoryStores
from tests.support.environments.control_plane import ControlPlane
from tests.support.environments.real_api_server import managed_on
from tests.support.providers.provider_lives import LIVES, ProviderLife, delete, in_system, live
from tests.support.sampling import sampled

pytestmark = [pytest.mark.envtest, pytest.mark.asyncio(loop_scope="session")]

PATIENCE = 900.0
"""Seconds for one of them, which takes 30 and as many again where Kubernetes' garbage collector is new."""
SNOW = [item.datacenter for item in LIVES].index("SnowDatacenterConfig")
"""It has most kinds of its own."""


@pytest.mark.soak
@pytest.mark.parametrize(
    "life", sampled(LIVES, SNOW), ids=[item.datacenter.removesuffix("DatacenterConfig").lower() for item in LIVES]
)
async def test_a_cluster_lives_and_ends(control_plane: ControlPlane, life: ProviderLife) -> None:
    async with asyncio.timeout(PATIENCE), managed_on(control_plane, MemoryStores()) as env:
        await life.before(env)
        before = await in_system(env.client)
        steps = life.steps(env)
        await live(life, steps)
        await delete(steps)
        assert await in_system(env.client) == before, "what was made for the cluster is gone with it"
