"""Somebody deletes an object in the namespace of a settled shoot, and a finalizer holds it: the Shoot says so, with the
object, what holds it and what to do; that done, all of it comes back.

With the extensions of type `local` on the simulated cloud.
"""

from __future__ import annotations

import asyncio
import re
from typing import Literal

import msgspec
import pytest

from espalier.api import core
from espalier.api.conditions import get
from espalier.api.gardener import EXTENSION_KINDS, machines, names
from espalier.api.gardener.etcd import Etcd
from espalier.api.gardener.extensions.cluster import Cluster
from espalier.api.gardener.extensions.extension_backups import BackupBucket
from espalier.api.gardener.extensions.infrastructure import Infrastructure
from espalier.api.gardener.garden.shoot import CONTROL_PLANE_HEALTHY
from espalier.api.resource import Resource
from espalier.kube.client import PatchType
from espalier.runtime import virtual
from tests.support.gardens.gardens import EPOCH, World, garden
from tests.support.sampling import sampled

ID = names.technical_id("dev", "apple")
FINALIZER = "example.com/audit"
KINDS: dict[str, Resource] = {
    resource.kind: resource
    for resource in (
        core.SECRET,
        core.CONFIG_MAP,
        core.SERVICE,
        core.SERVICE_ACCOUNT,
        core.ROLE_BINDING,
        core.DEPLOYMENT,
        Etcd.resource,
        Cluster.resource,
        machines.MachineClass.resource,
        machines.MachineDeployment.resource,
        machines.MachineSet.resource,
        *(kind.resource for kind in EXTENSION_KINDS),
        BackupBucket.resource,
    )
}
WITH_MACHINES = {"MachineDeployment", "MachineSet"}
"""Kinds whose deletion deletes machines: the machine controller manager's users delete them for that."""
ALWAYS = [list(KINDS).index(kind) for kind in ("Secret", "ConfigMap", "MachineClass", Infrastructure.resource.kind)]


async def control_plane(world: World) -> tuple[str, str, str]:
    condition = get((await world.shoot()).status.conditions, CONTROL_PLANE_HEALTHY)
    assert condition is not None
    return condition.status, condition.reason, condition.message


def inventory(world: World) -> list[str]:
    kinds: tuple[Literal["VirtualMachine", "Network"], ...] = ("VirtualMachine", "Network")
    return sorted(f"{kind} {item.name} {item.id}" for kind in kinds for item in world.cloud.inventory.all(kind))


@pytest.mark.parametrize("kind", sampled(KINDS, *ALWAYS))
def test_an_object_held_by_a_finalizer_is_reported(kind: str) -> None:
    resource = KINDS[kind]

    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, with_cloud=True, delay=0.5) as world:
            await world.create_shoot()
            await world.healthy("a")
            await asyncio.sleep(60)
            made, client = inventory(world), world.seeds["a"].client
            namespace = ID if resource.namespaced else None
            live = (await client.list(resource, namespace)).items[0]
            patch = {"metadata": {"finalizers": [*live.metadata.finalizers, FINALIZER]}}
            await client.patch(resource, live.name, namespace, patch=patch, type=PatchType.MERGE)
            await client.delete(resource, live.name, namespace)
            await asyncio.sleep(90)
            status, reason, message = await control_plane(world)
            assert (status, reason) == ("False", "ObjectsDeleting")
            assert f"{kind} {live.name}: somebody has deleted it, and finalizers {FINALIZER} hold it" in message
            [command] = re.findall(r"kubectl patch (\S+) (\S+)(?: -n (\S+))? --type merge -p '(.*)'", message)
            assert command[1:3] == (live.name, namespace or "")
            assert command[0].partition(".")[0] == kind.lower()
            remedy = msgspec.json.decode(command[3])
            await client.patch(resource, live.name, namespace, patch=remedy, type=PatchType.MERGE)
            await asyncio.sleep(90)
            assert (await control_plane(world))[0] == "True"
            assert kind in WITH_MACHINES or inventory(world) == made
            made = inventory(world)
            await world.healthy("a", seconds=1)
            await world.move("b")
            await world.healthy("b", seconds=300)
            await world.gone("a", seconds=300)
            assert inventory(world) == made

    virtual.run(main, epoch=EPOCH, seed=1)
