"""The hooks over TLS, asked as Cluster API asks: a POST without a content type, with its patience in the query."""

from __future__ import annotations

import asyncio
import base64
import random
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec
import pytest

from espalier.api.capi.kubeadm import KubeadmConfig, KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment, MachineSet
from espalier.api.core import NAMESPACE, NODE, POD, SECRET
from espalier.api.eksa.upgrades import UPDATE_IN_PROGRESS, NodeUpgrade
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.eksa.vocabulary.upgrade_keys import IN_PLACE_HOOKS, IN_PLACE_REFUSED, NODE_HAS
from espalier.api.kinds import KubeObject
from espalier.api.meta import Condition, Tree
from espalier.api.resource import Key
from espalier.apiserver.server import Server
from espalier.apiserver.storage.store import MemoryStore
from espalier.cli.local.environment.management import install_definitions
from espalier.clusterapi.changes.bootstrap_changes import Traits, traits
from espalier.clusters.design.provider import infrastructures
from espalier.clusters.observe.scope import ClusterAPIObjects
from espalier.clusters.plan import plan
from espalier.kube.client import Client, PatchType
from espalier.kube.connection.pki import Authority
from espalier.kube.errors import NotFound
from espalier.kube.objects import Object
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.providers.kinds import CLUSTER_API_KINDS, EKSA_KINDS
from espalier.providers.registry import PROVIDERS
from espalier.runtime.caches.cache import Cache, Caches
from espalier.runtime.clock import SystemClock
from espalier.runtime.controllers.outcome import Done, Wait
from espalier.runtime.controllers.owners import owner_reference
from espalier.runtime.controllers.writer import Writer
from espalier.runtime.servers.webhooks import Webhooks
from espalier.runtime.workload_clusters.remote import RemoteClients
from espalier.upgrades import expected, reconciling
from espalier.upgrades.hooks import wire
from espalier.upgrades.hooks.handling import Hooks
from espalier.upgrades.hooks.machines import LATER, SOON, Updates
from espalier.upgrades.hooks.queries import NAMED_BY_LABELS, Queries
from espalier.upgrades.node import controller as node_upgrade
from espalier.upgrades.node.containers import KUBELET, POD_CREATED, STEPS
from tests.support.histories.hook_requests import compared, machine_objects, patched, set_objects
from tests.support.objects.observed_clusters import example, scope
from tests.support.sampling import sampled
from tests.support.waiting import until

pytestmark = pytest.mark.embedded

OLD, NEW = "v1.35.4-eks-1-35-1", "v1.36.3-eks-1-36-1"
NODE_UPGRADE = "garden-abcde-node-upgrader"


