"""Clusters of simulated machines through their lives, on a simulated clock."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import TypeVar

import pytest

from espalier.api.capi.cluster import Cluster
from espalier.api.capi.kubeadm import KubeadmConfig, KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment, MachineHealthCheck
from espalier.api.core import CONFIG_MAP, DAEMON_SET, NODE, POD, SERVICE
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.apiserver.storage.store import Change, MemoryStore
from espalier.clusterapi.infrastructures.infrastructure import Infrastructure
from espalier.kube.client import Client, PatchType
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.transports.http import HttpTransport
from espalier.providers.docker.cluster_api import DockerCluster, DockerMachine
from espalier.runtime import virtual
from espalier.runtime.clock import SystemClock
from espalier.runtime.virtual import Simulation
from espalier.simulator.workload_clusters.stores import MemoryStores
from tests.support.environments.control_plane import ControlPlane
from tests.support.environments.pod_network import pod_network
from tests.support.environments.simulated_environment import (
    EPOCH,
    NEW,
    OLD,
    Environment,
    condition,
    controlled,
    environment,
    is_settled,
    machines,
    manifest,
)
from tests.support.sampling import sampled
from tests.support.servers.embedded_server import client_of, new_server, raw
from tests.support.servers.faults import Crash

T = TypeVar("T")


def simulate(story: Callable[[Simulation], Awaitable[T]], *, seed: int = 1) -> T:
    return virtual.run(story, epoch=EPOCH, seed=seed)


async def versions(workload: Client) -> dict[str, str]:
    nodes = await workload.list(NODE)
    return {node.name: node.tree["status"]["nodeInfo"]["kubeletVersion"] for node in nodes.items}


@pytest.mark.soak
@pytest.mark.embedded
def test_cluster_comes_up_with_ready_nodes_and_pods() -> None:
    async def story(simulation: Simulation) -> None:
        async with environment(simulation.clock) as env:
            workload = await env.create("garden")
            nodes = (await workload.list(NODE)).items
            assert len(nodes) == 3
            assert all(condition(node, "Ready") == "True" for node in nodes)
            assert set((await versions(workload)).values()) == {OLD}
            workers = [node for node in nodes if "node-role.kubernetes.io/control-plane" not in node.metadata.labels]
            assert [node.metadata.labels["disk"] for node in workers] == ["fast", "fast"]
            assert len({node.tree["spec"]["podCIDR"] for node in nodes}) == 3

            pods = (await workload.list(POD)).items
            assert {pod.tree["status"]["phase"] for pod in pods} == {"Running"}
            images = {container["image"] for pod in pods for container in pod.tree["spec"]["containers"]}
            assert f"registry.example/kubernetes/kube-apiserver:{OLD}" in images
            assert "registry.example/etcd-io/etcd:v3.6.6" in images
            assert "registry.example/coredns/coredns:v1.13.1" in images
            assert (await workload.get(SERVICE, "kubernetes", "default")).tree["spec"]["clusterIP"] == "10.96.0.1"
            assert (
                OLD
                in (await workload.get(CONFIG_MAP, "kubeadm-config", "kube-system")).tree["data"][
                    "ClusterConfiguration"
                ]
            )

            for machine in machines(env, "garden"):
                assert machine.status.phase == "Running"
                assert machine.spec.provider_id == f"docker:////{machine.metadata.name}"
                assert machine.status.node_ref is not None

    simulate(story)


@pytest.mark.soak
@pytest.mark.embedded
def test_node_waits_for_its_network_and_tells_so() -> None:
    async def story(simulation: Simulation) -> None:
        async with environment(simulation.clock) as env:
            await create_without_network(env, "garden")
            machine = next(iter(env.cache(Machine.resource).list()))
            assert condition(machine, "Ready") == "False"
            assert any(
                "cni plugin not initialized" in entry["message"]
                for entry in machine.tree["status"]["conditions"]
                if entry["type"] == "NodeHealthy"
            )

    simulate(story)


@pytest.mark.soak
@pytest.mark.embedded
@pytest.mark.parametrize("first", sampled(range(len(list(manifest("garden", 1, 2)))), 0, 2, 4))
def test_whatever_object_is_seen_last_cluster_comes_up(first: int) -> None:
    """Each kind has a watch of its own, so nobody knows in which order objects are seen."""

    async def story(simulation: Simulation) -> None:
        async with environment(simulation.clock) as env:
            objects = list(manifest("garden", 1, 2))
            for resource, body in reversed(objects[first + 1 :] + objects[: first + 1]):
                await env.client.create(resource, body)
                await settled(env)
            workload = await env.connect("garden")
            await workload.create(DAEMON_SET, pod_network())
            await env.until(Cluster.resource, "garden", lambda value: condition(value, "Available") == "True")
            assert len(machines(env, "garden")) == 3

    simulate(story)


@pytest.mark.soak
@pytest.mark.embedded
def test_workers_are_scaled_out_and_in() -> None:
    async def story(simulation: Simulation) -> None:
        async with environment(simulation.clock) as env:
            workload = await env.create("garden")
            for replicas in (4, 1):
                await env.change(MachineDeployment.resource, "garden-md-0", {"spec": {"replicas": replicas}})
                await env.until_rolled_out("garden-md-0", replicas)
                await settled(env)
                nodes = (await workload.list(NODE)).items
                assert len(nodes) == replicas + 1
                pods = (await workload.list(POD)).items
                assert {pod.tree["spec"]["nodeName"] for pod in pods} == {node.name for node in nodes}

    simulate(story)


@pytest.mark.soak
@pytest.mark.embedded
def test_upgrade_replaces_machines_without_a_gap() -> None:
    async def story(simulation: Simulation) -> None:
        async with environment(simulation.clock) as env:
            workload = await env.create("garden", control_planes=3, workers=3)
            before = {machine.metadata.name for machine in machines(env, "garden")}
            most: dict[str, int] = {"control plane": 0, "workers": 0}
            fewest = {"control plane": 3, "workers": 3}

            def look(*_: object) -> None:
                for role, is_control_plane in (("control plane", True), ("workers", False)):
                    of_role = [
                        machine
                        for machine in machines(env, "garden")
                        if ("cluster.x-k8s.io/control-plane" in machine.metadata.labels) is is_control_plane
                    ]
                    ready = [
                        machine
                        for machine in of_role
                        if any(c.type == "Ready" and c.status == "True" for c in machine.status.conditions)
                    ]
                    most[role] = max(most[role], len(of_role))
                    fewest[role] = min(fewest[role], len(ready))

            env.cache(Machine.resource).subscribe(look)
            await env.upgrade("garden", control_planes=3, workers=3)
            await settled(env)
            assert most == {"control plane": 4, "workers": 4}
            assert fewest == {"control plane": 3, "workers": 3}
            after = {machine.metadata.name for machine in machines(env, "garden")}
            assert len(after) == 6
            assert not before & after
            assert set((await versions(workload)).values()) == {NEW}
            proxy = await workload.get(DAEMON_SET, "kube-proxy", "kube-system")
            assert proxy.tree["spec"]["template"]["spec"]["containers"][0]["image"].endswith(NEW)
            assert proxy.tree["status"]["numberReady"] == 6

    simulate(story)


@pytest.mark.soak
@pytest.mark.embedded
def test_machine_precedes_no_successor_without_surge() -> None:
    async def story(simulation: Simulation) -> None:
        async with environment(simulation.clock) as env:
            await env.create("garden", control_planes=3, workers=0, max_surge=0)
            most = 0

            def look(*_: object) -> None:
                nonlocal most
                most = max(most, len(machines(env, "garden")))

            env.cache(Machine.resource).subscribe(look)
            await env.change(KubeadmControlPlane.resource, "garden", {"spec": {"version": NEW}})
            await env.until(KubeadmControlPlane.resource, "garden", lambda value: is_settled(value, 3, NEW))
            assert most == 3

    simulate(story)


@pytest.mark.soak
@pytest.mark.embedded
def test_labels_reach_machines_in_place() -> None:
    async def story(simulation: Simulation) -> None:
        async with environment(simulation.clock) as env:
            await env.create("garden")
            before = {machine.metadata.name for machine in machines(env, "garden")}
            template = {
                "metadata": {"labels": {"team": "roses"}},
                "spec": {"deletion": {"nodeDrainTimeoutSeconds": 60}},
            }
            await env.change(MachineDeployment.resource, "garden-md-0", {"spec": {"template": template}})
            await settled(env)
            workers = [m for m in machines(env, "garden") if m.metadata.labels.get("team") == "roses"]
            assert len(workers) == 2
            assert all(m.spec.deletion and m.spec.deletion.node_drain_timeout_seconds == 60 for m in workers)
            assert {machine.metadata.name for machine in machines(env, "garden")} == before

    simulate(story)


@pytest.mark.soak
@pytest.mark.embedded
def test_a_deleted_cluster_leaves_nothing_behind() -> None:
    async def story(simulation: Simulation) -> None:
        async with environment(simulation.clock) as env:
            await env.create("garden")
            await env.create("orchard", workers=1)
            await env.delete("garden")
            await settled(env)
            left = [
                str(item.key) for cache in env.caches.all for item in cache.list() if item.name.startswith("garden")
            ]
            assert left == []
            assert env.workloads.reach(Key(SYSTEM_NAMESPACE, "garden")) is None
            assert condition(env.cache(Cluster.resource).get(Key(SYSTEM_NAMESPACE, "orchard")), "Available") == "True"

    simulate(story)


@pytest.mark.soak
@pytest.mark.embedded
def test_deletion_takes_workers_before_control_plane() -> None:
    async def story(simulation: Simulation) -> None:
        async with environment(simulation.clock) as env:
            await env.create("garden")
            gone: list[str] = []
            for resource in (MachineDeployment.resource, KubeadmControlPlane.resource, DockerCluster.resource):

                def noted(_old: object, new: object, _first: bool, kind: str = resource.kind) -> None:
                    if new is None:
                        gone.append(kind)

                env.cache(resource).subscribe(noted)
            await env.delete("garden")
            assert gone == ["MachineDeployment", "KubeadmControlPlane", "DockerCluster"]

    simulate(story)


@pytest.mark.soak
@pytest.mark.embedded
def test_a_settled_environment_is_quiet() -> None:
    async def story(simulation: Simulation) -> None:
        async with environment(simulation.clock) as env:
            await env.create("garden")
            workload = await env.create("orchard")
            await settled(env)
            before = await env.revision(), (await workload.list(NODE)).resource_version
            await asyncio.sleep(24 * 3600)
            assert (await env.revision(), (await workload.list(NODE)).resource_version) == before

    simulate(story)


@pytest.mark.soak
@pytest.mark.embedded
def test_a_paused_cluster_is_left_alone() -> None:
    async def story(simulation: Simulation) -> None:
        async with environment(simulation.clock) as env:
            await env.create("garden")
            await env.change(Cluster.resource, "garden", {"spec": {"paused": True}})
            await settled(env)
            await env.change(MachineDeployment.resource, "garden-md-0", {"spec": {"replicas": 5}})
            await settled(env)
            assert len(machines(env, "garden")) == 3
            await env.change(Cluster.resource, "garden", {"spec": {"paused": False}})
            await env.until_rolled_out("garden-md-0", 5)

    simulate(story)


@pytest.mark.soak
@pytest.mark.embedded
def test_changes_in_a_pause_are_made_afterwards() -> None:
    async def story(simulation: Simulation) -> None:
        async with environment(simulation.clock) as env:
            await env.create("garden")
            await env.change(Cluster.resource, "garden", {"spec": {"paused": True}})
            await settled(env)
            worker = next(m for m in machines(env, "garden") if m.metadata.name.startswith("garden-md-0"))
            await env.client.delete(Machine.resource, worker.metadata.name, SYSTEM_NAMESPACE)
            await settled(env)
            assert worker.metadata.name in {m.metadata.name for m in machines(env, "garden")}
            await env.change(Cluster.resource, "garden", {"spec": {"paused": False}})
            await settled(env)
            await env.until_rolled_out("garden-md-0", 2)
            assert worker.metadata.name not in {m.metadata.name for m in machines(env, "garden")}

    simulate(story)


@pytest.mark.soak
@pytest.mark.embedded
def test_same_seed_gives_same_environment_bit_by_bit() -> None:
    def history(seed: int) -> list[tuple[int, bytes]]:
        changes: list[tuple[int, bytes]] = []

        async def story(simulation: Simulation) -> None:
            store = MemoryStore()

            def noted(change: Change) -> None:
                changes.append((change.revision, change.after.raw))

            store.follow(noted)
            async with environment(simulation.clock, seed=seed, store=store) as env:
                await env.create("garden")
                await env.delete("garden")

        simulate(story, seed=seed)
        return changes

    first, second, other = history(7), history(7), history(8)
    assert first == second
    assert first != other


@pytest.mark.soak
@pytest.mark.embedded
@pytest.mark.parametrize("writes", sampled([1, 4, 9, 14, 20, 27, 35, 44, 54, 65, 77, 90], 7))
def test_environment_killed_after_a_write_reaches_end(writes: int) -> None:
    async def story(simulation: Simulation) -> None:
        store, stores = MemoryStore(), MemoryStores()
        crash = Crash(writes)
        async with environment(
            simulation.clock,
            store=store,
            stores=stores,
            wrap=crash,
        ) as env:
            creation = asyncio.create_task(create_without_network(env, "garden"))
            await asyncio.wait({creation, asyncio.create_task(crash.died.wait())}, return_when=asyncio.FIRST_COMPLETED)
            creation.cancel()
            await asyncio.gather(creation, return_exceptions=True)
            assert crash.died.is_set(), "the world was finished before it died"
        async with environment(simulation.clock, seed=2, store=store, stores=stores) as env:
            await env.until(KubeadmControlPlane.resource, "garden", lambda f: condition(f, "Initialized") == "True")
            workload = await env.connect("garden")
            await workload.create(DAEMON_SET, pod_network())
            await env.until(Cluster.resource, "garden", lambda value: condition(value, "Available") == "True")
            await settled(env)
            assert len(machines(env, "garden")) == 3
            assert len((await workload.list(NODE)).items) == 3
            for resource in (DockerMachine.resource, KubeadmConfig.resource):
                assert {value.name for value in env.cache(resource).list()} == {
                    machine.metadata.name for machine in machines(env, "garden")
                }
            await env.delete("garden")

    simulate(story)


@pytest.mark.soak
@pytest.mark.embedded
def test_stopped_environment_goes_on_with_its_clusters() -> None:
    async def story(simulation: Simulation) -> None:
        store, stores = MemoryStore(), MemoryStores()
        async with environment(simulation.clock, store=store, stores=stores) as env:
            await env.create("garden")
            await settled(env)
            names = {machine.metadata.name for machine in machines(env, "garden")}
            revision = await env.revision()
        unready: list[str] = []
        async with environment(simulation.clock, seed=2, store=store, stores=stores) as env:
            key = Key(SYSTEM_NAMESPACE, "garden")
            env.cache(Cluster.resource).subscribe(lambda _old, new, _first: unready.append(condition(new, "Available")))
            await settled(env)
            assert set(unready) <= {"True"}, "nobody may take a cluster for broken because its manager restarts"
            workload = env.workloads.reach(key)
            assert workload is not None
            assert {node.name for node in (await workload.client.list(NODE)).items} == names
            assert await env.revision() == revision, "nothing changed, so nothing is written"
            await env.change(MachineDeployment.resource, "garden-md-0", {"spec": {"replicas": 3}})
            await env.until_rolled_out("garden-md-0", 3)

    simulate(story)


@pytest.mark.soak
@pytest.mark.embedded
def test_mirror_pod_returns_with_the_next_environment() -> None:
    """The static pod runs all the while: its kubelet shows it."""
    key = Key(SYSTEM_NAMESPACE, "garden")

    async def story(simulation: Simulation) -> None:
        store, stores = MemoryStore(), MemoryStores()
        async with environment(simulation.clock, store=store, stores=stores) as env:
            await env.create("garden")
            await settled(env)
            workload = env.workloads.reach(key)
            assert workload is not None
            (before,) = (await workload.client.list(POD, labels="component=etcd")).items
        server = new_server(stores.open(key))
        await server.start()
        path = f"/api/v1/namespaces/{before.namespace}/pods/{before.name}"
        await raw(server, "DELETE", path, "application/json", b'{"gracePeriodSeconds":0}')
        assert (await client_of(server).list(POD, labels="component=etcd")).items == []
        await server.close()
        async with environment(simulation.clock, seed=2, store=store, stores=stores) as env:
            await settled(env)
            again = env.workloads.reach(key)
            assert again is not None
            (after,) = (await again.client.list(POD, labels="component=etcd")).items
            assert after.metadata.uid != before.metadata.uid
            assert after.tree["spec"]["containers"] == before.tree["spec"]["containers"]

    simulate(story)


@pytest.mark.soak
@pytest.mark.embedded
def test_unhealthy_worker_is_replaced_by_health_check() -> None:
    async def story(simulation: Simulation) -> None:
        async with environment(simulation.clock) as env:
            workload = await env.create("garden", workers=3)
            await env.client.create(MachineHealthCheck.resource, health_check("garden"))
            await settled(env)
            sick = next(m for m in machines(env, "garden") if m.metadata.name.startswith("garden-md-0"))
            assert sick.status.node_ref is not None
            node = await workload.get(NODE, sick.status.node_ref.name)
            conditions = node.tree["status"]["conditions"]
            for entry in conditions:
                if entry["type"] == "Ready":
                    entry |= {"status": "Unknown", "lastTransitionTime": now(simulation)}
            patch = {"status": {"conditions": conditions}, "spec": {"taints": []}}
            await workload.patch(NODE, node.name, patch=patch, type=PatchType.MERGE, subresource="status")
            await asyncio.sleep(100)
            assert sick.metadata.name in {m.metadata.name for m in machines(env, "garden")}
            await asyncio.sleep(400)
            await settled(env)
            assert sick.metadata.name not in {m.metadata.name for m in machines(env, "garden")}
            await env.until_rolled_out("garden-md-0", 3)

    simulate(story)


@pytest.mark.soak
@pytest.mark.embedded
def test_any_provider_that_keeps_contract_is_simulated() -> None:
    def kind(name: str) -> Resource:
        return Resource("infrastructure.cluster.x-k8s.io", "v1beta2", f"{name.lower()}s", name)

    orchard = Infrastructure(
        kind("OrchardCluster"), kind("OrchardMachine"), kind("OrchardMachineTemplate"), "orchard://{cluster}/{name}"
    )

    async def story(simulation: Simulation) -> None:
        async with environment(simulation.clock, provider=orchard) as env:
            workload = await env.create("garden", provider=orchard)
            nodes = await workload.list(NODE)
            assert {node.tree["spec"]["providerID"] for node in nodes.items} == {
                f"orchard://garden/{machine.metadata.name}" for machine in machines(env, "garden")
            }
            await env.upgrade("garden", control_planes=1, workers=2)
            assert set((await versions(workload)).values()) == {NEW}
            await env.delete("garden")
            assert not (await env.client.list(orchard.machine)).items
            assert not (await env.client.list(orchard.cluster)).items

    simulate(story)


@pytest.mark.soak
@pytest.mark.envtest
async def test_same_controllers_do_same_on_real_api_server(control_plane: ControlPlane) -> None:
    access = Kubeconfig.load([control_plane.kubeconfig]).context()
    users, own = HttpTransport(access), HttpTransport(access)
    async with controlled(SystemClock(), users, own, random.Random(1), boot_seconds=0.1) as env:
        workload = await env.create("garden")
        assert set((await versions(workload)).values()) == {OLD}
        await env.upgrade("garden", control_planes=1, workers=2)
        await every_node_runs(workload, NEW)
        await env.delete("garden")
        for resource in (
            Machine.resource,
            DockerMachine.resource,
            DockerCluster.resource,
            KubeadmControlPlane.resource,
        ):
            assert not env.cache(resource).list()


async def every_node_runs(workload: Client, version: str) -> None:
    """The last old node may go a moment after its machine counts no longer."""
    listed = await workload.list(NODE)
    nodes = {node.name: node for node in listed.items}
    async with asyncio.timeout(300), aclosing(workload.watch(NODE, resource_version=listed.resource_version)) as events:
        while {node.tree["status"]["nodeInfo"]["kubeletVersion"] for node in nodes.values()} != {version}:
            event = await anext(events)
            if event.type == "DELETED":
                nodes.pop(event.object.name, None)
            elif event.type != "BOOKMARK":
                nodes[event.object.name] = event.object


async def create_without_network(env: Environment, name: str) -> None:
    for resource, body in manifest(name, 1, 2):
        await env.client.create(resource, body)
    await env.until(KubeadmControlPlane.resource, name, lambda value: condition(value, "Initialized") == "True")
    await settled(env)


async def settled(env: Environment) -> None:
    """Long enough, on a simulated clock, for everything that was asked for."""
    await asyncio.sleep(60)


def now(simulation: Simulation) -> str:
    return simulation.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")


def health_check(cluster: str) -> Tree:
    resource = MachineHealthCheck.resource
    selector = {"cluster.x-k8s.io/deployment-name": f"{cluster}-md-0"}
    unhealthy = [{"type": "Ready", "status": status, "timeoutSeconds": 300} for status in ("Unknown", "False")]
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": f"{cluster}-md-0", "namespace": SYSTEM_NAMESPACE},
        "spec": {
            "clusterName": cluster,
            "selector": {"matchLabels": selector},
            "checks": {"unhealthyNodeConditions": unhealthy, "nodeStartupTimeoutSeconds": 600},
            "remediation": {"triggerIf": {"unhealthyLessThanOrEqualTo": "40%"}},
        },
    }
