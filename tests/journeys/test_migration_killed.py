"""Every write of a migration, and the program dead before it or after it: the end is that of an undisturbed one."""

from __future__ import annotations

import pytest

from espalier.runtime import virtual
from espalier.shoots.secrets import names as secret_names
from tests.support.gardens import EPOCH, World, garden
from tests.support.killing import Killer
from tests.support.sampling import sampled

WRITES = 160
"""More than a migration needs; the last chunk tells that there are no more."""

CHUNK = 8


@pytest.mark.parametrize(
    ("first", "after"), sampled([(n, x) for n in range(1, WRITES, CHUNK) for x in (False, True)], 3, 10)
)
def test_a_program_killed_at_any_write_goes_on(first: int, after: bool) -> None:
    async def main(simulation: virtual.Simulation) -> None:
        killer = Killer()
        async with garden(simulation, wrap=killer, delay=0.5) as world:
            await world.create_shoot()
            await world.healthy("a")
            undisturbed = await carried(world, "a")
            creates = world.infrastructures.count("create")
            source, destination = "a", "b"
            for number in range(first, first + CHUNK):
                killer.arm(world, number, after=after)
                await world.move(destination)
                await world.healthy(destination)
                await world.gone(source)
                assert await carried(world, destination) == undisturbed
                assert world.infrastructures.count("create") == creates, killer.killed
                assert world.infrastructures.count("delete") == 0, killer.killed
                assert list(world.witness.serving.values()) == [destination]
                assert len(world.buckets.data) == len(set(world.buckets.data)), killer.killed
                source, destination = destination, source

    virtual.run(main, epoch=EPOCH, seed=first)


async def carried(world: World, seed: str) -> dict[str, dict[str, str]]:
    found = await world.secrets(seed)
    return {name: found[name] for name in secret_names.CARRIED}
