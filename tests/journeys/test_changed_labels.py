"""A label that is followed and was edited is named with the remedy, and the remedy works: during upgrades in place."""

from __future__ import annotations

import asyncio

import pytest

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.upgrades import ControlPlaneUpgrade, MachineDeploymentUpgrade, NodeUpgrade
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.clusterapi import contract
from espalier.kube.client import PatchType
from espalier.kube.errors import NotFound
from espalier.simulator.workload_clusters.workload_cluster import WorkloadCluster
from tests.support.environments import in_place_environment as in_place
from tests.support.environments.in_place_environment import NEW, until_so
from tests.support.environments.managed_environment import GARDEN, ManagedEnvironment
from tests.support.environments.upgraders import Moment, Upgraders
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded

HOUR = 3600.0

FOLLOWED: dict[str, tuple[Resource, str]] = {
    "a NodeUpgrade of the control plane": (NodeUpgrade.resource, "garden-"),
    "a NodeUpgrade of a worker": (NodeUpgrade.resource, "garden-md-0-"),
    "the ControlPlaneUpgrade": (ControlPlaneUpgrade.resource, "garden"),
    "the MachineDeploymentUpgrade": (MachineDeploymentUpgrade.resource, "garden-md-0"),
    "the KubeadmControlPlane": (KubeadmControlPlane.resource, "garden"),
    "the MachineDeployment": (MachineDeployment.resource, "garden-md-0"),
    "a control plane machine": (Machine.resource, "garden-"),
    "a worker": (Machine.resource, "garden-md-0-"),
}


async def label(env: ManagedEnvironment, resource: Resource, name: str, value: str | None) -> None:
    patch: Tree = {"metadata": {"labels": {contract.CLUSTER_NAME_LABEL: value}}}
    await env.client.patch(resource, name, SYSTEM_NAMESPACE, patch=patch, type=PatchType.MERGE)


async def messages(env: ManagedEnvironment) -> list[str]:
    """The messages of the Cluster and of the upgrades."""
    results = []
    for resource in (Cluster, ControlPlaneUpgrade, MachineDeploymentUpgrade, NodeUpgrade):
        for item in (await env.client.list(resource.resource)).items:
            conditions = (item.tree.get("status") or {}).get("conditions") or []
            results += [each.get("message", "") for each in conditions if each["type"] == "Ready"]
    return results


@pytest.mark.parametrize("what", sampled([*FOLLOWED], 2))
def test_upgrade_goes_on_once_the_label_is_set_back(what: str) -> None:
    resource, prefix = FOLLOWED[what]

    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        edited: list[str] = []

        async def happening(workload: WorkloadCluster, node: str, container: str, moment: Moment) -> None:
            names = [item.name for item in (await env.client.list(resource, SYSTEM_NAMESPACE)).items]
            is_worker = "-md-0" in prefix
            mine = [item for item in names if item.startswith(prefix) and ("-md-0" in item) == is_worker]
            if not edited and mine and ("-md-0" in node) == is_worker:
                edited.append(mine[0])
                await label(env, resource, mine[0], "other")

        upgraders.happening = happening
        before = await in_place.identities(env)
        await env.change(kubernetesVersion="1.36")
        await asyncio.sleep(HOUR)
        assert edited
        status = (await env.client.get(Cluster.resource, GARDEN.name, GARDEN.namespace)).decode(Cluster).status
        try:
            live = (await env.client.get(resource, edited[0], SYSTEM_NAMESPACE)).metadata.labels
        except NotFound:  # finished all the same
            live = {}
        if not status.ready or live.get(contract.CLUSTER_NAME_LABEL) == "other":
            told = f"label {contract.CLUSTER_NAME_LABEL} of {resource.kind} {SYSTEM_NAMESPACE}/{edited[0]}"
            if not status.ready:
                assert any(told in message and 'set it to "garden"' in message for message in await messages(env))
            await label(env, resource, edited[0], "garden")
        await env.until_ready(seconds=4 * HOUR)
        assert await in_place.identities(env) == before
        assert set(await env.versions()) == {NEW}

    in_place.journey(story)


def test_upgrade_whose_label_was_edited_can_be_deleted() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        worker = (await in_place.machines(env, control_plane=False))[0].name
        spec = {"machine": {"name": worker}, "kubernetesVersion": NEW, "nodeType": "Worker"}
        metadata = {
            "name": "by-hand",
            "namespace": SYSTEM_NAMESPACE,
            "labels": {contract.CLUSTER_NAME_LABEL: "other"},
        }
        await env.client.create(NodeUpgrade.resource, {"metadata": metadata, "spec": spec})
        tree = await until_so(
            env, NodeUpgrade.resource, "by-hand", lambda tree: in_place.ready(tree)["reason"] == "LabelsChanged"
        )
        told = 'label cluster.x-k8s.io/cluster-name of NodeUpgrade eksa-system/by-hand is "other", but Machine '
        assert in_place.ready(tree)["message"].startswith(told)
        await env.client.delete(NodeUpgrade.resource, "by-hand", SYSTEM_NAMESPACE)
        await asyncio.sleep(60)
        with pytest.raises(NotFound):
            await env.client.get(NodeUpgrade.resource, "by-hand", SYSTEM_NAMESPACE)
        assert upgraders.ran == []

    in_place.journey(story)
