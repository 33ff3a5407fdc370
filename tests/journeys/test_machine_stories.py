"""T0: the stories that machines live under the real Cluster API (`tests/capi`), under simulated Cluster API."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from espalier.runtime.virtual import Simulation, run
from espalier.simulator.controller import Timing
from tests.support.environments.managed_clusters import GARDEN, BrokenImages
from tests.support.environments.managed_environment import managed_environment
from tests.support.histories.machine_stories import can_not_go_back, hangs_and_goes_back, lives
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.soak
def test_machines_live_as_under_the_real_controllers() -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as env:
            await env.apply()
            await lives(env, GARDEN)

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.soak
@pytest.mark.parametrize("count", sampled([1, 3], 0))
def test_hanging_upgrade_is_reverted_until_it_begins(count: int) -> None:
    images = BrokenImages()

    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock, timing=Timing(boots=images.boots)) as env:
            await env.apply(controlPlaneConfiguration={"count": count})
            await env.until_ready(GARDEN)
            await hangs_and_goes_back(env, images, GARDEN, count=count)
            await can_not_go_back(env, GARDEN)

    run(main, epoch=EPOCH, seed=1)
