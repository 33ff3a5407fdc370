"""Clusters upgraded in place, by annotations: embedded API server, simulated Cluster API, nodes and clock."""

from __future__ import annotations

import json

import pytest

from espalier.api.capi.kubeadm import KubeadmConfig, KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment, MachineSet
from espalier.api.core import CONFIG_MAP, NODE, POD
from espalier.api.eksa.upgrades import ControlPlaneUpgrade, MachineDeploymentUpgrade, NodeUpgrade
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.eksa.vocabulary.upgrade_keys import UPGRADE_SECONDS
from espalier.providers.docker.cluster_api import DockerMachine, DockerMachineTemplate
from tests.support.environments.in_place_environment import (
    NEW,
    identities,
    journey,
    machines,
    marks,
    reach,
    ready,
    until_so,
)
from tests.support.environments.managed_environment import ManagedEnvironment
from tests.support.environments.upgraders import Upgraders

pytestmark = pytest.mark.embedded


@pytest.mark.demand("U1", "U3", "U5", "U8", "U9", "U13", "U23", "U28", "U29")
def test_cluster_without_spare_hardware_is_upgraded() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        before = await identities(env)
        sets = [item.metadata.uid for item in (await env.client.list(MachineSet.resource, SYSTEM_NAMESPACE)).items]
        added: list[str] = []
        stop = env.capi_objects.of(Machine.resource).subscribe(
            lambda old, new, first: added.append(str(new)) if old is None and not first else None
        )
        await env.change(kubernetesVersion="1.36")
        seen = await until_so(
            env,
            ControlPlaneUpgrade.resource,
            "garden-cp-upgrade",
            lambda control_plane_upgrade: bool(control_plane_upgrade.get("status")),
        )
        assert seen["status"]["requireUpgrade"] == 1
        assert (seen["status"]["upgraded"], seen["status"]["ready"]) == (0, False)
        await env.until_ready()
        stop()
        assert added == []
        assert await identities(env) == before
        assert [
            machine_set.metadata.uid
            for machine_set in (await env.client.list(MachineSet.resource, SYSTEM_NAMESPACE)).items
        ] == sets
        assert await env.versions() == [NEW] * 3
        assert await marks(env) == []
        for resource in (ControlPlaneUpgrade.resource, MachineDeploymentUpgrade.resource, NodeUpgrade.resource):
            assert (await env.client.list(resource, SYSTEM_NAMESPACE)).items == []

    journey(story)


@pytest.mark.demand("U19", "U20", "U21", "U22", "U31")
def test_objects_of_cluster_api_tell_what_was_reached() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        await env.change(kubernetesVersion="1.36")
        await env.until_ready()
        control_plane = (await env.client.get(KubeadmControlPlane.resource, "garden", SYSTEM_NAMESPACE)).tree["spec"]
        wanted = control_plane["kubeadmConfigSpec"]
        for machine in await machines(env, control_plane=True):
            assert machine.tree["spec"]["version"] == NEW
            text = machine.metadata.annotations["controlplane.cluster.x-k8s.io/kubeadm-cluster-configuration"]
            assert json.loads(text) == wanted["clusterConfiguration"]
            config = (await env.client.get(KubeadmConfig.resource, machine.name, SYSTEM_NAMESPACE)).tree["spec"]
            assert config["initConfiguration"] == wanted["initConfiguration"]
            assert "joinConfiguration" not in config
            assert config["clusterConfiguration"] == wanted["clusterConfiguration"]
        for machine in await machines(env):
            assert int(machine.metadata.annotations[UPGRADE_SECONDS]) >= 0, "for plans of the next one"
        template = control_plane["machineTemplate"]["spec"]["infrastructureRef"]["name"]
        group = (await env.client.get(MachineDeployment.resource, "garden-md-0", SYSTEM_NAMESPACE)).tree["spec"]
        worker_template = group["template"]["spec"]["infrastructureRef"]["name"]
        cloned_from = {
            item.metadata.annotations["cluster.x-k8s.io/cloned-from-name"]
            for item in (await env.client.list(DockerMachine.resource, SYSTEM_NAMESPACE)).items
        }
        assert cloned_from == {template, worker_template}
        unchanged = {
            docker_machine_template.name
            for docker_machine_template in (
                await env.client.list(DockerMachineTemplate.resource, SYSTEM_NAMESPACE)
            ).items
        }
        assert unchanged == {template, worker_template}
        [machine_set] = (await env.client.list(MachineSet.resource, SYSTEM_NAMESPACE)).items
        assert machine_set.tree["spec"]["template"]["spec"] == group["template"]["spec"]

    journey(story)


@pytest.mark.demand("U15", "U16", "U17", "U30", "U33", "U39", U74="one node after the other")
def test_control_plane_nodes_precede_workers_singly() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        planes = [machine.name for machine in await machines(env, control_plane=True)]
        workers = {machine.name for machine in await machines(env, control_plane=False)}
        await env.change(kubernetesVersion="1.36")
        await env.until_ready()
        order = list(dict.fromkeys(node for node, _ in upgraders.ran))
        assert order[:3] == planes
        assert set(order[3:]) == workers
        assert upgraders.at_once == 1
        roles = [upgraders.commands[node, "kubeadm-upgrader"][3] for node in order]
        assert roles == ["first-control-plane", "control-plane", "control-plane", "worker", "worker"]
        assert upgraders.static_pods[planes[0]]["etcd"].image.partition(":")[2].startswith("v3.6.8")
        joined = await env.client.get(KubeadmConfig.resource, planes[1], SYSTEM_NAMESPACE)
        assert "initConfiguration" not in joined.tree["spec"]

    journey(story, control_planes=3)


