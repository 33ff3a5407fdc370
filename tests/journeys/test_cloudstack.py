"""The specifics of a cluster on CloudStack: disks and links, availability zones, keys."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from espalier.api.core import SECRET
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.kube.client import Client
from espalier.providers.cloudstack.cluster_api import CloudStackCluster, CloudStackMachine, CloudStackMachineTemplate
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.managed_environment import CALM, NAMESPACE, ManagedEnvironment, managed_environment
from tests.support.histories.planned_steps import PlannedSteps
from tests.support.providers.cloudstack import CREDENTIALS, MAKER, credentials, disk, of, zone
from tests.support.providers.cloudstack_steps import EPOCH, HARBOR, harbor_of

pytestmark = pytest.mark.embedded

MACHINES = "CloudStackMachineConfig"
CONTROL_PLANE, WORKERS = "", "harbor-md-0"


async def put_credentials(env: ManagedEnvironment, data: Mapping[str, str] = CREDENTIALS) -> None:
    """The Secret that an administrator makes."""
    await env.client.apply(SECRET, credentials(data, NAMESPACE), field_manager="administrator")


async def change(harbor: PlannedSteps) -> None:
    """Fields that no other provider has, one after the other."""
    of(harbor.trees, MACHINES)["diskOffering"] = disk()
    await harbor.step(WORKERS)
    of(harbor.trees, MACHINES)["symlinks"] = {"/var/log/containers": "/data-small/containers"}
    await harbor.step(WORKERS)
    of(harbor.trees, "CloudStackDatacenterConfig")["availabilityZones"].append(zone("az-2"))
    await harbor.step()


async def rotate(env: ManagedEnvironment) -> None:
    """New keys replace no machine and write nothing: Cluster API's provider reads them where they are."""
    before = await env.machine_names("harbor")
    templates = await names(env.client, CloudStackMachineTemplate)
    await put_credentials(env, CREDENTIALS | {"secret-key": "another-canary"})
    await asyncio.sleep(CALM)
    await env.until_ready(HARBOR)
    assert await env.machine_names("harbor") == before
    assert await names(env.client, CloudStackMachineTemplate) == templates
    workload = await env.workload(HARBOR)
    raws = [item.raw for item in (await workload.list(SECRET)).items]
    assert not [raw for raw in raws if b"canary" in raw or MAKER.encode() in raw]


async def names(client: Client, kind: type[Any]) -> list[str]:
    return [item.name for item in (await client.list(kind.resource)).items]


async def delete(env: ManagedEnvironment) -> None:
    """Nothing is left but what the administrator made."""
    await env.client.delete(Cluster.resource, "harbor", NAMESPACE)
    await env.until_gone(HARBOR)
    for made in (CloudStackCluster, CloudStackMachine, CloudStackMachineTemplate):
        assert await names(env.client, made) == []
    await env.client.get(SECRET, "global", SYSTEM_NAMESPACE)


def told_as(simulate: Callable[[ManagedEnvironment], Any]) -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as env:
            await put_credentials(env)
            await simulate(env)

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.soak
def test_new_disks_and_keys_replace_no_machine() -> None:
    async def life(env: ManagedEnvironment) -> None:
        harbor = harbor_of(env)
        await harbor.make()
        await change(harbor)
        infrastructure = await env.client.get(CloudStackCluster.resource, "harbor", SYSTEM_NAMESPACE)
        assert sorted(infrastructure.decode(CloudStackCluster).status.failure_domains) == ["az-1", "az-2"]
        await rotate(env)
        await delete(env)

    told_as(life)


def test_cluster_waits_for_its_keys() -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as env:
            harbor = harbor_of(env)
            await harbor.apply()
            waits = await env.until(lambda value: "eksa-system/global" in (value.status.failure_message or ""), HARBOR)
            assert "credentials-servers with cloudstack.example.com:8443" in (waits.status.failure_message or "")
            assert await names(env.client, CloudStackCluster) == []
            await put_credentials(env)
            await env.until_ready(HARBOR)

    run(main, epoch=EPOCH, seed=1)
