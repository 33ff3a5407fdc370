"""The Cluster controller: ties infrastructure, control plane and workers together, and takes them apart in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from espalier.api.capi.cluster import Cluster, ClusterInitialization, ClusterStatus, MachineCounts
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment, MachineSet
from espalier.api.meta import Condition, Tree
from espalier.api.resource import Key, Resource
from espalier.clusterapi.contract import holds
from espalier.kube.objects import Object
from espalier.local.capi import names
from espalier.local.capi.contract import InfrastructureCluster
from espalier.local.capi.inventory import in_cluster
from espalier.local.capi.objects import is_paused, owner_reference
from espalier.local.capi.rollup import Rollup, deleting
from espalier.local.capi.scheme import Scheme
from espalier.local.capi.statements import condition, find, stated
from espalier.runtime.outcome import Done, Outcome, Wait

RESOURCE = Cluster.resource


class Held(NamedTuple):
    """An object of the cluster that keeps it from going."""

    resource: Resource
    object: Object


@dataclass(frozen=True)
class Observed:
    """A cluster and everything that belongs to it."""

    object: Object
    cluster: Cluster
    infrastructure_object: Object | None
    infrastructure: InfrastructureCluster | None
    control_plane_object: Object | None
    control_plane: KubeadmControlPlane | None
    deployments: tuple[Object, ...]
    sets: tuple[Object, ...]
    machines: tuple[Machine, ...]
    machine_objects: tuple[Object, ...]

    @property
    def provisioned(self) -> bool:
        """Whether the infrastructure is there: once said, it stays said."""
        return self.cluster.status.initialization.infrastructure_provisioned or bool(
            self.infrastructure and self.infrastructure.status.initialization.provisioned
        )

    @property
    def initialized(self) -> bool:
        """Whether the control plane has answered: once said, it stays said."""
        return self.cluster.status.initialization.control_plane_initialized or bool(
            self.control_plane and self.control_plane.status.initialization.control_plane_initialized
        )

    @property
    def going(self) -> bool:
        """Whether somebody asked for the cluster's deletion."""
        return self.cluster.metadata.deletion_timestamp is not None


def stages(observed: Observed) -> Iterator[tuple[str, list[Held]]]:
    """What goes before what: workers, then the control plane, then the infrastructure."""
    workers = [Held(MachineDeployment.resource, found) for found in observed.deployments]
    workers += [Held(MachineSet.resource, found) for found in observed.sets if not found.metadata.owner_references]
    workers += [
        Held(Machine.resource, found) for found in observed.machine_objects if not found.metadata.owner_references
    ]
    yield "worker objects", workers
    control_plane = observed.control_plane_object
    yield "control plane", [Held(KubeadmControlPlane.resource, control_plane)] if control_plane else []


