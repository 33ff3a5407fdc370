"""Nodes that are not ready while others, or they themselves, are to be upgraded in place: waited for, and named."""

from __future__ import annotations

import asyncio

import pytest

from espalier.api.core import POD
from espalier.api.eksa.upgrades import ControlPlaneUpgrade, NodeUpgrade
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.simulator.workload_clusters.workload_cluster import WorkloadCluster
from espalier.upgrades.names import node_upgrade
from espalier.upgrades.node.containers import COPY, DONE, KUBEADM
from tests.support.environments import in_place_environment as in_place
from tests.support.environments.in_place_environment import ready_cluster, told
from tests.support.environments.in_place_watcher import (
    CALM,
    MACHINES,
    NODES,
    Watcher,
    finish,
    say_ready,
    tell,
    undisturbed,
)
from tests.support.environments.managed_environment import ManagedEnvironment
from tests.support.environments.upgraders import Moment, Upgraders
from tests.support.sampling import sampled
from tests.support.servers.faults import Far

pytestmark = pytest.mark.embedded

UNREACHABLE = "waiting for the API server of workload cluster garden to answer"
CONTAINERS = [step.container for step in (COPY, KUBEADM, DONE)]


@pytest.mark.demand("U30")
@pytest.mark.soak
def test_unready_worker_stops_the_next_of_its_group() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders, watcher: Watcher) -> None:
        await asyncio.sleep(CALM)
        last = (await in_place.machines(env, control_plane=False))[-1].name
        await say_ready(env, in_place.reach(env), last, "Unknown")
        await env.change(kubernetesVersion="1.36")
        waiting = f"0 of 2 nodes are upgraded; the next one has to wait: node {last} is not ready"
        await env.until(lambda item: waiting in told(item) and waiting in told(item, "WorkersReady"))
        assert not [node for node, _ in upgraders.ran if "-md-" in node]
        await say_ready(env, in_place.reach(env), last, "True")
        await finish(env, watcher)

    tell(ready_cluster(1, 2), story)


@pytest.mark.demand("U30")
@pytest.mark.soak
def test_unready_nodes_count_as_unavailable() -> None:
    many = {"type": "InPlace", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 2}}

    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        group = {"name": "md-0", "count": 3, "upgradeRolloutStrategy": many}
        last = (await in_place.machines(env, control_plane=False))[-1].name
        others = {machine.name for machine in await in_place.machines(env)} - {last}
        await say_ready(env, in_place.reach(env), last, "Unknown")
        await env.change(kubernetesVersion="1.36", workerNodeGroupConfigurations=[group])
        await env.until(lambda item: "2 of 3 nodes are upgraded" in told(item))
        assert upgraders.at_once == 1
        assert {node for node, _ in upgraders.ran} == others
        await say_ready(env, in_place.reach(env), last, "True")
        await env.until_ready()

    in_place.journey(story, workers=3)


@pytest.mark.soak
def test_worker_never_ready_again_is_replaced() -> None:
    async def story(env: ManagedEnvironment, _upgraders: Upgraders, watcher: Watcher) -> None:
        await asyncio.sleep(CALM)
        last = (await in_place.machines(env, control_plane=False))[-1].name
        await say_ready(env, in_place.reach(env), last, "Unknown")
        await env.change(kubernetesVersion="1.36")
        await env.until_ready()
        await asyncio.sleep(CALM)
        added = [name for name in watcher.identities() if name not in watcher.before]
        assert len(added) == 2, "a Machine and its node"
        assert [name for name in watcher.before if name not in watcher.identities()] == [
            f"{table} {last}" for table in (MACHINES, NODES)
        ]
        assert watcher.versions() == {in_place.NEW}
        assert watcher.left() == []

    tell(ready_cluster(1, 2), story)


@pytest.mark.demand("U58")
@pytest.mark.parametrize("step", sampled(CONTAINERS, 1))
def test_silent_kubelet_is_reported_with_its_step(step: str) -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders, _watcher: Watcher) -> None:
        async def silence(workload: WorkloadCluster, node: str, container: str, moment: Moment) -> None:
            if (container, moment) == (step, Moment.RUNS):
                upgraders.silence(node)
                await say_ready(env, workload, node, "Unknown")

        upgraders.happening = silence
        node = (await in_place.machines(env, control_plane=True))[0].name
        await env.change(kubernetesVersion="1.36")
        state = f"last known state: container {step} is running"
        await told_everywhere(env, node, f"on node {node}: {state}; the node has not been ready since 2026-01-01T")

    tell(ready_cluster(1, 2), story)


