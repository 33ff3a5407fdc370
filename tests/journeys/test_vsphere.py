"""A cluster on vSphere is created, changed and deleted; machines are replaced exactly where the plan says so."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from espalier.api.capi.machine import Machine
from espalier.api.core import SECRET
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.group import SYSTEM_NAMESPACE
from espalier.api.manifests import read_manifests
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.clusters.credentials import NAMESPACES, SERVERS
from espalier.providers.kinds import CATALOG
from espalier.providers.vsphere.cluster_api import (
    VSphereCluster,
    VSphereDeploymentZone,
    VSphereMachine,
    VSphereMachineTemplate,
)
from espalier.runtime.virtual import Simulation, run
from tests.journeys.managed import CALM, EXAMPLES, NAMESPACE, ManagedEnvironment, managed_environment

pytestmark = pytest.mark.embedded

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
VINEYARD = Key(NAMESPACE, "vineyard")
SERVER = "vcenter.example.com"
MAKER, READER = "canary-of-who-makes-machines", "canary-of-who-reads"
CREDENTIALS = {"username": "maker", "password": MAKER, "usernameCP": "reader", "passwordCP": READER}


async def put_credentials(env: ManagedEnvironment, data: Mapping[str, str], **annotations: str) -> None:
    """The Secret that an administrator makes."""
    body: Tree = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "vsphere-credentials",
            "namespace": SYSTEM_NAMESPACE,
            "annotations": {SERVERS: SERVER, NAMESPACES: NAMESPACE} | annotations,
        },
        "data": {name: base64.b64encode(value.encode()).decode() for name, value in data.items()},
    }
    await env.client.apply(SECRET, body, field_manager="administrator")


def example() -> list[Tree]:
    """The documents of the example, as somebody would apply them."""
    trees = [one.tree for one in read_manifests((EXAMPLES / "vsphere.yaml").read_bytes(), source="vsphere.yaml")]
    for tree in trees:
        tree["metadata"]["namespace"] = NAMESPACE
    return trees


def group(name: str, **more: object) -> Tree:
    """A worker node group."""
    reference = {"kind": "VSphereMachineConfig", "name": "vineyard"}
    return {"name": name, "count": 2, "machineGroupRef": reference} | more


class Vineyard:
    """The manifest of a cluster, as it is changed step by step; each step is planned, made, and compared."""

    def __init__(self, env: ManagedEnvironment) -> None:
        self.env = env
        self.trees = example()

    @property
    def spec(self) -> dict[str, Any]:
        """Of the Cluster."""
        found: dict[str, Any] = self.trees[0]["spec"]
        return found

    def of(self, kind: str, name: str) -> dict[str, Any]:
        """The spec of a linked object."""
        return next(one["spec"] for one in self.trees if (one["kind"], one["metadata"]["name"]) == (kind, name))

    async def make(self) -> None:
        """Apply all, and wait until it is so."""
        for tree in self.trees:
            resource = CATALOG.resource_of(tree["apiVersion"], tree["kind"])
            await self.env.client.apply(resource, tree, field_manager="kubectl")
        await asyncio.sleep(CALM)  # of a linked object, the Cluster's generation tells nothing
        await self.env.until_ready(VINEYARD)
        await self.env.until_machines_rest("vineyard")

    async def step(self, *replaced: str) -> None:
        """Plan, then make: machines of these groups are replaced, as planned, and no others."""
        preview = await self.env.preview(VINEYARD, self.trees)
        assert preview.refusals == ()
        assert preview.stops == ""
        planned = {one.name for one in preview.groups if one.replaced}
        before = await self.env.machine_names("vineyard")
        await self.make()
        after = await self.env.machine_names("vineyard")
        found = {name for name, machines in before.items() if name in after and not machines & after[name]}
        assert found == planned == set(replaced)
        stay = before.keys() & after.keys() - found
        assert all(before[name] <= after[name] or after[name] <= before[name] for name in stay)


CONTROL_PLANE, WORKERS, MORE = "", "vineyard-md-0", "vineyard-md-1"


async def change(vineyard: Vineyard) -> None:
    """Whatever is changed, one thing after the other."""
    spec = vineyard.spec
    groups = spec["workerNodeGroupConfigurations"]
    groups[0]["count"] = 3
    await vineyard.step()
    groups[0]["labels"] = {"slope": "south"}
    await vineyard.step(WORKERS)
    groups[0]["taints"] = [{"key": "late", "value": "frost", "effect": "PreferNoSchedule"}]
    await vineyard.step(WORKERS)
    vineyard.of("VSphereMachineConfig", "vineyard")["memoryMiB"] = 16384
    await vineyard.step(WORKERS)
    groups.append(group("md-1", count=1))
    await vineyard.step()
    groups.pop()
    await vineyard.step()
    spec["controlPlaneConfiguration"]["certSans"] = ["vineyard.example.com"]
    await vineyard.step(CONTROL_PLANE)
    spec["kubernetesVersion"] = "1.36"
    for name in ("vineyard-cp", "vineyard"):
        vineyard.of("VSphereMachineConfig", name)["template"] = "ubuntu-1-36"
    await vineyard.step(CONTROL_PLANE, WORKERS)
    assert {version.split("-")[0] for version in await vineyard.env.versions(VINEYARD)} == {"v1.36.3"}


def test_a_cluster_on_vsphere_lives_and_ends() -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as env:
            await put_credentials(env, CREDENTIALS)
            vineyard = Vineyard(env)
            await vineyard.make()
            machines = await env.client.list(VSphereMachine.resource, SYSTEM_NAMESPACE)
            assert len(machines.items) == 5
            nodes = await env.nodes(VINEYARD)
            assert all(node["spec"]["providerID"].startswith("vsphere://") for node in nodes)
            await change(vineyard)

            await env.client.delete(Cluster.resource, "vineyard", NAMESPACE)
            await env.until_gone(VINEYARD)
            for made in (VSphereCluster, VSphereMachine, VSphereMachineTemplate, Machine, VSphereDeploymentZone):
                assert (await env.client.list(made.resource)).items == []

    run(main, epoch=EPOCH, seed=1)
