"""T0: the stories that machines live under the real Cluster API (`tests/capi`), under Cluster API in the small."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from espalier.runtime.virtual import Simulation, run
from tests.journeys.asking import GARDEN
from tests.journeys.machine_stories import lives
from tests.journeys.managed import managed_laptop

pytestmark = pytest.mark.embedded

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def test_machines_live_as_under_the_real_controllers() -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_laptop(simulation.clock) as world:
            await world.apply()
            await lives(world, GARDEN)

    run(main, epoch=EPOCH, seed=1)
