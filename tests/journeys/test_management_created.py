"""Management clusters that a bootstrap creates, and that manage themselves afterwards."""

from __future__ import annotations

import asyncio

import pytest

from espalier.api.capi.cluster import Cluster as CapiCluster
from espalier.api.core import NAMESPACE, NODE, VALIDATING_WEBHOOK_CONFIGURATION
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import (
    ALLOW_DELETE_WHEN_PAUSED_ANNOTATION,
    INFRASTRUCTURE_ANNOTATION,
    PAUSED_ANNOTATION,
    SYSTEM_NAMESPACE,
)
from espalier.api.resource import Key
from espalier.clusters import rbac
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import Forbidden, Invalid
from espalier.management import record as records
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.bootstraps import (
    MANAGEMENT,
    applied,
    bootstrap,
    created,
    machines,
    manifest,
    until_gone,
)
from tests.support.environments.cluster_lives import EPOCH
from tests.support.environments.managed_environment import CALM

pytestmark = pytest.mark.embedded

WORKLOAD = Key("default", "garden")


async def nodes(cluster: Client) -> dict[str, str]:
    return {item.name: item.metadata.uid for item in (await cluster.list(NODE)).items}


@pytest.mark.demand("L54")
def test_a_created_management_cluster_manages_itself() -> None:
    async def main(simulation: Simulation) -> None:
        async with machines(simulation.clock) as hosts:
            async with bootstrap(hosts) as env:
                await env.create()
                cluster = env.connect(env.written[-1])
                before = await nodes(cluster)
            await asyncio.sleep(CALM)
            stored = await cluster.get(Cluster.resource, MANAGEMENT.name, MANAGEMENT.namespace)
            assert stored.tree["spec"]["managementCluster"] == {"name": MANAGEMENT.name}
            assert stored.metadata.annotations[PAUSED_ANNOTATION] == "true"
            assert stored.decode(Cluster).status.ready
            made = await cluster.get(CapiCluster.resource, MANAGEMENT.name, SYSTEM_NAMESPACE)
            assert not made.tree["spec"].get("paused")
            assert await records.managed(cluster) == (MANAGEMENT, records.RUNNING)
            system = await cluster.get(NAMESPACE, SYSTEM_NAMESPACE)
            assert system.metadata.annotations[INFRASTRUCTURE_ANNOTATION] == hosts.workloads.identity
            assert (len(before), await nodes(cluster)) == (3, before)

    run(main, epoch=EPOCH, seed=1)


def test_a_created_management_cluster_manages_others() -> None:
    """Its manager and Cluster API run in its own pods; the bootstrap is gone."""

    async def main(simulation: Simulation) -> None:
        async with machines(simulation.clock) as hosts:
            cluster = hosts.workloads.connect(await created(hosts))
            with pytest.raises(Invalid, match="is not the management cluster"):
                await applied(cluster, manifest(WORKLOAD, managed_by="bootstrap"))
            await applied(cluster, manifest(WORKLOAD, managed_by=MANAGEMENT.name))
            assert hosts.workloads.has_data(Key(SYSTEM_NAMESPACE, WORKLOAD.name))
            await cluster.delete(Cluster.resource, WORKLOAD.name, WORKLOAD.namespace)
            await until_gone(cluster, WORKLOAD)
            assert not hosts.workloads.has_data(Key(SYSTEM_NAMESPACE, WORKLOAD.name))

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.demand("L47", L49="by nothing else than the command line")
def test_the_api_changes_no_created_management_cluster() -> None:
    """L47, L49: only commands change it."""

    async def main(simulation: Simulation) -> None:
        async with machines(simulation.clock) as hosts:
            cluster = hosts.workloads.connect(await created(hosts))
            await asyncio.sleep(CALM)
            before = await nodes(cluster)
            tree = manifest(MANAGEMENT, managed_by=MANAGEMENT.name)[-1]
            tree["metadata"]["annotations"] = {PAUSED_ANNOTATION: "true"}
            tree["spec"]["workerNodeGroupConfigurations"][0]["count"] = 3
            await cluster.apply(Cluster.resource, tree)
            await asyncio.sleep(CALM)
            assert await nodes(cluster) == before
            result = (await cluster.get(Cluster.resource, MANAGEMENT.name, MANAGEMENT.namespace)).decode(Cluster)
            (ready,) = [condition for condition in result.status.conditions if condition.type == "Ready"]
            scaled = "2 of 3 worker machines exist; `espalier upgrade cluster` scales a management cluster"
            assert (ready.reason, ready.message) == ("Paused", scaled)
            patch = {"metadata": {"annotations": {PAUSED_ANNOTATION: None}}}
            with pytest.raises(Forbidden, match="can't be created or changed through the API"):
                await cluster.patch(
                    Cluster.resource, MANAGEMENT.name, MANAGEMENT.namespace, patch=patch, type=PatchType.MERGE
                )

    run(main, epoch=EPOCH, seed=1)


def test_the_api_deletes_no_created_management_cluster() -> None:
    """L7: it would delete its own machines."""

    async def main(simulation: Simulation) -> None:
        async with machines(simulation.clock) as hosts:
            cluster = hosts.workloads.connect(await created(hosts))
            await asyncio.sleep(CALM)
            before = await nodes(cluster)
            with pytest.raises(Forbidden, match="espalier delete cluster management"):
                await cluster.delete(Cluster.resource, MANAGEMENT.name, MANAGEMENT.namespace)
            await asyncio.sleep(CALM)
            assert await nodes(cluster) == before
            await cluster.get(CapiCluster.resource, MANAGEMENT.name, SYSTEM_NAMESPACE)

    run(main, epoch=EPOCH, seed=1)


def test_without_webhooks_its_machines_stay() -> None:
    """Also if the deletion of a paused Cluster is permitted."""

    async def main(simulation: Simulation) -> None:
        async with machines(simulation.clock) as hosts:
            cluster = hosts.workloads.connect(await created(hosts))
            before = await nodes(cluster)
            await cluster.delete(VALIDATING_WEBHOOK_CONFIGURATION, rbac.VALIDATING_WEBHOOKS)
            allowed = {"metadata": {"annotations": {ALLOW_DELETE_WHEN_PAUSED_ANNOTATION: "true"}}}
            key = MANAGEMENT
            await cluster.patch(Cluster.resource, key.name, key.namespace, patch=allowed, type=PatchType.MERGE)
            await cluster.delete(Cluster.resource, key.name, key.namespace)
            await asyncio.sleep(CALM)
            assert await nodes(cluster) == before
            result = (await cluster.get(Cluster.resource, key.name, key.namespace)).decode(Cluster)
            (ready,) = [condition for condition in result.status.conditions if condition.type == "Ready"]
            assert "espalier delete cluster management" in ready.message

    run(main, epoch=EPOCH, seed=1)
