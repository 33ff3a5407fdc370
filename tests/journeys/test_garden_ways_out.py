"""What operators of a garden run into, and that there is a way out which is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from espalier.api.gardener.cluster import Cluster
from espalier.api.gardener.project import Project
from espalier.api.gardener.shoot import Shoot
from espalier.kube.errors import Invalid
from espalier.runtime import virtual
from tests.support.gardens import EPOCH, NAMESPACE, World, garden

OVERLAPPING = {"spec": {"networks": {"pods": "10.0.0.0/16", "services": "100.64.0.0/13"}}}
"""Of a seed: the shoots that tests make have pods there."""


def tell(story: Callable[[World], Awaitable[None]], *seeds: str) -> None:
    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, *seeds) as world:
            await story(world)

    virtual.run(main, epoch=EPOCH, seed=1)


@pytest.mark.soak
def test_a_new_shoot_that_the_first_seed_can_not_have_gets_another_one() -> None:
    async def story(world: World) -> None:
        await world.patch_seed("a", OVERLAPPING)
        await world.create_shoot(seed=None)
        await world.healthy("b", seconds=300)

    tell(story)


@pytest.mark.soak
def test_a_shoot_that_was_deleted_when_its_seed_was_lost_is_moved_to_be_deleted() -> None:
    """Its gardenlet is to delete it, and never will; another one can, once it has the shoot."""

    async def story(world: World) -> None:
        await world.create_shoot()
        await world.healthy("a")
        await asyncio.sleep(2 * world.config.look)  # by then the garden has seen that the seed lives
        await world.client.delete(Shoot.resource, "apple", NAMESPACE)
        with pytest.raises(Invalid, match="can move only if its seed is lost"):
            await world.move("b")
        await world.garden.seeds["a"].power_off()
        await asyncio.sleep(60)
        await world.move("b")
        await asyncio.sleep(world.config.give_up_after + 1800)
        assert (await world.client.list(Shoot.resource, NAMESPACE)).items == []
        assert await world.left("b") == []

    tell(story)


def test_a_shoot_whose_project_was_lost_says_so_and_goes_on_when_it_is_back() -> None:
    """The Shoot does not change by any of it, and must not wait for the resync."""
    fruit = {"metadata": {"name": "fruit"}, "spec": {"namespace": NAMESPACE}}

    async def story(world: World) -> None:
        await world.client.create(Project.resource, fruit)
        await world.create_shoot()
        await world.healthy("a")
        await world.client.delete(Project.resource, "fruit")
        told = await world.until(lambda shoot: bool(shoot.status.last_errors), seconds=60)
        assert "or restore the Project" in told.status.last_errors[0].description
        await asyncio.sleep(600)
        assert not await is_leased(world, "a")
        await world.client.create(Project.resource, fruit)
        await world.healthy("a", seconds=60)
        for _ in range(10):
            await asyncio.sleep(60)
            assert await is_leased(world, "a")

    tell(story, "a")


async def is_leased(world: World, seed: str) -> bool:
    """True if extensions of the seed may act for its shoot."""
    (cluster,) = (await world.seeds[seed].client.list(Cluster.resource)).items
    return cluster.decode(Cluster).spec.lease_expiration > world.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
