"""Real nodes as a component: how it is built, and how its resources on the machine are removed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

from espalier.api.kinds import KubeObject
from espalier.api.resource import Key
from espalier.clusterapi.infrastructures.infrastructure import Infrastructure
from espalier.clusterapi.objects import cluster_key
from espalier.kube.objects import Object
from espalier.realnodes.nspawn import container, images
from espalier.realnodes.nspawn.bases import NodeBases
from espalier.realnodes.nspawn.clusters import InfrastructureClusters
from espalier.realnodes.nspawn.host import NodeHost
from espalier.realnodes.nspawn.machines import InfrastructureMachines
from espalier.realnodes.nspawn.owners import ENVIRONMENT
from espalier.realnodes.nspawn.system.helper_processes import BalancerProcess, RegistryProcess
from espalier.realnodes.nspawn.system.network import remove_link
from espalier.realnodes.nspawn.system.registry import ImageBuild
from espalier.realnodes.nspawn.system.state import State
from espalier.realnodes.nspawn.tools import BY_CLUSTER, BY_OWNER, NodeTools
from espalier.releases import Releases
from espalier.runtime.component import Component, Host
from espalier.runtime.controllers.controller import Controller
from espalier.runtime.controllers.reconciler import replanned
from espalier.runtime.manager import Runnable

WORKERS = 8
"""Concurrent reconciles; booting more nodes at once makes none faster."""


def component(
    *,
    host: NodeHost,
    bases: NodeBases,
    releases: Releases,
    infrastructure: Infrastructure,
    built_images: Mapping[str, ImageBuild] | None = None,
    kinds: Sequence[type[KubeObject]] = (),
    owner: str = ENVIRONMENT,
    is_alone: Callable[[], bool] = lambda: False,
) -> Component:
    """The component of a manager that creates real nodes. Nodes of a former run are taken over.

    Several managers of one process share a `host`, each for a management cluster of its own, which is the `owner`. One
    that can't tell whether it `is_alone` keeps the nodes of Clusters that are gone: they may have been moved.

    `infrastructure` has the kinds whose machines they are, `kinds` are these with their schemas.
    `built_images` are images that are offered to nodes beside those of the bases, and made when one asks.
    """

    def build(process: Host) -> None:
        tools = NodeTools.of(
            process.client,
            process.caches,
            clock=process.manager.clock,
            host=host,
            bases=bases,
            asked_images=images.asked_for(releases),
            built_images=built_images or {},
            kinds=infrastructure,
            owner=owner,
            is_alone=is_alone,
        )
        for controller in _controllers(tools):
            process.manager.add(controller)

    return Component("nodes", build, tuple(kinds))


def _controllers(tools: NodeTools) -> list[Controller | Runnable]:
    cluster_kind, machine_kind = tools.kinds.cluster.kind.lower(), tools.kinds.machine.kind.lower()
    machines = InfrastructureMachines(tools)
    clusters = InfrastructureClusters(tools)
    of_machines = Controller(f"nspawn-{machine_kind}", replanned(machines.reconcile), workers=WORKERS)
    of_clusters = Controller(f"nspawn-{cluster_kind}", replanned(clusters.reconcile), workers=1)
    machines.enqueue = of_machines.enqueue
    tools.infrastructure_machines.subscribe(machines.changed)

    def machines_of_machine(machine: Object) -> Iterable[Key]:
        return [
            infra_machine.key
            for infra_machine in tools.infrastructure_machines.by_index(BY_OWNER, machine.metadata.uid)
        ]

    def machines_in(object_: Object) -> Iterable[Key]:
        return [
            infra_machine.key
            for infra_machine in tools.infrastructure_machines.by_index(BY_CLUSTER, str(cluster_key(object_)))
        ]

    def clusters_in(object_: Object) -> Iterable[Key]:
        return [
            infra_cluster.key
            for infra_cluster in tools.infrastructure_clusters.by_index(BY_CLUSTER, str(cluster_key(object_)))
        ]

    def clusters_of_cluster(cluster: Object) -> Iterable[Key]:
        return [
            infra_cluster.key
            for infra_cluster in tools.infrastructure_clusters.by_index(BY_OWNER, cluster.metadata.uid)
        ]

    def machines_of_cluster(cluster: Object) -> Iterable[Key]:
        return [
            infra_machine.key for infra_machine in tools.infrastructure_machines.by_index(BY_CLUSTER, str(cluster.key))
        ]

    of_machines.watch(tools.infrastructure_machines)
    of_machines.watch(tools.machines, machines_of_machine)
    of_machines.watch(tools.secrets, machines_in, predicate=_is_new)
    of_machines.watch(tools.clusters, machines_of_cluster)
    of_clusters.watch(tools.infrastructure_clusters)
    of_clusters.watch(tools.infrastructure_machines, clusters_in)
    of_clusters.watch(tools.machines, clusters_in)
    of_clusters.watch(tools.clusters, clusters_of_cluster)
    return [of_machines, of_clusters, _Inheritance(tools, machines)]


class _Inheritance:
    """Enqueues, at the start, all recorded nodes of a former run, including those whose objects are gone.

    Stops the controllers' background tasks when they end.
    """

    def __init__(self, tools: NodeTools, machines: InfrastructureMachines) -> None:
        self._tools = tools
        self._machines = machines

    async def run(self) -> None:
        for record in self._tools.state.nodes():
            self._machines.enqueue(record.key)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await self._machines.close()


async def remove_everything(state: State) -> None:
    """Remove all nodes, processes, mounts, interfaces and files of a local environment. Its controllers must not
    run.
    """
    for record in state.nodes():
        await container.take_away(state.folder(record.id))
        state.forget_node(record.id)
    await BalancerProcess(state).end()
    await RegistryProcess(state).end()
    network = state.network()
    if network is not None:
        await remove_link(network.bridge)
    state.forget_network()


def _is_new(old: Object | None, new: Object | None) -> bool:
    return old is None
