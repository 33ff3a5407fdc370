"""Looks at every write while machines are upgraded in place, whatever goes wrong meanwhile, and at what is left."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import cache

from espalier.api.capi.machine import Machine
from espalier.api.conditions import timestamp
from espalier.api.core import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, NODE, POD, SERVICE_ACCOUNT
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.upgrades import ControlPlaneUpgrade, MachineDeploymentUpgrade, NodeUpgrade
from espalier.api.eksa.vocabulary.upgrade_keys import (
    CORDONED_BY_UPGRADE,
    FALLBACK_ANNOTATION,
    IN_PLACE_CONTROL_PLANE,
    IN_PLACE_DEPLOYMENT,
    UPGRADER_LABEL,
)
from espalier.api.meta import Tree
from espalier.apiserver.storage.store import Change, Store
from espalier.clusterapi.contract import PAUSED_ANNOTATION, SKIP_REMEDIATION_ANNOTATION
from espalier.kube.client import PatchType
from espalier.kube.objects import Object
from espalier.runtime.virtual import Simulation, run
from espalier.simulator.workload_clusters.stores import MemoryStores
from espalier.simulator.workload_clusters.workload_cluster import WorkloadCluster
from espalier.upgrades.observed.health import CONTROL_PLANE
from tests.support.environments.in_place_environment import NEW, ready_cluster
from tests.support.environments.managed_environment import NAMESPACE, ManagedEnvironment, Wrap, managed_environment
from tests.support.environments.recording import EnvironmentState, Recording
from tests.support.environments.upgraders import ENDED, GARDEN, Upgraders
from tests.support.servers.faults import Writes

CALM, HOURS = 60.0, 7200.0
"""Seconds in which nothing more happens, and in which all that may go wrong once is over."""

MARKS = {
    IN_PLACE_CONTROL_PLANE,
    IN_PLACE_DEPLOYMENT,
    FALLBACK_ANNOTATION,
    PAUSED_ANNOTATION,
    SKIP_REMEDIATION_ANNOTATION,
}
"""Annotations that no object of the management cluster has when nothing is upgraded."""

MACHINES, NODES, PODS = (item.group_resource for item in (Machine.resource, NODE, POD))
UPGRADES = [kind.resource.group_resource for kind in (ControlPlaneUpgrade, MachineDeploymentUpgrade, NodeUpgrade)]
OF_PODS = [item.group_resource for item in (POD, SERVICE_ACCOUNT, CLUSTER_ROLE, CLUSTER_ROLE_BINDING)]


class Watcher:
    """Both stores of an environment, and what was ever wrong in them. To be begun before the environment is."""

    def __init__(self, management: Store, stores: MemoryStores) -> None:
        self.broken: dict[str, None] = {}
        """Violated invariants: in order, each once."""
        self.management = management
        self.stores = stores
        self._workload = stores.open(GARDEN)
        self.before = self.identities()
        management.follow(self._near)
        self._workload.follow(self._far)

    def identities(self) -> dict[str, str]:
        """Uids of Machines and nodes."""
        results = [(MACHINES, self.management), (NODES, self._workload)]
        return {
            f"{table} {key.name}": value.metadata.uid
            for table, store in results
            for key, value in store.table(table).objects.items()
        }

    def left(self) -> list[str]:
        """The leftovers that must be gone once nothing is being upgraded."""
        return [*self._marks(), *self._upgrades(), *self._on_nodes()]

    def versions(self) -> set[str]:
        """Of all Machines and kubelets."""
        machines = self.management.table(MACHINES).objects.values()
        nodes = self._workload.table(NODES).objects.values()
        return {machine.tree["spec"]["version"] for machine in machines} | {
            node.tree["status"]["nodeInfo"]["kubeletVersion"] for node in nodes
        }

    def check(self) -> None:
        """All nodes are upgraded, they are the same as before, nothing was ever wrong, and nothing is left."""
        assert not self.broken, ", ".join(self.broken)
        left, versions, now = self.left(), self.versions(), self.identities()
        assert not left, ", ".join(left)
        assert versions == {NEW}, f"there are {versions}"
        assert now == self.before, f"{now} were {self.before}"

    def _marks(self) -> Iterator[str]:
        for _, table in self.management.tables():
            for object_ in table.objects.values():
                for mark in sorted(MARKS & set(object_.metadata.annotations)):
                    yield f"{object_.kind} {object_.name} has {mark}"

    def _upgrades(self) -> Iterator[str]:
        for table in UPGRADES:
            for object_ in self.management.table(table).objects.values():
                yield f"{object_.kind} {object_.name} is there"

    def _on_nodes(self) -> Iterator[str]:
        for table in OF_PODS:
            for object_ in self._workload.table(table).objects.values():
                if UPGRADER_LABEL in object_.metadata.labels:
                    yield f"{object_.kind} {object_.name} is there"
        for name in self._cordoned():
            yield f"node {name} is cordoned"

    def _near(self, change: Change) -> None:
        if change.table != MACHINES:
            return
        if change.before is None:
            self._wrong(f"Machine {change.key.name} was added")
        elif change.deleted or change.after.metadata.deletion_timestamp is not None:
            self._wrong(f"Machine {change.key.name} was deleted")

    def _far(self, change: Change) -> None:
        if change.table == NODES:
            cordoned = self._cordoned()
            if len(cordoned) > 1:
                self._wrong(f"nodes {', '.join(cordoned)} are cordoned")
            for group in self._groups():
                out = [name for name in group if name in cordoned or name in self._unready()]
                if len(out) > 1 and any(name in cordoned for name in out):
                    self._wrong(f"nodes {', '.join(out)} are out of service")
        elif change.table == PODS and UPGRADER_LABEL in change.after.metadata.labels:
            nodes = {
                object_.name for object_ in self._workload.table(NODES).objects.values()
            }  # without one, nothing runs
            upgrading = [object_ for object_ in self._workload.table(PODS).objects.values() if _is_upgrading(object_)]
            pods = [item for item in upgrading if item.tree["spec"]["nodeName"] in nodes]
            if len(pods) > 1:
                self._wrong(f"pods {', '.join(pod.name for pod in pods)} run")

    def _wrong(self, what: str) -> None:
        self.broken[what] = None

    def _cordoned(self) -> list[str]:
        nodes = self._workload.table(NODES).objects.values()
        return [
            node.name
            for node in nodes
            if node.tree["spec"].get("unschedulable") or CORDONED_BY_UPGRADE in node.metadata.annotations
        ]

    def _groups(self) -> tuple[list[str], list[str]]:
        """Control plane and workers."""
        nodes = self._workload.table(NODES).objects.values()
        planes = [node.name for node in nodes if CONTROL_PLANE in node.metadata.labels]
        return planes, [node.name for node in nodes if node.name not in planes]

    def _unready(self) -> list[str]:
        results = []
        for object_ in self._workload.table(NODES).objects.values():
            conditions = object_.tree["status"]["conditions"]
            if any(entry["type"] == "Ready" and entry["status"] != "True" for entry in conditions):
                results.append(object_.name)
        return results


def _is_upgrading(pod: Object) -> bool:
    ended = (pod.tree.get("status") or {}).get("phase") in ENDED
    return UPGRADER_LABEL in pod.metadata.labels and not ended


Story = Callable[[ManagedEnvironment, Upgraders, Watcher], Awaitable[None]]


@cache
def undisturbed(control_planes: int, workers: int) -> Recording:
    """Its upgrade when nothing goes wrong, from when it was asked for. Writes of the manager are marked."""
    results: list[Recording] = []

    async def story(env: ManagedEnvironment, _upgraders: Upgraders, watcher: Watcher) -> None:
        await env.change(kubernetesVersion="1.36")
        results.append(Recording(watcher.management, watcher.stores, env.manager.clock))
        await finish(env, watcher)

    writes = Writes(landed=lambda: results[0].mark() if results else None)
    tell(ready_cluster(control_planes, workers), story, wrap=writes)
    return results[0]


def tell(state: EnvironmentState, story: Story, *, wrap: Wrap = lambda transport: transport, seed: int = 2) -> None:
    """Tell a story of an environment that begins from there, all of whose writes are checked."""

    async def main(simulation: Simulation) -> None:
        store, stores = state.opened()
        watcher = Watcher(store, stores)
        async with managed_environment(simulation.clock, seed=seed, store=store, stores=stores, wrap=wrap) as env:
            await story(env, Upgraders(env.workloads), watcher)

    run(main, epoch=state.at, seed=1)


async def finish(env: ManagedEnvironment, watcher: Watcher) -> None:
    """It goes on to its end by itself."""
    asked = (await env.client.get(Cluster.resource, GARDEN.name, NAMESPACE)).metadata.generation
    await env.until(lambda item: bool(item.status.ready) and item.status.observed_generation >= asked, seconds=HOURS)
    await asyncio.sleep(CALM)
    watcher.check()


async def say_ready(env: ManagedEnvironment, workload: WorkloadCluster, node: str, status: str) -> None:
    """Set the condition Ready of a node: as its kubelet or, with `Unknown`, because that is silent."""
    result = (await workload.client.get(NODE, node)).tree["status"]["conditions"]
    now = timestamp(env.manager.clock.now())
    told = [
        item | ({"status": status, "lastTransitionTime": now} if item["type"] == "Ready" else {}) for item in result
    ]
    patch: Tree = {"status": {"conditions": told}}
    await workload.client.patch(NODE, node, patch=patch, type=PatchType.MERGE, subresource="status")