@pytest.mark.demand("U56")
@pytest.mark.soak
def test_waiting_workers_are_not_marked_for_removal() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        upgraders.hanging.add(((await machines(env, control_plane=True))[0].name, "kubeadm-upgrader"))
        await env.change(kubernetesVersion="1.36")
        cluster = await env.until(
            lambda item: any("0 of 1 nodes are upgraded" in condition.message for condition in item.status.conditions)
        )
        told = {condition.type: condition for condition in cluster.status.conditions}["WorkersReady"]
        assert (told.status, told.reason) == ("False", "InPlaceUpgradeInProgress")
        assert told.message == "2 worker machines are upgraded in place after the control plane"

    journey(story)


@pytest.mark.demand("U15", "U18", "U56", "U57", "U58")
def test_failing_node_stops_sequence_until_repaired() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        planes = await machines(env, control_plane=True)
        upgraders.failing[planes[1].name, "kubeadm-upgrader"] = "etcd is not well"
        await env.change(kubernetesVersion="1.36")
        cluster = await env.until(
            lambda cluster: any("etcd is not well" in condition.message for condition in cluster.status.conditions)
        )
        told = {condition.type: condition for condition in cluster.status.conditions}
        assert told["ControlPlaneReady"].status == "False"
        assert told["ControlPlaneReady"].reason == "InPlaceUpgradeFailed"
        assert f"1 of 3 nodes are upgraded; Machine {planes[1].name}" in told["ControlPlaneReady"].message
        upgrade = await env.client.get(ControlPlaneUpgrade.resource, "garden-cp-upgrade", SYSTEM_NAMESPACE)
        assert "step kubeadm-upgrader failed" in ready(upgrade.tree)["message"]
        assert (upgrade.tree["status"]["upgraded"], upgrade.tree["status"]["requireUpgrade"]) == (1, 2)
        versions = [machine.tree["spec"]["version"] for machine in await machines(env, control_plane=True)]
        assert versions == [NEW, "v1.35.4-eks-1-35-1", "v1.35.4-eks-1-35-1"]
        assert not [node for node, _ in upgraders.ran if node == planes[2].name]
        upgraders.failing.clear()
        retried = {"metadata": {"annotations": {"anywhere.eks.amazonaws.com/retry": "now"}}}
        await env.client.apply(
            NodeUpgrade.resource,
            {
                "apiVersion": NodeUpgrade.resource.api_version,
                "kind": "NodeUpgrade",
                "metadata": {
                    "name": f"{planes[1].name}-node-upgrader",
                    "namespace": SYSTEM_NAMESPACE,
                    **retried["metadata"],
                },
            },
            field_manager="kubectl-annotate",
        )
        await env.until_ready()
        assert await env.versions() == [NEW] * 4
        assert await marks(env) == []

    journey(story, control_planes=3, workers=1)


@pytest.mark.demand("U48")
@pytest.mark.soak
def test_no_drain_where_the_other_nodes_are_full() -> None:
    """Two workers with 4 CPUs each: what runs on the first has no room on the second."""

    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        client, (first, second) = (
            reach(env).client,
            [machine.name for machine in await machines(env, control_plane=False)],
        )
        maker = await client.create(CONFIG_MAP, {"metadata": {"name": "maker", "namespace": "default"}})
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "maker", "uid": maker.metadata.uid}
        for node, name, cpu in ((first, "web-1", "2"), (second, "web-2", "3")):
            metadata = {"name": name, "namespace": "default", "ownerReferences": [owner | {"controller": True}]}
            main = {"name": "main", "image": "web", "resources": {"requests": {"cpu": cpu}}}
            await client.create(POD, {"metadata": metadata, "spec": {"nodeName": node, "containers": [main]}})
        before = (await client.get(POD, "web-1", "default")).metadata.uid
        await env.change(kubernetesVersion="1.36")
        await env.until_ready()
        drained = {node for node, container in upgraders.ran if container == "drainer"}
        assert not drained & {first, second}
        assert (await client.get(POD, "web-1", "default")).metadata.uid == before

    journey(story)


@pytest.mark.demand("U48", "U73", U41="left out where nothing can move")
def test_no_drain_where_nothing_can_move() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        await env.change(kubernetesVersion="1.36")
        await env.until_ready()
        assert await env.versions() == [NEW] * 2
        planes = {machine.name for machine in await machines(env, control_plane=True)}
        drained = {node for node, container in upgraders.ran if container == "drainer"}
        assert drained == planes, "the only worker has nowhere to send its pods"
        nodes = (await reach(env).client.list(NODE)).items
        assert not [node for node in nodes if node.tree["spec"].get("unschedulable")]

    journey(story, workers=1)
