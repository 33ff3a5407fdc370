"""Typed reads of Cluster API objects, and the labels by which they are found."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from espalier.api import conditions as condition_list
from espalier.api.capi import cluster as capi
from espalier.api.capi.cluster import Cluster, ContractReference
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment, MachineSet
from espalier.api.meta import Observed
from espalier.api.resource import Resource
from espalier.clusterapi import kubernetes_versions, names
from espalier.kube.objects import Object

GROUP, CLUSTER_NAME_LABEL = capi.GROUP, capi.CLUSTER_NAME_LABEL
CONTROL_PLANE_LABEL = names.CONTROL_PLANE
DEPLOYMENT_NAME_LABEL = names.DEPLOYMENT
WATCH_FILTER_LABEL = capi.WATCH_FILTER_LABEL
PAUSED_ANNOTATION = names.PAUSED
SKIP_COREDNS_ANNOTATION = capi.SKIP_COREDNS_ANNOTATION
SKIP_REMEDIATION_ANNOTATION = capi.SKIP_REMEDIATION_ANNOTATION
MOVE_LABELS = {"clusterctl.cluster.x-k8s.io/move": "true"}
"""Labels that make `clusterctl move` include an object."""


def reference(resource: Resource, name: str) -> ContractReference:
    """A reference to an object, as v1beta2 has it: no version, no namespace."""
    return ContractReference(api_group=resource.group, kind=resource.kind, name=name)


def is_observed(object_: KubeadmControlPlane | MachineDeployment | Cluster) -> bool:
    """True if the status was reported for the present spec."""
    return object_.status.observed_generation >= object_.metadata.generation


def is_control_plane_initialized(cluster: Cluster) -> bool:
    """True once Cluster API has reached the API server of a cluster."""
    return cluster.status.initialization.control_plane_initialized


DELETED = "Deleted"
"""Reason of condition `InfrastructureReady` of a Machine whose infrastructure existed and was deleted."""


DRAINING = "DrainingNode"
"""Reason of condition `Deleting` of a Machine whose node is being drained."""


def is_infrastructure_deleted(machine: Machine) -> bool:
    """True if somebody deleted the infrastructure of a machine but not the Machine."""
    condition = condition_list.get(machine.status.conditions, "InfrastructureReady")
    is_staying = machine.metadata.deletion_timestamp is None
    return is_staying and condition is not None and (condition.status, condition.reason) == ("False", DELETED)


def is_infrastructure_provisioned(cluster: Cluster) -> bool:
    """True if the infrastructure that a cluster's machines share exists."""
    return cluster.status.initialization.infrastructure_provisioned


class _Initialization(Observed, frozen=True):
    provisioned: bool = False


class _Condition(Observed, frozen=True):
    """A condition of either contract: in v1beta1 it may have no reason."""

    type: str = ""
    reason: str = ""
    message: str = ""


class _InfrastructureStatus(Observed, frozen=True):
    initialization: _Initialization = _Initialization()
    conditions: list[_Condition] = []  # noqa: RUF012  (msgspec copies empty defaults)
    ready: bool | None = None
    failure_reason: str = ""
    failure_message: str = ""


class _Infrastructure(Observed, frozen=True):
    status: _InfrastructureStatus = _InfrastructureStatus()


_LONGEST_FAILURE = 1000
"""Characters. It becomes a part of a Cluster's condition."""


def _status(infrastructure: Object) -> _InfrastructureStatus:
    """The status as far as the contract goes: schemas of providers may let anything through."""
    try:
        return infrastructure.decode(_Infrastructure).status
    except msgspec.ValidationError as error:
        return _InfrastructureStatus(failure_reason="InvalidStatus", failure_message=f"{error}")


def is_provisioned(infrastructure: Object) -> bool:
    """True if an infrastructure object of any provider reports itself provisioned, by contract v1beta2 or v1beta1."""
    status = _status(infrastructure)
    return status.initialization.provisioned or status.ready is True


def failure(infrastructure: Object) -> str:
    """The terminal failure in the status of infrastructure of contract v1beta1, or why that status can't be read; empty
    without one."""
    status = _status(infrastructure)
    message = ": ".join(filter(None, (status.failure_reason, status.failure_message)))
    return message if len(message) <= _LONGEST_FAILURE else f"{message[:_LONGEST_FAILURE]}..."


CONTROL_PLANE_BROKEN = "ControlPlaneBroken"
"""Reason of `Ready` of a cluster's infrastructure in the local environment when its API server can't run until somebody
acts. The message gives the cause and the remedy."""


def control_plane_broken(infrastructure: Object) -> str:
    """The reason why the API server behind infrastructure can't run until somebody acts; empty if it can or nothing is
    reported.
    """
    conditions = _status(infrastructure).conditions
    messages = (
        condition.message
        for condition in conditions
        if (condition.type, condition.reason) == ("Ready", CONTROL_PLANE_BROKEN)
    )
    return next(messages, "")


CERTIFICATES = ("ca", "sa", "proxy", "etcd")
"""Suffixes of the Secrets without which a control plane can't continue, in the order of Cluster API."""


