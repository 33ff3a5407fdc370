"""Somebody deletes what stands for machines, networks or data in a seed: nobody has confirmed it, and all of it stays.

With the extensions of type `local` on the simulated cloud.
"""

from __future__ import annotations

import asyncio
from typing import Literal

import pytest

from espalier.api import core
from espalier.api.gardener import EXTENSION_KINDS, names
from espalier.api.gardener.extensions.extension import Extended
from espalier.api.gardener.extensions.extension_backups import BackupBucket
from espalier.api.resource import Resource
from espalier.runtime import virtual
from tests.support.gardens.gardens import EPOCH, World, garden
from tests.support.sampling import sampled

ID = names.technical_id("dev", "apple")
KINDS: tuple[type[Extended], ...] = (*EXTENSION_KINDS, BackupBucket)


def inventory(world: World) -> list[str]:
    kinds: tuple[Literal["VirtualMachine", "Network", "Bucket"], ...] = ("VirtualMachine", "Network", "Bucket")
    return sorted(f"{kind} {item.name} {item.id}" for kind in kinds for item in world.cloud.inventory.all(kind))


def changes(world: World) -> list[str]:
    return [str(write) for write in world.cloud.log.writes() if "Record" not in str(write)]


async def there(world: World, seed: str, resource: Resource) -> dict[str, str]:
    """UIDs by name of the shoot's resources of a kind, that are not being deleted."""
    listed = await world.seeds[seed].client.list(resource, ID if resource.namespaced else None)
    return {item.name: item.metadata.uid for item in listed.items if item.metadata.deletion_timestamp is None}


@pytest.mark.parametrize(
    "kind", sampled(KINDS, 0, next(i for i, item in enumerate(KINDS) if item.__name__ == "Worker"))
)
def test_a_resource_deleted_by_hand_is_restored(kind: type[Extended]) -> None:
    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, with_cloud=True, delay=0.5) as world:
            await world.create_shoot()
            await world.healthy("a")
            await asyncio.sleep(30)
            before, changed = inventory(world), changes(world)
            result = await there(world, "a", kind.resource)
            for name in result:
                await world.seeds["a"].client.delete(kind.resource, name, ID if kind.resource.namespaced else None)
            await asyncio.sleep(120)
            restored = await there(world, "a", kind.resource)
            assert restored.keys() == result.keys()
            assert not set(restored.values()) & set(result.values())
            assert (inventory(world), changes(world)) == (before, changed)
            await world.healthy("a", seconds=1)
            await world.move("b")
            await world.healthy("b", seconds=300)
            assert (inventory(world), changes(world)) == (before, changed)

    virtual.run(main, epoch=EPOCH, seed=1)


@pytest.mark.parametrize("moves", [False, True])
def test_namespace_deleted_by_hand_returns_complete(moves: bool) -> None:
    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, with_cloud=True, delay=0.5) as world:
            await world.create_shoot()
            await world.healthy("a")
            await asyncio.sleep(30)
            before, changed = inventory(world), changes(world)
            await world.seeds["a"].client.delete(core.NAMESPACE, ID)
            if moves:
                await world.move("b")
            await asyncio.sleep(300)
            await world.healthy("b" if moves else "a", seconds=1)
            assert (inventory(world), changes(world)) == (before, changed)
            if moves:
                await world.gone("a", seconds=300)
            else:
                await world.move("b")
                await world.healthy("b", seconds=300)
            assert (inventory(world), changes(world)) == (before, changed)

    virtual.run(main, epoch=EPOCH, seed=1)