@dataclass
class Environment:
    """A management cluster and a workload cluster, each an API server and nothing else, and the hooks between them."""

    client: Client
    workload: Client
    webhooks: Webhooks
    trust: ssl.SSLContext
    node_upgrades: Cache

    async def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        url = f"https://127.0.0.1:{self.webhooks.port}{path}?timeout=10s"
        async with (
            aiohttp.ClientSession(skip_auto_headers=["Content-Type"]) as session,
            session.post(url, data=body, ssl=self.trust) as response,
        ):
            return response.status, await response.read()

    async def ask(self, hook: str, **request: Any) -> dict[str, Any]:
        body = {"apiVersion": wire.API_VERSION, "kind": f"{hook}Request", "settings": {}, **request}
        status, answer = await self.post(wire.path_of(hook), msgspec.json.encode(body))
        assert status == 200, answer
        response: dict[str, Any] = msgspec.json.decode(answer)
        assert (response["apiVersion"], response["kind"]) == (wire.API_VERSION, f"{hook}Response")
        return response

    async def owner(self, type_: type[KubeObject], fallback: str | None) -> Object:
        """The control plane or worker node group of the example cluster, marked for the hooks or not."""
        render_input = scope(*example(kubernetesVersion="1.35")).render_input
        assert render_input is not None
        made = [
            *plan.control_plane(render_input, ClusterAPIObjects()),
            *plan.worker_groups(render_input, ClusterAPIObjects()),
        ]
        (wanted,) = (object_ for object_ in made if isinstance(object_, type_))
        wanted.metadata.annotations = {IN_PLACE_HOOKS: fallback} if fallback else {}
        return await self.client.apply(type_.resource, wanted)

    async def refusal(self, type_: type[KubeObject], name: str) -> str:
        owner_object = await self.client.get(type_.resource, name, SYSTEM_NAMESPACE)
        return owner_object.metadata.annotations.get(IN_PLACE_REFUSED, "")

    async def store(self, objects: Tree) -> None:
        """A Machine and its KubeadmConfig."""
        for kind, name in ((Machine, "machine"), (KubeadmConfig, "bootstrapConfig")):
            await self.client.apply(kind.resource, objects[name])

    async def node_has(self, name: str = "garden-abcde") -> Traits:
        machine_object = await self.client.get(Machine.resource, name, SYSTEM_NAMESPACE)
        return msgspec.json.decode(machine_object.metadata.annotations[NODE_HAS], type=Traits)

    async def node_upgrade(self) -> NodeUpgrade:
        return (await self.client.get(NodeUpgrade.resource, NODE_UPGRADE, SYSTEM_NAMESPACE)).decode(NodeUpgrade)

    async def kubelet(self, version: str) -> None:
        """The kubelet of the node reports a version."""
        status = {"status": {"nodeInfo": {"kubeletVersion": version}}}
        await self.workload.patch(NODE, "garden-abcde", patch=status, type=PatchType.MERGE, subresource="status")

    async def report(self, reason: str, message: str, *, completed: bool = False, steps: bool = True) -> None:
        """Report as a controller of NodeUpgrades in a version that has other reasons would: nobody reads them.

        Before the pod is there, and after the kubelet, it says `CacheNotSynced` and `UncordoningNode`; else it is
        between.
        """
        conditions = reconciling.conditions_of(
            Done() if completed else Wait(reason, message), message, node_upgrade.QUIET
        )
        is_begun, is_late = reason != "CacheNotSynced", reason == "UncordoningNode"
        conditions.append(Condition(POD_CREATED, "True" if is_begun else "False", reason))
        for step in STEPS:
            is_done = (step is KUBELET and is_late) or (completed and steps)
            conditions.append(Condition(step.condition, "True" if is_done else "False", reason))
        for condition in conditions:
            condition.reason = "OfAnotherVersion"
            condition.last_transition_time = "2026-01-01T00:00:00Z"
        patch = {"status": {"conditions": msgspec.to_builtins(conditions), "completed": completed}}
        await self.client.patch(
            NodeUpgrade.resource,
            NODE_UPGRADE,
            SYSTEM_NAMESPACE,
            patch=patch,
            type=PatchType.MERGE,
            subresource="status",
        )
        await self.follow()

    async def follow(self) -> None:
        """Wait until the manager's cache has the NodeUpgrade as it is stored."""
        stored = (await self.client.list(NodeUpgrade.resource, SYSTEM_NAMESPACE)).items
        versions = [stored_object.resource_version for stored_object in stored if stored_object.name == NODE_UPGRADE]

        def is_stored(cached: Object | None) -> bool:
            return [object_.resource_version for object_ in (cached,) if object_ is not None] == versions

        await until(self.node_upgrades, Key(SYSTEM_NAMESPACE, NODE_UPGRADE), is_stored)


@asynccontextmanager
async def env() -> AsyncIterator[Environment]:
    clock, now = SystemClock(), SystemClock().now()
    servers = [Server(MemoryStore(), now=clock.now, random=random.Random(number)) for number in range(2)]
    for server in servers:
        await server.start()
    client, workload = (Client(InProcessTransport(server)) for server in servers)
    await install_definitions([*EKSA_KINDS, *CLUSTER_API_KINDS], client)
    await client.apply(NAMESPACE, {"metadata": {"name": SYSTEM_NAMESPACE}})
    caches = Caches(client, rng=random.Random(1))
    node_upgrades = caches.of(NodeUpgrade.resource, SYSTEM_NAMESPACE)
    remotes = RemoteClients(lambda kubeconfig: workload)
    queries = Queries(client, remotes)
    updates = Updates(queries, Writer(client, {NodeUpgrade.resource: node_upgrades}), node_upgrades)
    webhooks = Webhooks(host="127.0.0.1", port=0)
    for path, endpoint in Hooks(queries, updates, infrastructures(PROVIDERS)).endpoints.items():
        webhooks.serve(path, endpoint)
    authority = Authority.create("hooks", now=now)
    webhooks.use(authority.issue_server("hooks", names=["127.0.0.1"], now=now))
    await webhooks.start()
    running = asyncio.create_task(caches.run())
    await caches.wait_synced()
    try:
        trust = ssl.create_default_context(cadata=authority.certificate.decode())
        yield Environment(client, workload, webhooks, trust, node_upgrades)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await webhooks.stop()
        for server in servers:
            await server.close()


