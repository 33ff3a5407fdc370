"""Control plane migration on simulated seeds: the good case, the bad case, and back again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from espalier.runtime import virtual
from espalier.shoots.secrets import names as secret_names
from tests.support.gardens import EPOCH, World, garden

T = TypeVar("T")


def told(story: Callable[[World], Awaitable[T]], *seeds: str) -> T:
    async def main(simulation: virtual.Simulation) -> T:
        async with garden(simulation, *seeds) as world:
            return await story(world)

    return virtual.run(main, epoch=EPOCH, seed=1)


def test_a_shoot_is_created_and_settles() -> None:
    async def story(world: World) -> None:
        await world.create_shoot()
        await world.healthy("a")

    told(story)


def test_a_shoot_moves_and_nothing_is_made_anew() -> None:
    async def story(world: World) -> None:
        await world.create_shoot()
        await world.healthy("a")
        before = await world.secrets("a")
        creates = world.infrastructures.count("create")
        await world.move("b")
        await world.healthy("b")
        after = await world.secrets("b")
        assert {name: before[name] for name in secret_names.CARRIED} == {
            name: after[name] for name in secret_names.CARRIED
        }
        assert before["kube-scheduler"] != after["kube-scheduler"]
        assert world.infrastructures.count("create") == creates
        assert world.infrastructures.count("delete") == 0
        await world.gone("a")

    told(story)
