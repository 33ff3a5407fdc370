"""The observed state of a Cluster, and the status computed from it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import msgspec

from espalier.api import conditions as condition_list
from espalier.api.capi.cluster import Cluster, ClusterInitialization, ClusterStatus, MachineCounts
from espalier.api.capi.etcdadm import EtcdadmCluster
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment
from espalier.api.meta import Condition, Tree
from espalier.clusterapi import names
from espalier.clusterapi.conditions import condition, stated
from espalier.clusterapi.infrastructures.infrastructure import InfrastructureCluster
from espalier.kube.objects import Object
from espalier.simulator.capi.reaching import obstacle
from espalier.simulator.capi.states.rollup import Rollup, deleting_condition

_PROBE = "RemoteConnectionProbe"


@dataclass(frozen=True)
class Observed:
    """A cluster and everything that belongs to it."""

    object: Object
    cluster: Cluster
    infrastructure_object: Object | None
    infrastructure: InfrastructureCluster | None
    control_plane_object: Object | None
    control_plane: KubeadmControlPlane | None
    etcd_object: Object | None
    deployments: tuple[Object, ...]
    sets: tuple[Object, ...]
    machines: tuple[Machine, ...]
    machine_objects: tuple[Object, ...]
    reachable: bool
    """True if the cluster's API server is reachable now."""

    @cached_property
    def typed_deployments(self) -> list[MachineDeployment]:
        """The MachineDeployments of the cluster, decoded."""
        return [deployment.decode(MachineDeployment) for deployment in self.deployments]

    @cached_property
    def machine_rollup(self) -> Rollup:
        """The rollup of all machines."""
        return _rollup(self.machines)

    @cached_property
    def worker_rollup(self) -> Rollup:
        """The rollup of the worker machines."""
        return _rollup(machine for machine in self.machines if names.CONTROL_PLANE not in machine.metadata.labels)

    @property
    def probe_succeeds(self) -> bool:
        """The status of RemoteConnectionProbe: once True, it stays so while the infrastructure reports no obstacle.

        Cluster API's probe fails after an outage of some minutes; this one tolerates any.
        """
        if obstacle(self.infrastructure_object):
            return False
        return self.reachable or condition_list.is_true(self.cluster.status.conditions, _PROBE)

    @property
    def provisioned(self) -> bool:
        """True once the infrastructure is provisioned; never reset."""
        return self.cluster.status.initialization.infrastructure_provisioned or bool(
            self.infrastructure and self.infrastructure.status.provisioned
        )

    @property
    def initialized(self) -> bool:
        """True once the control plane is initialized; never reset."""
        return self.cluster.status.initialization.control_plane_initialized or bool(
            self.control_plane and self.control_plane.status.initialization.control_plane_initialized
        )

    @property
    def deleting(self) -> bool:
        """True if the cluster is being deleted."""
        return self.cluster.metadata.deletion_timestamp is not None


def status(observed: Observed, now: datetime, waiting: str | None = None) -> ClusterStatus:
    """The status of a cluster; `waiting` is the object that its deletion waits for, None unless it is being deleted."""
    generation = observed.cluster.metadata.generation
    infrastructure = observed.infrastructure
    etcd = observed.etcd_object.decode(EtcdadmCluster).status if observed.etcd_object else None
    return ClusterStatus(
        conditions=stated(
            observed.cluster.status.conditions,
            _conditions(observed, waiting),
            now=now,
            generation=generation,
        ),
        initialization=ClusterInitialization(
            infrastructure_provisioned=observed.provisioned, control_plane_initialized=observed.initialized
        ),
        control_plane=_control_plane_counts(observed),
        workers=_worker_counts(observed),
        failure_domains=infrastructure.status.domains if infrastructure else [],
        managed_external_etcd_initialized=etcd.initialized if etcd else None,
        managed_external_etcd_ready=etcd.ready if etcd else None,
        phase=_phase(observed),
        observed_generation=generation,
    )


def spec_changes(observed: Observed) -> Tree:
    """A merge patch of the cluster's spec: the endpoint of its infrastructure, empty once the cluster has one."""
    current = observed.cluster.spec.control_plane_endpoint
    endpoint = observed.infrastructure.spec.control_plane_endpoint if observed.infrastructure else None
    if current is not None and current.host:
        return {}
    return {"controlPlaneEndpoint": msgspec.to_builtins(endpoint)} if endpoint is not None and endpoint.host else {}