def versions(make: Any, *names: str) -> dict[str, Tree]:
    """A request from 1.35 to 1.36."""
    pairs = zip((*names, "x", "x"), ("1.35", "1.36"), strict=False)
    objects = [make(*((name,) if names else ()), kubernetesVersion=version) for name, version in pairs]
    return {"current": objects[0], "desired": objects[1]}


async def test_discovery_reports_three_failing_closed_hooks() -> None:
    async with env() as here:
        status, body = await here.post(wire.DISCOVERY_PATH, b'{"kind":"DiscoveryRequest"}')
        response = msgspec.json.decode(body)
        assert (status, response["kind"], response["status"]) == (200, "DiscoveryResponse", "Success")
        assert [handler["requestHook"]["hook"] for handler in response["handlers"]] == [
            "CanUpdateMachine",
            "CanUpdateMachineSet",
            "UpdateMachine",
        ]
        assert {handler["failurePolicy"] for handler in response["handlers"]} == {"Fail"}
        for handler in response["handlers"]:
            path = f"/{wire.API_VERSION}/{handler['requestHook']['hook'].lower()}/{handler['name']}"
            assert (await here.post(path, b"not JSON"))[0] == 400


@pytest.mark.demand("U11")
async def test_another_version_is_accepted_whole() -> None:
    async with env() as here:
        await here.owner(KubeadmControlPlane, "Fail")
        await here.owner(MachineDeployment, "Fail")
        asked = versions(machine_objects)
        await here.store(asked["current"])
        answer = await here.ask(wire.CAN_UPDATE_MACHINE, **asked)
        assert answer["status"] == "Success"
        assert compared(patched(asked["current"], answer)) == compared(asked["desired"])
        asked = versions(set_objects, "old", "new")
        answer = await here.ask(wire.CAN_UPDATE_MACHINE_SET, **asked)
        assert compared(patched(asked["current"], answer)) == compared(asked["desired"])


async def test_uncreatable_upgrade_fails_the_call() -> None:
    async with env() as here:
        await here.owner(KubeadmControlPlane, "Fail")
        changed = {"count": 1, "certSans": ["garden.example"]}
        current = machine_objects(kubernetesVersion="1.35")
        desired = machine_objects(kubernetesVersion="1.36", controlPlaneConfiguration=changed)
        await here.store(current)
        answer = await here.ask(wire.CAN_UPDATE_MACHINE, current=current, desired=desired)
        field = "bootstrap.clusterConfiguration.apiServer.certSANs"
        assert answer["status"] == "Failure"
        assert answer["message"].startswith(f"{field} of Machine garden-abcde can't be changed in place")
        assert await here.refusal(KubeadmControlPlane, "garden") == f"1: {answer['message']}"
        await here.ask(wire.CAN_UPDATE_MACHINE, **versions(machine_objects))
        assert await here.refusal(KubeadmControlPlane, "garden") == ""


async def test_fallback_gives_a_partial_answer() -> None:
    async with env() as here:
        await here.owner(MachineDeployment, "RollingUpdate")
        current = set_objects("old", kubernetesVersion="1.35")
        group = [{"name": "md-0", "count": 2, "labels": {"tier": "front"}}]
        desired = set_objects("new", kubernetesVersion="1.36", workerNodeGroupConfigurations=group)
        answer = await here.ask(wire.CAN_UPDATE_MACHINE_SET, current=current, desired=desired)
        assert answer["status"] == "Success"
        assert "machineSetPatch" in answer
        assert compared(patched(current, answer)) != compared(desired)
        assert "kubeletExtraArgs of MachineDeployment" in await here.refusal(MachineDeployment, "garden-md-0")


