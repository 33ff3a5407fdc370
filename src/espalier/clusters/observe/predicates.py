"""Predicates for Cluster API objects: pass changes that can affect a Cluster, because checking is cheaper than a
reconcile.

Cluster API updates statuses often, mostly fields that we do not read. The fields that a Cluster's status depends on are
listed here; of other kinds only spec, labels and existence matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from espalier.api import conditions as condition_list
from espalier.api.capi import cluster as capi
from espalier.api.capi.etcdadm import EtcdadmCluster
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment, MachineSet
from espalier.api.resource import Resource
from espalier.clusterapi import contract
from espalier.clusterapi import labels as capi_labels
from espalier.clusterapi.machines import remediation
from espalier.clusters.observe.machines import machine_reports
from espalier.kube.objects import Object
from espalier.runtime.controllers.predicates import Predicate

View: TypeAlias = Callable[[Object], Any]
"""The fields of an object that are compared."""


def relevant(resource: Resource) -> Predicate:
    """Passes changes that can affect a Cluster."""
    view = _VIEWS.get(resource, _provisioned)

    def predicate(old: Object | None, new: Object | None) -> bool:
        if old is None or new is None or _desired(old) != _desired(new):
            return True
        return bool(view(old) != view(new))

    return predicate


def _desired(object_: Object) -> object:
    metadata = object_.metadata
    return (metadata.uid, metadata.generation, metadata.labels, metadata.annotations)


def _provisioned(object_: Object) -> object:
    if object_.metadata.generation:
        return contract.is_provisioned(object_), contract.failure(object_), contract.control_plane_broken(object_)
    return {name: value for name, value in object_.tree.items() if name != "metadata"}  # a Secret, or the like


def _cluster(object_: Object) -> object:
    status = object_.decode(capi.Cluster).status
    deleting = condition_list.get(status.conditions, "Deleting") if object_.metadata.deletion_timestamp else None
    return (status.initialization, deleting.message if deleting else "")


def _control_plane(object_: Object) -> object:
    control_plane = object_.decode(KubeadmControlPlane)
    status, lost = control_plane.status, contract.missing_certificates(control_plane)
    counts = (status.replicas, status.ready_replicas, contract.up_to_date_replicas(control_plane))
    available = condition_list.get(status.conditions, "Available")
    state = (available.status, available.message) if available else None
    last = remediation.last_remediation(status.last_remediation)
    return (status.observed_generation, counts, status.version, state, last, status.initialization, lost)


def _deployment(object_: Object) -> object:
    deployment = object_.decode(MachineDeployment)
    status, up_to_date = deployment.status, contract.up_to_date_replicas(deployment)
    return (status.observed_generation, status.replicas, status.ready_replicas, up_to_date)


def _set(object_: Object) -> object:
    return object_.decode(MachineSet).status.replicas


def machine_relevant(old: Object | None, new: Object | None) -> bool:
    """Passes a Machine that somebody paused or whose labels he edited, and what its deletion waits for.

    The counts of its owner say everything else.
    """
    return _machine(old) != _machine(new)


def _machine(object_: Object | None) -> object:
    if object_ is None:
        return None
    is_paused = contract.PAUSED_ANNOTATION in object_.metadata.annotations
    waits_for = machine_reports.deletion_of(object_)[1] if object_.metadata.deletion_timestamp else ""
    state = is_paused, waits_for, capi_labels.mislabelled(object_)
    return state if any(state) else None


def _etcd(object_: Object) -> object:
    status = object_.decode(EtcdadmCluster).status
    return (status.observed_generation, status.ready, status.initialized, status.endpoints)


_VIEWS: Mapping[Resource, View] = {
    capi.Cluster.resource: _cluster,
    KubeadmControlPlane.resource: _control_plane,
    MachineDeployment.resource: _deployment,
    MachineSet.resource: _set,
    EtcdadmCluster.resource: _etcd,
}
