"""Common to journeys of upgrades in place: an environment whose nodes run upgrader pods, and how to look at it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import cache
from typing import Any

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment
from espalier.api.core import MUTATING_WEBHOOK_CONFIGURATION, NODE, VALIDATING_WEBHOOK_CONFIGURATION
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Condition, Tree
from espalier.api.resource import Key, Resource
from espalier.apiserver.storage.store import MemoryStore
from espalier.kube.client import Client
from espalier.kube.objects import Object
from espalier.runtime.virtual import Simulation, run
from espalier.simulator.workload_clusters.stores import MemoryStores
from espalier.simulator.workload_clusters.workload_cluster import WorkloadCluster
from tests.support.environments.managed_environment import GARDEN, NAMESPACE, ManagedEnvironment, managed_environment
from tests.support.environments.recording import EnvironmentState
from tests.support.environments.upgraders import Upgraders
from tests.support.waiting import until

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
OLD, NEW = "v1.35.4-eks-1-35-1", "v1.36.3-eks-1-36-1"
IN_PLACE = {"type": "InPlace"}

Story = Callable[[ManagedEnvironment, Upgraders], Awaitable[None]]


def journey(
    story: Story, *, control_planes: int = 1, workers: int = 2, strategy: Tree | None = None, seed: int = 1, **more: Any
) -> None:
    """Tell a story of a cluster all of whose machines are upgraded in place."""

    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock, seed=seed) as env:
            await env.apply(**spec(control_planes, workers, strategy, **more))
            await env.until_ready()
            await story(env, Upgraders(env.workloads))

    run(main, epoch=EPOCH, seed=seed)


@cache
def ready_cluster(control_planes: int, workers: int) -> EnvironmentState:
    """A cluster all of whose machines are to be upgraded in place, as it was when it was ready."""

    async def main(simulation: Simulation) -> EnvironmentState:
        store, stores = MemoryStore(), MemoryStores()
        async with managed_environment(simulation.clock, store=store, stores=stores) as env:
            await env.apply(**spec(control_planes, workers))
            await env.until_ready()
            await asyncio.sleep(60)
            return EnvironmentState.of(store, stores, simulation.clock)

    return run(main, epoch=EPOCH, seed=1)


def spec(control_planes: int, workers: int, strategy: Tree | None = None, **more: Any) -> Tree:
    """Fields of a Cluster."""
    how = strategy or IN_PLACE
    return {
        "kubernetesVersion": "1.35",
        "controlPlaneConfiguration": {"count": control_planes, "upgradeRolloutStrategy": how},
        "workerNodeGroupConfigurations": [{"name": "md-0", "count": workers, "upgradeRolloutStrategy": how}],
        **more,
    }


def reach(env: ManagedEnvironment) -> WorkloadCluster:
    """The workload cluster."""
    workload = env.workloads.reach(Key(SYSTEM_NAMESPACE, "garden"))
    assert workload is not None
    return workload


@asynccontextmanager
async def past_admission(client: Client) -> AsyncIterator[None]:
    """Writes within the block skip admission, as when the webhooks can't be reached and are ignored."""
    kinds = (VALIDATING_WEBHOOK_CONFIGURATION, MUTATING_WEBHOOK_CONFIGURATION)
    objects = [(kind, item) for kind in kinds for item in (await client.list(kind)).items]
    for kind, element in objects:
        await client.delete(kind, element.name)
    yield
    for kind, element in objects:
        metadata = {name: value for name, value in element.tree["metadata"].items() if name in ("name", "labels")}
        await client.create(kind, {**element.tree, "metadata": metadata})


def condition_of(cluster: Cluster, type_: str) -> Condition:
    """A condition of a Cluster."""
    return next(
        (condition for condition in cluster.status.conditions if condition.type == type_),
        Condition(type_, "Unknown", ""),
    )


async def generations(env: ManagedEnvironment) -> dict[str, int]:
    """Of control plane and worker node groups: another one means that somebody wrote to them."""
    kinds: tuple[Resource, ...] = (KubeadmControlPlane.resource, MachineDeployment.resource)
    results = [item for kind in kinds for item in (await env.client.list(kind, SYSTEM_NAMESPACE)).items]
    return {item.name: item.metadata.generation for item in results}


async def machines(env: ManagedEnvironment, *, control_plane: bool | None = None) -> list[Object]:
    """Machines, oldest first."""
    listed = (await env.client.list(Machine.resource, SYSTEM_NAMESPACE)).items
    label = "cluster.x-k8s.io/control-plane"
    chosen = [item for item in listed if control_plane is None or (label in item.metadata.labels) is control_plane]
    return sorted(chosen, key=lambda item: (item.metadata.creation_timestamp or "", item.name))


async def identities(env: ManagedEnvironment) -> dict[str, str]:
    """Uids of machines and nodes, by name."""
    nodes = (await reach(env).client.list(NODE)).items
    return {machine.name: machine.metadata.uid for machine in await machines(env)} | {
        f"node {node.name}": node.metadata.uid for node in nodes
    }


async def manifest(env: ManagedEnvironment, change: Tree) -> list[Tree]:
    """A Cluster as it is stored, with other fields of its spec."""
    result = (await env.client.get(Cluster.resource, GARDEN.name, NAMESPACE)).tree
    metadata = {"name": GARDEN.name, "namespace": NAMESPACE}
    spec = {**result["spec"], **change}
    return [{"apiVersion": result["apiVersion"], "kind": result["kind"], "metadata": metadata, "spec": spec}]


async def until_so(
    env: ManagedEnvironment, resource: Resource, name: str, is_so: Callable[[Tree], bool], *, seconds: float = 900
) -> Tree:
    """Wait until an object is there and as described."""
    cache = env.manager.caches.of(resource, SYSTEM_NAMESPACE)
    key = Key(SYSTEM_NAMESPACE, name)
    await until(cache, key, lambda value: value is not None and is_so(value.tree), seconds=seconds)
    value = cache.get(key)
    assert value is not None
    return value.tree


def ready(tree: Tree) -> Tree:
    """Its condition Ready, empty while there is none."""
    conditions = (tree.get("status") or {}).get("conditions") or []
    return next(
        (condition for condition in conditions if condition["type"] == "Ready"),
        {"reason": "", "message": "", "status": ""},
    )


async def marks(env: ManagedEnvironment) -> list[str]:
    """Annotations of upgrades and pauses that are left on control plane, worker node groups and machines."""
    results = []
    for resource in (KubeadmControlPlane.resource, MachineDeployment.resource, Machine.resource):
        for item in (await env.client.list(resource, SYSTEM_NAMESPACE)).items:
            names = ("in-place-upgrade-needed", "cluster.x-k8s.io/paused", "in-place-fallback", "skip-remediation")
            results += [f"{item.name}: {mark}" for mark in item.metadata.annotations if mark.endswith(names)]
    return results


async def until_machines(env: ManagedEnvironment, are_so: Callable[[list[Machine]], bool]) -> None:
    """Wait until the machines of all clusters are as described."""
    cache = env.capi_objects.of(Machine.resource)
    changed = asyncio.Event()
    stop = cache.subscribe(lambda _old, _new, _first: changed.set())
    try:
        async with asyncio.timeout(900):
            while not are_so([item.decode(Machine) for item in cache.list()]):
                changed.clear()
                await changed.wait()
    finally:
        stop()


def told(cluster: Cluster, type_: str = "Ready") -> str:
    """The message of a condition."""
    return next((condition.message for condition in cluster.status.conditions if condition.type == type_), "")