@pytest.mark.parametrize("namespace", [SYSTEM_NAMESPACE, "elsewhere"])
async def test_unrequested_machines_are_left_to_cluster_api(namespace: str) -> None:
    async with env() as here:
        await here.owner(KubeadmControlPlane, None if namespace == SYSTEM_NAMESPACE else "Fail")
        asked = versions(machine_objects)
        for objects in asked.values():
            objects["machine"]["metadata"]["namespace"] = namespace
        answer = await here.ask(wire.CAN_UPDATE_MACHINE, **asked)
        assert answer == {"apiVersion": wire.API_VERSION, "kind": "CanUpdateMachineResponse", "status": "Success"}


async def test_without_a_known_owner_nothing_is_replaced() -> None:
    async with env() as here:
        answer = await here.ask(wire.CAN_UPDATE_MACHINE_SET, **versions(set_objects, "old", "new"))
        assert (answer["status"], answer["message"]) == (
            "Failure",
            f"cluster garden has no MachineDeployment garden-md-0; {NAMED_BY_LABELS}",
        )


async def machine(here: Environment, *, node_versions: Mapping[str, str] | None = None, worker: bool = False) -> Tree:
    """A Machine that is to be updated, as Cluster API has written it, and what is asked about it."""
    desired = machine_objects(kubernetesVersion="1.36")
    labels = desired["machine"]["metadata"]["labels"]
    if worker:
        del labels["cluster.x-k8s.io/control-plane"]
        labels["cluster.x-k8s.io/deployment-name"] = "garden-md-0"
    has = msgspec.json.encode(traits(machine_objects(kubernetesVersion="1.35")["bootstrapConfig"]["spec"])).decode()
    desired["machine"]["metadata"]["annotations"] = {UPDATE_IN_PROGRESS: "", NODE_HAS: has}
    await here.client.create(Machine.resource, desired["machine"])
    node_ref = {"status": {"nodeRef": {"name": "garden-abcde"}}}
    await here.client.patch(
        Machine.resource, "garden-abcde", SYSTEM_NAMESPACE, patch=node_ref, type=PatchType.MERGE, subresource="status"
    )
    await here.client.create(KubeadmConfig.resource, desired["bootstrapConfig"])
    for name, version in (node_versions or {"garden-abcde": OLD}).items():
        node = {"metadata": {"name": name, "labels": {"node-role.kubernetes.io/control-plane": ""}}}
        await here.workload.create(NODE, node)
        status = {"status": {"nodeInfo": {"kubeletVersion": version}}}
        await here.workload.patch(NODE, name, patch=status, type=PatchType.MERGE, subresource="status")
    secret = {"metadata": {"name": "garden-kubeconfig", "namespace": SYSTEM_NAMESPACE}, "stringData": {"value": "k"}}
    await here.client.apply(SECRET, secret)
    return desired


async def wish(here: Environment, desired: Tree, version: str | None) -> None:
    """Cluster API writes another version, and asks for it."""
    patch = {"spec": {"version": version}}
    await here.client.patch(Machine.resource, "garden-abcde", SYSTEM_NAMESPACE, patch=patch, type=PatchType.MERGE)
    desired["machine"]["spec"]["version"] = version or ""


