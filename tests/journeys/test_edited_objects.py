"""Somebody edits an object in the namespace of a settled shoot: what it had comes back by itself.

With the extensions of type `local` on the simulated cloud.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal

import pytest

from espalier.api import core
from espalier.api.gardener import names
from espalier.api.gardener.machines import MachineClass, MachineDeployment
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.kube.client import PatchType
from espalier.runtime import virtual
from espalier.shoots.secrets import names as secret_names
from tests.support.gardens.gardens import EPOCH, World, garden
from tests.support.sampling import sampled

ID = names.technical_id("dev", "apple")
EDITS: dict[str, Tree] = {
    "another value": {"data": {"token": "eA=="}},
    "nothing": {"data": None},
}


def inventory(world: World) -> list[str]:
    kinds: tuple[Literal["VirtualMachine", "Network"], ...] = ("VirtualMachine", "Network")
    return sorted(f"{kind} {item.name} {item.id}" for kind in kinds for item in world.cloud.inventory.all(kind))


@pytest.mark.parametrize("edit", EDITS)
def test_edited_credentials_are_copied_again(edit: str) -> None:
    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, with_cloud=True, delay=0.5) as world:
            await world.create_shoot()
            await world.healthy("a")
            await asyncio.sleep(30)
            client, name = world.seeds["a"].client, secret_names.CLOUD_PROVIDER
            before = await client.get(core.SECRET, name, ID)
            assert before.tree["data"]
            await client.patch(core.SECRET, name, ID, patch=EDITS[edit], type=PatchType.MERGE)
            await asyncio.sleep(60)
            assert (await client.get(core.SECRET, name, ID)).tree["data"] == before.tree["data"]
            await world.healthy("a", seconds=1)

    virtual.run(main, epoch=EPOCH, seed=1)


def of_osc(secret: str) -> bool:
    return secret.startswith("osc-result-")


def of_a_class(secret: str) -> bool:
    return secret.startswith(f"{ID}-")


def any_of(name: str) -> bool:
    return bool(name)


OF_EXTENSIONS: dict[str, tuple[Resource, Callable[[str], bool], str, Tree]] = {
    "user data": (core.SECRET, of_osc, "data", {"data": {"cloud_config": "e30="}}),
    "more user data": (core.SECRET, of_osc, "data", {"data": {"more": "e30="}}),
    "user data of a class": (core.SECRET, of_a_class, "data", {"data": {"userData": "e30="}}),
    "configuration": (
        core.CONFIG_MAP,
        lambda name: name.startswith("cloud-provider-config"),
        "data",
        {"data": {"network": "x"}},
    ),
    "network of a class": (MachineClass.resource, any_of, "providerSpec", {"providerSpec": {"network": "x"}}),
    "credentials of a class": (
        MachineClass.resource,
        any_of,
        "credentialsSecretRef",
        {"credentialsSecretRef": {"name": "x"}},
    ),
    "no user data of a class": (MachineClass.resource, any_of, "secretRef", {"secretRef": None}),
}


@pytest.mark.parametrize("edit", sampled(OF_EXTENSIONS, 0, 2, 3, 4))
def test_edited_objects_of_extensions_are_made_again(edit: str) -> None:
    resource, is_edited, part, patch = OF_EXTENSIONS[edit]

    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, with_cloud=True, delay=0.5) as world:
            await world.create_shoot()
            await world.healthy("a")
            await asyncio.sleep(60)
            client, made = world.seeds["a"].client, inventory(world)
            [before] = [item for item in (await client.list(resource, ID)).items if is_edited(item.name)]
            await client.patch(resource, before.name, ID, patch=patch, type=PatchType.MERGE)
            await asyncio.sleep(60)
            after = await client.get(resource, before.name, ID)
            assert after.tree[part] == before.tree[part]
            await asyncio.sleep(60)
            settled = await client.get(resource, before.name, ID)
            assert settled.resource_version == after.resource_version, "it is written once"
            await world.healthy("a", seconds=1)
            assert inventory(world) == made
            await world.move("b")
            await world.healthy("b", seconds=300)
            assert inventory(world) == made

    virtual.run(main, epoch=EPOCH, seed=1)


def test_replicas_beyond_the_maximum_are_taken_back() -> None:
    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, with_cloud=True, delay=0.5) as world:
            await world.create_shoot()
            await world.healthy("a")
            await asyncio.sleep(60)
            client, resource = world.seeds["a"].client, MachineDeployment.resource
            [live] = (await client.list(resource, ID)).items
            await client.patch(resource, live.name, ID, patch={"spec": {"replicas": 99}}, type=PatchType.MERGE)
            await asyncio.sleep(120)
            pool = (await world.shoot()).spec.provider.workers[0]
            assert (await client.get(resource, live.name, ID)).tree["spec"]["replicas"] == pool.maximum
            await world.healthy("a", seconds=1)

    virtual.run(main, epoch=EPOCH, seed=1)
