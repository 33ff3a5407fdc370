"""A seed whose gardenlet lies, against shoots of other seeds. Its rights in the garden are those that it is granted."""

from __future__ import annotations

import asyncio

import pytest

from espalier.api.core import DEPLOYMENT, LEASE, VALIDATING_WEBHOOK_CONFIGURATION
from espalier.api.core import NAMESPACE as NAMESPACES
from espalier.api.gardener import names
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.meta import Tree
from espalier.cli.programs.garden_components import VALIDATING_WEBHOOKS
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import Forbidden, Invalid
from espalier.kube.transports.wire import User
from espalier.runtime import virtual
from espalier.shoots.admission.users import SEEDS
from espalier.shoots.garden.roles import USER
from tests.support.gardens.gardens import EPOCH, NAMESPACE, World, client_of, garden
from tests.support.sampling import sampled


def hostile(world: World, seed: str) -> Client:
    return client_of(world.server, "hostile", User(USER.format(seed=seed), (SEEDS, "system:authenticated")))


async def claim(world: World, status: Tree) -> None:
    """Seed `a` says something of its shoot."""
    await hostile(world, "a").patch(
        Shoot.resource, "worm", NAMESPACE, patch={"status": status}, type=PatchType.MERGE, subresource="status"
    )


def test_silent_seed_is_not_shown_alive_by_another() -> None:
    """RBAC has no names for creations: a Lease of the name would also keep the seed's own gardenlet from taking it."""

    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation) as world:
            for metadata in ({"name": "c"}, {"generateName": "c"}):
                with pytest.raises(Invalid, match="a gardenlet may create only the Lease of its own seed"):
                    await hostile(world, "a").create(
                        LEASE, {"metadata": {**metadata, "namespace": names.SEED_LEASES}, "spec": {}}
                    )
            await world.client.delete(LEASE, "a", names.SEED_LEASES)
            await asyncio.sleep(2 * world.config.monitor_period)
            leases = (await world.client.list(LEASE, names.SEED_LEASES)).items
            assert [item.name for item in leases] == ["a", "b"]

    virtual.run(main, epoch=EPOCH, seed=1)


async def settled(world: World) -> Shoot:
    """The Shoot `apple` once its gardenlet has reported the revision of its state."""
    await asyncio.sleep(120)
    return await world.shoot("apple")


@pytest.mark.soak
def test_forged_identity_of_a_shoot_moves_nothing() -> None:
    """Its status is its gardenlet's to write: name and identity in it may be those of another seed's shoot."""

    async def story(world: World) -> None:
        await world.create_shoot("apple", "b")
        await world.create_shoot("worm", "a")
        await world.healthy("b", "apple")
        await world.healthy("a", "worm")
        apple = await settled(world)
        claimed = {"technicalID": apple.status.technical_id, "uid": apple.status.uid, "seedName": "b"}
        for field, value in claimed.items():
            with pytest.raises(Forbidden, match=f"status.{field}: "):
                await claim(world, {field: value})
        await world.client.delete(VALIDATING_WEBHOOK_CONFIGURATION, VALIDATING_WEBHOOKS)  # seeds do not rely on it
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


@pytest.mark.soak
@pytest.mark.parametrize(
    ("seed", "status"), sampled([("b", {}), ("a", {"technicalID": "shoot--dev--apple", "uid": "twin"})], 1)
)
def test_equal_technical_ids_keep_shoots_apart(seed: str, status: Tree) -> None:
    """Project `dev` has namespace `garden-dev`, and a namespace `dev` without any Project is taken for the same one."""

    async def story(world: World) -> None:
        await world.create_shoot("apple", "a")
        await world.healthy("a", "apple")
        apple = await settled(world)
        twin = {**(await world.client.get(Shoot.resource, "apple", NAMESPACE)).tree["spec"], "seedName": seed}
        body = {"metadata": {"name": "apple", "namespace": "dev"}, "spec": twin}
        await world.client.create(NAMESPACES, {"metadata": {"name": "dev"}})
        with pytest.raises(Invalid, match="another shoot already has this namespace"):
            await world.client.create(Shoot.resource, body)
        configuration = await world.client.get(VALIDATING_WEBHOOK_CONFIGURATION, VALIDATING_WEBHOOKS)
        await world.client.delete(VALIDATING_WEBHOOK_CONFIGURATION, VALIDATING_WEBHOOKS)
        await world.client.create(Shoot.resource, body)  # one that was stored before this was refused
        await world.client.patch(
            Shoot.resource, "apple", "dev", patch={"status": status}, type=PatchType.MERGE, subresource="status"
        )
        fresh = {"metadata": {"name": "garden"}, "webhooks": configuration.tree["webhooks"]}
        await world.client.create(VALIDATING_WEBHOOK_CONFIGURATION, fresh)
        await asyncio.sleep(300)
        told = (await world.client.get(Shoot.resource, "apple", "dev")).decode(Shoot).status
        assert "shoot--dev--apple belongs to another shoot" in told.last_errors[0].description
        assert "create this shoot under another name" in told.last_errors[0].description
        assert world.witness.serving == {"shoot--dev--apple": "a"}
        assert await world.shoot("apple") == apple
        await world.client.delete(Shoot.resource, "apple", "dev")
        await asyncio.sleep(60)
        assert (await world.client.list(Shoot.resource, "dev")).items == []
        assert await world.shoot("apple") == apple

    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation) as world:
            await story(world)

    virtual.run(main, epoch=EPOCH, seed=1)
