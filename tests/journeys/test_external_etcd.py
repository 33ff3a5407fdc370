"""etcd on machines of its own, as EKS Anywhere's build of Cluster API makes it; on stock it is refused by name."""

from __future__ import annotations

import asyncio
import copy
from datetime import UTC, datetime

import pytest

from espalier.api.capi import cluster as capi
from espalier.api.capi.etcdadm import EtcdadmCluster
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import Machine
from espalier.api.core import CUSTOM_RESOURCE_DEFINITION
from espalier.api.definitions.crd import crd_of
from espalier.api.eksa.cluster import Cluster
from espalier.api.meta import Tree
from espalier.clusterapi import external_etcd
from espalier.clusterapi.contract import CONTROL_PLANE_LABEL, PAUSED_ANNOTATION
from espalier.clusters.design import names
from espalier.clusters.effects.machines import ETCD
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import Forbidden, Invalid, ServerFailure
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.wire import Request, Response, Transport
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.cluster_lives import journey
from tests.support.environments.managed_environment import CALM, GARDEN, ManagedEnvironment, managed_environment
from tests.support.servers.faults import Interceptor, is_of_manager, refusal

pytestmark = pytest.mark.embedded

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
SYSTEM = "eksa-system"
THREE = {"count": 3}


async def members(env: ManagedEnvironment) -> set[str]:
    listed = await env.client.list(Machine.resource, SYSTEM, labels=external_etcd.MACHINE_LABEL)
    return {item.name for item in listed.items}


async def control_plane_machines(env: ManagedEnvironment) -> set[str]:
    listed = await env.client.list(Machine.resource, SYSTEM, labels=CONTROL_PLANE_LABEL)
    return {item.name for item in listed.items}


async def etcd(env: ManagedEnvironment) -> EtcdadmCluster:
    return (await env.client.get(EtcdadmCluster.resource, "garden-etcd", SYSTEM)).decode(EtcdadmCluster)


async def control_plane(env: ManagedEnvironment) -> KubeadmControlPlane:
    return (await env.client.get(KubeadmControlPlane.resource, "garden", SYSTEM)).decode(KubeadmControlPlane)


def reason(cluster: Cluster, type_: str) -> str:
    return next(condition.reason for condition in cluster.status.conditions if condition.type == type_)


@pytest.mark.soak
def test_etcd_precedes_the_control_plane() -> None:
    async def tell(env: ManagedEnvironment) -> None:
        await env.apply(externalEtcdConfiguration=THREE)
        waiting = await env.until(lambda item: "waiting for external etcd" in str(item.status.conditions))
        assert reason(waiting, names.CONTROL_PLANE_INITIALIZED) == "ControlPlaneInitializationInProgress"
        assert await control_plane_machines(env) == set()
        await env.until_ready()
        assert len(await members(env)) == 3
        result = await etcd(env)
        assert result.status.ready
        assert external_etcd.endpoints(await control_plane(env)) == result.status.endpoints.split(",")
        await asyncio.sleep(CALM)
        steady = await env.until_ready()
        assert reason(steady, names.SYNCED) == "AsRendered"
        assert len(await env.nodes()) == 3, "machines of etcd are no nodes"
        with pytest.raises(Forbidden, match=r"spec\.externalEtcdConfiguration: it can't be changed"):
            await env.change(externalEtcdConfiguration=None)

    journey(tell)


@pytest.mark.soak
def test_new_etcd_precedes_a_new_control_plane() -> None:
    async def tell(env: ManagedEnvironment) -> None:
        await env.apply(externalEtcdConfiguration=THREE, kubernetesVersion="1.34")
        await env.until_ready()
        before, machines = await members(env), await control_plane_machines(env)
        await env.change(kubernetesVersion="1.35")
        during = await env.until(lambda item: reason(item, names.CONTROL_PLANE_READY) == "ExternalEtcdNotAvailable")
        assert during.status.phase == "Upgrading"
        assert (await control_plane(env)).metadata.annotations[PAUSED_ANNOTATION] == external_etcd.PAUSED_FOR_ETCD
        assert external_etcd.UPGRADING in (await etcd(env)).metadata.annotations
        assert await control_plane_machines(env) == machines
        await env.until_ready()
        assert not before & await members(env)
        assert not machines & await control_plane_machines(env)
        result = await control_plane(env)
        assert external_etcd.endpoints(result) == (await etcd(env)).status.endpoints.split(",")
        assert PAUSED_ANNOTATION not in result.metadata.annotations
        assert external_etcd.UPGRADING not in (await etcd(env)).metadata.annotations
        await asyncio.sleep(CALM)
        templates = await env.client.list(env.providers["DockerDatacenterConfig"].infrastructure.machine_template)
        assert [item.name for item in templates.items if "etcd" in item.name] == ["garden-etcd-2"]

    journey(tell)


