"""Migration with the extensions of type `local` on the simulated cloud: machines stay, and so does all else."""

from __future__ import annotations

import asyncio

import pytest

from espalier.api.gardener.vocabulary.metadata_keys import FORCE_RESTORE
from espalier.runtime import virtual
from tests.support.gardens.gardens import EPOCH, World, garden


def changes(world: World) -> list[str]:
    return [str(write) for write in world.cloud.log.writes()]


def machines(world: World) -> list[str]:
    return sorted(f"{item.name} {item.id}" for item in world.cloud.inventory.all("VirtualMachine"))


@pytest.mark.demand("G8", "G9", "G29")
def test_machines_stay_in_good_case_and_in_bad_case() -> None:
    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, with_cloud=True) as world:
            await world.create_shoot()
            await world.healthy("a")
            await asyncio.sleep(60)
            there, before = machines(world), changes(world)
            assert len(there) == 1
            await world.move("b")
            await world.healthy("b")
            await world.gone("a")
            await asyncio.sleep(300)
            assert machines(world) == there
            assert [change for change in changes(world)[len(before) :] if "Record" not in change] == []
            moved = len(changes(world))
            await world.seeds["b"].power_off()
            await world.move("a")
            await world.patch({"metadata": {"annotations": {FORCE_RESTORE: "true"}}})
            await world.healthy("a")
            await world.seeds["b"].power_on()
            await world.gone("b")
            await asyncio.sleep(300)
            assert machines(world) == there
            assert [change for change in changes(world)[moved:] if "Record" not in change] == []

    virtual.run(main, epoch=EPOCH, seed=1)
