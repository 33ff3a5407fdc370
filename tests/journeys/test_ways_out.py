"""Leftovers of a user or a fault are named with what helps, and no condition says what is no longer true."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment
from espalier.api.core import ROLE_BINDING, SECRET
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.kube.client import PatchType
from espalier.kube.errors import NotFound
from espalier.providers.docker.cluster_api import DockerCluster
from espalier.providers.docker.kinds import DockerDatacenterConfig
from espalier.runtime.virtual import Simulation, run
from tests.support.environments import lost_cni
from tests.support.environments.managed_environment import (
    CALM,
    GARDEN,
    NAMESPACE,
    ManagedEnvironment,
    managed_environment,
)
from tests.support.objects.exported import KINDS, delete, exported
from tests.support.objects.kubeconfig_copies import NAME, trouble
from tests.support.objects.unguarded_clusters import LOCAL_CLUSTER, lose, the_cluster, without_webhooks
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = 3600.0


def journey(story: Callable[[ManagedEnvironment], Awaitable[None]], *, resync: float = 36000.0) -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock, resync=resync) as env:
            await env.apply()
            await env.until_ready()
            await asyncio.sleep(CALM)
            await story(env)

    run(main, epoch=EPOCH, seed=1)


def reasons(cluster: Cluster) -> dict[str, tuple[str, str]]:
    return {
        condition.type: (condition.reason, condition.message)
        for condition in cluster.status.conditions
        if condition.status != "True"
    }


async def hold(env: ManagedEnvironment, finalizer: str) -> None:
    cluster = await env.client.get(Cluster.resource, GARDEN.name, GARDEN.namespace)
    finalizers = {"metadata": {"finalizers": [*cluster.metadata.finalizers, finalizer]}}
    await env.client.patch(Cluster.resource, GARDEN.name, GARDEN.namespace, patch=finalizers, type=PatchType.MERGE)


async def ask_to_go(env: ManagedEnvironment) -> None:
    await env.client.delete(Cluster.resource, GARDEN.name, GARDEN.namespace)


@pytest.mark.soak
def test_cluster_held_by_others_names_them() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await hold(env, "example.com/backup")
        await ask_to_go(env)
        await asyncio.sleep(HOUR)
        result = reasons(await the_cluster(env))
        reason, message = result.pop("Ready")
        assert reason == "Deleting"
        assert message.endswith("waiting for other controllers to remove their finalizers: example.com/backup")
        assert set(result.values()) == {("Deleting", "the cluster is being deleted")}

    journey(story)


@pytest.mark.soak
@pytest.mark.parametrize("owner", sampled([KubeadmControlPlane, MachineDeployment, DockerCluster], 0))
def test_paused_deletion_names_the_pause(
    owner: type[KubeadmControlPlane | MachineDeployment | DockerCluster],
) -> None:
    kind = owner.resource
    name = "garden-md-0" if kind == MachineDeployment.resource else "garden"

    async def paused(env: ManagedEnvironment, value: str | None) -> None:
        patch = {"metadata": {"annotations": {"cluster.x-k8s.io/paused": value}}}
        await env.client.patch(kind, name, SYSTEM_NAMESPACE, patch=patch, type=PatchType.MERGE)

    async def story(env: ManagedEnvironment) -> None:
        await paused(env, "true")
        await ask_to_go(env)
        await asyncio.sleep(HOUR)
        status = (await the_cluster(env)).status
        assert status.failure_reason == "ClusterAPIPaused"
        assert f"{kind.kind} {SYSTEM_NAMESPACE}/{name} is paused: remove annotation" in (status.failure_message or "")
        await paused(env, None)
        await asyncio.sleep(HOUR)
        with pytest.raises(NotFound):
            await the_cluster(env)

    journey(story)


@pytest.mark.soak
def test_missing_linked_object_replaces_no_machines() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await env.change(controlPlaneConfiguration={"count": 3})
        await env.until_ready()
        await lost_cni.lose_cni(env)
        await env.client.delete(DockerDatacenterConfig.resource, "garden", "default")
        lost = sorted((await env.machine_names(GARDEN.name))[""])[0]
        made = lost_cni.made_since(env)
        await env.client.delete(Machine.resource, lost, SYSTEM_NAMESPACE)
        await asyncio.sleep(12 * HOUR)
        assert len(made) <= 5

    journey(story, resync=lost_cni.RESYNC)


@pytest.mark.soak
def test_uncopyable_kubeconfig_is_reported_missing() -> None:
    async def story(env: ManagedEnvironment) -> None:
        for binding in (await env.client.list(ROLE_BINDING, NAMESPACE)).items:
            await env.client.delete(ROLE_BINDING, binding.name, NAMESPACE)
        await env.client.delete(SECRET, NAME, NAMESPACE)
        await asyncio.sleep(3 * HOUR)
        result = trouble(await the_cluster(env))
        assert result is not None
        assert result.reason == "KubeconfigCopyNotAllowed"
        assert env.ledger.refused
        env.ledger.refused.clear()

    journey(story)


@pytest.mark.soak
def test_exported_cluster_is_recreated_with_new_record() -> None:
    async def story(env: ManagedEnvironment) -> None:
        record = await env.client.get(Cluster.resource, LOCAL_CLUSTER.name, LOCAL_CLUSTER.namespace)
        await without_webhooks(env)
        await lose(env)
        metadata = {name: record.tree["metadata"][name] for name in ("name", "namespace")}
        again = {name: part for name, part in record.tree.items() if name != "status"} | {"metadata": metadata}
        await env.client.create(Cluster.resource, again)
        await asyncio.sleep(HOUR)
        assert (await the_cluster(env)).status.ready
        trees = await exported(env)
        await delete(env)
        for resource, tree in zip(KINDS, trees, strict=True):
            await env.client.create(resource, tree)
        await asyncio.sleep(HOUR)
        cluster = await the_cluster(env)
        assert cluster.status.ready, reasons(cluster)
        assert cluster.metadata.annotations[metadata_keys.IDENTITY_ANNOTATION].endswith(cluster.metadata.uid)

    journey(story)