@pytest.mark.soak
def test_cluster_goes_with_its_etcd() -> None:
    async def tell(env: ManagedEnvironment) -> None:
        await env.apply(externalEtcdConfiguration={"count": 1})
        await env.until_ready()
        await env.client.delete(Cluster.resource, GARDEN.name, GARDEN.namespace)
        while await control_plane_machines(env):
            assert await members(env), "etcd is gone before its clients"
            await asyncio.sleep(0.1)
        await env.until_gone()
        for kind in (EtcdadmCluster, capi.Cluster, Machine):
            assert (await env.client.list(kind.resource, SYSTEM)).items == []

    journey(tell)


def test_etcd_on_stock_cluster_api_is_refused_by_name() -> None:
    async def tell(env: ManagedEnvironment) -> None:
        original = crd_of(capi.Cluster)
        definition = copy.deepcopy(original)
        versions = definition["spec"]["versions"]
        del versions[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["managedExternalEtcdRef"]
        await env.client.apply(CUSTOM_RESOURCE_DEFINITION, definition, force=True)
        await asyncio.sleep(1)
        with pytest.raises(Invalid, match="RequiresEKSAnywhereClusterAPI: external etcd needs"):
            await env.apply(externalEtcdConfiguration=THREE)
        await env.client.apply(CUSTOM_RESOURCE_DEFINITION, original, force=True)
        await asyncio.sleep(1)
        await env.apply(externalEtcdConfiguration=THREE)
        await env.until_ready()

    journey(tell)


@pytest.mark.soak
def test_plan_tells_that_etcd_replaces_control_planes() -> None:
    async def tell(env: ManagedEnvironment) -> None:
        await env.apply(externalEtcdConfiguration=THREE)
        await env.until_ready()
        machines = await control_plane_machines(env)
        manifest = [(await env.client.get(Cluster.resource, *reversed(GARDEN))).tree]
        manifest[0]["spec"]["externalEtcdConfiguration"] = {"count": 5}
        preview = await env.preview(GARDEN, manifest)
        control_plane_group = next(group for group in preview.groups if group.name == "")
        assert {item.name for item in control_plane_group.replaced} == machines
        assert "endpoints" in str(control_plane_group.replaced)
        await env.change(externalEtcdConfiguration={"count": 5})
        await env.until_ready()
        assert len(await members(env)) == 5
        assert not machines & await control_plane_machines(env)

    journey(tell)


class NoEtcd(Interceptor):
    """The manager can't apply external etcd while this is on."""

    def __init__(self) -> None:
        self.is_on = False

    async def request(self, transport: Transport, request: Request) -> Response:
        is_apply = "apply-patch" in request.headers.get("content-type", "") and "/etcdadmclusters" in request.path
        if self.is_on and is_apply and is_of_manager(request):
            return refusal(ServerFailure.of("not now"))
        return await super().request(transport, request)


async def pause(env: ManagedEnvironment, value: str | None) -> None:
    patch = {"metadata": {"annotations": {PAUSED_ANNOTATION: value}}}
    await env.client.patch(KubeadmControlPlane.resource, "garden", SYSTEM, patch=patch, type=PatchType.MERGE)


async def until_etcd_changes(env: ManagedEnvironment) -> None:
    await env.until(lambda item: reason(item, names.CONTROL_PLANE_READY) == "ExternalEtcdNotAvailable")
    assert (await control_plane(env)).metadata.annotations[PAUSED_ANNOTATION] == external_etcd.PAUSED_FOR_ETCD


@pytest.mark.soak
def test_users_pause_stays_while_etcd_changes() -> None:
    async def tell(env: ManagedEnvironment) -> None:
        await env.apply(externalEtcdConfiguration=THREE, kubernetesVersion="1.34")
        await env.until_ready()
        machines = await control_plane_machines(env)
        await env.change(kubernetesVersion="1.35")
        await until_etcd_changes(env)
        await pause(env, "true")
        held = await env.until(lambda item: reason(item, names.CONTROL_PLANE_READY) == "ClusterAPIPaused")
        assert "remove annotation cluster.x-k8s.io/paused" in str(held.status.conditions)
        await asyncio.sleep(CALM)
        assert (await control_plane(env)).metadata.annotations[PAUSED_ANNOTATION] == "true"
        assert await control_plane_machines(env) == machines
        await pause(env, None)
        await env.until_ready()
        assert not machines & await control_plane_machines(env)

    journey(tell)


@pytest.mark.soak
def test_a_cluster_is_deleted_while_its_etcd_changes() -> None:
    async def tell(env: ManagedEnvironment) -> None:
        await env.apply(externalEtcdConfiguration=THREE, kubernetesVersion="1.34")
        await env.until_ready()
        await env.change(kubernetesVersion="1.35")
        await until_etcd_changes(env)
        await env.client.delete(Cluster.resource, GARDEN.name, GARDEN.namespace)
        await env.until_gone()
        assert (await env.client.list(Machine.resource, SYSTEM)).items == []

    journey(tell)


@pytest.mark.soak
def test_change_reverted_before_etcd_leaves_nothing() -> None:
    async def main(simulation: Simulation) -> None:
        faults = NoEtcd()
        async with managed_environment(simulation.clock, wrap=faults) as env:
            await env.apply(externalEtcdConfiguration=THREE, kubernetesVersion="1.34")
            await env.until_ready()
            machines, before = await control_plane_machines(env), await members(env)
            faults.is_on = True
            await env.change(kubernetesVersion="1.35")
            await asyncio.sleep(60)
            assert PAUSED_ANNOTATION in (await control_plane(env)).metadata.annotations
            assert external_etcd.UPGRADING not in (await etcd(env)).metadata.annotations, "it does not change yet"
            await env.change(kubernetesVersion="1.34")
            faults.is_on = False
            await env.until_ready()
            await asyncio.sleep(CALM)
            assert PAUSED_ANNOTATION not in (await control_plane(env)).metadata.annotations
            assert external_etcd.UPGRADING not in (await etcd(env)).metadata.annotations
            assert await control_plane_machines(env) == machines
            assert await members(env) == before

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.soak
def test_plan_counts_the_machines_of_etcd_that_go() -> None:
    async def warnings_of(env: ManagedEnvironment, manifest: Tree) -> list[str]:
        messages: list[str] = []
        asking = Client(InProcessTransport(env.server), user_agent="dry-run", on_warning=messages.append)
        await asking.apply(Cluster.resource, manifest, field_manager="kubectl", dry_run=True)
        return [item for item in messages if "external etcd" in item]

    async def tell(env: ManagedEnvironment) -> None:
        await env.apply(externalEtcdConfiguration=THREE, kubernetesVersion="1.34")
        await env.until_ready()
        changes: list[tuple[Tree, str]] = [
            ({"externalEtcdConfiguration": {"count": 5}}, "would create 2 machines"),
            ({"externalEtcdConfiguration": {"count": 3}}, "would remove 2 machines"),
            ({"kubernetesVersion": "1.35"}, "would replace 3 machines because of bootstrap.cloudInitConfig"),
        ]
        for change, sentence in changes:
            before = await members(env)
            manifest = (await env.client.get(Cluster.resource, *reversed(GARDEN))).tree
            manifest = {"metadata": {"name": "garden", "namespace": "default"}, "spec": manifest["spec"] | change}
            preview = await env.preview(
                GARDEN, [{"apiVersion": Cluster.resource.api_version, "kind": "Cluster"} | manifest]
            )
            group = preview.groups[0]
            assert (group.name, group.present) == (ETCD, len(before))
            assert [item.partition(sentence)[1] for item in await warnings_of(env, manifest)] == [sentence]
            await env.change(**change)
            await env.until_ready()
            after = await members(env)
            assert {item.name for item in group.going} == before - after
            assert group.coming == len(after - before)
        assert preview.duration is not None
        assert preview.duration.seconds >= 5 * preview.duration.machine_seconds, "etcd, control plane, workers"

    journey(tell)
