"""Kubernetes versions of a cluster's machines, from the spec and status of Cluster API objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment, MachineSet
from espalier.clusterapi import contract
from espalier.clusterapi.kubernetes_versions import minor, minor_of
from espalier.clusters.design import names
from espalier.clusters.observe.machines import in_place_progress
from espalier.clusters.observe.scope import ClusterAPIObjects
from espalier.kube.objects import Object


class Machines(msgspec.Struct, frozen=True):
    """Kubernetes minor versions of the machines of a control plane or of a worker node group."""

    desired: str
    """The desired version."""
    earliest: str
    """The lowest version that they have, or are being brought to."""
    is_known: bool = True
    """True if Cluster API has observed the last change of the spec."""


class Running(msgspec.Struct, frozen=True):
    """The versions of a cluster's machines; empty without Cluster API objects."""

    control_plane: Machines | None = None
    groups: Mapping[str, Machines] = msgspec.field(default_factory=dict)
    """By name of the MachineDeployment, without the failure domain where there are several."""


def running(capi_objects: ClusterAPIObjects) -> Running:
    """The versions of a cluster's machines."""
    control_plane = capi_objects.control_plane
    groups: dict[str, Machines] = {}
    for name, deployment in capi_objects.typed_deployments.items():
        machines = _group(deployment, capi_objects.sets_of(name))
        group = names.deployment_of_group(deployment.metadata, deployment.spec.cluster_name)
        groups[group] = _combined(groups[group], machines) if group in groups else machines
    of_control_plane = _control_plane(control_plane, capi_objects.machines) if control_plane is not None else None
    return Running(of_control_plane, groups)


def _combined(first: Machines, other: Machines) -> Machines:
    """The versions of one worker node group in several failure domains."""

    def lower(*versions: str) -> str:
        return min(filter(None, versions), key=minor, default="")

    desired, earliest = lower(first.desired, other.desired), lower(first.earliest, other.earliest)
    return Machines(desired, earliest, first.is_known and other.is_known)


def _control_plane(control_plane: KubeadmControlPlane, machines: Iterable[Object]) -> Machines:
    """A control plane that was not changed since its creation needs no report; there may be none for long.

    A control plane paused for an in-place upgrade does not report: its Machines show the progress.
    """
    if in_place_progress.is_upgrading(control_plane):
        return _machines(control_plane.spec.version, [machine.decode(Machine).spec.version for machine in machines])
    status = control_plane.status
    reported = [status.version, *(count.version for count in status.versions if count.replicas)]
    is_known = control_plane.metadata.generation == 1 or contract.is_observed(control_plane)
    return _machines(control_plane.spec.version, reported, is_known)


def _group(deployment: MachineDeployment, sets: Iterable[MachineSet]) -> Machines:
    """MachineSets report at once: one whose machines are being replaced has replicas until the last is gone."""
    reported = [machine_set.spec.template.spec.version or "" for machine_set in sets if _has_machines(machine_set)]
    return _machines(deployment.spec.template.spec.version or "", reported)


def _has_machines(machine_set: MachineSet) -> bool:
    return bool(1 if machine_set.spec.replicas is None else machine_set.spec.replicas) or bool(
        machine_set.status.replicas
    )


def _machines(desired: str, reported: Iterable[str], is_known: bool = True) -> Machines:
    """For an invalid version, which only a manual edit leaves there, it is unknown what machines have."""
    versions = [minor_of(version) for version in (desired, *reported) if version]
    earliest = min(filter(None, versions), key=minor, default="")
    return Machines(minor_of(desired), earliest, is_known and all(versions))
