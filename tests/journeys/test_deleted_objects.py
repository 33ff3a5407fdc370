"""Somebody deletes what a running cluster can't do without: it is said, and doing what is said ends well."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest

from espalier.api.capi.cluster import Cluster as CapiCluster
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.core import CONFIG_MAP, NODE, SECRET
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Condition, Tree
from espalier.api.resource import Key
from espalier.clusters.design import names
from espalier.kube.client import PatchType
from espalier.kube.errors import NotFound, Unreachable
from espalier.providers.docker.cluster_api import DockerCluster
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.managed_environment import CALM, GARDEN, ManagedEnvironment, managed_environment
from tests.support.objects.unguarded_clusters import the_cluster
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = 3600.0
CORRECT: dict[str, str | None] = {metadata_keys.DRIFT_ANNOTATION: "correct"}


def journey(story: Callable[[ManagedEnvironment], Awaitable[None]]) -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as env:
            await env.apply()
            await env.until_ready()
            await asyncio.sleep(CALM)
            await story(env)

    run(main, epoch=EPOCH, seed=1)


async def condition(env: ManagedEnvironment, type_: str) -> Condition:
    return next(item for item in (await the_cluster(env)).status.conditions if item.type == type_)


async def annotate(env: ManagedEnvironment, marks: dict[str, str | None]) -> None:
    patch: Tree = {"metadata": {"annotations": marks}}
    await env.client.patch(Cluster.resource, GARDEN.name, GARDEN.namespace, patch=patch, type=PatchType.MERGE)


async def delete_again(env: ManagedEnvironment) -> None:
    """Delete the Cluster; it goes."""
    await env.client.delete(Cluster.resource, GARDEN.name, GARDEN.namespace)
    await asyncio.sleep(HOUR)
    with pytest.raises(NotFound):
        await the_cluster(env)


async def endpoint(env: ManagedEnvironment) -> object:
    return (await env.client.get(CapiCluster.resource, GARDEN.name, SYSTEM_NAMESPACE)).tree["spec"][
        "controlPlaneEndpoint"
    ]


async def lose_infrastructure(env: ManagedEnvironment) -> None:
    """Delete what the API server is reached through; it is said."""
    await env.client.delete(DockerCluster.resource, GARDEN.name, SYSTEM_NAMESPACE)
    await asyncio.sleep(CALM)
    result = await condition(env, "Ready")
    assert (result.status, result.reason) == ("False", "ClusterAPIObjectDeleted")
    with pytest.raises(Unreachable):
        await (await env.workload()).list(NODE)


@pytest.mark.soak
@pytest.mark.parametrize("how", sampled(["drift is corrected", "something is changed"], 0))
def test_recreated_infrastructure_has_same_endpoint(how: str) -> None:
    async def story(env: ManagedEnvironment) -> None:
        before = await endpoint(env)
        nodes = {item.name: item.metadata.uid for item in (await (await env.workload()).list(NODE)).items}
        kubeconfig = (await env.client.get(SECRET, "garden-kubeconfig", GARDEN.namespace)).tree["data"]
        await lose_infrastructure(env)
        if how == "drift is corrected":
            await annotate(env, CORRECT)
        else:
            await env.change(workerNodeGroupConfigurations=[{"name": "md-0", "count": 2, "labels": {"a": "b"}}])
        await asyncio.sleep(HOUR)
        cluster = await the_cluster(env)
        assert cluster.status.ready, cluster.status.conditions
        made = (await env.client.get(DockerCluster.resource, GARDEN.name, SYSTEM_NAMESPACE)).tree
        assert made["spec"]["controlPlaneEndpoint"] == before == await endpoint(env)
        again = {node.name: node.metadata.uid for node in (await (await env.workload()).list(NODE)).items}
        if how == "drift is corrected":
            assert again == nodes
        assert nodes.items() & again.items(), "the control plane's node at least"
        assert (await env.client.get(SECRET, "garden-kubeconfig", GARDEN.namespace)).tree["data"] == kubeconfig
        assert (await condition(env, "Synced")).status == "True"

    journey(story)


@pytest.mark.soak
def test_infrastructure_made_by_hand_loses_no_data() -> None:
    async def story(env: ManagedEnvironment) -> None:
        nodes = {item.name: item.metadata.uid for item in (await (await env.workload()).list(NODE)).items}
        await lose_infrastructure(env)
        metadata = {"name": GARDEN.name, "namespace": SYSTEM_NAMESPACE, "labels": names.labels(GARDEN)}
        await env.client.create(DockerCluster.resource, {"metadata": metadata, "spec": {}})
        await asyncio.sleep(CALM)
        assert {node.name: node.metadata.uid for node in (await (await env.workload()).list(NODE)).items} == nodes

    journey(story)


@pytest.mark.soak
def test_nothing_that_cluster_stored_is_kept_after_it() -> None:
    async def story(env: ManagedEnvironment) -> None:
        key = Key(SYSTEM_NAMESPACE, GARDEN.name)
        assert env.workloads.has_data(key)
        await delete_again(env)
        assert not env.workloads.has_data(key)

    journey(story)


@pytest.mark.soak
def test_recreated_cluster_has_nothing_of_former_one() -> None:
    async def story(env: ManagedEnvironment) -> None:
        config_map: Tree = {"metadata": {"name": "kept", "namespace": "default"}, "data": {}}
        await (await env.workload()).create(CONFIG_MAP, config_map)
        await lose_infrastructure(env)
        await delete_again(env)
        await env.apply()
        await env.until_ready()
        with pytest.raises(NotFound):
            await (await env.workload()).get(CONFIG_MAP, "kept", "default")

    journey(story)


@pytest.mark.soak
def test_cluster_of_deleted_control_plane_is_recreated() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await env.client.delete(KubeadmControlPlane.resource, GARDEN.name, SYSTEM_NAMESPACE)
        await annotate(env, CORRECT)
        await asyncio.sleep(HOUR)
        cluster = await the_cluster(env)
        assert (cluster.status.phase, cluster.status.failure_reason) == ("Failed", "ControlPlaneLost")
        assert (await condition(env, "Ready")).message.endswith("delete the Cluster and create it again")
        assert await (await env.workload()).list(NODE), "what is needed can be saved"
        await delete_again(env)
        await env.apply()
        await env.until_ready()

    journey(story)


@pytest.mark.soak
def test_lost_control_plane_stops_every_change() -> None:
    async def story(env: ManagedEnvironment) -> None:
        where = (KubeadmControlPlane.resource, GARDEN.name, SYSTEM_NAMESPACE)
        await env.client.delete(*where)
        await env.client.patch(*where, patch={"metadata": {"finalizers": None}}, type=PatchType.MERGE)
        await env.change(controlPlaneConfiguration={"count": 3})
        await asyncio.sleep(HOUR)
        with pytest.raises(NotFound):
            await env.client.get(*where)
        result = await condition(env, "Ready")
        assert (result.status, result.reason) == ("False", "ControlPlaneLost")
        assert "was deleted, and with it the control plane machines" in result.message
        await delete_again(env)
        await env.apply()
        await env.until_ready()

    journey(story)
