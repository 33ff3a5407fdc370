"""A seed whose gardenlet lies, against shoots of other seeds. Its rights in the garden are those that it is granted."""

from __future__ import annotations

import asyncio

import pytest

from espalier.api.core import DEPLOYMENT, VALIDATING_WEBHOOK_CONFIGURATION
from espalier.api.gardener.shoot import Shoot
from espalier.api.meta import Tree
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import Invalid
from espalier.kube.wire import User
from espalier.runtime import virtual
from espalier.shoots.admission.users import SEEDS
from espalier.shoots.garden.roles import USER
from tests.support.gardens import EPOCH, NAMESPACE, World, client_of, garden


def hostile(world: World, seed: str) -> Client:
    return client_of(world.server, "hostile", User(USER.format(seed=seed), (SEEDS, "system:authenticated")))


async def claim(world: World, status: Tree) -> None:
    """Seed `a` says something of its shoot."""
    await hostile(world, "a").patch(
        Shoot.resource, "worm", NAMESPACE, patch={"status": status}, type=PatchType.MERGE, subresource="status"
    )


def test_a_shoot_that_claims_to_be_another_one_moves_nothing_of_it() -> None:
    """Its status is its gardenlet's to write: name and identity in it may be those of another seed's shoot."""

    async def story(world: World) -> None:
        await world.create_shoot("apple", "b")
        await world.create_shoot("worm", "a")
        apple = await world.healthy("b", "apple")
        await world.healthy("a", "worm")
        claimed = {"technicalID": apple.status.technical_id, "uid": apple.status.uid, "seedName": "b"}
        for field, value in claimed.items():
            with pytest.raises(Invalid, match=f"status.{field}: "):
                await claim(world, {field: value})
        await world.client.delete(VALIDATING_WEBHOOK_CONFIGURATION, "garden")  # seeds do not rely on it
        await claim(world, claimed)
        await asyncio.sleep(300)
        running = await world.seeds["b"].client.get(DEPLOYMENT, "kube-apiserver", apple.status.technical_id)
        assert running.tree["spec"]["replicas"] == 1
        assert await world.shoot("apple") == apple
        worm = await world.shoot("worm")
        assert "status.technicalID: found shoot--dev--apple, allowed: shoot--dev--worm" in str(worm.status)

    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation) as world:
            await story(world)

    virtual.run(main, epoch=EPOCH, seed=1)