class Clusters:
    """Reconciles Clusters."""

    def __init__(self, scheme: Scheme) -> None:
        self._scheme = scheme

    def _observe(self, key: Key) -> Observed | None:
        inventory = self._scheme.inventory
        found = inventory.clusters.get(key)
        if found is None or is_paused(found):
            return None
        cluster = found.decode(Cluster)
        infrastructure = control_plane = None
        if reference := cluster.spec.infrastructure_ref:
            infrastructure = inventory.infrastructure_object(reference.kind, Key(key.namespace, reference.name))
        if (reference := cluster.spec.control_plane_ref) and reference.kind == KubeadmControlPlane.resource.kind:
            control_plane = inventory.control_planes.get(Key(key.namespace, reference.name))
        machines = in_cluster(inventory.machines, key)
        return Observed(
            object=found,
            cluster=cluster,
            infrastructure_object=infrastructure,
            infrastructure=infrastructure.decode(InfrastructureCluster) if infrastructure else None,
            control_plane_object=control_plane,
            control_plane=control_plane.decode(KubeadmControlPlane) if control_plane else None,
            deployments=tuple(in_cluster(inventory.deployments, key)),
            sets=tuple(in_cluster(inventory.sets, key)),
            machines=tuple(machine.decode(Machine) for machine in machines),
            machine_objects=tuple(machines),
        )

    async def reconcile(self, key: Key) -> Outcome:
        """Bring one cluster a step further."""
        observed = self._observe(key)
        if observed is None or observed.cluster.spec.paused:
            return Done()
        if observed.going:
            return await self._delete(observed)
        writer = self._scheme.writer
        current = await writer.finalizer(RESOURCE, observed.object, names.CLUSTER_FINALIZER, present=True)
        await self._adopt(observed)
        if spec := _taken_over(observed):
            await writer.change(RESOURCE, current, {"spec": spec})
            return Wait("SpecChanged", "waiting to see the changed cluster")
        await writer.status(RESOURCE, current, self._status(observed, None))
        return Done()

    async def _adopt(self, observed: Observed) -> None:
        """Infrastructure and control plane belong to the cluster."""
        owner = owner_reference(RESOURCE, observed.object)
        labels = {names.CLUSTER: observed.object.name}
        infrastructure = observed.infrastructure_object
        if infrastructure is not None and (resource := self._scheme.inventory.resource(infrastructure.kind)):
            await self._scheme.writer.owner(resource, infrastructure, owner, labels)
        if observed.control_plane_object is not None:
            await self._scheme.writer.owner(KubeadmControlPlane.resource, observed.control_plane_object, owner, labels)

    async def _delete(self, observed: Observed) -> Outcome:
        for what, held in stages(observed):
            if held:
                for each in held:
                    await self._scheme.writer.delete(each.resource, each.object)
                return await self._still_deleting(observed, f"waiting for {len(held)} {what} to be gone")
        infrastructure = observed.infrastructure_object
        resource = self._scheme.inventory.resource(infrastructure.kind) if infrastructure is not None else None
        if infrastructure is not None and resource is not None:
            await self._scheme.writer.delete(resource, infrastructure)
            return await self._still_deleting(observed, f"waiting for {resource.kind} {infrastructure.name} to be gone")
        await self._scheme.writer.finalizer(RESOURCE, observed.object, names.CLUSTER_FINALIZER, present=False)
        return Done()

    async def _still_deleting(self, observed: Observed, waiting: str) -> Outcome:
        await self._scheme.writer.status(RESOURCE, observed.object, self._status(observed, waiting))
        return Wait("Deleting", waiting)

    def _status(self, observed: Observed, waiting: str | None) -> ClusterStatus:
        generation = observed.cluster.metadata.generation
        infrastructure = observed.infrastructure
        return ClusterStatus(
            conditions=stated(
                observed.cluster.status.conditions,
                _conditions(observed, waiting),
                now=self._scheme.clock.now(),
                generation=generation,
            ),
            initialization=ClusterInitialization(
                infrastructure_provisioned=observed.provisioned, control_plane_initialized=observed.initialized
            ),
            control_plane=_control_plane_counts(observed),
            workers=_worker_counts(observed),
            failure_domains=infrastructure.status.failure_domains if infrastructure else [],
            phase=_phase(observed),
            observed_generation=generation,
        )


def _taken_over(observed: Observed) -> Tree:
    """What the cluster's spec takes over from its infrastructure: the address of the control plane."""
    present = observed.cluster.spec.control_plane_endpoint
    found = observed.infrastructure.spec.control_plane_endpoint if observed.infrastructure else None
    if present is not None and present.host:
        return {}
    return {"controlPlaneEndpoint": msgspec.to_builtins(found)} if found is not None and found.host else {}


def _phase(observed: Observed) -> str:
    if observed.going:
        return "Deleting"
    endpoint = observed.cluster.spec.control_plane_endpoint
    if observed.provisioned and endpoint is not None and endpoint.host:
        return "Provisioned"
    return "Provisioning" if observed.infrastructure_object is not None else "Pending"


def _control_plane_counts(observed: Observed) -> MachineCounts | None:
    if observed.control_plane is None:
        return None
    status = observed.control_plane.status
    return MachineCounts(
        desired_replicas=observed.control_plane.spec.replicas,
        replicas=status.replicas,
        up_to_date_replicas=status.up_to_date_replicas,
        ready_replicas=status.ready_replicas,
        available_replicas=status.available_replicas,
        versions=status.versions,
    )


def _workers(observed: Observed) -> list[Machine]:
    return [machine for machine in observed.machines if names.CONTROL_PLANE not in machine.metadata.labels]