async def test_machine_is_updated_by_a_node_upgrade() -> None:
    async with env() as here:
        desired = await machine(here)
        answer = await here.ask(wire.UPDATE_MACHINE, desired=desired)
        assert (answer["status"], answer["retryAfterSeconds"]) == ("Success", SOON)
        made = await here.node_upgrade()
        assert (made.spec.kubernetes_version, made.spec.node_type) == (NEW, "ControlPlane")
        assert (
            made.spec.etcd_version
            == desired["bootstrapConfig"]["spec"]["clusterConfiguration"]["etcd"]["local"]["imageTag"]
        )
        assert [
            (reference.kind, reference.name, reference.controller) for reference in made.metadata.owner_references
        ] == [("Machine", "garden-abcde", True)]
        answer = await here.ask(wire.UPDATE_MACHINE, desired=desired)
        assert answer["retryAfterSeconds"] == SOON, "nothing was told of it yet"
        for reason, again in (("CacheNotSynced", SOON), ("UpgradingKubelet", LATER), ("UncordoningNode", SOON)):
            await here.report(reason, f"it is {reason}")
            answer = await here.ask(wire.UPDATE_MACHINE, desired=desired)
            assert (answer["message"], answer["retryAfterSeconds"]) == (f"it is {reason}", again)
        await here.report("UpgradingKubeadmFailed", "step kubeadm-upgrader failed")
        answer = await here.ask(wire.UPDATE_MACHINE, desired=desired)
        assert (answer["status"], answer["retryAfterSeconds"]) == ("Success", LATER), "people can repair it"
        await here.report("Upgraded", "node has it", completed=True)
        answer = await here.ask(wire.UPDATE_MACHINE, desired=desired)
        assert answer["retryAfterSeconds"] == SOON, "its kubelet is the former one"
        await here.kubelet(NEW)
        answer = await here.ask(wire.UPDATE_MACHINE, desired=desired)
        assert (answer["status"], answer["message"], answer["retryAfterSeconds"]) == ("Success", "node has it", 0)


@pytest.mark.parametrize("what", ["kubelet", "pod", "steps", "silence"])
async def test_forged_completion_is_no_success(what: str) -> None:
    """Cluster API would take a machine for updated whose node has the former version, or whose pod still works."""
    async with env() as here:
        desired = await machine(here)
        await here.ask(wire.UPDATE_MACHINE, desired=desired)
        await here.report("Upgraded", "node has it", completed=True, steps=what != "steps")
        if what != "kubelet":
            await here.kubelet(NEW)
        if what == "pod":
            containers = [{"name": step.container, "image": "i"} for step in STEPS]
            spec = {"nodeName": "garden-abcde", "initContainers": containers[:-1], "containers": containers[-1:]}
            body = {"metadata": {"name": NODE_UPGRADE, "namespace": SYSTEM_NAMESPACE}, "spec": spec}
            await here.workload.apply(NAMESPACE, {"metadata": {"name": SYSTEM_NAMESPACE}})
            await here.workload.create(POD, body)
        if what == "silence":
            await here.client.delete(SECRET, "garden-kubeconfig", SYSTEM_NAMESPACE)
        answer = await here.ask(wire.UPDATE_MACHINE, desired=desired)
        assert (answer["status"], answer["retryAfterSeconds"]) == ("Success", LATER if what == "silence" else SOON)


@pytest.mark.parametrize(
    ("nodes", "is_first"),
    sampled(
        [
            ({"a": OLD, "b": OLD}, True),
            ({"a": OLD, "b": NEW}, False),
            ({"a": OLD, "b": "v1.36.4-eks-1-36-2"}, False),
            ({"a": "v1.34.4-eks-1-34-1"}, True),
        ],
        3,
    ),
)
async def test_first_node_is_known_by_the_versions(nodes: dict[str, str], is_first: bool) -> None:
    async with env() as here:
        await here.ask(wire.UPDATE_MACHINE, desired=await machine(here, node_versions=nodes))
        assert (await here.node_upgrade()).spec.first_node_to_be_upgraded is is_first


async def test_no_worker_is_the_first() -> None:
    async with env() as here:
        desired = await machine(here, worker=True)
        await here.client.delete(SECRET, "garden-kubeconfig", SYSTEM_NAMESPACE)
        await here.ask(wire.UPDATE_MACHINE, desired=desired)
        made = await here.node_upgrade()
        assert (made.spec.node_type, made.spec.first_node_to_be_upgraded, made.spec.etcd_version) == (
            "Worker",
            False,
            None,
        )
        assert made.metadata.labels["cluster.x-k8s.io/deployment-name"] == "garden-md-0"


