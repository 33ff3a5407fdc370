"""Somebody deletes all objects of a kind in the namespace of a settled shoot: they come back by themselves.

With the extensions of type `local` on the simulated cloud. What has machines or data behind it is in
test_unconfirmed_deletions.py.
"""

from __future__ import annotations

import asyncio

import pytest

from espalier.api import core
from espalier.api.gardener import machines, names
from espalier.api.gardener.etcd import Etcd
from espalier.api.resource import Resource
from espalier.runtime import virtual
from tests.support.gardens.gardens import EPOCH, World, garden
from tests.support.sampling import sampled

ID = names.technical_id("dev", "apple")
KINDS: tuple[Resource, ...] = (
    core.SECRET,
    core.CONFIG_MAP,
    machines.MachineClass.resource,
    machines.MachineDeployment.resource,
    core.SERVICE,
    core.SERVICE_ACCOUNT,
    core.ROLE_BINDING,
    core.DEPLOYMENT,
    Etcd.resource,
)
MACHINES = (machines.MachineDeployment.resource,)
"""Kinds whose deletion deletes machines: the machine controller manager's users delete them for that."""


async def present(world: World, seed: str, resource: Resource) -> dict[str, str]:
    """UIDs by name; without what is named by its content or at random."""
    listed = await world.seeds[seed].client.list(resource, ID)
    return {
        item.name: item.metadata.uid
        for item in listed.items
        if not item.name.startswith(("etcd-peer-", "etcd-client-"))
    }


def virtual_machines(world: World) -> set[str]:
    return {machine.id for machine in world.cloud.inventory.all("VirtualMachine")}


@pytest.mark.parametrize("kind", sampled({resource.kind: resource for resource in KINDS}, 0, 1, 2, 3))
def test_deleted_objects_of_a_kind_come_back(kind: str) -> None:
    [resource] = (resource for resource in KINDS if resource.kind == kind)

    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, with_cloud=True, delay=0.5) as world:
            await world.create_shoot()
            await world.healthy("a")
            await asyncio.sleep(60)
            before, running = await present(world, "a", resource), virtual_machines(world)
            assert before
            for name in before:
                await world.seeds["a"].client.delete(resource, name, ID)
            await asyncio.sleep(120)
            after = await present(world, "a", resource)
            assert after.keys() >= before.keys()
            assert not set(after.values()) & set(before.values())
            await world.healthy("a", seconds=1)
            assert len(virtual_machines(world)) == len(running)
            assert resource in MACHINES or virtual_machines(world) == running
            running = virtual_machines(world)
            await world.move("b")
            await world.healthy("b", seconds=300)
            await world.gone("a", seconds=300)
            assert virtual_machines(world) == running

    virtual.run(main, epoch=EPOCH, seed=1)


def test_objects_deleted_while_nobody_looks_come_back() -> None:
    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, with_cloud=True, delay=0.5) as world:
            await world.create_shoot()
            await world.healthy("a")
            await asyncio.sleep(60)
            await world.garden.kill("extensions a")
            deleted = {}
            for resource in (core.SECRET, core.CONFIG_MAP, machines.MachineClass.resource):
                deleted[resource] = await present(world, "a", resource)
                for name in deleted[resource]:
                    await world.seeds["a"].client.delete(resource, name, ID)
            await asyncio.sleep(60)
            await world.garden.restart("extensions a")
            await asyncio.sleep(60)
            for resource, before in deleted.items():
                assert (await present(world, "a", resource)).keys() >= before.keys()
            await world.healthy("a", seconds=1)

    virtual.run(main, epoch=EPOCH, seed=1)
