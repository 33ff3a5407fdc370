"""Random user actions and random faults in a garden: never two owners, and all is healthy in the end."""

from __future__ import annotations

import asyncio
import random

import pytest

from espalier.runtime import virtual
from tests.support.gardens.garden_walk import Size, Walk
from tests.support.gardens.garden_witnesses import OwnerWitness, unclean
from tests.support.gardens.gardens import EPOCH, garden

SMALL = Size(seeds=3, shoots=2, hours=1, between_actions=900, between_faults=1200, longest_fault=900)
FULL = Size(seeds=5, shoots=50, hours=200, between_actions=600, between_faults=3600)


def walked(number: int, size: Size) -> Walk:
    """A walk, which its number repeats."""

    async def main(simulation: virtual.Simulation) -> Walk:
        seeds = [f"seed-{letter}" for letter in "abcdefgh"[: size.seeds]]
        async with garden(simulation, *seeds, with_cloud=True, has_clients=True, clock_skew=5.0) as world:
            walk, owners = Walk(world, random.Random(number), size), OwnerWitness(world)
            watching = asyncio.create_task(owners.watch())
            try:
                await walk.run()
                assert await unclean(world) == [], "\n".join(walk.story[-200:])
                assert owners.violations == [], "\n".join(walk.story[-200:])
            finally:
                print(f"walk {number} of {size}: {dict(walk.done)}, {owners.calls} calls to the cloud")
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)
            return walk

    return virtual.run(main, epoch=EPOCH, seed=number)


@pytest.mark.soak
def test_a_garden_survives_its_users_and_its_faults() -> None:
    walk = walked(1, SMALL)
    assert walk.done["move"] > 0


@pytest.mark.soak
@pytest.mark.parametrize("number", range(1, 4))
def test_garden_survives_200_hours_of_users_and_faults(number: int) -> None:
    walk = walked(number, FULL)
    assert walk.done["move"] > 100