async def test_unreachable_cluster_gets_no_node_upgrade() -> None:
    async with env() as here:
        desired = await machine(here)
        await here.client.delete(SECRET, "garden-kubeconfig", SYSTEM_NAMESPACE)
        answer = await here.ask(wire.UPDATE_MACHINE, desired=desired)
        assert (answer["status"], answer["retryAfterSeconds"]) == ("Success", LATER)
        assert "waiting for Secret eksa-system/garden-kubeconfig" in answer["message"]
        with pytest.raises(NotFound):
            await here.node_upgrade()


async def test_upgrade_to_another_version_ends_first() -> None:
    async with env() as here:
        desired = await machine(here)
        await here.ask(wire.UPDATE_MACHINE, desired=desired)
        await wish(here, desired, "v1.36.4")
        answer = await here.ask(wire.UPDATE_MACHINE, desired=desired)
        assert "waiting for an earlier NodeUpgrade" in answer["message"]
        with pytest.raises(NotFound):
            await here.node_upgrade()
        spec = {"machine": {"name": "garden-abcde"}, "kubernetesVersion": "v1.36.3", "nodeType": "ControlPlane"}
        theirs = {"metadata": {"name": NODE_UPGRADE, "namespace": SYSTEM_NAMESPACE}, "spec": spec}
        await here.client.create(NodeUpgrade.resource, theirs)
        await here.follow()
        answer = await here.ask(wire.UPDATE_MACHINE, desired=desired)
        assert "was not created by the manager, and upgrades the node to v1.36.3, not " in answer["message"]
        assert answer["message"].endswith(": delete it to have the manager create its own")


@pytest.mark.soak
async def test_an_upgrade_that_can_never_go_on_fails() -> None:
    async with env() as here:
        desired = await machine(here)
        await here.ask(wire.UPDATE_MACHINE, desired=desired)
        await here.report("VersionRefused", "kubeadm does not downgrade")
        answer = await here.ask(wire.UPDATE_MACHINE, desired=desired)
        assert (answer["status"], answer["message"]) == ("Failure", "kubeadm does not downgrade")
        await wish(here, desired, None)
        answer = await here.ask(wire.UPDATE_MACHINE, desired=desired)
        assert (answer["status"], answer["message"]) == (
            "Failure",
            "Machine garden-abcde has no Kubernetes version",
        )


async def test_powerless_caller_gets_nothing_done() -> None:
    async with env() as here:
        desired = await machine(here)
        patch = {"metadata": {"annotations": {UPDATE_IN_PROGRESS: None}}}
        await here.client.patch(Machine.resource, "garden-abcde", SYSTEM_NAMESPACE, patch=patch, type=PatchType.MERGE)
        answer = await here.ask(wire.UPDATE_MACHINE, desired=desired)
        assert answer["status"] == "Failure"
        assert "Machine garden-abcde is not being updated" in answer["message"]
        with pytest.raises(NotFound):
            await here.node_upgrade()


async def test_version_unlike_the_stored_is_not_believed() -> None:
    async with env() as here:
        desired = await machine(here)
        desired["machine"]["spec"]["version"] = "v1.36.9"
        await here.ask(wire.UPDATE_MACHINE, desired=desired)
        assert (await here.node_upgrade()).spec.kubernetes_version == NEW
        await here.ask(wire.UPDATE_MACHINE, desired=desired)
        assert (await here.node_upgrade()).metadata.deletion_timestamp is None


POLICY = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None}]\n"


def audited(policy: str) -> Tree:
    return machine_objects(controlPlaneConfiguration={"count": 3, "auditPolicyContent": policy})


async def accepted(here: Environment, current: Tree, desired: Tree) -> Tree:
    """Cluster API asks whether a machine may become another, and writes it."""
    answer = await here.ask(wire.CAN_UPDATE_MACHINE, current=current, desired=desired)
    assert answer["status"] == "Success", answer
    written = patched(current, answer)
    assert compared(written) == compared(desired)
    written["machine"]["metadata"]["annotations"] = {UPDATE_IN_PROGRESS: ""}
    await here.store(written)
    return written


