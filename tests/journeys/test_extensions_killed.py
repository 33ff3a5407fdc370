"""Every write of every program in the life of a shoot, extensions and machine controllers among them: the program
dead before it or after it, and the end is that of an undisturbed life."""

from __future__ import annotations

import asyncio
from itertools import count

import pytest

from espalier.api.cloud import AnyCall, Create, Delete
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.vocabulary.metadata_keys import FORCE_RESTORE
from espalier.runtime import virtual
from tests.support.environments.killing import Killer
from tests.support.gardens.garden_witnesses import unclean
from tests.support.gardens.gardens import EPOCH, NAMESPACE, World, garden
from tests.support.sampling import sampled

MOST = 1500
"""More writes than the story has."""
MADE = 3
"""A network, a machine, and another one when the shoot wakes up: what is made twice or left shows as more."""

FAR = 40
PLACES = [(first, after) for first in range(1, FAR + 1) for after in (False, True)]
"""Where the first kill is, and whether after the write: each story has others `FAR` writes further, until its end."""


@pytest.mark.soak
@pytest.mark.parametrize(("first", "after"), sampled(PLACES, 9))
def test_killed_programs_of_a_shoot_go_on(first: int, after: bool) -> None:
    async def main(simulation: virtual.Simulation) -> None:
        killer = Killer()
        async with garden(simulation, wrap=killer, delay=0.5, with_cloud=True, has_clients=True) as world:
            await asyncio.sleep(15)
            killer.arm(world.garden, *range(first, MOST, FAR), after=after)
            await life(world)
            assert await unclean(world) == [], killer.killed
            assert killer.seen < MOST
            creates, deletes = (sum(isinstance(call, kind) for call in written(world)) for kind in (Create, Delete))
            assert (creates, deletes) == (MADE, MADE + 1), killer.killed  # its DNS record is set, not created
            print(f"{len(killer.killed)} of {killer.seen} writes")

    virtual.run(main, epoch=EPOCH, seed=first)


async def life(world: World) -> None:
    """Created, moved, moved from a source that is cut off, asleep, awake, and deleted."""
    await world.create_shoot()
    await world.healthy("a")
    machine = await until_machines(world, 1)
    await world.move("b")
    await world.healthy("b")
    await world.gone("a")
    world.seeds["b"].links.garden.cut()
    await asyncio.sleep(60)
    await world.move("a")
    await world.patch({"metadata": {"annotations": {FORCE_RESTORE: "true"}}})
    await world.healthy("a")
    world.restore_links()
    await world.gone("b")
    assert await until_machines(world, 1) == machine
    await world.patch({"spec": {"hibernation": {"enabled": True}}})
    await world.until(lambda shoot: shoot.status.hibernated)
    await until_machines(world, 0)
    await world.patch({"spec": {"hibernation": {"enabled": False}}})
    await world.until(lambda shoot: not shoot.status.hibernated)
    await until_machines(world, 1)
    await world.healthy("a")
    await world.client.delete(Shoot.resource, "apple", NAMESPACE)
    await world.gone("a")
    for _ in count():
        if not (await world.client.list(Shoot.resource)).items:
            return
        await asyncio.sleep(5)


async def until_machines(world: World, number: int) -> list[str]:
    """The ids of the machines in the cloud, once there are so many."""
    while True:
        ids = [item.id for item in world.cloud.inventory.all("VirtualMachine")]
        if len(ids) == number:
            return ids
        await asyncio.sleep(5)


def written(world: World) -> list[AnyCall]:
    return [write.call for write in world.cloud.log.writes() if write.refusal is None]
