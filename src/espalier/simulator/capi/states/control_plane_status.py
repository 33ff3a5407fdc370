"""The status of a control plane and the conditions of its machines."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from espalier.api.capi.kubeadm import (
    ControlPlaneInitialization,
    KubeadmControlPlaneStatus,
)
from espalier.api.capi.machine import Machine
from espalier.api.meta import Condition, Tree
from espalier.clusterapi import names
from espalier.clusterapi.conditions import condition, stated
from espalier.clusterapi.kubernetes_versions import oldest
from espalier.simulator.capi.certificates import secret_name, unavailable_message
from espalier.simulator.capi.states.control_plane import Observed, Scaling, next_scaling
from espalier.simulator.capi.states.rollup import Rollup, available_condition, deleting_condition


def status(observed: Observed, now: datetime, deleting_waits_for: str | None = None) -> KubeadmControlPlaneStatus:
    """The status of a control plane; `deleting_waits_for` is None unless it is being deleted."""
    rollup = Rollup.of((owned.machine for owned in observed.machines), observed.outdated)
    generation = observed.control_plane.metadata.generation
    return KubeadmControlPlaneStatus(
        conditions=stated(
            observed.control_plane.status.conditions,
            _conditions(observed, rollup, deleting_waits_for),
            now=now,
            generation=generation,
        ),
        initialization=ControlPlaneInitialization(control_plane_initialized=observed.initialized),
        selector=f"{names.CLUSTER}={observed.key.name},{names.CONTROL_PLANE}=",
        replicas=rollup.replicas,
        ready_replicas=rollup.ready,
        available_replicas=rollup.available,
        up_to_date_replicas=rollup.up_to_date,
        version=oldest(count.version for count in rollup.versions),
        versions=list(rollup.versions),
        last_remediation=_last_remediation(observed, now),
        observed_generation=generation,
    )


def _last_remediation(observed: Observed, now: datetime) -> Tree | None:
    """The record of the remediation that is due, else the one in the status."""
    scaling = next_scaling(observed, now)
    if not isinstance(scaling, Scaling) or scaling.remediates is None:
        return observed.control_plane.status.last_remediation
    remediation = scaling.remediates
    return {"machine": remediation.machine, "time": remediation.time, "retryCount": remediation.retry_count}


def _conditions(observed: Observed, rollup: Rollup, waiting: str | None) -> Iterator[Condition]:
    certificates = secret_name(observed.key.name, "ca") in observed.secrets and not observed.missing_certificates
    message = unavailable_message(observed.missing_certificates) if observed.missing_certificates else ""
    if observed.unlabelled_secrets and not message:
        secrets = ", ".join(observed.unlabelled_secrets)
        message = f"without label {names.CLUSTER}={observed.key.name}: Secret {secrets}; add it"
    yield condition("CertificatesAvailable", certificates, "Available" if certificates else "NotAvailable", message)
    yield condition(
        "Initialized",
        observed.initialized,
        "Initialized" if observed.initialized else "NotInitialized",
        "" if observed.initialized else "the first control plane machine has not become a node yet",
    )
    healthy = sum(owned.healthy for owned in observed.machines)
    if waiting is not None or not observed.initialized:
        state = "being deleted" if waiting is not None else "not initialized"
        yield condition("Available", False, "NotAvailable", f"the control plane is {state}")
    elif observed.missing_certificates:
        yield condition("Available", False, "NotAvailable", "* Control plane certificates are not available")
    elif observed.obstacle:
        yield condition("Available", False, "NotAvailable", observed.obstacle)
    else:
        # Members of etcd join with their nodes and are removed before them, so etcd always has its quorum.
        yield available_condition("Available", healthy, 1, rollup.replicas)
    for type_ in ("EtcdClusterHealthy", "ControlPlaneComponentsHealthy"):
        yield condition(type_, bool(healthy), "Healthy" if healthy else "NotHealthy")
    yield from rollup.conditions(0 if waiting is not None else observed.replicas)
    yield deleting_condition(waiting)


def component_conditions(machine: Machine) -> Iterator[Condition]:
    """The conditions of a machine's static pods and etcd member: all run as soon as the machine has a node ref."""
    runs = machine.status.node_ref is not None
    for component in ("APIServerPod", "ControllerManagerPod", "SchedulerPod", "EtcdPod", "EtcdMember"):
        reason = ("Running" if component.endswith("Pod") else "Healthy") if runs else "InspectionFailed"
        yield condition(f"{component}Healthy", True if runs else None, reason)
