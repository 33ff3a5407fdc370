"""T0: the stories about machines, under Cluster API in the small."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest

from espalier.api.resource import Key
from espalier.runtime.virtual import Simulation, run
from tests.journeys.asking import GARDEN, NAMESPACE
from tests.journeys.machine_stories import CHANGES, happens_as_planned, lives
from tests.journeys.managed import managed_laptop

pytestmark = pytest.mark.embedded

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
ORCHARD = Key(NAMESPACE, "orchard")


def test_machines_live_as_under_the_real_controllers() -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_laptop(simulation.clock) as world:
            await world.apply()
            await lives(world, GARDEN)

    run(main, epoch=EPOCH, seed=1)


def test_what_was_planned_is_what_the_simulated_controllers_do() -> None:
    async def main(simulation: Simulation) -> None:
        draw = random.Random(20261121)
        async with managed_laptop(simulation.clock) as world:
            await world.apply(name_of="orchard", kubernetesVersion="1.34")
            await world.until_ready(ORCHARD)
            for change in draw.sample(CHANGES, len(CHANGES)):
                await happens_as_planned(world, ORCHARD, change, draw)

    run(main, epoch=EPOCH, seed=1)
