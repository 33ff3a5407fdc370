"""Every write of a flow, and the program dead before it or after it: the end is that of an undisturbed one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from espalier.api.gardener import ownership
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.garden.shoot_state import ShootState
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.gardener.vocabulary.metadata_keys import FORCE_RESTORE
from espalier.runtime import virtual
from espalier.shoots.secrets import names as secret_names
from tests.support.environments.killing import Killer
from tests.support.gardens.gardens import EPOCH, NAMESPACE, World, garden
from tests.support.sampling import sampled

WRITES = 180
"""More than any of these stories has: the last ones are of a program that lives."""

CHUNK = 6
PLACES = [(first, after) for first in range(1, WRITES, CHUNK) for after in (False, True)]


@pytest.mark.demand("G73", G30="killed at each write of a move", G72="after each write; all of them in `make soak`")
@pytest.mark.parametrize(("first", "after"), sampled(PLACES, 3))
def test_a_program_killed_in_a_move_goes_on(first: int, after: bool) -> None:
    async def move(world: World, source: str, destination: str) -> None:
        await world.move(destination)
        await world.healthy(destination)
        await world.gone(source)

    moves(first, after, move)


@pytest.mark.demand(G43="killed at each write, with the restore ordered")
@pytest.mark.soak
@pytest.mark.parametrize(("first", "after"), sampled(PLACES, 17))
def test_a_program_killed_in_the_bad_case_goes_on(first: int, after: bool) -> None:
    async def move(world: World, source: str, destination: str) -> None:
        world.seeds[source].links.garden.cut()
        await asyncio.sleep(45)
        await world.move(destination)
        await world.patch({"metadata": {"annotations": {FORCE_RESTORE: "true"}}})
        await world.healthy(destination)
        world.restore_links()
        await world.gone(source)
        await asyncio.sleep(15)  # the source counts as ready again

    moves(first, after, move)


def moves(first: int, after: bool, move: Callable[[World, str, str], Awaitable[None]]) -> None:
    """Moves there and back again, each with a program killed at another write."""

    async def main(simulation: virtual.Simulation) -> None:
        killer = Killer()
        async with garden(simulation, wrap=killer, delay=0.5) as world:
            await world.create_shoot()
            await world.healthy("a")
            await asyncio.sleep(15)
            undisturbed, inventory = await persisted(world, "a"), dict(world.infrastructures.inventory)
            creates = world.infrastructures.count("create")
            source, destination = "a", "b"
            for number in range(first, first + CHUNK):
                killer.arm(world.garden, number, after=after)
                await move(world, source, destination)
                assert await persisted(world, destination) == undisturbed
                assert world.infrastructures.inventory == inventory, killer.killed
                assert world.infrastructures.count("create") == creates, killer.killed
                assert world.infrastructures.count("delete") == 0, killer.killed
                assert list(world.witness.serving.values()) == [destination]
                assert await last_epoch(world) == (destination, True)
                source, destination = destination, source
            assert len({tuple(data) for data in world.buckets.data.values()}) == 1, killer.killed

    virtual.run(main, epoch=EPOCH, seed=first)


async def persisted(world: World, seed: str) -> dict[str, dict[str, str]]:
    result = await world.secrets(seed)
    return {name: result[name] for name in secret_names.PERSISTED}


async def last_epoch(world: World) -> tuple[str, bool]:
    shoot = await world.shoot()
    current = ownership.parse(shoot.metadata.annotations[metadata_keys.OWNERSHIP]).current
    assert current is not None
    return current.seed, current.started


@pytest.mark.soak
@pytest.mark.parametrize(("first", "after"), sampled(PLACES, 13))
def test_program_killed_in_create_or_delete_goes_on(first: int, after: bool) -> None:
    async def main(simulation: virtual.Simulation) -> None:
        killer = Killer()
        async with garden(simulation, wrap=killer, delay=0.5) as world:
            await asyncio.sleep(15)
            for number in range(first, first + CHUNK):
                killer.arm(world.garden, number, after=after)
                await world.create_shoot()
                await world.healthy("a")
                assert len(world.infrastructures.inventory) == len(KINDS), killer.killed
                await world.client.delete(Shoot.resource, "apple", NAMESPACE)
                await world.gone("a")
                await asyncio.sleep(10)
                assert (await world.client.list(Shoot.resource)).items == [], killer.killed
                assert (await world.client.list(ShootState.resource)).items == [], killer.killed
                assert world.infrastructures.inventory == {}, killer.killed
                creates, deletes = world.infrastructures.count("create"), world.infrastructures.count("delete")
                assert creates == deletes == len(KINDS) * (number - first + 1), killer.killed

    virtual.run(main, epoch=EPOCH, seed=first)


KINDS = ("Infrastructure", "Network", "ControlPlane", "OperatingSystemConfig", "Extension", "Worker", "DNSRecord")
"""One resource of each is in the simulated infrastructure."""
