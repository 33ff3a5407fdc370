"""Extension kinds that somebody has installed in seeds: their states move with a shoot, to whoever asks for them."""

from __future__ import annotations

import asyncio
from typing import Any

from espalier.api import core
from espalier.api.definitions.crd import crd_of
from espalier.api.gardener import names
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.kube.client import PatchType
from espalier.runtime import virtual
from espalier.shoots.state.kinds import declared
from tests.support.gardens.gardens import EPOCH, World, garden

RUNTIMES = declared(Resource("extensions.gardener.cloud", "v1alpha1", "containerruntimes", "ContainerRuntime"))
ID = names.technical_id("dev", "apple")


async def create(world: World, seed: str, name: str, **annotations: str) -> None:
    """Act as whoever creates resources of the kind."""
    metadata = {"name": name, "namespace": ID, "annotations": annotations}
    await world.seeds[seed].client.create(RUNTIMES.resource, {"metadata": metadata, "spec": {"type": "gvisor"}})


async def report(world: World, seed: str, name: str, status: Tree) -> None:
    """Act as the extension."""
    place = (RUNTIMES.resource, name, ID)
    await world.seeds[seed].client.patch(*place, patch={"status": status}, type=PatchType.MERGE, subresource="status")


async def state(world: World, seed: str, name: str) -> tuple[Any, str | None]:
    live = await world.seeds[seed].client.get(RUNTIMES.resource, name, ID)
    return live.tree.get("status", {}).get("state"), live.metadata.annotations.get(metadata_keys.OPERATION)


def test_state_of_another_kind_is_given_to_the_waiting() -> None:
    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, delay=0.5) as world:
            for seed in world.seeds.values():
                await seed.client.create(core.CUSTOM_RESOURCE_DEFINITION, crd_of(RUNTIMES))
            await world.create_shoot()
            await world.healthy("a")
            await create(world, "a", "gvisor")
            await report(world, "a", "gvisor", {"state": {"sandboxes": 3}})
            await asyncio.sleep(60)
            await world.move("b")
            await world.healthy("b")
            await asyncio.sleep(600)  # whoever creates the resource is late
            await create(world, "b", "gvisor", **{metadata_keys.OPERATION: metadata_keys.WAIT_FOR_STATE})
            await create(world, "b", "kata", **{metadata_keys.OPERATION: metadata_keys.WAIT_FOR_STATE})
            await asyncio.sleep(30)
            assert await state(world, "b", "gvisor") == ({"sandboxes": 3}, metadata_keys.RESTORE)
            assert await state(world, "b", "kata") == (None, metadata_keys.WAIT_FOR_STATE), "it never had one"
            await world.healthy("b", seconds=60)

    virtual.run(main, epoch=EPOCH, seed=1)


def test_state_is_given_only_where_the_shoot_started() -> None:
    """Before, its extension at the source may still act."""

    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, delay=0.5) as world:
            for seed in world.seeds.values():
                await seed.client.create(core.CUSTOM_RESOURCE_DEFINITION, crd_of(RUNTIMES))
            await world.create_shoot()
            await world.healthy("a")
            await create(world, "a", "gvisor")
            await report(world, "a", "gvisor", {"state": {"sandboxes": 3}})
            await asyncio.sleep(60)
            await world.seeds["a"].power_off()
            await world.move("b")
            await world.patch({"metadata": {"annotations": {metadata_keys.FORCE_RESTORE: "true"}}})
            await asyncio.sleep(60)  # its namespace is there, and the lease of the source is waited for
            await create(world, "b", "gvisor", **{metadata_keys.OPERATION: metadata_keys.WAIT_FOR_STATE})
            await asyncio.sleep(60)
            assert await state(world, "b", "gvisor") == (None, metadata_keys.WAIT_FOR_STATE)
            await world.healthy("b", seconds=900)
            await asyncio.sleep(60)
            assert await state(world, "b", "gvisor") == ({"sandboxes": 3}, metadata_keys.RESTORE)

    virtual.run(main, epoch=EPOCH, seed=1)


def test_state_outlives_seeds_that_lack_its_kind() -> None:
    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, "a", "b", "c", delay=0.5) as world:
            await world.seeds["a"].client.create(core.CUSTOM_RESOURCE_DEFINITION, crd_of(RUNTIMES))
            await world.create_shoot()
            await world.healthy("a")
            await create(world, "a", "gvisor")
            await report(world, "a", "gvisor", {"state": {"sandboxes": 3}})
            await asyncio.sleep(60)
            for seed in ("b", "c"):
                await world.move(seed)
                await world.healthy(seed)
                await asyncio.sleep(300)  # the version in the garden is compared meanwhile
            await world.seeds["c"].client.create(core.CUSTOM_RESOURCE_DEFINITION, crd_of(RUNTIMES))
            await asyncio.sleep(60)
            await create(world, "c", "gvisor", **{metadata_keys.OPERATION: metadata_keys.WAIT_FOR_STATE})
            await asyncio.sleep(30)
            assert await state(world, "c", "gvisor") == ({"sandboxes": 3}, metadata_keys.RESTORE)

    virtual.run(main, epoch=EPOCH, seed=1)


def test_state_is_given_by_a_restarted_gardenlet() -> None:
    """Whoever asks for it may do so while no gardenlet runs."""

    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, delay=0.5) as world:
            for seed in world.seeds.values():
                await seed.client.create(core.CUSTOM_RESOURCE_DEFINITION, crd_of(RUNTIMES))
            await world.create_shoot()
            await world.healthy("a")
            await create(world, "a", "gvisor")
            await report(world, "a", "gvisor", {"state": {"sandboxes": 3}})
            await asyncio.sleep(60)
            await world.move("b")
            await world.healthy("b")
            for program in ("gardenlet a", "gardenlet b"):
                await world.garden.kill(program)
            await create(world, "b", "gvisor", **{metadata_keys.OPERATION: metadata_keys.WAIT_FOR_STATE})
            await asyncio.sleep(20)
            assert await state(world, "b", "gvisor") == (None, metadata_keys.WAIT_FOR_STATE)
            await world.garden.restart("gardenlet b")
            await asyncio.sleep(60)
            assert await state(world, "b", "gvisor") == ({"sandboxes": 3}, metadata_keys.RESTORE)
            await world.garden.restart("gardenlet a")

    virtual.run(main, epoch=EPOCH, seed=1)