async def test_file_overwritten_by_cluster_api_arrives() -> None:
    async with env() as here:
        await here.owner(KubeadmControlPlane, "Fail")
        await machine(here)
        await here.client.delete(Machine.resource, "garden-abcde", SYSTEM_NAMESPACE)
        await here.store(audited("before"))
        desired = await accepted(here, audited("before"), audited(POLICY))
        had = await here.node_has()
        assert "/etc/kubernetes/audit-policy.yaml" in had.files
        await here.ask(wire.CAN_UPDATE_MACHINE, current=desired, desired=audited("later"))
        assert await here.node_has() == had, "what the node has is not told by what it is to become"
        await here.ask(wire.UPDATE_MACHINE, desired=desired)
        changes = expected.decoded((await here.node_upgrade()).spec.bootstrap_changes)
        assert [(file["path"], base64.b64decode(file["content"]).decode()) for file in changes["files"]] == [
            ("/etc/kubernetes/audit-policy.yaml", POLICY)
        ]


async def test_node_upgrade_for_other_files_is_no_answer() -> None:
    async with env() as here:
        desired = await machine(here)
        await here.ask(wire.UPDATE_MACHINE, desired=desired)
        await here.report("Upgraded", "node has it", completed=True)
        desired["bootstrapConfig"]["spec"]["files"] = [{"path": "/etc/kubernetes/a", "content": "a"}]
        await here.store(desired)
        answer = await here.ask(wire.UPDATE_MACHINE, desired=desired)
        assert "waiting for an earlier NodeUpgrade" in answer["message"]
        await here.follow()
        await here.ask(wire.UPDATE_MACHINE, desired=desired)
        changes = expected.decoded((await here.node_upgrade()).spec.bootstrap_changes)
        assert "/etc/kubernetes/a" in [file["path"] for file in changes["files"]]


async def test_machine_without_a_node_is_left_with_advice() -> None:
    async with env() as here:
        desired = await machine(here, worker=True)
        patch = {"metadata": {"annotations": {NODE_HAS: None}}}
        await here.client.patch(Machine.resource, "garden-abcde", SYSTEM_NAMESPACE, patch=patch, type=PatchType.MERGE)
        answer = await here.ask(wire.UPDATE_MACHINE, desired=desired)
        assert (answer["status"], answer["retryAfterSeconds"]) == ("Success", LATER)
        assert answer["message"].endswith("are unknown: delete the Machine to have it replaced")
        with pytest.raises(NotFound):
            await here.node_upgrade()


OWNERS = ("old", "other")


async def test_machines_record_what_their_nodes_have() -> None:
    async with env() as here:
        await here.owner(MachineDeployment, "Fail")
        sets = {name: await here.client.apply(MachineSet.resource, set_objects(name)["machineSet"]) for name in OWNERS}
        for name, set_ in (("a", "old"), ("b", "old"), ("c", "other"), ("d", "old")):
            objects = machine_objects(kubernetesVersion="1.35")
            for tree in objects.values():
                tree["metadata"]["name"] = name
            objects["machine"]["spec"]["bootstrap"]["configRef"]["name"] = name
            owners = [msgspec.to_builtins(owner_reference(sets[set_]))]
            if name == "d":  # of a group that nobody serves, so that it is not collected
                owners = [owners[0] | {"apiVersion": "other.example.com/v1", "uid": "of another"}]
            objects["machine"]["metadata"]["ownerReferences"] = owners
            objects["bootstrapConfig"]["spec"]["files"] = [{"path": f"/etc/kubernetes/{name}", "content": "a"}]
            await here.store(objects)
        tainted = [{"name": "md-0", "count": 2, "labels": {"tier": "front"}}]
        refused = set_objects("new", kubernetesVersion="1.36", workerNodeGroupConfigurations=tainted)
        asked = versions(set_objects, "old", "new")
        await here.ask(wire.CAN_UPDATE_MACHINE_SET, current=asked["current"], desired=refused)
        with pytest.raises(KeyError):
            await here.node_has("a")
        assert (await here.ask(wire.CAN_UPDATE_MACHINE_SET, **asked))["status"] == "Success"
        assert [[*(await here.node_has(name)).files] for name in ("a", "b")] == [
            ["/etc/kubernetes/a"],
            ["/etc/kubernetes/b"],
        ]
        for name in ("c", "d"):  # of another set, and of another kind of the same name
            with pytest.raises(KeyError):
                await here.node_has(name)
