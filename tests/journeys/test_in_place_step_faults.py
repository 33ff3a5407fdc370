"""Whatever happens to a pod, a program, a kubelet or the network at any step of an upgrade in place: it goes on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable

import pytest

from espalier.api.core import POD
from espalier.api.eksa.upgrades import ControlPlaneUpgrade, MachineDeploymentUpgrade, NodeUpgrade
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.eksa.vocabulary.upgrade_keys import RETRY_ANNOTATION
from espalier.api.meta import Tree
from espalier.kube.client import PatchType
from espalier.simulator.workload_clusters.workload_cluster import WorkloadCluster
from espalier.upgrades.names import node_upgrade, upgrader
from espalier.upgrades.node.containers import STEPS
from tests.conftest import EXPLORE
from tests.support.environments import in_place_environment as in_place
from tests.support.environments.in_place_environment import ready_cluster, told
from tests.support.environments.in_place_watcher import Watcher, finish, say_ready, tell
from tests.support.environments.managed_environment import ManagedEnvironment
from tests.support.environments.upgraders import Moment, Upgraders
from tests.support.sampling import sampled
from tests.support.servers.faults import Far

pytestmark = pytest.mark.embedded

LONG, OUTAGE = 400.0, 60.0
"""Seconds: longer than health checks wait for a node that does not say that it is ready, and than a pod runs."""

CONTAINERS = [step.container for step in STEPS]
MOMENTS = [(container, moment) for container in CONTAINERS for moment in Moment]

GROUPS = {
    False: (ControlPlaneUpgrade.resource, "garden-cp-upgrade"),
    True: (MachineDeploymentUpgrade.resource, "garden-md-0-md-upgrade"),
}
"""Objects that report on a node, by whether it is a worker."""

Strike = Callable[[WorkloadCluster, str], Awaitable[None]]


class Fault:
    """Strikes each node once at the beginning and once at the end of one step, or of all of them."""

    def __init__(self, strike: Strike, container: str | None) -> None:
        self.struck: dict[tuple[str, str, Moment], None] = {}
        self._strike = strike
        self._container = container

    async def __call__(self, workload: WorkloadCluster, node: str, container: str, moment: Moment) -> None:
        if self._container in (None, container) and (node, container, moment) not in self.struck:
            self.struck[node, container, moment] = None
            await self._strike(workload, node)


async def struck(env: ManagedEnvironment, upgraders: Upgraders, watcher: Watcher, strike: Strike, step: str) -> None:
    """A cluster is upgraded, and this happens to each node at the step; `step` may be `every`."""
    fault = upgraders.happening = Fault(strike, None if step == "every" else step)
    await env.change(kubernetesVersion="1.36")
    await finish(env, watcher)
    nodes = len(await env.nodes())
    assert len(fault.struck) == nodes * (len(MOMENTS) if step == "every" else len(Moment))


FEWEST = {step: (1, 2) if step in ("drainer", "uncordoner") else (1, 1) for step in CONTAINERS}
"""Machines with which the step is taken on all nodes: a worker that is alone is not drained."""
ONE_STEP = [
    *((machines, step) for step, machines in FEWEST.items()),
    *(((1, 2), step) for step, machines in FEWEST.items() if machines != (1, 2)),
]
SAMPLE = sampled(ONE_STEP, CONTAINERS.index("kubeadm-upgrader"))
"""Of the steps the one that can't be taken back."""
ALL_STEPS = [pytest.param((3, 2), "every", marks=pytest.mark.soak)]
EXPLORED = ALL_STEPS if EXPLORE in os.environ else []


@pytest.mark.demand("U42", "U46")
@pytest.mark.soak
@pytest.mark.parametrize(("machines", "step"), SAMPLE + ALL_STEPS)
def test_deleted_pod_is_made_anew_at_any_step(machines: tuple[int, int], step: str) -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders, watcher: Watcher) -> None:
        async def delete(workload: WorkloadCluster, node: str) -> None:
            await workload.client.delete(POD, upgrader(node), SYSTEM_NAMESPACE)

        await struck(env, upgraders, watcher, delete, step)

    tell(ready_cluster(*machines), story)


@pytest.mark.demand("U46")
@pytest.mark.soak
@pytest.mark.parametrize(("machines", "step"), SAMPLE + EXPLORED)
def test_silent_kubelet_is_waited_for_at_any_step(machines: tuple[int, int], step: str) -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders, watcher: Watcher) -> None:
        waking: list[asyncio.Task[None]] = []

        async def silence(workload: WorkloadCluster, node: str) -> None:
            upgraders.silence(node)
            await say_ready(env, workload, node, "Unknown")
            waking.append(asyncio.create_task(wake(workload, node)))

        async def wake(workload: WorkloadCluster, node: str) -> None:
            await asyncio.sleep(LONG if step != "every" else LONG / 10)
            upgraders.wake(node)
            await say_ready(env, workload, node, "True")

        await struck(env, upgraders, watcher, silence, step)

    tell(ready_cluster(*machines), story)


@pytest.mark.demand("U42")
@pytest.mark.parametrize(("machines", "step"), SAMPLE + EXPLORED)
def test_cut_off_cluster_is_reached_again_at_any_step(machines: tuple[int, int], step: str) -> None:
    far = Far()

    async def story(env: ManagedEnvironment, upgraders: Upgraders, watcher: Watcher) -> None:
        async def cut(_workload: WorkloadCluster, _node: str) -> None:
            await far.cut()
            asyncio.get_running_loop().call_later(OUTAGE if step != "every" else 0.2, far.mend)

        await struck(env, upgraders, watcher, cut, step)
        assert far.refused

    tell(ready_cluster(*machines), story, wrap=far)


@pytest.mark.demand("U58", "U59", "U62")
@pytest.mark.soak
@pytest.mark.parametrize(("machines", "step"), SAMPLE)
def test_killed_program_is_reported_and_tried_again(machines: tuple[int, int], step: str) -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders, watcher: Watcher) -> None:
        left = [machine.name for machine in await in_place.machines(env)]
        upgraders.failing = {(node, step): "killed" for node in left}
        await env.change(kubernetesVersion="1.36")
        while left:
            cluster = await env.until(lambda item: any(failed(node, step) in told(item) for node in left))
            [node] = [node for node in left if failed(node, step) in told(cluster)]
            is_worker = "-md-" in node
            assert failed(node, step) in told(cluster, "WorkersReady" if is_worker else "ControlPlaneReady")
            for resource, name in (GROUPS[is_worker], (NodeUpgrade.resource, node_upgrade(node))):
                upgrade = await env.client.get(resource, name, SYSTEM_NAMESPACE)
                assert failed(node, step) in in_place.ready(upgrade.tree)["message"]
            left.remove(node)
            del upgraders.failing[node, step]
            mark: Tree = {"metadata": {"annotations": {RETRY_ANNOTATION: "now"}}}
            resource, name = NodeUpgrade.resource, node_upgrade(node)
            await env.client.patch(resource, name, SYSTEM_NAMESPACE, patch=mark, type=PatchType.MERGE)
        await finish(env, watcher)

    tell(ready_cluster(*machines), story)


def failed(node: str, step: str) -> str:
    return f"step {step} failed on node {node}: exit code 1: killed"
