"""The specifics of a cluster on vSphere: failure domains, and credentials in the workload cluster."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from typing import Any

import pytest

from espalier.api.capi.machine import Machine
from espalier.api.core import CONFIG_MAP, DAEMON_SET, SECRET, Secret
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.kube.client import Client
from espalier.providers.vsphere.cluster_api import (
    VSphereCluster,
    VSphereDeploymentZone,
    VSphereFailureDomain,
    VSphereMachine,
    VSphereMachineTemplate,
)
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.managed_environment import CALM, NAMESPACE, ManagedEnvironment, managed_environment
from tests.support.providers.vsphere import CREDENTIALS, DOMAIN, of
from tests.support.providers.vsphere_steps import EPOCH, VINEYARD, Vineyard, put_credentials

pytestmark = pytest.mark.embedded

CONTROL_PLANE, WORKERS = "", "vineyard-md-0"


async def domains(env: ManagedEnvironment) -> None:
    """Workers are in the failure domain that their group names, under its name in Cluster API."""
    for kind in (VSphereFailureDomain, VSphereDeploymentZone):
        assert [item.name for item in (await env.client.list(kind.resource)).items] == ["vineyard-vineyard-east"]
    machines = (await env.client.list(Machine.resource, SYSTEM_NAMESPACE)).items
    assert sorted(machine.tree["spec"].get("failureDomain", "") for machine in machines) == [
        "",
        "vineyard-vineyard-east",
    ]


async def rotate(env: ManagedEnvironment) -> None:
    """New passwords reach what has them, here and in the workload cluster, and replace no machine."""
    before = await env.machine_names("vineyard")
    templates = await names(env.client, VSphereMachineTemplate)
    await put_credentials(env, CREDENTIALS | {"password": "another-canary", "passwordCP": "another-reader"})
    await asyncio.sleep(CALM)
    await env.until_ready(VINEYARD)
    identity = (await env.client.get(SECRET, "vineyard-vsphere-credentials", SYSTEM_NAMESPACE)).decode(Secret)
    assert identity.data["password"] == b"another-canary"
    workload = await env.workload(VINEYARD)
    there = await workload.get(SECRET, "cloud-provider-vsphere-credentials", "kube-system")
    assert base64.b64decode(there.tree["data"]["vcenter.example.com.password"]) == b"another-reader"
    assert await env.machine_names("vineyard") == before
    assert await names(env.client, VSphereMachineTemplate) == templates
    raws = [item.raw for kind in (SECRET, CONFIG_MAP) for item in (await workload.list(kind)).items]
    canary = base64.b64encode(b"another-canary")
    assert not [raw for raw in raws if canary in raw or b"another-canary" in raw]


async def names(client: Client, kind: type[Any]) -> list[str]:
    return [item.name for item in (await client.list(kind.resource)).items]


async def delete(env: ManagedEnvironment) -> None:
    """Nothing is left."""
    await env.client.delete(Cluster.resource, "vineyard", NAMESPACE)
    await env.until_gone(VINEYARD)
    for made in (VSphereCluster, VSphereMachine, VSphereMachineTemplate, VSphereDeploymentZone, VSphereFailureDomain):
        assert await names(env.client, made) == []
    assert "vineyard-vsphere-credentials" not in await names(env.client, Secret)


def told_as(simulate: Callable[[ManagedEnvironment], Any]) -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as env:
            await put_credentials(env)
            await simulate(env)

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.demand("L28", "L67")
def test_new_failure_domain_replaces_no_machine() -> None:
    async def life(env: ManagedEnvironment) -> None:
        vineyard = Vineyard(env)
        vineyard.spec["workerNodeGroupConfigurations"][0]["count"] = 1
        await vineyard.make()
        workload = await env.workload(VINEYARD)
        await workload.get(DAEMON_SET, "vsphere-cloud-controller-manager", "kube-system")
        of(vineyard.trees, "VSphereDatacenterConfig")["failureDomains"] = [DOMAIN]
        vineyard.spec["workerNodeGroupConfigurations"][0]["failureDomains"] = ["east"]
        await vineyard.step(WORKERS)
        await domains(env)
        await rotate(env)
        await delete(env)

    told_as(life)
