"""A seed whose gardenlet lies, against shoots of other seeds. Its rights in the garden are those that it is granted."""

from __future__ import annotations

import asyncio

from espalier.api.core import DEPLOYMENT
from espalier.api.gardener.shoot import Shoot
from espalier.kube.client import Client, PatchType
from espalier.kube.wire import User
from espalier.runtime import virtual
from espalier.shoots.admission.users import SEEDS
from espalier.shoots.garden.roles import USER
from tests.support.gardens import EPOCH, NAMESPACE, World, client_of, garden


def hostile(world: World, seed: str) -> Client:
    return client_of(world.server, "hostile", User(USER.format(seed=seed), (SEEDS, "system:authenticated")))


def test_a_shoot_that_claims_to_be_another_one_moves_nothing_of_it() -> None:
    """Its status is its gardenlet's to write: name and identity in it may be those of another seed's shoot."""

    async def story(world: World) -> None:
        await world.create_shoot("apple", "b")
        await world.create_shoot("worm", "a")
        apple = await world.healthy("b", "apple")
        await world.healthy("a", "worm")
        claimed = {"technicalID": apple.status.technical_id, "uid": apple.status.uid, "seedName": "b"}
        await hostile(world, "a").patch(
            Shoot.resource, "worm", NAMESPACE, patch={"status": claimed}, type=PatchType.MERGE, subresource="status"
        )
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
