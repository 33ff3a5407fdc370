"""The controllers of the simulator, with their watches."""

from __future__ import annotations

import random
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment, MachineSet
from espalier.api.core import NODE, POD
from espalier.api.resource import Key
from espalier.clusterapi import external_etcd, names
from espalier.clusterapi.infrastructures.infrastructure import Infrastructure
from espalier.clusterapi.objects import cluster_key, controller_of, pause_changed
from espalier.kube.client import Client
from espalier.kube.objects import Object
from espalier.runtime.caches.cache import Cache, Caches
from espalier.runtime.caches.mapping import ToKeys, named_by_label, owners_of
from espalier.runtime.clock import Clock
from espalier.runtime.controllers.controller import Controller, Reconcile
from espalier.runtime.controllers.predicates import change_of, generation_changed
from espalier.runtime.controllers.reconciler import replanned
from espalier.runtime.controllers.writer import Writer
from espalier.simulator.capi import predicates
from espalier.simulator.capi.controllers.cluster import Clusters
from espalier.simulator.capi.controllers.etcdadm import EtcdadmClusters
from espalier.simulator.capi.controllers.kubeadm_config import KubeadmConfigs
from espalier.simulator.capi.controllers.kubeadm_control_plane import KubeadmControlPlanes
from espalier.simulator.capi.controllers.machine import Machines
from espalier.simulator.capi.controllers.machine_deployment import MachineDeployments
from espalier.simulator.capi.controllers.machine_health_check import MachineHealthChecks
from espalier.simulator.capi.controllers.machine_set import MachineSets
from espalier.simulator.capi.inventory import Inventory, Scheme, in_cluster, owned_by, sets_of_template
from espalier.simulator.capi.reaching import obstacle
from espalier.simulator.host_pool import machines_of_host
from espalier.simulator.infrastructure import Boots, InfrastructureClusters, InfrastructureMachines, always_boots
from espalier.simulator.pods.controller import Pods
from espalier.simulator.workload_clusters.workloads import Workloads
from espalier.simulator.workload_controllers.controller import WorkloadControllers


@dataclass(frozen=True)
class Timing:
    """Seconds that a boot takes, and from a change in a workload cluster until its controllers react."""

    boot: float = 1.0
    pods: float = 0.05
    boots: Boots = always_boots
    """Decides which machines boot successfully."""


def controllers(
    client: Client,
    caches: Caches,
    workloads: Workloads,
    *,
    clock: Clock,
    rng: random.Random,
    keys: random.Random | None,
    infrastructures: Sequence[Infrastructure],
    timing: Timing,
    workers: int,
    pods: Pods | None,
    cluster_api: bool,
    hosts_workloads: bool,
) -> list[Controller]:
    """All controllers: of Cluster API, of what happens in workload clusters (both optional), and of machines."""
    builder = _Builder.of(client, caches, workloads, clock, rng, keys, infrastructures, workers)
    hosting = hosted(workloads, clock=clock, rng=rng, pod_seconds=timing.pods, pods=pods) if hosts_workloads else []
    return [*(builder.cluster_api() if cluster_api else ()), *hosting, *builder.machine_controllers(timing)]


def hosted(
    workloads: Workloads, *, clock: Clock, rng: random.Random, pod_seconds: float, pods: Pods | None
) -> list[Controller]:
    """The controllers of what happens in workload clusters: Kubernetes' own, and kubelets.

    They run once for all clusters of a process, whichever management clusters have them.
    """
    runs = {"runs": pods.runs} if pods else {}
    simulator = WorkloadControllers(workloads, clock=clock, rng=rng, **runs)
    controller = Controller("simulated-workload-cluster", replanned(simulator.reconcile), workers=_HOST_WORKERS)
    workloads.subscribe(lambda cluster, _object: controller.enqueue(cluster, after=pod_seconds))
    if pods is None:
        return [controller]
    of_pods = Controller("simulated-pod", replanned(pods.reconcile), workers=_HOST_WORKERS)

    def changed(cluster: Key, object_: Object) -> None:
        if object_.kind in (NODE.kind, POD.kind):
            of_pods.enqueue(cluster)

    workloads.subscribe(changed)
    return [controller, of_pods]


_HOST_WORKERS = 50
"""Clusters that are acted on at the same time."""


