"""Nodes of simulated machines are drained before these are deleted, as under the real Cluster API."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime

import pytest

from espalier.api import conditions as condition_list
from espalier.api.capi.machine import Machine, MachineDeployment
from espalier.api.core import DEPLOYMENT, NODE, POD, POD_DISRUPTION_BUDGET
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Condition, Tree
from espalier.clusterapi.objects import controller_of
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import TooManyRequests
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.managed_environment import GARDEN, ManagedEnvironment, managed_environment

pytestmark = pytest.mark.embedded

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = 3600.0
LABELS = {"app": "web"}


def journey(story: Callable[[ManagedEnvironment, Client], Awaitable[None]]) -> None:
    """Tell a story of a cluster whose two workers each run a pod of a Deployment."""

    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as env:
            await env.apply()
            await env.until_ready()
            workload = await env.workload()
            template = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "web", "image": "web"}]}}
            spec = {"replicas": 2, "selector": {"matchLabels": LABELS}, "template": template}
            await workload.create(DEPLOYMENT, made("Deployment", "apps/v1", spec))
            await asyncio.sleep(60)
            await story(env, workload)

    run(main, epoch=EPOCH, seed=1)


def made(kind: str, api_version: str, spec: Tree) -> Tree:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "web", "namespace": "default"},
        "spec": spec,
    }


async def forbid(workload: Client) -> None:
    """A budget that allows no disruption."""
    spec = {"minAvailable": 2, "selector": {"matchLabels": LABELS}}
    await workload.create(POD_DISRUPTION_BUDGET, made("PodDisruptionBudget", "policy/v1", spec))
    await asyncio.sleep(5)


async def deleted_machines(env: ManagedEnvironment) -> list[Machine]:
    machines = (await env.client.list(Machine.resource, SYSTEM_NAMESPACE)).items
    return [item.decode(Machine) for item in machines if item.metadata.deletion_timestamp is not None]


def of(conditions: Sequence[Condition], type_: str) -> tuple[str, str, str]:
    value = condition_list.get(conditions, type_)
    assert value is not None
    return value.status, value.reason, value.message


def test_upgrade_names_the_budget_that_it_waits_for() -> None:
    async def story(env: ManagedEnvironment, workload: Client) -> None:
        await forbid(workload)
        await env.change(kubernetesVersion="1.36")
        await asyncio.sleep(HOUR / 4)
        (held,) = await deleted_machines(env)
        status, reason, message = of(held.status.conditions, "Deleting")
        assert (status, reason) == ("True", "DrainingNode")
        assert message.startswith("Drain not completed yet (started at 2026-01-01T00:0")
        assert "Cannot evict pod as it would violate the pod's disruption budget. The disruption budget web " in message
        assert of(held.status.conditions, "Ready")[2] == "* Deleting: Machine deletion in progress, stage: DrainingNode"
        assert held.status.node_ref is not None
        node = await workload.get(NODE, held.status.node_ref.name)
        assert node.tree["spec"]["unschedulable"] is True
        cluster = (await env.client.get(Cluster.resource, GARDEN.name, GARDEN.namespace)).decode(Cluster)
        _, reason, message = of(cluster.status.conditions, "Ready")
        assert reason == "RollingUpgradeInProgress"
        assert f"Machine eksa-system/{held.metadata.name} is being deleted since 2026-01-01T00:0" in message
        assert "The disruption budget web needs 2 healthy pods" in message
        await workload.delete(POD_DISRUPTION_BUDGET, "web", "default")
        await env.until_ready(seconds=HOUR)
        assert not await deleted_machines(env)

    journey(story)


def test_a_drain_that_lasts_too_long_is_given_up() -> None:
    async def story(env: ManagedEnvironment, workload: Client) -> None:
        await forbid(workload)
        for machine_deployment in (await env.client.list(MachineDeployment.resource, SYSTEM_NAMESPACE)).items:
            limit: Tree = {"spec": {"template": {"spec": {"deletion": {"nodeDrainTimeoutSeconds": 600}}}}}
            await env.client.patch(
                MachineDeployment.resource,
                machine_deployment.name,
                machine_deployment.namespace,
                patch=limit,
                type=PatchType.MERGE,
            )
        await asyncio.sleep(60)
        await env.change(workerNodeGroupConfigurations=[{"name": "md-0", "count": 1}])
        await asyncio.sleep(500)
        assert await deleted_machines(env)
        await asyncio.sleep(200)
        assert not await deleted_machines(env)

    journey(story)


@pytest.mark.soak
def test_pods_move_ahead_and_keep_their_budget() -> None:
    async def story(env: ManagedEnvironment, workload: Client) -> None:
        spec = {"maxUnavailable": 1, "selector": {"matchLabels": LABELS}}
        await workload.create(POD_DISRUPTION_BUDGET, made("PodDisruptionBudget", "policy/v1", spec))
        fewest = 2

        async def watch() -> None:
            nonlocal fewest
            while True:
                pods = [
                    item for item in (await workload.list(POD, "default")).items if not item.metadata.deletion_timestamp
                ]
                ready = [pod for pod in pods if condition_list.is_true_in(pod.tree.get("status"), "Ready")]
                fewest = min(fewest, len(ready))
                await asyncio.sleep(0.1)

        watching = asyncio.ensure_future(watch())
        await env.change(kubernetesVersion="1.36")
        await env.until_ready()
        watching.cancel()
        assert fewest == 1

    journey(story)


@pytest.mark.soak
def test_pods_that_a_drain_leaves_hold_nothing() -> None:
    async def story(env: ManagedEnvironment, workload: Client) -> None:
        await forbid(workload)
        for pod in (await workload.list(POD, "default")).items:
            skip: Tree = {"metadata": {"labels": {"cluster.x-k8s.io/drain": "Skip"}}}
            await workload.patch(POD, pod.name, pod.namespace, patch=skip, type=PatchType.MERGE)
            with pytest.raises(TooManyRequests):
                await workload.evict(pod)
        await asyncio.sleep(5)
        await env.change(workerNodeGroupConfigurations=[{"name": "md-0", "count": 1}])
        await env.until_ready()
        assert controller_of((await workload.list(POD, "default")).items[0].metadata) is not None

    journey(story)