@pytest.mark.demand("U59")
@pytest.mark.soak
@pytest.mark.parametrize("step", sampled(CONTAINERS, 1))
def test_unreachable_workload_cluster_is_reported(step: str) -> None:
    far = Far()

    async def story(env: ManagedEnvironment, upgraders: Upgraders, watcher: Watcher) -> None:
        async def cut(_workload: WorkloadCluster, _node: str, container: str, moment: Moment) -> None:
            if (container, moment) == (step, Moment.RUNS) and not far.refused:
                asyncio.get_running_loop().call_later(0.5, lambda: asyncio.ensure_future(far.cut()))

        upgraders.happening = cut
        node = (await in_place.machines(env, control_plane=True))[0].name
        await env.change(kubernetesVersion="1.36")
        message = f"on node {node}: last known state: container {step} is running; {UNREACHABLE}"
        await told_everywhere(env, node, message)
        written = env.written()
        await asyncio.sleep(600)
        assert env.written() == written, "told once, however long it lasts"
        far.mend()
        await finish(env, watcher)

    tell(ready_cluster(1, 2), story, wrap=far)


@pytest.mark.demand("U60")
@pytest.mark.soak
def test_manager_without_workload_keeps_report() -> None:
    recording, far = undisturbed(1, 1), Far()
    number = next(
        number
        for number, write in enumerate(recording.writes, start=1)
        if write.change.after.kind == "NodeUpgrade"
        and in_place.ready(write.change.after.tree)["reason"] == "UpgradingKubeadm"
    )
    node = recording.writes[number - 1].change.key.name.removesuffix("-node-upgrader")

    async def story(env: ManagedEnvironment, _upgraders: Upgraders, watcher: Watcher) -> None:
        state = "last known state: container kubeadm-upgrader is running"
        message = f"step 4 of 8 on node {node}: {state}; {UNREACHABLE}"
        await told_everywhere(env, node, message)
        stored = await env.client.get(NodeUpgrade.resource, node_upgrade(node), SYSTEM_NAMESPACE)
        done = [condition["type"] for condition in stored.tree["status"]["conditions"] if condition["status"] == "True"]
        assert done == ["UpgraderPodCreated", "BinariesCopied", "ContainerdUpgraded", "CNIPluginsUpgraded", "Accepted"]
        far.mend()
        await finish(env, watcher)

    far.is_cut = True
    tell(recording.after(number), story, wrap=far, seed=3)  # uids of the second environment are its own


async def told_everywhere(env: ManagedEnvironment, node: str, message: str) -> None:
    """Soon, of the first node of the control plane."""
    await env.until(lambda item: message in told(item) and message in told(item, "ControlPlaneReady"), seconds=150)
    names = {ControlPlaneUpgrade.resource: "garden-cp-upgrade", NodeUpgrade.resource: node_upgrade(node)}
    for resource, name in names.items():
        upgrade = await env.client.get(resource, name, SYSTEM_NAMESPACE)
        assert message in in_place.ready(upgrade.tree)["message"]


@pytest.mark.soak
def test_deleted_static_pods_hold_nothing_up() -> None:
    async def story(env: ManagedEnvironment, _upgraders: Upgraders, watcher: Watcher) -> None:
        await asyncio.sleep(CALM)
        workload = in_place.reach(env)
        results = [item for item in (await workload.client.list(POD, "kube-system")).items if "etcd-" in item.name]
        await env.change(kubernetesVersion="1.36")
        for pod in results:
            await workload.client.delete(POD, pod.name, pod.namespace)
        await finish(env, watcher)
        again = [await workload.client.get(POD, pod.name, pod.namespace) for pod in results]
        assert not {pod.metadata.uid for pod in results} & {pod.metadata.uid for pod in again}

    tell(ready_cluster(3, 2), story)