def _worker_counts(observed: Observed) -> MachineCounts:
    deployments = [found.decode(MachineDeployment) for found in observed.deployments]
    rollup = Rollup.of(_workers(observed), _outdated(_workers(observed)))
    return MachineCounts(
        desired_replicas=sum(1 if d.spec.replicas is None else d.spec.replicas for d in deployments),
        replicas=rollup.replicas,
        up_to_date_replicas=rollup.up_to_date,
        ready_replicas=rollup.ready,
        available_replicas=rollup.available,
        versions=list(rollup.versions),
    )


def _outdated(machines: Sequence[Machine]) -> list[str]:
    return [machine.metadata.name for machine in machines if not holds(machine.status.conditions, "UpToDate")]


def _conditions(observed: Observed, waiting: str | None) -> Iterator[Condition]:
    infrastructure = condition(
        "InfrastructureReady",
        observed.provisioned,
        "Ready" if observed.provisioned else "NotReady",
        "" if observed.provisioned else _infrastructure_message(observed),
    )
    initialized = condition(
        "ControlPlaneInitialized",
        observed.initialized,
        "Initialized" if observed.initialized else "NotInitialized",
        "" if observed.initialized else "the control plane has not answered yet",
    )
    control_plane = _control_plane_condition(observed)
    workers = _workers_condition(observed)
    yield from (infrastructure, initialized, control_plane, workers)
    yield from _machine_conditions(observed)
    yield deleting(waiting)
    yield condition("Paused", False, "NotPaused")
    failing = [part for part in (infrastructure, control_plane, workers) if part.status != "True"]
    if waiting is not None:
        yield condition("Available", False, "NotAvailable", f"* Deleting: {waiting}")
    elif failing:
        message = "\n".join(f"* {part.type}: {part.message}" for part in failing)
        yield condition("Available", False, "NotAvailable", message)
    else:
        yield condition("Available", True, "Available")


def _infrastructure_message(observed: Observed) -> str:
    reference = observed.cluster.spec.infrastructure_ref
    if reference is None:
        return "the cluster names no infrastructure"
    if observed.infrastructure is None:
        return f"{reference.kind} {reference.name} does not exist"
    ready = find(observed.infrastructure.status.conditions, "Ready")
    return (ready and ready.message) or f"{reference.kind} {reference.name} is not provisioned yet"


def _control_plane_condition(observed: Observed) -> Condition:
    if observed.control_plane is None:
        return condition("ControlPlaneAvailable", False, "NotAvailable", "the control plane does not exist")
    available = find(observed.control_plane.status.conditions, "Available")
    if available is not None and available.status == "True":
        return condition("ControlPlaneAvailable", True, "Available")
    message = available.message if available else "the control plane has not reported yet"
    return condition("ControlPlaneAvailable", False, "NotAvailable", message)


def _workers_condition(observed: Observed) -> Condition:
    if not observed.deployments:
        return condition("WorkersAvailable", True, "NoWorkers")
    messages = []
    for found in observed.deployments:
        available = find(found.decode(MachineDeployment).status.conditions, "Available")
        if available is None or available.status != "True":
            messages.append(
                f"* MachineDeployment {found.name}: {available.message if available else 'not reported yet'}"
            )
    return condition("WorkersAvailable", not messages, "NotAvailable" if messages else "Available", "\n".join(messages))


def _machine_conditions(observed: Observed) -> Iterator[Condition]:
    control_plane = [machine for machine in observed.machines if names.CONTROL_PLANE in machine.metadata.labels]
    for prefix, machines in (("ControlPlane", control_plane), ("Worker", _workers(observed))):
        rollup = Rollup.of(machines, _outdated(machines))
        shared = {statement.type: statement for statement in rollup.conditions(rollup.replicas)}
        for type_ in ("MachinesReady", "MachinesUpToDate"):
            yield msgspec.structs.replace(shared[type_], type=f"{prefix}{type_}")
    rollup = Rollup.of(observed.machines, _outdated(observed.machines))
    counts = [_control_plane_counts(observed), _worker_counts(observed)]
    desired = 0 if observed.going else sum((count.desired_replicas or 0) for count in counts if count)
    yield from (
        s for s in rollup.conditions(desired) if s.type in {"RollingOut", "ScalingUp", "ScalingDown", "Remediating"}
    )
