"""Journeys of clusters from their manifest to nothing, on an embedded API server and a simulated clock."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from espalier.api.capi import cluster as capi_cluster
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment
from espalier.api.core import (
    DAEMON_SET,
    SECRET,
)
from espalier.api.core import NAMESPACE as NAMESPACES
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import PAUSED_ANNOTATION, SYSTEM_NAMESPACE
from espalier.api.resource import Key
from espalier.kube.client import PatchType
from espalier.kube.errors import ApiError, Forbidden, Invalid, NotFound
from espalier.kube.objects import Object
from espalier.providers.docker.cluster_api import DockerMachineTemplate
from espalier.providers.docker.kinds import DockerDatacenterConfig
from tests.support.environments.cluster_lives import KUBERNETES, conditions, groups, journey, left, message_of
from tests.support.environments.managed_environment import GARDEN, NAMESPACE, ManagedEnvironment

pytestmark = pytest.mark.embedded


@pytest.mark.demand(
    "L2", "L10", "L55", "V10", L4="another client, with server-side apply as Flux has it, and merge patches"
)
def test_manifest_becomes_cluster_with_a_whole_life() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await env.apply()
        cluster = await env.until_ready()
        assert set(conditions(cluster).values()) == {"True"}
        assert cluster.status.phase == "Running"
        assert cluster.spec.eksa_version == "v0.26.0"
        assert await env.versions() == [KUBERNETES["1.35"]] * 3

        for count in (4, 1):
            await env.change(workerNodeGroupConfigurations=groups(count))
            await env.until_ready()
            assert len(await env.nodes()) == 1 + count

        await env.change(kubernetesVersion="1.36")
        cluster = await env.until_ready()
        assert await env.versions() == [KUBERNETES["1.36"]] * 2
        templates = await env.client.list(DockerMachineTemplate.resource, SYSTEM_NAMESPACE)
        assert {item.name for item in templates.items} == {"garden-control-plane-2", "garden-md-0-2"}

        await env.client.delete(DockerDatacenterConfig.resource, "garden", NAMESPACE)
        await env.client.delete(Cluster.resource, "garden", NAMESPACE)
        await env.until_gone()
        assert await left(env) == []
        secrets = await env.client.list(SECRET)
        assert [secret.name for secret in secrets.items] == []

    journey(story)


@pytest.mark.soak
def test_new_workers_wait_beside_their_control_plane() -> None:
    async def story(env: ManagedEnvironment) -> None:
        seen: list[bool] = []

        def look(_old: Object | None, new: Object | None, _first: bool) -> None:
            worker = new is not None and "garden-md-0" in new.name
            if worker and env.workloads.reach(Key(SYSTEM_NAMESPACE, "garden")) is None:
                seen.append(True)

        env.capi_objects.of(Machine.resource).subscribe(look)
        await env.apply()
        await env.until_ready()
        assert seen, "the first worker was asked for when the API server had answered"
        assert len(await env.nodes()) == 3

    journey(story)


@pytest.mark.soak
def test_new_worker_is_never_ahead_of_control_plane() -> None:
    async def story(env: ManagedEnvironment) -> None:
        def look(_old: Object | None, new: Object | None, _first: bool) -> None:
            if new is None or "-md-" not in new.name:
                return
            machines = [object_.decode(Machine) for object_ in env.capi_objects.of(Machine.resource).list()]
            at = {machine.spec.version for machine in machines if "-md-" not in machine.metadata.name}
            assert new.decode(Machine).spec.version <= min(at, default=KUBERNETES["1.35"]), (
                f"{new.name} is ahead of {at}"
            )

        env.capi_objects.of(Machine.resource).subscribe(look)
        booting = asyncio.Event()
        env.capi_objects.of(Machine.resource).subscribe(lambda *_: booting.set())
        await env.apply()
        await booting.wait()
        more = [*groups(2), {"name": "md-1", "count": 1}]
        await env.change(kubernetesVersion="1.36", workerNodeGroupConfigurations=more)
        await env.until_ready()
        assert await env.versions() == [KUBERNETES["1.36"]] * 4

    journey(story)


@pytest.mark.demand("U54")
def test_control_plane_is_upgraded_before_any_worker() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await env.apply(controlPlaneConfiguration={"count": 3})
        await env.until_ready()
        seen: list[tuple[int, int]] = []

        def look(*_: object) -> None:
            machines = [object_.decode(Machine) for object_ in env.capi_objects.of(Machine.resource).list()]
            old = [machine for machine in machines if machine.spec.version == KUBERNETES["1.35"]]
            planes = sum("cluster.x-k8s.io/control-plane" in machine.metadata.labels for machine in old)
            workers = sum(
                machine.spec.version == KUBERNETES["1.36"]
                and "cluster.x-k8s.io/control-plane" not in machine.metadata.labels
                for machine in machines
            )
            seen.append((planes, workers))

        env.capi_objects.of(Machine.resource).subscribe(look)
        await env.change(kubernetesVersion="1.36")
        await env.until_ready()
        assert await env.versions() == [KUBERNETES["1.36"]] * 5
        assert not [moment for moment in seen if moment[0] and moment[1]]

    journey(story)


@pytest.mark.demand("L10")
@pytest.mark.soak
def test_groups_come_go_and_lag_behind_control_plane() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await env.apply(workerNodeGroupConfigurations=[*groups(1), {"name": "old", "count": 2}])
        await env.until_ready()
        lagging = {"name": "old", "count": 2, "kubernetesVersion": "1.35", "labels": {"tier": "slow"}}
        await env.change(kubernetesVersion="1.36", workerNodeGroupConfigurations=[*groups(1), lagging])
        await env.until_ready()
        assert await env.versions() == [KUBERNETES["1.35"]] * 2 + [KUBERNETES["1.36"]] * 2
        labelled = [node for node in await env.nodes() if node["metadata"]["labels"].get("tier") == "slow"]
        assert len(labelled) == 2
        await env.change(workerNodeGroupConfigurations=groups(1))
        await env.until_ready()
        assert [item.name for item in (await env.client.list(MachineDeployment.resource)).items] == ["garden-md-0"]
        assert len(await env.nodes()) == 2
        assert "garden-old-1" not in " ".join(await left(env))

    journey(story)


@pytest.mark.demand("L15")
def test_taints_of_nodes_follow_their_group() -> None:
    def taint(value: str) -> dict[str, str]:
        return {"key": "dedicated", "value": value, "effect": "NoSchedule"}

    async def story(env: ManagedEnvironment) -> None:
        for value in ("gpu", "disk"):
            asked = [*groups(1), {"name": "special", "count": 1, "taints": [taint(value)]}]
            if value == "gpu":
                await env.apply(workerNodeGroupConfigurations=asked)
            else:
                await env.change(workerNodeGroupConfigurations=asked)
            await env.until_ready()
            nodes = await env.nodes()
            assert len(nodes) == 3
            for node in nodes:
                is_special = node["metadata"]["name"].startswith("garden-special-")
                dedicated = [taint for taint in node["spec"].get("taints", []) if taint["key"] == "dedicated"]
                assert dedicated == ([taint(value)] if is_special else [])

    journey(story)


@pytest.mark.demand("L11", "L34", "L62")
@pytest.mark.parametrize(("example", "daemon_set"), [("docker.yaml", "kindnet"), ("docker-cilium.yaml", "cilium")])
def test_workload_cluster_has_cni_that_was_asked_for(example: str, daemon_set: str) -> None:
    async def story(env: ManagedEnvironment) -> None:
        await env.apply(example)
        key = GARDEN if example == "docker.yaml" else Key(NAMESPACE, "orchard")
        await env.until_ready(key)
        workload = env.workloads.reach(Key(SYSTEM_NAMESPACE, key.name))
        assert workload is not None
        stored = await workload.client.get(DAEMON_SET, daemon_set, "kube-system")
        assert stored.tree["status"]["numberReady"] == 3

    journey(story)


@pytest.mark.demand("L5", "L31", L23="a datacenter that is not there", L24="a datacenter that is not there")
def test_cluster_waits_for_its_datacenter() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await env.apply()
        await env.client.delete(Cluster.resource, "garden", NAMESPACE)
        await env.until_gone()
        await env.client.delete(DockerDatacenterConfig.resource, "garden", NAMESPACE)
        datacenter = {"kind": "DockerDatacenterConfig", "name": "later"}
        await env.apply(datacenterRef=datacenter)
        cluster = await env.until(lambda cluster: cluster.status.failure_reason == "MissingDependentObjects")
        assert "DockerDatacenterConfig later" in (cluster.status.failure_message or "")
        assert await left(env) == []
        await env.client.create(
            DockerDatacenterConfig.resource, {"metadata": {"name": "later", "namespace": NAMESPACE}, "spec": {}}
        )
        cluster = await env.until_ready()
        assert cluster.status.failure_reason is None

    journey(story)


@pytest.mark.demand("L59")
def test_datacenter_of_other_namespace_does_not_count() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await env.client.create(NAMESPACES, {"metadata": {"name": "other"}})
        await env.allow_copies("other")
        elsewhere = {"metadata": {"name": "shared", "namespace": "other"}, "spec": {}}
        await env.client.create(DockerDatacenterConfig.resource, elsewhere)
        await env.apply(datacenterRef={"kind": "DockerDatacenterConfig", "name": "shared"})
        cluster = await env.until(lambda cluster: cluster.status.failure_reason == "MissingDependentObjects")
        assert "DockerDatacenterConfig shared in namespace default" in (cluster.status.failure_message or "")
        assert await left(env) == []

    journey(story)


@pytest.mark.soak
def test_a_refused_cluster_is_not_half_made() -> None:
    async def story(env: ManagedEnvironment) -> None:
        with pytest.raises(ApiError, match=r"spec\.controlPlaneConfiguration\.count"):
            await env.apply(controlPlaneConfiguration={"count": 2})
        with pytest.raises(ApiError, match=r"1\.34, 1\.35, 1\.36"):
            await env.apply(kubernetesVersion="1.33")
        with pytest.raises(NotFound):
            await env.client.get(Cluster.resource, "garden", NAMESPACE)
        await env.apply(kubernetesVersion="1.34")
        await env.until_ready()
        with pytest.raises((Invalid, Forbidden), match=r"allowed: 1\.34 or 1\.35"):
            await env.change(kubernetesVersion="1.36")
        with pytest.raises((Invalid, Forbidden), match="self-managed"):
            await env.change(managementCluster={"name": "garden"})

    journey(story)


@pytest.mark.soak
def test_paused_cluster_is_left_alone_with_true_status() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await env.apply()
        await env.until_ready()
        pause = {"metadata": {"annotations": {PAUSED_ANNOTATION: "true"}}}
        await env.client.patch(Cluster.resource, "garden", NAMESPACE, patch=pause, type=PatchType.MERGE)
        await env.change(workerNodeGroupConfigurations=groups(4))
        scaled = {"spec": {"replicas": 3}}
        await env.client.patch(
            MachineDeployment.resource, "garden-md-0", SYSTEM_NAMESPACE, patch=scaled, type=PatchType.MERGE
        )
        cluster = await env.until(lambda cluster: conditions(cluster)["WorkersReady"] == "False")
        assert cluster.status.observed_generation < cluster.metadata.generation
        await env.until(lambda cluster: "3 of 4" in message_of(cluster, "WorkersReady"))
        resume = {"metadata": {"annotations": {PAUSED_ANNOTATION: None}}}
        await env.client.patch(Cluster.resource, "garden", NAMESPACE, patch=resume, type=PatchType.MERGE)
        await env.until_ready()
        assert len(await env.nodes()) == 5

    journey(story)


@pytest.mark.demand("L33", "L37")
def test_status_shows_phases_and_what_is_waited_for() -> None:
    async def story(env: ManagedEnvironment) -> None:
        phases: list[str | None] = []
        unsaid: list[Cluster] = []

        def look(_old: Object | None, new: Object | None, _first: bool) -> None:
            if new is None or new.key != GARDEN or "phase" not in new.tree["status"]:
                return
            cluster = new.decode(Cluster)
            if phases[-1:] != [cluster.status.phase]:
                phases.append(cluster.status.phase)
            if not message_of(cluster, "Ready"):
                unsaid.append(cluster)

        env.clusters.subscribe(look)
        await env.apply(workerNodeGroupConfigurations=groups(1))
        await env.until_ready()
        await env.change(kubernetesVersion="1.36")
        await env.until_ready()
        await env.client.delete(Cluster.resource, "garden", NAMESPACE)
        await env.until_gone()
        assert phases == ["Pending", "Creating", "Running", "Upgrading", "Running", "Deleting"]
        assert unsaid == []

    journey(story)


def is_reported(is_ready: bool, cluster: Cluster) -> bool:
    return cluster.status.control_plane_ready is is_ready


@pytest.mark.demand("L13", "L35")
def test_changes_of_cluster_api_status_show_at_once() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await env.apply()
        await env.until_ready()
        pause = {"spec": {"paused": True}}  # so that only this story writes the status of the control plane
        await env.client.patch(
            capi_cluster.Cluster.resource, "garden", SYSTEM_NAMESPACE, patch=pause, type=PatchType.MERGE
        )
        kubeadm_control_plane = await env.client.get(KubeadmControlPlane.resource, "garden", SYSTEM_NAMESPACE)
        reported = kubeadm_control_plane.tree["status"]["conditions"]
        lost = {"type": "Available", "status": "False", "reason": "NotAvailable", "message": "etcd has no leader"}
        worse = [item | lost if item["type"] == "Available" else item for item in reported]
        for told, is_ready in ((worse, False), (reported, True)):
            await env.client.patch(
                KubeadmControlPlane.resource,
                "garden",
                SYSTEM_NAMESPACE,
                patch={"status": {"conditions": told}},
                type=PatchType.MERGE,
                subresource="status",
            )
            cluster = await env.until(partial(is_reported, is_ready), seconds=1)
            assert cluster.status.ready is is_ready
            assert (message_of(cluster, "ControlPlaneReady") == "etcd has no leader") is not is_ready

    journey(story)


@pytest.mark.demand("L47")
def test_the_management_cluster_is_reported_on_calmly() -> None:
    async def story(env: ManagedEnvironment) -> None:
        cluster = await env.until(lambda cluster: bool(cluster.status.ready), Key("default", "laptop"))
        assert "serves the API" in message_of(cluster, "Ready")

    journey(story)


@pytest.mark.demand("I17")
def test_settled_cluster_with_edits_gets_no_writes() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await env.apply()
        await env.until_ready()
        scaled = {"spec": {"replicas": 1}}
        await env.client.patch(
            MachineDeployment.resource, "garden-md-0", SYSTEM_NAMESPACE, patch=scaled, type=PatchType.MERGE
        )
        await env.until(
            lambda cluster: (
                "1 are there" in message_of(cluster, "WorkersReady") or "1 of 2" in message_of(cluster, "WorkersReady")
            )
        )
        await env.change(controlPlaneConfiguration={"count": 1, "machineHealthCheck": {"maxUnhealthy": "50%"}})
        await env.until_ready()
        assert len(await env.nodes()) == 3

    journey(story)
