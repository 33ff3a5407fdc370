"""Extensions that answer with what no extension should, and seeds whose clocks differ: a Shoot says what is to be
done, or goes on."""

from __future__ import annotations

import asyncio

import pytest

from espalier.api.gardener.extensions.infrastructure import Infrastructure
from espalier.api.meta import Tree
from espalier.kube.client import PatchType
from espalier.runtime import virtual
from espalier.shoots.gardenlet.reconciling.status import LONGEST_DESCRIPTION
from tests.support.gardens.gardens import EPOCH, World, garden

MINUTE = 60.0
NAMESPACE = "shoot--dev--apple"
ENDLESS = "\x1b[31m\n" + "all is lost " * 20_000
ANSWERS: dict[str, Tree] = {
    "operation": {"lastOperation": {"type": "Nonsense", "state": "Nonsense", "description": ENDLESS}},
    "error": {
        "lastOperation": {"type": "Reconcile", "state": "Error"},
        "lastError": {"description": ENDLESS, "codes": ["NONSENSE"] * 500},
    },
}


async def answer(world: World, seed: str, status: Tree) -> None:
    """Write the status of the shoot's Infrastructure as its extension."""
    client, patch = world.seeds[seed].client, {"status": status}
    await client.patch(
        Infrastructure.resource, "apple", NAMESPACE, patch=patch, type=PatchType.MERGE, subresource="status"
    )


@pytest.mark.parametrize("what", ANSWERS)
def test_garbage_of_an_extension_is_reported(what: str) -> None:
    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, "a") as world:
            world.seeds["a"].troubles.stuck.add("Infrastructure")
            await world.create_shoot()
            await asyncio.sleep(MINUTE)
            await answer(world, "a", ANSWERS[what])
            await asyncio.sleep(12 * MINUTE)
            status = (await world.shoot()).status
            (error,) = [error for error in status.last_errors if error.task_id == "Deploy infrastructure"]
            assert "Infrastructure apple" in error.description
            assert len(error.description) <= LONGEST_DESCRIPTION
            assert status.last_operation is not None
            assert status.last_operation.state == "Error"
            world.seeds["a"].troubles.stuck.clear()
            await world.healthy("a")

    virtual.run(main, epoch=EPOCH, seed=1)


def test_three_mebibytes_of_state_move() -> None:
    state = {"terraform": "x" * (3 * 1024 * 1024 - 64 * 1024)}

    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation) as world:
            await world.create_shoot()
            await world.healthy("a")
            await answer(world, "a", {"state": state})
            await asyncio.sleep(MINUTE)
            await world.move("b")
            await world.healthy("b")
            infrastructure = await world.seeds["b"].client.get(Infrastructure.resource, "apple", NAMESPACE)
            assert infrastructure.tree["status"]["state"]["terraform"] == state["terraform"]
            assert world.infrastructures.count("create", "b") == 0

    virtual.run(main, epoch=EPOCH, seed=1)


@pytest.mark.parametrize("ahead", ["a", "b"])
def test_seeds_with_clocks_half_a_minute_apart(ahead: str) -> None:
    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, clock_ahead={ahead: 30.0}) as world:
            await world.create_shoot()
            await world.healthy("a")
            created = world.infrastructures.count("create")
            await world.move("b")
            await world.healthy("b")
            await world.seeds["b"].power_off()
            await world.move("a")
            await world.healthy("a")
            assert world.infrastructures.count("create") == created

    virtual.run(main, epoch=EPOCH, seed=1)
