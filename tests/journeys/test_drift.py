"""Somebody changes by hand what was made for a cluster: it is said, and brought back if the cluster asks for that."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest

from espalier.api.capi import cluster as capi
from espalier.api.capi.kubeadm import KubeadmConfigTemplate, KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment, MachineHealthCheck
from espalier.api.core import CLUSTER_ROLE, CORE_EVENT, DAEMON_SET
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.meta import Condition, Tree
from espalier.api.resource import Resource
from espalier.clusters import Isolation
from espalier.clusters.design import names
from espalier.clusters.design.drift import rate_limit
from espalier.kube.client import PatchType
from espalier.kube.objects import Object
from espalier.providers.docker.cluster_api import DockerCluster
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.managed_environment import GARDEN, ManagedEnvironment, managed_environment
from tests.support.histories.isolation_stories import ANNOTATION, STATUS, machines
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
CALM = 600.0
RESYNC = 300.0

EDITS: tuple[tuple[Resource, str, Tree, str], ...] = (
    (
        capi.Cluster.resource,
        "garden",
        {"metadata": {"labels": {"cluster.x-k8s.io/cluster-name": "shed"}}},
        "Cluster eksa-system/garden: metadata.labels",
    ),
    (
        DockerCluster.resource,
        "garden",
        {"spec": {"loadBalancer": {"imageTag": "v0"}}},
        "DockerCluster eksa-system/garden: spec.loadBalancer.imageTag",
    ),
    (
        KubeadmControlPlane.resource,
        "garden",
        {"spec": {"rollout": {"strategy": {"rollingUpdate": {"maxSurge": 0}}}}},
        "KubeadmControlPlane eksa-system/garden: spec.rollout.strategy.rollingUpdate.maxSurge",
    ),
    (
        KubeadmConfigTemplate.resource,
        "garden-md-0-1",
        {"spec": {"template": {"spec": {"joinConfiguration": {"nodeRegistration": {"criSocket": "/other"}}}}}},
        "KubeadmConfigTemplate eksa-system/garden-md-0-1: "
        "spec.template.spec.joinConfiguration.nodeRegistration.criSocket",
    ),
    (
        MachineDeployment.resource,
        "garden-md-0",
        {"spec": {"rollout": {"strategy": {"rollingUpdate": {"maxSurge": 3}}}}},
        "MachineDeployment eksa-system/garden-md-0: spec.rollout.strategy.rollingUpdate.maxSurge",
    ),
)
"""Edits that move no machine, one of each kind that has something to edit: what, where, how, and what is said of it."""


def story(tell: Callable[[ManagedEnvironment], Awaitable[None]], *, isolation: Isolation = Isolation.LAYERS) -> None:
    """Tell it of a steady garden."""

    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock, isolation=isolation, resync=RESYNC) as env:
            await env.apply(eksaVersion="v0.25.1")
            await env.until_ready()
            await asyncio.sleep(CALM)
            await tell(env)

    run(main, epoch=EPOCH, seed=1)


async def edit(env: ManagedEnvironment, resource: Resource, name: str, patch: Tree) -> None:
    await env.client.patch(resource, name, SYSTEM_NAMESPACE, patch=patch, type=PatchType.MERGE)


async def annotate(env: ManagedEnvironment, name: str, value: str | None) -> None:
    patch = {"metadata": {"annotations": {name: value}}}
    await env.client.patch(Cluster.resource, GARDEN.name, GARDEN.namespace, patch=patch, type=PatchType.MERGE)


def said_of(cluster: Cluster) -> Condition:
    return next(condition for condition in cluster.status.conditions if condition.type == names.SYNCED)


async def until_said(env: ManagedEnvironment, *, status: str, text: str = "", seconds: float = 30) -> Condition:
    """Wait until Synced has a status, and its message this text."""

    def is_said(cluster: Cluster) -> bool:
        return any(
            condition.type == names.SYNCED and condition.status == status and text in condition.message
            for condition in cluster.status.conditions
        )

    return said_of(await env.until(is_said, seconds=seconds))


@pytest.mark.demand("I33")
@pytest.mark.soak
def test_edits_are_named_by_field_reverted_on_demand() -> None:
    async def tell(env: ManagedEnvironment) -> None:
        before = await machines(env.client)
        assert said_of(await env.until_ready()).status == "True"
        written = env.written()
        for resource, name, patch, expected in EDITS:
            await edit(env, resource, name, patch)
            await until_said(env, status="False", text=expected)
        synced = await until_said(env, status="False")
        assert synced.reason == Reason.DRIFTED
        assert all(expected in synced.message for *_, expected in EDITS)
        assert f"{metadata_keys.DRIFT_ANNOTATION}=correct" in synced.message
        assert (await env.until_ready()).status.ready  # drift is no matter of readiness
        await asyncio.sleep(3 * RESYNC)
        assert (env.written() - written).keys() == {STATUS}, "reported, and nothing else"
        await annotate(env, metadata_keys.DRIFT_ANNOTATION, "correct")
        await until_said(env, status="True")
        for resource, name, patch, _ in EDITS:
            live = (await env.client.get(resource, name, SYSTEM_NAMESPACE)).tree
            assert not _contains(live, patch)
        await asyncio.sleep(CALM)
        assert await machines(env.client) == before
        about = f"involvedObject.kind=Cluster,involvedObject.name={GARDEN.name}"
        events = (await env.client.list(CORE_EVENT, GARDEN.namespace, fields=about)).items
        reasons = {event.tree["reason"] for event in events}
        assert {"Drifted", "DriftCorrected"} <= reasons

    story(tell)


def _contains(live: object, part: object) -> bool:
    if isinstance(part, dict) and isinstance(live, dict):
        return all(name in live and _contains(live[name], value) for name, value in part.items())
    return live == part


@pytest.mark.soak
def test_deleted_object_is_missing_until_corrected() -> None:
    async def tell(env: ManagedEnvironment) -> None:
        before = await machines(env.client)
        await env.client.delete(MachineHealthCheck.resource, "garden-kcp-unhealthy", SYSTEM_NAMESPACE)
        await until_said(env, status="False", text="MachineHealthCheck eksa-system/garden-kcp-unhealthy is missing")
        await annotate(env, metadata_keys.DRIFT_ANNOTATION, "correct")
        await until_said(env, status="True")
        await env.client.delete(MachineHealthCheck.resource, "garden-md-0-worker-unhealthy", SYSTEM_NAMESPACE)
        await asyncio.sleep(rate_limit.SECONDS + 5)
        checks = await env.client.list(MachineHealthCheck.resource, SYSTEM_NAMESPACE)
        assert len(checks.items) == 2
        assert await machines(env.client) == before

    story(tell)


@pytest.mark.demand("I17")
@pytest.mark.soak
def test_edited_templates_are_reverted_on_request_only() -> None:
    async def tell(env: ManagedEnvironment) -> None:
        changed = {"spec": {"kubeadmConfigSpec": {"clusterConfiguration": {"imageRepository": "example.com/mine"}}}}
        await edit(env, KubeadmControlPlane.resource, "garden", changed)
        field = "spec.kubeadmConfigSpec.clusterConfiguration.imageRepository"
        await until_said(env, status="False", text=field)
        await asyncio.sleep(CALM)  # Cluster API replaces the machine: that is what was done by hand
        await annotate(env, metadata_keys.DRIFT_ANNOTATION, "correct")
        synced = await until_said(env, status="False", text="correct-machines corrects that by replacing machines")
        assert field in synced.message
        before = await machines(env.client)
        await asyncio.sleep(CALM)
        assert await machines(env.client) == before
        await annotate(env, metadata_keys.DRIFT_ANNOTATION, "correct-machines")
        await until_said(env, status="True")
        await asyncio.sleep(CALM)
        after = await machines(env.client)
        assert len(after.keys() - before.keys()) == 1, "the control plane's one machine, and no worker"
        assert len(after) == len(before)
        assert (await env.until_ready()).status.ready

    story(tell)


@pytest.mark.demand("I33")
def test_edited_cni_is_corrected_at_next_comparison() -> None:
    async def tell(env: ManagedEnvironment) -> None:
        workload = await env.workload()
        image = {"name": "kindnet-cni", "image": "example.com/mine:1"}
        containers = {"spec": {"template": {"spec": {"containers": [image]}}}}
        await workload.patch(DAEMON_SET, "kindnet", "kube-system", patch=containers, type=PatchType.STRATEGIC)
        await workload.delete(CLUSTER_ROLE, "kindnet")
        synced = await until_said(env, status="False", seconds=1.2 * RESYNC)
        assert "DaemonSet kube-system/kindnet of the workload cluster: spec.template.spec.containers" in synced.message
        assert "ClusterRole kindnet of the workload cluster is missing" in synced.message
        await annotate(env, metadata_keys.DRIFT_ANNOTATION, "correct")
        await until_said(env, status="True", seconds=5)
        live = (await workload.get(DAEMON_SET, "kindnet", "kube-system")).tree
        assert live["spec"]["template"]["spec"]["containers"][0]["image"] != image["image"]
        assert (await workload.get(CLUSTER_ROLE, "kindnet")).tree["rules"]

    story(tell)


@pytest.mark.soak
def test_drift_is_compared_on_demand() -> None:
    """Whoever says what is to be done about drift is told at once what drift there is."""

    async def tell(env: ManagedEnvironment) -> None:
        workload = await env.workload()
        await workload.delete(DAEMON_SET, "kindnet", "kube-system")
        await annotate(env, metadata_keys.DRIFT_ANNOTATION, "report")
        await until_said(env, status="False", text="DaemonSet kube-system/kindnet", seconds=5)

    story(tell)


@pytest.mark.soak
def test_patch_is_offered_and_applied_by_consent_alone() -> None:
    """Of a security fix in a later release, to a cluster of an older one; its workers are not made of it."""

    async def tell(env: ManagedEnvironment) -> None:
        synced = await until_said(env, status="True", text="patch short-lived-tokens is available")
        assert f"{metadata_keys.PATCHES_ANNOTATION}=short-lived-tokens" in synced.message
        before = {item.name for item in (await env.client.list(Machine.resource, SYSTEM_NAMESPACE)).items}
        flag = "service-account-extend-token-expiration"
        assert flag not in str((await env.client.get(KubeadmControlPlane.resource, "garden", SYSTEM_NAMESPACE)).tree)
        await annotate(env, metadata_keys.PATCHES_ANNOTATION, "short-lived-tokens")
        await env.until(lambda cluster: cluster.status.phase == "Upgrading")
        await env.until(lambda cluster: cluster.status.phase == "Running" and bool(cluster.status.ready))
        assert flag in str((await env.client.get(KubeadmControlPlane.resource, "garden", SYSTEM_NAMESPACE)).tree)
        after = {machine.name for machine in (await env.client.list(Machine.resource, SYSTEM_NAMESPACE)).items}
        replaced = before - after
        assert len(replaced) == 1
        assert not any("md-0" in name for name in replaced)
        assert "offered" not in (await until_said(env, status="True")).message

    story(tell)


@pytest.mark.soak
def test_nothing_is_compared_without_layers() -> None:
    async def tell(env: ManagedEnvironment) -> None:
        cluster = await env.until_ready()
        assert names.SYNCED not in {condition.type for condition in cluster.status.conditions}
        written = env.written()
        resource, name, patch, _ = EDITS[1]
        await edit(env, resource, name, patch)
        await annotate(env, metadata_keys.DRIFT_ANNOTATION, "correct")
        await asyncio.sleep(CALM)
        assert env.written() - written == {}
        assert ANNOTATION not in env.written() - written

    story(tell, isolation=Isolation.GATE)


@pytest.mark.soak
@pytest.mark.parametrize("varies", sampled([False, True], 1), ids=["one value", "another value each time"])
def test_repeated_edits_are_corrected_less_often(varies: bool) -> None:
    """Two programs that each want their way would else write as fast as they can, and for ever."""

    async def tell(env: ManagedEnvironment) -> None:
        await annotate(env, metadata_keys.DRIFT_ANNOTATION, "correct")
        before = env.written()
        resource, name, _, message = EDITS[1]
        cache = env.capi_objects.of(resource, SYSTEM_NAMESPACE)
        edits: set[asyncio.Task[None]] = set()
        values = (f"mine-{number if varies else 0}" for number in itertools.count())

        def another() -> Tree:
            return {"spec": {"loadBalancer": {"imageTag": next(values)}}}

        def again(_old: Object | None, new: Object | None, _first: bool) -> None:
            if new is not None and "mine" not in str(new.tree["spec"]["loadBalancer"]):
                edits.add(asyncio.create_task(edit(env, resource, name, another())))

        async def corrected(seconds: float) -> int:
            at_first = env.written()
            await asyncio.sleep(seconds)
            return (env.written() - at_first)["patch", resource.plural, ""]

        stop = cache.subscribe(again)
        await edit(env, resource, name, another())
        assert 4 <= await corrected(60) <= 6
        result = await until_said(env, status="False", text=f"{message} was corrected")
        assert "metadata.managedFields" in result.message
        assert await corrected(7200) <= 7
        # Whoever fights about one field holds up no other.
        await edit(env, EDITS[4][0], EDITS[4][1], EDITS[4][2])
        await asyncio.sleep(1)
        assert EDITS[4][3] not in said_of(await env.until(lambda _: True)).message
        stop()
        assert (env.written() - before)["patch", "clusters", "status"] < 60
        await until_said(env, status="True", seconds=2 * rate_limit.LONGEST_PAUSE)
        await asyncio.sleep(rate_limit.LONGEST_PAUSE + 2 * rate_limit.FORGOTTEN_AFTER)
        stop = cache.subscribe(again)
        await edit(env, resource, name, another())
        assert 4 <= await corrected(60) <= 6  # forgotten
        stop()

    story(tell)
