"""Deleted objects that a running cluster can't do without: Cluster API objects, Secrets, etcd. Pure."""

from __future__ import annotations

import re

from espalier.api.capi import cluster as capi
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import Machine
from espalier.clusterapi import contract
from espalier.clusters.observe.rules import messages
from espalier.clusters.observe.scope import ClusterAPIObjects

_CREATE_AGAIN = "it can't be restored: delete the Cluster and create it again"


def lost_control_plane(capi_objects: ClusterAPIObjects) -> str:
    """The message about the loss with a deleted KubeadmControlPlane and the remedy; empty if it can be recreated.

    A recreated one adopts machines without a controller. If there are none, Cluster API never initializes a second
    control plane for the same cluster.
    """
    cluster, control_plane = capi_objects.cluster, capi_objects.control_plane
    if cluster is None or not contract.is_control_plane_initialized(cluster):
        return ""
    what = _control_plane_of(cluster)
    if control_plane is not None and control_plane.metadata.deletion_timestamp is not None:
        if _orphaned_its_machines(capi_objects, control_plane):
            finalizers = ", ".join(control_plane.metadata.finalizers)
            return (
                f"{what} is being deleted and no longer controls its machines; they and etcd stay: "
                f"remove its finalizers ({finalizers}), then the recreated control plane adopts the machines"
            )
        return (
            f"{what} is being deleted: when no worker machine is left, Cluster API deletes the control plane machines "
            "and etcd with all its data. Back up what you need from the workload cluster while it is reachable; "
            f"{_CREATE_AGAIN}"
        )
    if gone := _machines_gone(capi_objects, control_plane):
        return (
            f"the infrastructure of all machines of {what} was deleted ({messages.listed(gone)}), and with it etcd "
            f"with all its data; {_CREATE_AGAIN}"
        )
    # A restored one has no status until Cluster API has reconciled it.
    is_new = (
        control_plane is not None
        and contract.is_observed(control_plane)
        and not control_plane.status.initialization.control_plane_initialized
    )
    if not (control_plane is None or is_new) or _survivors(capi_objects, control_plane):
        return ""
    return f"{what} was deleted, and with it the control plane machines and etcd with all its data; {_CREATE_AGAIN}"


def _machines_gone(capi_objects: ClusterAPIObjects, control_plane: KubeadmControlPlane | None) -> list[str]:
    """The machines of a control plane with etcd, if Cluster API reports the infrastructure of each as deleted."""
    if control_plane is None or capi_objects.etcd is not None:
        return []
    owned = [
        machine
        for machine in capi_objects.machines
        if any(ref.controller and ref.uid == control_plane.metadata.uid for ref in machine.metadata.owner_references)
    ]
    gone = [machine.name for machine in owned if contract.is_infrastructure_deleted(machine.decode(Machine))]
    return gone if len(gone) == len(owned) else []


def _survivors(capi_objects: ClusterAPIObjects, control_plane: KubeadmControlPlane | None) -> bool:
    """True if a control plane machine is left that the control plane owns or can adopt."""
    for machine in capi_objects.machines:
        controller = next((reference for reference in machine.metadata.owner_references if reference.controller), None)
        if machine.metadata.deletion_timestamp is not None:
            continue
        if controller is None:
            return True
        is_owned = control_plane is not None and controller.uid == control_plane.metadata.uid
        if is_owned and machine.decode(Machine).status.node_ref is not None:
            return True
    return False


def _orphaned_its_machines(capi_objects: ClusterAPIObjects, control_plane: KubeadmControlPlane) -> bool:
    """True if it was deleted while orphaning its machines: some have no controller, and none has this one."""
    staying = [machine for machine in capi_objects.machines if machine.metadata.deletion_timestamp is None]
    controllers = [
        next((ref.uid for ref in machine.metadata.owner_references if ref.controller), "") for machine in staying
    ]
    return "" in controllers and control_plane.metadata.uid not in controllers


def absent(capi_objects: ClusterAPIObjects) -> str:
    """The object that the control plane needs and that is missing or being deleted; empty if none."""
    cluster, infrastructure = capi_objects.cluster, capi_objects.infrastructure
    if cluster is None:
        return ""
    namespace = cluster.metadata.namespace
    shared = cluster.spec.infrastructure_ref
    if shared is not None and infrastructure is None:
        return f"{shared.kind} {namespace}/{shared.name}, which provides the control plane endpoint, is missing"
    if infrastructure is not None and infrastructure.metadata.deletion_timestamp is not None:
        finalizers = ", ".join(infrastructure.metadata.finalizers)
        what = f"{infrastructure.kind} {infrastructure.key}"
        return f"{what}, which provides the control plane endpoint, is being deleted; finalizers left: {finalizers}"
    return "" if capi_objects.control_plane else f"{_control_plane_of(cluster)} is missing"


def _control_plane_of(cluster: capi.Cluster) -> str:
    reference = cluster.spec.control_plane_ref
    name = reference.name if reference else cluster.metadata.name
    return f"{KubeadmControlPlane.resource.kind} {cluster.metadata.namespace}/{name}"


def unprovisioned(capi_objects: ClusterAPIObjects) -> str:
    """The infrastructure that exists but is not provisioned yet, for example when recreated; empty if none."""
    infrastructure = capi_objects.infrastructure
    if infrastructure is None or contract.is_provisioned(infrastructure):
        return ""
    what = f"{infrastructure.kind} {infrastructure.key}"
    waiting = f"waiting for {what}, which provides the control plane endpoint, to be provisioned"
    return ": ".join(filter(None, (waiting, contract.failure(infrastructure))))


def broken(capi_objects: ClusterAPIObjects) -> str:
    """The reason why the API server can't run until somebody acts, and the remedy; empty if it can."""
    return contract.control_plane_broken(capi_objects.infrastructure) if capi_objects.infrastructure else ""


def missing_certificates(capi_objects: ClusterAPIObjects) -> str:
    """The missing Secrets with certificates and keys, and the remedy; empty if none is missing."""
    cluster, control_plane = capi_objects.cluster, capi_objects.control_plane
    message = contract.missing_certificates(control_plane) if control_plane else ""
    if cluster is None or not message:
        return ""
    names = set(re.findall(r"[a-z]+", message))
    gone = [name for name in contract.CERTIFICATES if name in names]
    metadata = cluster.metadata
    which = ", ".join(f"{metadata.namespace}/{metadata.name}-{name}" for name in gone)
    what = f"Secret {which} is missing" if len(gone) == 1 else f"Secrets {which} are missing" if gone else message
    return (
        f"{what}: restore what is missing from a backup, or from /etc/kubernetes/pki of a control plane machine. "
        "It can't be regenerated, because machines trust only these keys, and none can join without it. If there is "
        "neither, delete the Cluster and create it again"
    )
