"""Drain against a real kube-apiserver, with the rights that the upgrader pod has, and the end of those rights."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from espalier.api.core import CLUSTER_ROLE, NAMESPACE, NODE, POD, REPLICA_SET, SERVICE_ACCOUNT
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import AlreadyExists, Forbidden
from espalier.upgrader import draining
from espalier.upgrader.api import Api
from espalier.upgrader.draining import Cordon
from espalier.upgrader.host import Clock, StepFailed
from espalier.upgrades.node import pod
from tests.support.environments.control_plane import ControlPlane
from tests.support.servers.widgets import gone, until

pytestmark = pytest.mark.envtest

NAME = "drained-node"
BUDGET = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
PATIENCE = 300.0
LABELS = {"app": "drained"}


async def create_rbac(admin: Client, node: str) -> tuple[str, list[tuple[Resource, str]]]:
    """As the controller gives them: name of the ServiceAccount, and everything that goes with the role."""
    with suppress(AlreadyExists):
        await admin.create(NAMESPACE, pod.NAMESPACE_OF_PODS)
    role = await admin.create(CLUSTER_ROLE, pod.role(node))
    holders = pod.role_dependents(role)
    for resource, body in holders:
        await admin.create(resource, body)
    return pod.account(role), [(resource, body["metadata"]["name"]) for resource, body in holders]


@pytest.fixture
async def cordon(control_plane: ControlPlane, admin: Client, tmp_path: Path) -> Cordon:
    """The node, as the upgrader pod's ServiceAccount may see it."""
    await admin.create(NODE, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NAME}})
    account, _ = await create_rbac(admin, NAME)
    token = await control_plane.run_kubectl("create", "token", account, "-n", SYSTEM_NAMESPACE)
    (tmp_path / "token").write_text(token)
    (tmp_path / "ca.crt").write_bytes(control_plane.ca)
    address = urlsplit(control_plane.url)
    environment = {"KUBERNETES_SERVICE_HOST": str(address.hostname), "KUBERNETES_SERVICE_PORT": str(address.port)}
    return Cordon(NAME, Api(environment, tmp_path), Clock())


async def running_pod(admin: Client) -> str:
    """A pod of a ReplicaSet that runs on the node; returns its name."""
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "main", "image": "web"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": LABELS}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "drained", "namespace": "default"}}
    owner = await admin.create(REPLICA_SET, {**body, "spec": spec})
    reference = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": owner.name,
        "uid": owner.metadata.uid,
        "controller": True,
    }
    metadata = {"name": "drained-1", "namespace": "default", "labels": LABELS, "ownerReferences": [reference]}
    pod: Tree = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    await admin.create(POD, {**pod, "spec": {"nodeName": NAME, "containers": [{"name": "main", "image": "web"}]}})
    conditions = [{"type": "Ready", "status": "True"}, {"type": "ContainersReady", "status": "True"}]
    status = {"phase": "Running", "conditions": conditions}
    await admin.patch(POD, "drained-1", "default", patch={"status": status}, type=PatchType.MERGE, subresource="status")
    return "drained-1"


async def guard(admin: Client) -> None:
    """A PodDisruptionBudget, with the status that the disruption controller would give it."""
    metadata = {"name": "drained", "namespace": "default"}
    spec = {"minAvailable": 1, "selector": {"matchLabels": LABELS}}
    made = await admin.create(
        BUDGET, {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}
    )
    status = {
        "disruptionsAllowed": 0,
        "currentHealthy": 1,
        "desiredHealthy": 1,
        "expectedPods": 1,
        "observedGeneration": made.tree["metadata"]["generation"],
    }
    await admin.patch(
        BUDGET, "drained", "default", patch={"status": status}, type=PatchType.MERGE, subresource="status"
    )


@pytest.mark.demand("U41", "U43")
async def test_budget_of_a_real_api_server_is_waited_for(admin: Client, cordon: Cordon) -> None:
    name = await running_pod(admin)
    await guard(admin)

    with pytest.raises(StepFailed) as caught:
        await asyncio.to_thread(draining.drain, cordon, "v1.36.3", timeout=3)

    reason = "The disruption budget drained needs 1 healthy pods and has 1 currently"
    assert f"default/{name}: {reason}" in str(caught.value)
    assert (await admin.get(NODE, NAME)).tree["spec"]["unschedulable"] is True

    await admin.delete(BUDGET, "drained", "default")
    again = asyncio.create_task(asyncio.to_thread(draining.drain, cordon, "v1.36.3", timeout=PATIENCE))
    await until(admin, POD, "default", name, lambda event: event.object.metadata.deletion_timestamp is not None)
    await admin.delete(POD, name, "default", grace_period_seconds=0)  # as its kubelet would do
    assert await again == "the node is drained; 1 pods were evicted"
    assert await asyncio.to_thread(draining.uncordon, cordon) == "the node is uncordoned"
    assert not (await admin.get(NODE, NAME)).tree["spec"].get("unschedulable")


@pytest.mark.demand("U44")
async def test_the_holder_of_a_nodes_role_goes_with_it(admin: Client) -> None:
    _, first = await create_rbac(admin, "other-node")
    await admin.delete(CLUSTER_ROLE, "other-node-node-upgrader")
    _, second = await create_rbac(admin, "other-node")  # garbage collection has not come to the first ones yet
    assert first != second
    for resource, name in first:
        namespace = SYSTEM_NAMESPACE if resource.namespaced else None
        await gone(admin, resource, name, namespace)
    for resource, name in second:
        namespace = SYSTEM_NAMESPACE if resource.namespaced else None
        assert (await admin.get(resource, name, namespace)).metadata.deletion_timestamp is None


@pytest.mark.demand("U44")
async def test_role_permits_evictions_of_its_own_node_only(control_plane: ControlPlane, admin: Client) -> None:
    account, _ = await create_rbac(admin, "ruled-node")
    subject = f"--as=system:serviceaccount:{SYSTEM_NAMESPACE}:{account}"
    listed = await control_plane.run_kubectl("auth", "can-i", "--list", subject, "--no-headers")
    lines = [" ".join(line.split()) for line in listed.splitlines() if not line.startswith(" ")]
    everybodys = ("selfsubject", "clustertrustbundles", "[/")
    assert sorted(line for line in lines if not line.startswith(everybodys)) == [
        "nodes [] [ruled-node] [get patch]",
        "pods [] [] [get list]",
        "pods/eviction [] [] [create]",
    ]


async def test_baseline_pod_security_needs_a_namespace_label(admin: Client) -> None:
    """The controller makes the namespace with it, and names it where the namespace was there before."""
    upgrader = pod.Upgrader("eksa-system/one", "node-1", "example.org/upgrader", "worker", "v1.36.3", "default")
    body = pod.pod(upgrader)
    for name, label in {"strict": "baseline", "labelled": pod.PRIVILEGED_LABEL.partition("=")[2]}.items():
        labels = {pod.PRIVILEGED_LABEL.partition("=")[0]: label}
        await admin.create(NAMESPACE, {"metadata": {"name": name, "labels": labels}})
        account = {"metadata": {"name": "default", "namespace": name}}
        with suppress(AlreadyExists):
            await admin.create(SERVICE_ACCOUNT, account)
    with pytest.raises(Forbidden, match="violates PodSecurity"):
        await admin.create(POD, {**body, "metadata": {**body["metadata"], "namespace": "strict"}}, dry_run=True)
    await admin.create(POD, {**body, "metadata": {**body["metadata"], "namespace": "labelled"}}, dry_run=True)