def _phase(observed: Observed) -> str:
    if observed.deleting:
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


def _worker_counts(observed: Observed) -> MachineCounts:
    rollup = observed.worker_rollup
    return MachineCounts(
        desired_replicas=sum(1 if d.spec.replicas is None else d.spec.replicas for d in observed.typed_deployments),
        replicas=rollup.replicas,
        up_to_date_replicas=rollup.up_to_date,
        ready_replicas=rollup.ready,
        available_replicas=rollup.available,
        versions=list(rollup.versions),
    )


def _rollup(machines: Iterable[Machine]) -> Rollup:
    listed = list(machines)
    return Rollup.of(
        listed, (m.metadata.name for m in listed if not condition_list.is_true(m.status.conditions, "UpToDate"))
    )


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
        "" if observed.initialized else "the control plane is not initialized yet",
    )
    control_plane = _control_plane_condition(observed)
    workers = _workers_condition(observed)
    probe_message = obstacle(observed.infrastructure_object) or "Remote connection not established yet"
    probe = condition(
        _PROBE,
        observed.probe_succeeds,
        "ProbeSucceeded" if observed.probe_succeeds else "ProbeFailed",
        "" if observed.probe_succeeds else probe_message,
    )
    yield from (infrastructure, initialized, control_plane, workers, probe)
    yield from _machine_conditions(observed)
    yield deleting_condition(waiting)
    yield condition("Paused", False, "NotPaused")
    failing = [entry for entry in (infrastructure, control_plane, workers) if entry.status != "True"]
    if waiting is not None:
        yield condition("Available", False, "NotAvailable", f"* Deleting: {waiting}")
    elif failing:
        message = "\n".join(f"* {entry.type}: {entry.message}" for entry in failing)
        yield condition("Available", False, "NotAvailable", message)
    else:
        yield condition("Available", True, "Available")


def _infrastructure_message(observed: Observed) -> str:
    reference = observed.cluster.spec.infrastructure_ref
    if reference is None:
        return "the cluster has no infrastructureRef"
    if observed.infrastructure is None:
        return f"{reference.kind} {reference.name} does not exist"
    ready = condition_list.get(observed.infrastructure.status.conditions, "Ready")
    return (ready and ready.message) or f"{reference.kind} {reference.name} is not provisioned yet"


def _control_plane_condition(observed: Observed) -> Condition:
    if observed.control_plane is None:
        return condition("ControlPlaneAvailable", False, "NotAvailable", "the control plane does not exist")
    available = condition_list.get(observed.control_plane.status.conditions, "Available")
    if available is not None and available.status == "True":
        return condition("ControlPlaneAvailable", True, "Available")
    message = available.message if available else "the control plane has not reported yet"
    return condition("ControlPlaneAvailable", False, "NotAvailable", message)


def _workers_condition(observed: Observed) -> Condition:
    if not observed.deployments:
        return condition("WorkersAvailable", True, "NoWorkers")
    messages = []
    for deployment in observed.typed_deployments:
        available = condition_list.get(deployment.status.conditions, "Available")
        if available is None or available.status != "True":
            message = available.message if available else "not reported yet"
            messages.append(f"* MachineDeployment {deployment.metadata.name}: {message}")
    return condition("WorkersAvailable", not messages, "NotAvailable" if messages else "Available", "\n".join(messages))


def _machine_conditions(observed: Observed) -> Iterator[Condition]:
    control_plane = _rollup(machine for machine in observed.machines if names.CONTROL_PLANE in machine.metadata.labels)
    for prefix, rollup in (("ControlPlane", control_plane), ("Worker", observed.worker_rollup)):
        conditions = {entry.type: entry for entry in rollup.conditions(rollup.replicas)}
        for type_ in ("MachinesReady", "MachinesUpToDate"):
            yield msgspec.structs.replace(conditions[type_], type=f"{prefix}{type_}")
    counts = [_control_plane_counts(observed), _worker_counts(observed)]
    desired = 0 if observed.deleting else sum((count.desired_replicas or 0) for count in counts if count)
    yield from (
        entry
        for entry in observed.machine_rollup.conditions(desired)
        if entry.type in {"RollingOut", "ScalingUp", "ScalingDown", "Remediating"}
    )
