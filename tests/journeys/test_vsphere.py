"""A cluster on vSphere is created, changed and deleted; machines are replaced exactly where the plan says so."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from espalier.api.capi.machine import Machine
from espalier.api.core import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, DAEMON_SET, SECRET, Secret
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.kube.client import Client
from espalier.providers.vsphere.cluster_api import (
    VSphereCluster,
    VSphereDeploymentZone,
    VSphereFailureDomain,
    VSphereMachine,
    VSphereMachineTemplate,
)
from espalier.runtime.virtual import Simulation, run
from tests.journeys.managed import CALM, NAMESPACE, ManagedEnvironment, managed_environment
from tests.journeys.vineyards import VINEYARD, Vineyard, put_credentials, upgrade_in_place
from tests.support.vsphere import CREDENTIALS, DOMAIN, of, reference

pytestmark = pytest.mark.embedded

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
CONTROL_PLANE, WORKERS = "", "vineyard-md-0"


async def change(vineyard: Vineyard) -> None:
    """Whatever is changed, one thing after the other."""
    spec = vineyard.spec
    groups = spec["workerNodeGroupConfigurations"]
    groups[0]["count"] = 1
    await vineyard.step()
    groups[0]["labels"] = {"slope": "south"}
    await vineyard.step(WORKERS)
    groups[0]["taints"] = [{"key": "late", "value": "frost", "effect": "PreferNoSchedule"}]
    await vineyard.step(WORKERS)
    of(vineyard.trees, "VSphereMachineConfig")["memoryMiB"] = 16384
    await vineyard.step(WORKERS)
    groups.append({"name": "md-1", "count": 1, "machineGroupRef": reference("vineyard")})
    await vineyard.step()
    groups.pop()
    await vineyard.step()
    spec["controlPlaneConfiguration"]["certSans"] = ["vineyard.example.com"]
    await vineyard.step(CONTROL_PLANE)
    of(vineyard.trees, "VSphereDatacenterConfig")["failureDomains"] = [DOMAIN]
    groups[0]["failureDomains"] = ["east"]
    await vineyard.step(WORKERS)
    spec["kubernetesVersion"] = "1.36"
    for name in ("vineyard-cp", "vineyard"):
        of(vineyard.trees, "VSphereMachineConfig", name)["template"] = "ubuntu-1-36"
    await vineyard.step(CONTROL_PLANE, WORKERS)
    assert {version.split("-")[0] for version in await vineyard.env.versions(VINEYARD)} == {"v1.36.3"}


async def domains(env: ManagedEnvironment) -> None:
    """Workers are in the failure domain that their group names, under its name in Cluster API."""
    for kind in (VSphereFailureDomain, VSphereDeploymentZone):
        assert [one.name for one in (await env.client.list(kind.resource)).items] == ["vineyard-vineyard-east"]
    machines = (await env.client.list(Machine.resource, SYSTEM_NAMESPACE)).items
    assert sorted(one.tree["spec"].get("failureDomain", "") for one in machines) == ["", "vineyard-vineyard-east"]


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
    found = [one.raw for kind in (SECRET, CONFIG_MAP) for one in (await workload.list(kind)).items]
    canary = base64.b64encode(b"another-canary")
    assert not [raw for raw in found if canary in raw or b"another-canary" in raw]


async def names(client: Client, kind: type[Any]) -> list[str]:
    return [one.name for one in (await client.list(kind.resource)).items]


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


def test_a_cluster_on_vsphere_lives_and_ends() -> None:
    async def life(env: ManagedEnvironment) -> None:
        vineyard = Vineyard(env)
        await vineyard.make()
        nodes = await env.nodes(VINEYARD)
        assert len(nodes) == 3
        assert all(node["spec"]["providerID"].startswith("vsphere://") for node in nodes)
        workload = await env.workload(VINEYARD)
        await workload.get(DAEMON_SET, "vsphere-cloud-controller-manager", "kube-system")
        await change(vineyard)
        await domains(env)
        await rotate(env)
        await delete(env)

    told_as(life)


def test_machines_on_vsphere_are_upgraded_in_place_and_refuse_what_cant_be() -> None:
    async def life(env: ManagedEnvironment) -> None:
        vineyard = Vineyard(env)
        await vineyard.make()
        await upgrade_in_place(vineyard)
        of(vineyard.trees, "VSphereMachineConfig")["memoryMiB"] = 16384
        preview = await env.preview(VINEYARD, vineyard.trees)
        assert preview.stops.startswith("InPlaceUpgradeRefused: infrastructure.memoryMiB of ")

    told_as(life)


def test_a_cluster_on_vsphere_has_an_etcd_of_its_own() -> None:
    async def life(env: ManagedEnvironment) -> None:
        vineyard = Vineyard(env)
        vineyard.spec["externalEtcdConfiguration"] = {"count": 1, "machineGroupRef": reference("vineyard-cp")}
        await vineyard.make()
        assert "vineyard-etcd-1" in await names(env.client, VSphereMachineTemplate)
        assert len(await names(env.client, VSphereMachine)) == 4
        await delete(env)

    told_as(life)


def test_without_the_provider_of_cluster_api_a_cluster_waits_and_goes_on_when_it_comes() -> None:
    async def life(env: ManagedEnvironment) -> None:
        name = "vsphereclusters.infrastructure.cluster.x-k8s.io"
        definition: Tree = (await env.client.get(CUSTOM_RESOURCE_DEFINITION, name)).tree
        await env.client.delete(CUSTOM_RESOURCE_DEFINITION, name)
        await asyncio.sleep(CALM)
        vineyard = Vineyard(env)
        await vineyard.apply()
        waits = await env.until(lambda found: name in (found.status.failure_message or ""), VINEYARD)
        assert "is not installed in the management cluster" in (waits.status.failure_message or "")
        kept = {"apiVersion": definition["apiVersion"], "kind": definition["kind"], "spec": definition["spec"]}
        metadata = {"name": name, "labels": definition["metadata"].get("labels", {})}
        await env.client.create(CUSTOM_RESOURCE_DEFINITION, kept | {"metadata": metadata})
        await env.until_ready(VINEYARD)

    told_as(life)
