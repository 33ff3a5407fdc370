"""Clusters that `clusterctl move` takes away: their objects go, and nothing else does."""

from __future__ import annotations

import asyncio

import pytest

from espalier.api.capi import cluster as capi
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import Machine
from espalier.api.core import POD
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.upgrades import ControlPlaneUpgrade, NodeUpgrade
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.group import CLUSTER_FINALIZER, SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.kube.client import PatchType
from espalier.providers.kinds import CLUSTER_API_KINDS
from espalier.runtime.virtual import Simulation, run
from espalier.simulator.workload_clusters.workload_cluster import WorkloadCluster
from tests.support.environments import in_place_environment as in_place
from tests.support.environments.cluster_lives import journey
from tests.support.environments.managed_environment import (
    CALM,
    GARDEN,
    NAMESPACE,
    ManagedEnvironment,
    managed_environment,
)
from tests.support.environments.upgraders import Moment, Upgraders
from tests.support.servers import clusterctl

pytestmark = pytest.mark.embedded

CAPI_CLUSTER = capi.Cluster.resource


async def capi_objects(env: ManagedEnvironment) -> dict[str, str]:
    """The objects of Cluster API, with their versions."""
    return {
        f"{kind.resource.kind} {item.name}": item.resource_version
        for kind in CLUSTER_API_KINDS
        for item in (await env.client.list(kind.resource, SYSTEM_NAMESPACE)).items
    }


async def pause(env: ManagedEnvironment, seconds: float = CALM) -> None:
    """As clusterctl begins."""
    paused: Tree = {"spec": {"paused": True}}
    await env.client.patch(CAPI_CLUSTER, GARDEN.name, SYSTEM_NAMESPACE, patch=paused, type=PatchType.MERGE)
    await asyncio.sleep(seconds)


def test_settled_cluster_deleted_for_move_keeps_all() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await env.apply()
        await env.until_ready()
        await pause(env)
        before, workload = await capi_objects(env), await env.workload()
        nodes = await clusterctl.node_versions(workload)
        await clusterctl.mark(env.client, Cluster.resource, GARDEN.name, NAMESPACE)
        await env.client.delete(Cluster.resource, GARDEN.name, NAMESPACE)
        await env.until_gone()
        await asyncio.sleep(CALM)
        assert await capi_objects(env) == before
        assert await clusterctl.node_versions(workload) == nodes

    journey(story)


def test_finalizers_taken_for_move_are_not_added_again() -> None:
    """clusterctl marks, takes the finalizers away, and deletes, in three requests."""

    async def story(env: ManagedEnvironment) -> None:
        await env.apply()
        await env.until_ready()
        await pause(env)
        written = env.written()
        await clusterctl.mark(env.client, Cluster.resource, GARDEN.name, NAMESPACE)
        await clusterctl.take_finalizers(env.client, Cluster.resource, GARDEN.name, NAMESPACE)
        await asyncio.sleep(CALM)
        cluster = await env.client.get(Cluster.resource, GARDEN.name, NAMESPACE)
        assert CLUSTER_FINALIZER not in cluster.metadata.finalizers
        assert env.written() == written

    journey(story)


@pytest.mark.parametrize("drift", ["report", "correct-machines"])
def test_cluster_moved_by_clusterctl_leaves_no_object(drift: str) -> None:
    async def story(env: ManagedEnvironment) -> None:
        await env.apply()
        chosen = {"metadata": {"annotations": {metadata_keys.DRIFT_ANNOTATION: drift}}}
        await env.client.patch(Cluster.resource, GARDEN.name, NAMESPACE, patch=chosen, type=PatchType.MERGE)
        await env.until_ready()
        await asyncio.sleep(CALM)
        workload = await env.workload()
        nodes = await clusterctl.node_versions(workload)
        await clusterctl.move_away(env.client, pause=lambda: asyncio.sleep(5))
        await asyncio.sleep(CALM)
        assert await capi_objects(env) == {}
        assert await clusterctl.node_versions(workload) == nodes
        assert env.clusters.get(GARDEN) is None

    journey(story)


def test_a_record_deleted_for_a_move_is_let_go() -> None:
    """It manages a cluster, and is not paused any more."""

    async def story(env: ManagedEnvironment) -> None:
        await env.apply()
        await env.until_ready()
        record = (await clusterctl.records(env.client))[0]
        assert record.metadata.finalizers
        await clusterctl.mark(env.client, Cluster.resource, record.name, record.namespace)
        await env.client.delete(Cluster.resource, record.name, record.namespace)
        await asyncio.sleep(5)
        assert await clusterctl.records(env.client) == []
        assert len((await env.client.list(Machine.resource, SYSTEM_NAMESPACE)).items) == len(await env.nodes())

    journey(story)


def test_an_upgrade_deleted_for_a_move_leaves_its_pod() -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as env:
            await env.apply(**in_place.spec(1, 2))
            await env.until_ready()
            upgraders = Upgraders(env.workloads)
            begun = asyncio.Event()

            async def stop(_: WorkloadCluster, _at: str, what: str, when: Moment) -> None:
                if (what, when) == ("kubeadm-upgrader", Moment.RUNS):
                    begun.set()
                    await asyncio.Event().wait()

            upgraders.happening = stop
            await env.change(kubernetesVersion="1.36")
            await begun.wait()
            await pause(env, 1)
            await clusterctl.mark(env.client, Cluster.resource, GARDEN.name, NAMESPACE)
            kinds = (KubeadmControlPlane.resource, ControlPlaneUpgrade.resource, NodeUpgrade.resource)
            for resource in kinds:
                for system_namespace in (await env.client.list(resource, SYSTEM_NAMESPACE)).items:
                    await clusterctl.mark(env.client, resource, system_namespace.name, system_namespace.namespace)
            planes = (await env.client.list(KubeadmControlPlane.resource, SYSTEM_NAMESPACE)).items
            for resource in kinds[1:]:
                for system_namespace in (await env.client.list(resource, SYSTEM_NAMESPACE)).items:
                    await env.client.delete(resource, system_namespace.name, system_namespace.namespace)
            await asyncio.sleep(CALM)
            for resource in kinds[1:]:
                assert (await env.client.list(resource, SYSTEM_NAMESPACE)).items == []
            pods = (await (await env.workload()).list(POD)).items
            assert [pod.name for pod in pods if pod.name.endswith("-node-upgrader")]
            after = (await env.client.list(KubeadmControlPlane.resource, SYSTEM_NAMESPACE)).items
            assert [item.metadata.annotations for item in after] == [plane.metadata.annotations for plane in planes]

    run(main, epoch=in_place.EPOCH, seed=1)