class _Builder:
    """Builds the controllers, each with its watches."""

    def __init__(self, scheme: Scheme, workloads: Workloads, workers: int) -> None:
        self._scheme = scheme
        self._inventory = scheme.inventory
        self._workloads = workloads
        self._workers = workers

    @classmethod
    def of(
        cls,
        client: Client,
        caches: Caches,
        workloads: Workloads,
        clock: Clock,
        rng: random.Random,
        keys: random.Random | None,
        kinds: Sequence[Infrastructure],
        workers: int,
    ) -> _Builder:
        inventory = Inventory.of(caches, kinds)
        writer = Writer(client, {cache.source.resource: cache for cache in inventory.all()})
        return cls(Scheme(inventory, writer, workloads, clock, rng, keys), workloads, workers)

    def cluster_api(self) -> list[Controller]:
        """The controllers of simulated Cluster API."""
        return [
            self.clusters(),
            self.control_planes(),
            self.deployments(),
            self.sets(),
            self.machines(),
            self.configs(),
            self.health_checks(),
            self.etcds(),
        ]

    def machine_controllers(self, timing: Timing) -> list[Controller]:
        """The controllers of machines and of their clusters."""
        controllers = []
        for provider in self._inventory.kinds:
            controllers += [self.infrastructure_clusters(provider), self.infrastructure_machines(provider, timing)]
        return controllers

    def _controller(self, name: str, reconcile: Reconcile) -> Controller:
        return Controller(name, replanned(reconcile), workers=self._workers)

    def _in_cluster(self, cache: Cache) -> ToKeys:
        """Maps a Cluster to its objects of a kind."""
        return lambda cluster: [object_.key for object_ in in_cluster(cache, cluster.key)]

    def _in_same(self, cache: Cache) -> ToKeys:
        """Maps an object of a Cluster to the Cluster's objects of a kind."""
        return lambda object_: [peer.key for peer in in_cluster(cache, cluster_key(object_))]

    def clusters(self) -> Controller:
        inventory = self._inventory
        controller = self._controller("simulated-cluster", Clusters(self._scheme).reconcile)
        controller.watch(inventory.clusters)
        for cache in (inventory.control_planes, inventory.deployments):
            controller.watch(cache, _cluster)
        controller.watch(inventory.etcds, _cluster)
        controller.watch(inventory.sets, _cluster, predicate=change_of(predicates.ownership))
        controller.watch(inventory.machines, _cluster, predicate=change_of(predicates.counted_machine))
        for provider in inventory.kinds:
            controller.watch(inventory.infrastructure[provider.cluster.kind], self._clusters_of_infrastructure)
        return controller

    def _clusters_of_infrastructure(self, object_: Object) -> Iterable[Key]:
        """The Cluster in its label, and the one of the same name: infrastructure may not have an owner yet."""
        return (*_cluster(object_), object_.key)

    def control_planes(self) -> Controller:
        inventory = self._inventory
        controller = self._controller(
            "simulated-control-plane", KubeadmControlPlanes(self._scheme, self._workloads.served).reconcile
        )
        controller.watch(inventory.control_planes)
        controller.watch(
            inventory.clusters,
            self._in_cluster(inventory.control_planes),
            predicate=change_of(predicates.awaited_cluster),
        )
        controller.watch(
            inventory.machines, self._control_planes_of_machine, predicate=change_of(predicates.owned_machine)
        )
        controller.watch(inventory.secrets, self._control_planes_of_secret)
        controller.watch(inventory.etcds, self._in_same(inventory.control_planes))
        for provider in inventory.kinds:
            controller.watch(
                inventory.infrastructure[provider.cluster.kind],
                self._in_same(inventory.control_planes),
                predicate=change_of(obstacle),
            )
        for templates in inventory.machine_templates:
            controller.watch(templates, self._in_same(inventory.control_planes))
        for parts in inventory.machine_parts:
            by_name = named_by_label(names.CONTROL_PLANE_NAME_LABEL)
            controller.watch(parts, by_name, predicate=change_of(predicates.compared_part))
        return controller

    def _control_planes_of_machine(self, machine: Object) -> Iterable[Key]:
        """The owner of a control plane machine; else control planes of its cluster, which adopt machines, and wait for
        the deletion of workers.
        """
        if names.CONTROL_PLANE in machine.metadata.labels and controller_of(machine.metadata) is not None:
            return owners_of(KubeadmControlPlane.resource)(machine)
        if names.CONTROL_PLANE in machine.metadata.labels:
            return self._in_same(self._inventory.control_planes)(machine)
        return self._in_same(self._inventory.control_planes)(machine) if machine.metadata.deletion_timestamp else ()

    def _control_planes_of_secret(self, secret: Object) -> Iterable[Key]:
        """The owner of a Secret; of one without owner, which users may create, the control planes of its cluster."""
        owned = owners_of(KubeadmControlPlane.resource)(secret)
        return owned if secret.metadata.owner_references else self._in_same(self._inventory.control_planes)(secret)

    def deployments(self) -> Controller:
        inventory = self._inventory
        controller = self._controller("simulated-machine-deployment", MachineDeployments(self._scheme).reconcile)
        controller.watch(inventory.deployments)
        controller.watch(inventory.sets, owners_of(MachineDeployment.resource))
        controller.watch(
            inventory.machines, self._deployments_of_machine, predicate=change_of(predicates.counted_machine)
        )
        controller.watch(inventory.clusters, self._in_cluster(inventory.deployments), predicate=pause_changed)
        for templates in (inventory.config_templates, *inventory.machine_templates):
            controller.watch(templates, self._deployments_of_template, predicate=change_of(predicates.ownership))
        return controller

    def _deployments_of_machine(self, machine: Object) -> Iterable[Key]:
        name = machine.metadata.labels.get(names.DEPLOYMENT)
        return (Key(machine.namespace, name),) if name else ()

    def _deployments_of_template(self, template: Object) -> Iterable[Key]:
        sets = sets_of_template(self._inventory.sets, template)
        return [key for set_ in sets for key in owners_of(MachineDeployment.resource)(set_)]

    def sets(self) -> Controller:
        inventory = self._inventory
        controller = self._controller("simulated-machine-set", MachineSets(self._scheme).reconcile)
        controller.watch(inventory.sets)
        controller.watch(inventory.machines, self._sets_of_machine, predicate=change_of(predicates.owned_machine))
        controller.watch(inventory.deployments, self._sets_of_deployment, predicate=generation_changed)
        controller.watch(inventory.clusters, self._in_cluster(inventory.sets), predicate=pause_changed)
        for templates in (inventory.config_templates, *inventory.machine_templates):
            controller.watch(templates, self._sets_of_template)
        for parts in inventory.machine_parts:
            controller.watch(parts, named_by_label(names.SET_NAME_LABEL), predicate=change_of(predicates.ownership))
        return controller

    def _sets_of_machine(self, machine: Object) -> Iterable[Key]:
        """The owner of a machine; else the sets of its cluster, which may adopt it."""
        if controller_of(machine.metadata) is not None:
            return owners_of(MachineSet.resource)(machine)
        return self._in_same(self._inventory.sets)(machine)

    def _sets_of_deployment(self, deployment: Object) -> Iterable[Key]:
        return [object_.key for object_ in owned_by(self._inventory.sets, deployment.metadata.uid)]

    def _sets_of_template(self, template: Object) -> Iterable[Key]:
        """The sets that use a template: it may arrive after them, because each kind has its own watch."""
        return [object_.key for object_ in sets_of_template(self._inventory.sets, template)]

    def machines(self) -> Controller:
        inventory = self._inventory
        controller = self._controller("simulated-machine", Machines(self._scheme).reconcile)
        controller.watch(inventory.machines)
        controller.watch(inventory.configs, owners_of(Machine.resource))
        controller.watch(inventory.clusters, self._in_cluster(inventory.machines), predicate=pause_changed)
        for provider in inventory.kinds:
            controller.watch(inventory.infrastructure[provider.machine.kind], owners_of(Machine.resource))

        # Management clusters go before the machines: the subscription keeps none of their controllers.
        reference = weakref.ref(controller)

        def changed(_cluster: Key, object_: Object) -> None:
            annotations, running = object_.metadata.annotations, reference()
            if running is not None and object_.kind == NODE.kind and (name := annotations.get(names.NODE_MACHINE)):
                running.enqueue(Key(annotations.get(names.NODE_CLUSTER_NAMESPACE, ""), name))

        self._workloads.subscribe(changed)
        return controller

    def configs(self) -> Controller:
        inventory = self._inventory
        controller = self._controller("simulated-kubeadm-config", KubeadmConfigs(self._scheme).reconcile)
        controller.watch(inventory.configs)
        controller.watch(
            inventory.clusters, self._in_cluster(inventory.configs), predicate=change_of(predicates.awaited_cluster)
        )
        # Also those of other machines: the oldest of the control plane initializes the cluster.
        controller.watch(
            inventory.machines, self._in_same(inventory.configs), predicate=change_of(predicates.ownership)
        )
        return controller

    def health_checks(self) -> Controller:
        inventory = self._inventory
        controller = self._controller("simulated-machine-health-check", MachineHealthChecks(self._scheme).reconcile)
        controller.watch(inventory.health_checks)
        controller.watch(
            inventory.machines,
            self._in_same(inventory.health_checks),
            predicate=change_of(predicates.health_checked_machine),
        )
        controller.watch(inventory.clusters, self._in_cluster(inventory.health_checks), predicate=pause_changed)
        return controller

    def etcds(self) -> Controller:
        inventory = self._inventory
        controller = self._controller("simulated-etcdadm-cluster", EtcdadmClusters(self._scheme).reconcile)
        controller.watch(inventory.etcds)
        in_same = self._in_same(inventory.etcds)
        controller.watch(
            inventory.clusters, self._in_cluster(inventory.etcds), predicate=change_of(predicates.awaited_cluster)
        )
        for cache in (inventory.etcd_configs, *inventory.machine_templates):
            controller.watch(cache, in_same, predicate=change_of(predicates.ownership))

        def of_member(machine: Object) -> Iterable[Key]:
            return in_same(machine) if external_etcd.MACHINE_LABEL in machine.metadata.labels else ()

        controller.watch(inventory.machines, of_member)
        for provider in inventory.kinds:
            infrastructure_machines = inventory.infrastructure[provider.machine.kind]
            controller.watch(infrastructure_machines, in_same, predicate=change_of(predicates.booting_machine))
        return controller

    def infrastructure_clusters(self, provider: Infrastructure) -> Controller:
        inventory = self._inventory
        simulator = InfrastructureClusters(self._scheme, self._workloads, provider)
        controller = self._controller(f"simulated-{provider.cluster.kind.lower()}", simulator.reconcile)
        cache = inventory.infrastructure[provider.cluster.kind]
        controller.watch(cache)

        of_cluster = self._in_same(cache)
        controller.watch(inventory.clusters, self._in_cluster(cache), predicate=pause_changed)
        infrastructure_machines = inventory.infrastructure[provider.machine.kind]
        controller.watch(infrastructure_machines, of_cluster, predicate=change_of(predicates.booting_machine))
        # An API server has the version of its machines, also when they are upgraded in place.
        controller.watch(
            inventory.machines,
            lambda machine: of_cluster(machine) if names.CONTROL_PLANE in machine.metadata.labels else (),
            predicate=generation_changed,
        )
        controller.watch(inventory.secrets, lambda secret: of_cluster(secret) if secret.name.endswith("-ca") else ())
        return controller

    def infrastructure_machines(self, provider: Infrastructure, timing: Timing) -> Controller:
        inventory = self._inventory
        simulator = InfrastructureMachines(
            self._scheme, self._workloads, provider, boot_seconds=timing.boot, boots=timing.boots
        )
        controller = self._controller(f"simulated-{provider.machine.kind.lower()}", simulator.reconcile)
        cache = inventory.infrastructure[provider.machine.kind]
        controller.watch(cache)

        def of_machine(machine: Object) -> Iterable[Key]:
            return [object_.key for object_ in owned_by(cache, machine.metadata.uid)]

        controller.watch(inventory.machines, of_machine, predicate=generation_changed)
        controller.watch(inventory.clusters, self._in_cluster(cache), predicate=pause_changed)
        if provider.hosts is not None:
            controller.watch(inventory.hosts[provider.machine.kind], machines_of_host(provider.hosts, cache))
        # Bootstrap data may arrive after the Machine that names them.
        controller.watch(inventory.secrets, self._in_same(cache))
        return controller


def _cluster(object_: Object) -> Iterable[Key]:
    key = cluster_key(object_)
    return (key,) if key.name else ()