def missing_certificates(control_plane: KubeadmControlPlane) -> str:
    """Cluster API's message about lost certificates of a control plane; empty if none is missing.

    It generates none once the control plane was initialized, because machines trust only the original ones.
    """
    condition = condition_list.get(control_plane.status.conditions, "CertificatesAvailable")
    is_missing = condition is not None and condition.status == "False"
    return condition.message or condition.reason if condition is not None and is_missing else ""


_KUBELET_VERSION = re.compile(r"\* Node\.status\.nodeInfo\.kubeletVersion (\S+), (\S+) required")


def are_kubelets_named_otherwise(owner: KubeadmControlPlane | MachineDeployment) -> bool:
    """True if Cluster API says that machines are not up to date for nothing but the names of their kubelets' builds.

    Since 1.14 it wants the version that a kubelet reports to be that of the Machine, letter by letter. A distribution's
    kubelet has the name of its build, `v1.36.3-eks-d91a302`, and the Machine that of its release. No other field says
    so: the message of the condition lists the reasons of all machines, and an unknown reason counts as a difference.
    """
    condition = condition_list.get(owner.status.conditions, "RollingOut")
    if condition is None or condition.status != "True":
        return False
    return _are_names_of_builds(condition.message.splitlines()[1:])


def is_outdated(machine: Machine) -> bool:
    """True if Cluster API says that a machine is not as its owner wants it, but for the name of its kubelet's build."""
    condition = condition_list.get(machine.status.conditions, "UpToDate")
    is_other = condition is not None and condition.status == "False"
    return is_other and condition is not None and not _are_names_of_builds(condition.message.splitlines())


def _are_names_of_builds(reasons: Sequence[str]) -> bool:
    matches = [_KUBELET_VERSION.fullmatch(reason) for reason in reasons]
    return bool(matches) and all(match and kubernetes_versions.is_reached(match[1], match[2]) for match in matches)


def up_to_date_replicas(owner: KubeadmControlPlane | MachineDeployment) -> int:
    """The number of an owner's machines that are as its spec wants them, whatever their kubelets' builds are called."""
    status = owner.status
    return (status.replicas if are_kubelets_named_otherwise(owner) else status.up_to_date_replicas) or 0


def is_up_to_date(control_plane: KubeadmControlPlane) -> bool:
    """True if all machines that exist, possibly none, match the control plane's spec.

    Cluster API only reports an observed generation once the API server has answered. Until then only a control plane
    that was not changed since its creation counts as up to date.
    """
    status = control_plane.status
    if control_plane.metadata.generation == 1:
        return True
    return is_observed(control_plane) and (status.replicas or 0) == up_to_date_replicas(control_plane)


def is_control_plane_available(control_plane: KubeadmControlPlane) -> bool:
    """True if all of the control plane has the desired version, its status is current, and it is available."""
    return (
        is_observed(control_plane)
        and condition_list.is_true(control_plane.status.conditions, "Available")
        and (
            control_plane.status.version == control_plane.spec.version
            or are_kubelets_named_otherwise(control_plane)  # the status has the oldest kubelet's version then
        )
    )


AUTOSCALER_MIN_ANNOTATION = f"{GROUP}/cluster-api-autoscaler-node-group-min-size"
AUTOSCALER_MAX_ANNOTATION = f"{GROUP}/cluster-api-autoscaler-node-group-max-size"
"""On a MachineDeployment: the limits within which the cluster autoscaler sets the number of machines."""


@dataclass(frozen=True)
class MachineCounts:
    """Machines: wanted, ready, and not up to date."""

    wanted: int = 0
    ready: int = 0
    outdated: int = 0

    @classmethod
    def of(cls, owner: KubeadmControlPlane | MachineDeployment) -> MachineCounts:
        """The machines of an owner, as it counts them itself."""
        status = owner.status
        outdated = max(0, (status.replicas or 0) - up_to_date_replicas(owner))
        return cls(desired_replicas(owner), status.ready_replicas or 0, outdated)

    def __add__(self, other: MachineCounts) -> MachineCounts:
        return MachineCounts(self.wanted + other.wanted, self.ready + other.ready, self.outdated + other.outdated)


def desired_replicas(object_: KubeadmControlPlane | MachineDeployment | MachineSet) -> int:
    """The desired number of machines: as in Cluster API, 1 by default, or the minimum of an autoscaler."""
    return within_autoscaler_limits(object_, 1) if object_.spec.replicas is None else object_.spec.replicas


def autoscaler_limits(object_: KubeadmControlPlane | MachineDeployment | MachineSet) -> tuple[int, int] | None:
    """The minimum and maximum of an autoscaler; None without one."""
    annotations = object_.metadata.annotations
    try:
        return int(annotations[AUTOSCALER_MIN_ANNOTATION]), int(annotations[AUTOSCALER_MAX_ANNOTATION])
    except (KeyError, ValueError):
        return None


def within_autoscaler_limits(object_: KubeadmControlPlane | MachineDeployment | MachineSet, number: int) -> int:
    """This number of machines, brought within the autoscaler's limits; by default Cluster API's."""
    fewest, most = autoscaler_limits(object_) or (number, number)
    return max(fewest, min(number, most))


def is_owned(object_: Object) -> bool:
    """True if an object of Cluster API owns this one: the garbage collector deletes it after the owner."""
    groups = (owner.api_version.partition("/")[0] for owner in object_.metadata.owner_references)
    return any(group == GROUP or group.endswith(f".{GROUP}") for group in groups)
