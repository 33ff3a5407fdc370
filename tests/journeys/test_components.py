"""Each component uses what it declares, so that it can be left out, or run as a program of its own."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.upgrades import FrontEnd
from espalier.cli.programs import components
from espalier.providers.registry import PROVIDERS
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.in_place_environment import spec
from tests.support.environments.managed_environment import GARDEN, managed_environment
from tests.support.environments.upgraders import Upgraders

pytestmark = pytest.mark.embedded

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = [item.name for item in components.of_manager(PROVIDERS) if item.rights.kinds]


@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
def test_component_starts_with_its_declared_rights(name: str) -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock, accounts=[name], front_end=FrontEnd.HOOKS) as env:
            await env.apply()
            await env.until_ready()

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
def test_component_needs_no_undeclared_right(name: str) -> None:
    """A cluster is made, upgraded in place and deleted while this component has no other rights than its own."""

    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock, accounts=[name]) as env:
            await env.apply(**spec(1, 1))
            await env.until_ready()
            Upgraders(env.workloads)
            await env.change(kubernetesVersion="1.36")
            await env.until_ready()
            await env.client.delete(Cluster.resource, GARDEN.name, GARDEN.namespace)
            await env.until_gone()

    run(main, epoch=EPOCH, seed=1)
