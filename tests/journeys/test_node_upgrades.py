"""Nodes that are upgraded in place, one NodeUpgrade each: embedded API server, simulated nodes and clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest

from espalier.api.capi.kubeadm import KubeadmConfig
from espalier.api.capi.machine import Machine
from espalier.api.core import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, CUSTOM_RESOURCE_DEFINITION, NODE, POD, SERVICE_ACCOUNT
from espalier.api.eksa.upgrades import ACCEPTED, PROGRESSING, MachineDeploymentUpgrade, NodeUpgrade, ObjectReference
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.eksa.vocabulary.upgrade_keys import IGNORED_CHECKS, KUBEADM_PATCHES
from espalier.api.kinds import KubeObject
from espalier.api.meta import Condition, Tree
from espalier.api.resource import Key
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import Forbidden, Invalid
from espalier.kube.objects import Object
from espalier.kube.transports.wire import Request, Response, Transport
from espalier.providers.docker.cluster_api import DockerMachine
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.in_place_environment import reach
from tests.support.environments.managed_environment import ManagedEnvironment, managed_environment
from tests.support.environments.upgraders import Upgraders
from tests.support.servers.faults import Interceptor, is_of_workload, refusal
from tests.support.waiting import until

pytestmark = pytest.mark.embedded

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
OLD, NEW = "v1.35.4-eks-1-35-1", "v1.36.3-eks-1-36-1"
STEPS = [
    "components-copier",
    "containerd-upgrader",
    "cni-plugins-upgrader",
    "kubeadm-upgrader",
    "drainer",
    "kubelet-kubectl-upgrader",
    "uncordoner",
    "done",
]
SKIP_REMEDIATION = "cluster.x-k8s.io/skip-remediation"

Story = Callable[[ManagedEnvironment, Upgraders], Awaitable[None]]


def journey(story: Story, *, seed: int = 1, wrap: Interceptor | None = None) -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock, seed=seed, wrap=wrap or Interceptor()) as env:
            await env.apply(workerNodeGroupConfigurations=[{"name": "md-0", "count": 2}])
            await env.until_ready()
            await story(env, Upgraders(env.workloads))

    run(main, epoch=EPOCH, seed=seed)


async def machines(env: ManagedEnvironment, *, control_plane: bool) -> list[Object]:
    listed = (await env.client.list(Machine.resource, SYSTEM_NAMESPACE)).items
    return [item for item in listed if ("cluster.x-k8s.io/control-plane" in item.metadata.labels) is control_plane]


async def begin(
    env: ManagedEnvironment, machine: str, node_type: str = "Worker", version: str = NEW, *, name: str = ""
) -> str:
    """A NodeUpgrade as somebody writes it by hand: its name."""
    name = name or f"by-hand-{machine}"
    spec = {"machine": {"name": machine}, "kubernetesVersion": version, "nodeType": node_type}
    body = {"metadata": {"name": name, "namespace": SYSTEM_NAMESPACE}, "spec": spec}
    await env.client.create(NodeUpgrade.resource, body)
    return name


async def until_so(env: ManagedEnvironment, name: str, is_so: Callable[[NodeUpgrade], bool]) -> NodeUpgrade:
    cache = env.manager.caches.of(NodeUpgrade.resource, SYSTEM_NAMESPACE)
    key = Key(SYSTEM_NAMESPACE, name)
    await until(cache, key, lambda value: value is not None and is_so(value.decode(NodeUpgrade)))
    value = cache.get(key)
    assert value is not None
    return value.decode(NodeUpgrade)


def ready(upgrade: NodeUpgrade) -> Condition:
    return next(
        (condition for condition in upgrade.status.conditions if condition.type == "Ready"),
        Condition("Ready", "Unknown", ""),
    )


def true_steps(upgrade: NodeUpgrade) -> set[str]:
    results = {condition.type for condition in upgrade.status.conditions if condition.status == "True"}
    return results - {PROGRESSING, ACCEPTED}


async def node(env: ManagedEnvironment, name: str) -> Tree:
    return (await reach(env).client.get(NODE, name)).tree


async def leftovers(env: ManagedEnvironment) -> list[str]:
    """Pods and rights of upgraders that are still in the workload cluster."""
    client = reach(env).client
    results = []
    for resource in (POD, SERVICE_ACCOUNT, CLUSTER_ROLE, CLUSTER_ROLE_BINDING):
        listed = await client.list(resource, labels="eks-d-upgrader")
        results += [f"{resource.kind} {item.name}" for item in listed.items]
    return results


@pytest.mark.demand("U10", "U32", "U34", "U36", "U60", "U65")
def test_node_upgrade_by_hand_leaves_nothing_behind() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        worker = (await machines(env, control_plane=False))[0]
        before = await node(env, worker.name)
        name = await begin(env, worker.name)
        running = await until_so(env, name, lambda upgrade: ready(upgrade).reason == "UpgradingKubeadm")
        assert true_steps(running) >= {"UpgraderPodCreated", "BinariesCopied", "ContainerdUpgraded"}
        protected = await env.client.get(Machine.resource, worker.name, SYSTEM_NAMESPACE)
        assert SKIP_REMEDIATION in protected.metadata.annotations
        done = await until_so(env, name, lambda upgrade: upgrade.status.completed)
        assert len(true_steps(done)) == 10
        assert [container for _, container in upgraders.ran] == STEPS
        kubeadm = upgraders.commands[worker.name, "kubeadm-upgrader"]
        assert kubeadm == ["upgrader", "kubeadm", "--role", "worker", "--kubernetes-version", NEW]
        after = await node(env, worker.name)
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert after["status"]["nodeInfo"]["kubeletVersion"] == NEW
        assert not after["spec"].get("unschedulable")
        pod = Key(SYSTEM_NAMESPACE, f"{worker.name}-node-upgrader")
        await until(reach(env).cache(POD), pod, lambda value: value is None)
        assert await leftovers(env) == []
        machine = await env.client.get(Machine.resource, worker.name, SYSTEM_NAMESPACE)
        assert SKIP_REMEDIATION not in machine.metadata.annotations

    journey(story)


@pytest.mark.soak
def test_completed_node_upgrade_leaves_the_next_pod() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        worker = (await machines(env, control_plane=False))[0]
        await until_so(env, await begin(env, worker.name), lambda upgrade: upgrade.status.completed)
        upgraders.ran.clear()
        again = await begin(env, worker.name, name="again")
        await until_so(env, again, lambda upgrade: upgrade.status.completed)
        assert [container for _, container in upgraders.ran] == STEPS

    journey(story)


@pytest.mark.soak
def test_node_upgrade_ignores_the_pod_of_earlier_one() -> None:
    """Somebody removed the finalizer of the first, and asks for something else by the same name."""

    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        worker = (await machines(env, control_plane=False))[0]
        name = await begin(env, worker.name)
        await until_so(env, name, lambda upgrade: ready(upgrade).reason == "UpgradingKubeadm")
        await env.client.delete(NodeUpgrade.resource, name, SYSTEM_NAMESPACE)
        await env.client.patch(
            NodeUpgrade.resource, name, SYSTEM_NAMESPACE, patch={"metadata": {"finalizers": None}}, type=PatchType.MERGE
        )
        await begin(env, worker.name)
        await until_so(env, name, lambda upgrade: "earlier NodeUpgrade" in ready(upgrade).message)
        await until_so(env, name, lambda upgrade: upgrade.status.completed)
        begun = [container for _, container in upgraders.ran]
        assert begun[-len(STEPS) :] == STEPS, "each step ran for the second one"
        assert len(begun) > len(STEPS)
        assert upgraders.at_once == 1

    journey(story)


@pytest.mark.demand("U10")
def test_a_node_belongs_to_one_node_upgrade_at_a_time() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        worker = (await machines(env, control_plane=False))[0]
        upgraders.failing[worker.name, "kubeadm-upgrader"] = "no"
        first = await begin(env, worker.name)
        await until_so(env, first, lambda upgrade: ready(upgrade).reason == "UpgradingKubeadmFailed")
        second = await begin(env, worker.name, name="second")
        waiting = ready(await until_so(env, second, lambda upgrade: ready(upgrade).reason == "NodeTaken"))
        assert waiting.message == f"waiting for NodeUpgrade eksa-system/{first} to finish on node {worker.name}"
        third = await begin(env, worker.name, name="third")
        await until_so(env, third, lambda upgrade: ready(upgrade).reason == "NodeTaken")
        await env.client.delete(NodeUpgrade.resource, third, SYSTEM_NAMESPACE)
        cache = env.manager.caches.of(NodeUpgrade.resource, SYSTEM_NAMESPACE)
        await until(cache, Key(SYSTEM_NAMESPACE, third), lambda value: value is None)
        assert len(await leftovers(env)) == 4, "pod and rights of the first are still there"
        upgraders.failing.clear()
        upgraders.ran.clear()
        await env.client.delete(NodeUpgrade.resource, first, SYSTEM_NAMESPACE)
        await until_so(env, second, lambda upgrade: upgrade.status.completed)
        assert [container for _, container in upgraders.ran] == STEPS

    journey(story)


@pytest.mark.demand("U35", "U37", "U44", "U66")
def test_upgrade_pod_is_bound_to_node_and_privileged() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        worker = (await machines(env, control_plane=False))[0]
        upgraders.hanging.add((worker.name, "kubeadm-upgrader"))
        name = await begin(env, worker.name)
        await until_so(env, name, lambda upgrade: ready(upgrade).reason == "UpgradingKubeadm")
        pod = (await reach(env).client.get(POD, f"{worker.name}-node-upgrader", SYSTEM_NAMESPACE)).tree
        assert pod["spec"]["nodeName"] == worker.name
        assert pod["spec"]["restartPolicy"] == "Never"
        assert pod["spec"]["tolerations"] == [{"operator": "Exists"}]
        containers = {item["name"]: item for item in [*pod["spec"]["initContainers"], *pod["spec"]["containers"]]}
        assert list(containers) == STEPS
        privileged = {name for name, value in containers.items() if value["securityContext"].get("privileged")}
        assert privileged == set(STEPS) - {"drainer", "uncordoner"}
        role = await reach(env).client.get(CLUSTER_ROLE, f"{worker.name}-node-upgrader")
        assert role.tree["rules"] == [
            {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "patch"], "resourceNames": [worker.name]},
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
            {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
        ]

    journey(story)


@pytest.mark.demand("U39")
def test_kubeadm_is_told_the_same_as_at_creation() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        worker = (await machines(env, control_plane=False))[0]
        told = {
            "nodeRegistration": {"ignorePreflightErrors": ["Swap", "Mem"]},
            "patches": {"directory": "/etc/patches"},
        }
        change: Tree = {"spec": {"joinConfiguration": told}}
        resource = KubeadmConfig.resource
        await env.client.patch(resource, worker.name, SYSTEM_NAMESPACE, patch=change, type=PatchType.MERGE)
        first, second = await machines(env, control_plane=False)
        host: Tree = {"metadata": {"annotations": {KUBEADM_PATCHES: "/opt/patches"}}}
        for name in (first.name, second.name):
            resource = DockerMachine.resource
            await env.client.patch(resource, name, SYSTEM_NAMESPACE, patch=host, type=PatchType.MERGE)
        mark: Tree = {"metadata": {"annotations": {IGNORED_CHECKS: "SystemVerification, Swap"}}}
        machine = Machine.resource
        await env.client.patch(machine, worker.name, SYSTEM_NAMESPACE, patch=mark, type=PatchType.MERGE)
        await until_so(env, await begin(env, worker.name), lambda upgrade: upgrade.status.completed)
        assert upgraders.commands[worker.name, "kubeadm-upgrader"][-4:] == [
            *("--ignore-preflight-errors", "Swap,Mem,SystemVerification"),
            *("--patches", "/etc/patches"),
        ]
        await until_so(env, await begin(env, second.name), lambda upgrade: upgrade.status.completed)
        assert upgraders.commands[second.name, "kubeadm-upgrader"][-2:] == ["--patches", "/opt/patches"]

    journey(story)


@pytest.mark.demand("U46", "U59", "U62", "U68")
def test_failed_step_goes_on_when_its_pod_is_deleted() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        worker = (await machines(env, control_plane=False))[0]
        upgraders.failing[worker.name, "kubelet-kubectl-upgrader"] = "the new kubelet does not come up"
        name = await begin(env, worker.name)
        failed = await until_so(env, name, lambda upgrade: ready(upgrade).reason == "UpgradingKubeletFailed")
        assert "step kubelet-kubectl-upgrader failed on node" in ready(failed).message
        assert "the new kubelet does not come up" in ready(failed).message
        assert f"espalier upgrades retry {name}" in ready(failed).message
        assert not failed.status.completed
        client = reach(env).client
        assert (await client.get(POD, f"{worker.name}-node-upgrader", SYSTEM_NAMESPACE)).tree["status"][
            "phase"
        ] == "Failed"
        upgraders.failing.clear()
        upgraders.ran.clear()
        await client.delete(POD, f"{worker.name}-node-upgrader", SYSTEM_NAMESPACE)
        done = await until_so(env, name, lambda upgrade: upgrade.status.completed)
        assert [container for _, container in upgraders.ran] == [
            "components-copier",
            "kubeadm-upgrader",  # which nothing on a worker confirms
            "kubelet-kubectl-upgrader",
            "uncordoner",
            "done",
        ]
        assert "Failed" not in str(done.status.conditions)
        assert not (await node(env, worker.name))["spec"].get("unschedulable")

    journey(story)


@pytest.mark.soak
def test_deleted_node_upgrade_ends_its_running_step() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        worker = (await machines(env, control_plane=False))[0]
        name = await begin(env, worker.name)
        await until_so(env, name, lambda upgrade: ready(upgrade).reason == "UpgradingKubelet")
        assert (await node(env, worker.name))["spec"]["unschedulable"]
        await env.client.delete(NodeUpgrade.resource, name, SYSTEM_NAMESPACE)
        waiting = ready(await until_so(env, name, lambda upgrade: ready(upgrade).reason == "UpgraderPodRunning"))
        assert waiting.message.startswith(f"waiting for the upgrader pod on node {worker.name} to finish: to abort")
        cache = env.manager.caches.of(NodeUpgrade.resource, SYSTEM_NAMESPACE)
        await until(cache, Key(SYSTEM_NAMESPACE, name), lambda value: value is None)
        assert [container for _, container in upgraders.ran] == STEPS
        assert not (await node(env, worker.name))["spec"].get("unschedulable")
        assert await leftovers(env) == []
        machine = await env.client.get(Machine.resource, worker.name, SYSTEM_NAMESPACE)
        assert SKIP_REMEDIATION not in machine.metadata.annotations

    journey(story)


@pytest.mark.demand("U42")
@pytest.mark.soak
def test_deleted_failed_upgrade_leaves_no_cordon() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        worker = (await machines(env, control_plane=False))[0]
        upgraders.failing[worker.name, "kubelet-kubectl-upgrader"] = "no"
        name = await begin(env, worker.name)
        await until_so(env, name, lambda upgrade: ready(upgrade).reason == "UpgradingKubeletFailed")
        assert (await node(env, worker.name))["spec"]["unschedulable"]
        await env.client.delete(NodeUpgrade.resource, name, SYSTEM_NAMESPACE)
        cache = env.manager.caches.of(NodeUpgrade.resource, SYSTEM_NAMESPACE)
        await until(cache, Key(SYSTEM_NAMESPACE, name), lambda value: value is None)
        assert not (await node(env, worker.name))["spec"].get("unschedulable")
        assert await leftovers(env) == []

    journey(story)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("change", "reason", "message"),
    [
        ({"machine": {"name": "nobody"}}, "MachineMissing", "Machine eksa-system/nobody does not exist"),
        ({"nodeType": "ControlPlane"}, "WrongNodeType", "is a Worker"),
        ({"kubernetesVersion": "v1.34.4-eks-1-34-1"}, "VersionRefused", "does not downgrade"),
        ({"kubernetesVersion": "v1.37.0-eks-1-37-1"}, "VersionRefused", "go to v1.36 first"),
        ({"kubernetesVersion": "v1.36.9-eks-1-36-7"}, "UpgraderImageMissing", "no upgrader image for v1.36.9"),
    ],
)
def test_impossible_upgrade_is_reported_untouched(change: Tree, reason: str, message: str) -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        worker = (await machines(env, control_plane=False))[0]
        spec = {"machine": {"name": worker.name}, "kubernetesVersion": NEW, "nodeType": "Worker"} | change
        body = {"metadata": {"name": "odd", "namespace": SYSTEM_NAMESPACE}, "spec": spec}
        await env.client.create(NodeUpgrade.resource, body)
        upgrade = await until_so(env, "odd", lambda upgrade: ready(upgrade).reason == reason)
        assert message in ready(upgrade).message
        assert upgraders.ran == []
        assert await leftovers(env) == []

    journey(story)


@pytest.mark.parametrize("kind", [NodeUpgrade, MachineDeploymentUpgrade])
def test_upgrade_with_later_fields_is_left_untouched(kind: type[KubeObject]) -> None:
    """The API server has definitions of a later release, whose field may ask for less than an upgrade."""

    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/laterOnly"
        patch = [{"op": "add", "path": path, "value": {"type": "boolean"}}]
        name = kind.resource.group_resource
        await env.client.patch(CUSTOM_RESOURCE_DEFINITION, name, patch=patch, type=PatchType.JSON)
        worker = (await machines(env, control_plane=False))[0]
        spec: Tree = {"kubernetesVersion": NEW, "laterOnly": True}
        if kind is NodeUpgrade:
            spec |= {"machine": {"name": worker.name}, "nodeType": "Worker"}
        else:
            spec |= {"machineDeployment": {"name": "garden-md-0"}, "machineSpecData": "e30="}
            spec |= {"machinesRequireUpgrade": [{"name": worker.name}]}
        body = {"metadata": {"name": "later", "namespace": SYSTEM_NAMESPACE}, "spec": spec}
        await env.client.create(kind.resource, body)
        cache = env.manager.caches.of(kind.resource, SYSTEM_NAMESPACE)
        key = Key(SYSTEM_NAMESPACE, "later")
        await until(cache, key, lambda stored: stored is not None and bool(stored.tree.get("status")))
        await asyncio.sleep(60)
        stored = cache.get(key)
        assert stored is not None
        conditions = {condition["type"]: condition for condition in stored.tree["status"]["conditions"]}
        assert conditions["Ready"]["reason"] == "FieldsUnknown"
        assert "this manager does not know spec.laterOnly" in conditions["Ready"]["message"]
        assert conditions["Progressing"]["status"] == "False"
        assert stored.metadata.finalizers == []
        assert upgraders.ran == []
        assert await leftovers(env) == []
        assert [item.name for item in (await env.client.list(NodeUpgrade.resource)).items] in ([], ["later"])
        await env.client.delete(kind.resource, "later", SYSTEM_NAMESPACE)
        await until(cache, key, lambda stored: stored is None)

    journey(story)


@pytest.mark.parametrize("kind", [NodeUpgrade, MachineDeploymentUpgrade])
def test_upgrade_of_earlier_definitions_is_untouched(kind: type[KubeObject]) -> None:
    """The API server has definitions of an earlier release: what these left out may ask for less than an upgrade."""

    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        name, path = kind.resource.group_resource, "/spec/versions/0/schema/openAPIV3Schema/properties/spec"
        definition = await env.client.get(CUSTOM_RESOURCE_DEFINITION, NodeUpgrade.resource.group_resource)
        before = definition.tree["spec"]["versions"]
        patch: list[Tree] = [{"op": "remove", "path": f"{path}/properties/certificatesOnly"}]
        patch += [{"op": "remove", "path": f"{path}/x-kubernetes-validations"}]
        await env.client.patch(CUSTOM_RESOURCE_DEFINITION, definition.name, patch=patch, type=PatchType.JSON)
        worker = (await machines(env, control_plane=False))[0]
        spec: Tree = {"kubernetesVersion": NEW}
        if kind is NodeUpgrade:
            spec |= {"machine": {"name": worker.name}, "nodeType": "Worker", "certificatesOnly": True}
        else:
            spec |= {"machineDeployment": {"name": "garden-md-0"}, "machineSpecData": "e30="}
            spec |= {"machinesRequireUpgrade": [{"name": worker.name}]}
        body = {"metadata": {"name": "earlier", "namespace": SYSTEM_NAMESPACE}, "spec": spec}
        others = Client(env.client.transport, field_validation="Ignore")
        created = await others.create(kind.resource, body)
        assert "certificatesOnly" not in created.tree["spec"]
        cache = env.manager.caches.of(kind.resource, SYSTEM_NAMESPACE)
        key = Key(SYSTEM_NAMESPACE, "earlier")
        await until(cache, key, lambda stored: stored is not None and bool(stored.tree.get("status")))
        await asyncio.sleep(60)
        stored = cache.get(key)
        assert stored is not None
        conditions = {condition["type"]: condition for condition in stored.tree["status"]["conditions"]}
        assert conditions["Ready"]["reason"] == "DefinitionOutdated", name
        assert "nodeupgrades.anywhere.eks.amazonaws.com lacks spec.certificatesOnly" in conditions["Ready"]["message"]
        assert conditions["Progressing"]["status"] == "False"
        assert stored.metadata.finalizers == []
        assert upgraders.ran == []
        assert await leftovers(env) == []
        restored = {"spec": {"versions": before}}
        await env.client.patch(CUSTOM_RESOURCE_DEFINITION, definition.name, patch=restored, type=PatchType.MERGE)
        await until(
            cache,
            key,
            lambda stored: (
                stored is not None
                and stored.tree["status"]["conditions"][0]["reason"] not in ("DefinitionOutdated", "")
            ),
        )
        await env.client.delete(kind.resource, "earlier", SYSTEM_NAMESPACE)
        await until(cache, key, lambda stored: stored is None)

    journey(story)


@pytest.mark.soak
def test_machine_without_node_is_named_and_waited_for() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        worker = (await machines(env, control_plane=False))[0]
        fields = {key: worker.tree["spec"][key] for key in ("clusterName", "version", "bootstrap")}
        reference = worker.tree["spec"]["infrastructureRef"] | {"name": "nothing"}
        body = {
            "metadata": {"name": "bare", "namespace": SYSTEM_NAMESPACE, "labels": worker.metadata.labels},
            "spec": fields | {"infrastructureRef": reference},
        }
        await env.client.create(Machine.resource, body)
        name = await begin(env, "bare")
        upgrade = await until_so(env, name, lambda upgrade: ready(upgrade).reason == "NodeMissing")
        assert ready(upgrade).message == "Machine eksa-system/bare has no node"
        assert upgraders.ran == []
        assert await leftovers(env) == []

    journey(story)


@pytest.mark.soak
def test_unready_node_is_left_alone() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        worker = (await machines(env, control_plane=False))[0].name

        async def say(status: str) -> None:
            result = (await node(env, worker))["status"]["conditions"]
            told = [item | ({"status": status} if item["type"] == "Ready" else {}) for item in result]
            patch: Tree = {"status": {"conditions": told}}
            client = reach(env).client
            await client.patch(NODE, worker, patch=patch, type=PatchType.MERGE, subresource="status")

        await say("Unknown")
        name = await begin(env, worker)
        upgrade = await until_so(env, name, lambda upgrade: ready(upgrade).reason == "NodeNotReady")
        assert "to be ready before the upgrade" in ready(upgrade).message
        assert upgraders.ran == []
        await say("True")
        await until_so(env, name, lambda upgrade: upgrade.status.completed)

    journey(story)


@pytest.mark.soak
def test_the_spec_never_changes() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        worker = (await machines(env, control_plane=False))[0]
        name = await begin(env, worker.name)
        change: Tree = {"spec": {"kubernetesVersion": OLD}}
        with pytest.raises(Invalid, match="the spec of an upgrade is immutable"):
            await env.client.patch(NodeUpgrade.resource, name, SYSTEM_NAMESPACE, patch=change, type=PatchType.MERGE)

    journey(story)


def test_references_have_the_fields_of_core() -> None:
    assert set(ObjectReference.__struct_encode_fields__) == {
        *("name", "namespace", "kind", "apiVersion", "uid", "resourceVersion", "fieldPath")
    }


class PodSecurity(Interceptor):
    """Has the workload cluster refuse privileged pods, as one that enforces the baseline does."""

    is_enforced = True

    async def request(self, transport: Transport, request: Request) -> Response:
        is_pod = request.method == "POST" and request.path.endswith(f"/namespaces/{SYSTEM_NAMESPACE}/pods")
        if self.is_enforced and is_pod and is_of_workload(transport):
            return refusal(Forbidden.of('pods "x" is forbidden: violates PodSecurity "baseline:latest": hostPID=true'))
        return await super().request(transport, request)


@pytest.mark.soak
def test_pod_security_refusal_names_the_label() -> None:
    enforced = PodSecurity()

    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        worker = (await machines(env, control_plane=False))[0].name
        name = await begin(env, worker)
        result = await until_so(env, name, lambda item: ready(item).reason == "PodRefused")
        label = "pod-security.kubernetes.io/enforce=privileged"
        assert f"label Namespace {SYSTEM_NAMESPACE} of the workload cluster with {label}" in ready(result).message
        enforced.is_enforced = False
        await until_so(env, name, lambda item: item.status.completed)
        assert (worker, "done") in upgraders.ran

    journey(story, wrap=enforced)
