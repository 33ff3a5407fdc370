"""Clusters of EKS Anywhere that can't be taken over as they are: each is refused with its reason, before any write."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from espalier.api.capi import cluster as capi
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.core import CONFIG_MAP
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.releases.release import EKSARelease
from espalier.api.eksa.vocabulary.group import PAUSED_ANNOTATION, SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.apiserver.storage.store import MemoryStore
from espalier.clusters.design import names
from espalier.kube.client import Client
from espalier.kube.transports.wire import Request, Response, Transport
from espalier.management.adoption.plan import State, plan
from espalier.management.adoption.site import read
from espalier.management.steps import Refused
from espalier.providers.docker.cluster_api import DockerMachineTemplate
from espalier.providers.registry import PROVIDERS
from tests.support.environments.managed_environment import GARDEN
from tests.support.environments.of_eks_anywhere import adopter, on_store
from tests.support.objects.eks_anywhere import put
from tests.support.servers.faults import Interceptor

pytestmark = pytest.mark.embedded

MADE = Key(SYSTEM_NAMESPACE, GARDEN.name)
CLONE = Key("team-b", GARDEN.name)
Edit = Callable[[MemoryStore], None]


def edited(resource: Resource, key: Key, change: Callable[[Tree], object]) -> Edit:
    def edit(store: MemoryStore) -> None:
        tree = json.loads(bytes(store.table(resource.group_resource).objects[key].raw))
        change(tree)
        put(store, resource.group_resource, key, tree)

    return edit


def gone(resource: Resource, name: str) -> Edit:
    def edit(store: MemoryStore) -> None:
        table = store.table(resource.group_resource)
        for key in [key for key in table.objects if key.name.startswith(name)]:
            store.put(resource.group_resource, key, table.objects[key], deleted=True)

    return edit


def of_spec(**spec: object) -> Callable[[Tree], object]:
    return lambda tree: tree["spec"].update(spec)


def cloned(store: MemoryStore) -> None:
    """A younger Cluster of the same name in another namespace."""
    tree = json.loads(bytes(store.table(Cluster.resource.group_resource).objects[GARDEN].raw))
    tree["metadata"] |= {"namespace": CLONE.namespace, "uid": "clone", "creationTimestamp": "2026-02-01T00:00:00Z"}
    put(store, Cluster.resource.group_resource, CLONE, tree)


def with_two_records(store: MemoryStore) -> None:
    """A second management cluster claims to be this one, and no ConfigMap says which is."""
    gone(CONFIG_MAP, names.MANAGEMENT_CLUSTER.name)(store)
    table = store.table(Cluster.resource.group_resource)
    for key, object_ in list(table.objects.items()):
        tree = json.loads(bytes(object_.raw))
        if tree["spec"]["managementCluster"]["name"] == key.name:
            tree["metadata"] |= {"name": "other", "uid": "other"}
            tree["spec"]["managementCluster"]["name"] = "other"
            put(store, Cluster.resource.group_resource, Key(key.namespace, "other"), tree)


def deleting(tree: Tree) -> None:
    tree["metadata"] |= {"deletionTimestamp": "2026-03-01T00:00:00Z", "deletionGracePeriodSeconds": 0}


def with_unknown_field(tree: Tree) -> None:
    """One that EKS Anywhere applied, so that it would be lost."""
    tree["spec"]["kubeadmConfigSpec"]["ofTheFuture"] = "a"
    for entry in tree["metadata"]["managedFields"]:
        if entry["manager"] == "eks-a-controller":
            entry["fieldsV1"]["f:spec"]["f:kubeadmConfigSpec"]["f:ofTheFuture"] = {}


def not_initialized(tree: Tree) -> None:
    tree["status"]["initialization"] = {}
    tree["status"]["conditions"] = []


class Reading(Interceptor):
    """Lets nothing be written."""

    async def request(self, transport: Transport, request: Request) -> Response:
        assert request.method == "GET", f"{request.method} {request.path}"
        return await transport.request(request)


def reading(client: Client) -> Client:
    return Client(Reading()(client.transport), user_agent="journey")


CASES: dict[str, tuple[str, Edit]] = {
    "it is half-made": ("HalfMade", edited(capi.Cluster.resource, MADE, not_initialized)),
    "it is being deleted": ("BeingDeleted", edited(Cluster.resource, GARDEN, deleting)),
    "its control plane is being deleted": ("BeingDeleted", edited(KubeadmControlPlane.resource, MADE, deleting)),
    "a template is missing": ("TemplateMissing", gone(DockerMachineTemplate.resource, "garden-md-0")),
    "its control plane is missing": ("OwnerMissing", gone(KubeadmControlPlane.resource, "garden")),
    "its objects of Cluster API are elsewhere": ("NoClusterAPIObjects", gone(capi.Cluster.resource, "garden")),
    "somebody paused it": (
        "Paused",
        edited(Cluster.resource, GARDEN, lambda tree: tree["metadata"].update(annotations={PAUSED_ANNOTATION: ""})),
    ),
    "Cluster API is paused": ("ClusterAPIPaused", edited(capi.Cluster.resource, MADE, of_spec(paused=True))),
    "its release is gone": ("ReleaseUnknown", gone(EKSARelease.resource, "eksa-")),
    "a change is in progress": (
        "ChangeInProgress",
        edited(Cluster.resource, GARDEN, lambda tree: tree["metadata"].update(generation=9)),
    ),
    "it is not ready": (
        "NotReady",
        edited(Cluster.resource, GARDEN, lambda tree: tree["status"].update(conditions=["?", {"type": "Ready"}])),
    ),
    "another management cluster has it": (
        "ManagedElsewhere",
        edited(Cluster.resource, GARDEN, of_spec(managementCluster={"name": "elsewhere"})),
    ),
    "a machine rolls": (
        "RolloutInProgress",
        edited(KubeadmControlPlane.resource, MADE, lambda tree: tree["status"].update(upToDateReplicas=0)),
    ),
    "its control plane has fields of the future": (
        "FieldsUnknown",
        edited(KubeadmControlPlane.resource, MADE, with_unknown_field),
    ),
    "it can't be read": ("ClusterUnreadable", edited(Cluster.resource, GARDEN, of_spec(kubernetesVersion=[]))),
}


@pytest.mark.parametrize(("reason", "edit"), CASES.values(), ids=CASES)
def test_unfit_cluster_is_refused_before_any_write(reason: str, edit: Edit) -> None:
    async def story(client: Client, store: MemoryStore) -> None:
        edit(store)
        (cluster,) = plan(await read(client, PROVIDERS), [GARDEN]).clusters
        assert reason in {block.reason for block in cluster.blocks}
        assert cluster.state is State.BLOCKED
        with pytest.raises(Refused) as refused:
            await adopter(reading(client)).apply([GARDEN])
        assert not [problem for problem in refused.value.problems if problem.count(str(GARDEN)) > 1]

    on_store(story)


def test_second_claim_on_the_same_objects_is_refused() -> None:
    async def story(client: Client, store: MemoryStore) -> None:
        cloned(store)
        planned = {cluster.key: cluster for cluster in plan(await read(client, PROVIDERS)).clusters}
        assert planned[GARDEN].state is State.READY
        assert "ClaimedTwice" in {block.reason for block in planned[CLONE].blocks}
        await adopter(client).apply([GARDEN])
        with pytest.raises(Refused, match="belongs to Cluster default/garden"):
            await adopter(client).apply([CLONE])

    on_store(story)


def test_two_management_clusters_are_refused() -> None:
    async def story(client: Client, store: MemoryStore) -> None:
        with_two_records(store)
        with pytest.raises(Refused, match="say which of them is this management cluster"):
            await adopter(reading(client)).apply([GARDEN])

    on_store(story)


def test_hand_edited_control_plane_stays_as_it_is() -> None:
    """Fields that somebody took over are nobody's of ours."""

    def edit(tree: Tree) -> None:
        commands = tree["spec"]["kubeadmConfigSpec"].setdefault("preKubeadmCommands", [])
        commands.append("true")
        for entry in tree["metadata"]["managedFields"]:
            entry.get("fieldsV1", {}).get("f:spec", {}).get("f:kubeadmConfigSpec", {}).pop("f:preKubeadmCommands", 0)

    async def story(client: Client, store: MemoryStore) -> None:
        edited(KubeadmControlPlane.resource, MADE, edit)(store)
        (cluster,) = plan(await read(client, PROVIDERS), [GARDEN]).clusters
        assert (cluster.state, cluster.blocks) == (State.READY, ())
        assert not any("preKubeadmCommands" in field for row in cluster.rows for field in row.fields)

    on_store(story)


def test_broken_record_is_written_anew() -> None:
    async def story(client: Client, store: MemoryStore) -> None:
        metadata = {"name": "garden-adoption", "namespace": SYSTEM_NAMESPACE}
        await client.create(CONFIG_MAP, {"metadata": metadata, "data": {"record": "[" * 200}})
        await adopter(client).apply([GARDEN])
        (cluster,) = plan(await read(client, PROVIDERS), [GARDEN]).clusters
        assert cluster.state is State.ADOPTED

    on_store(story)
