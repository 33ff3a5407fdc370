"""The reports of Machines and MachineSets that a Cluster names: what holds a change, and labels that differ from what
they should be.

Caches keep no more than that of the machines of workers, which are many.
"""

# ruff: noqa: RUF012  (msgspec copies empty defaults)

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from espalier.api import conditions as condition_list
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment, MachineSet
from espalier.api.meta import Observed
from espalier.clusterapi import contract
from espalier.clusterapi.objects import controller_of
from espalier.kube.objects import Object, encode_json
from espalier.runtime.transforms import strip_managed_fields

READY, DELETING = "Ready", "Deleting"


class ReportedCondition(Observed, frozen=True):
    """A condition, as far as it says what is waited for and since when."""

    type: str = ""
    status: str = ""
    message: str = ""
    last_transition_time: str = ""


class _Spec(Observed, frozen=True):
    cluster_name: str = ""


class _Status(Observed, frozen=True):
    conditions: list[ReportedCondition] = []


class MachineReport(Observed, frozen=True):
    """The fields of a Machine or MachineSet that are read."""

    spec: _Spec = _Spec()
    status: _Status = _Status()


_EMPTY = MachineReport()


def reported(object_: Object) -> MachineReport:
    """The report of a Machine or MachineSet; an empty one if it can't be decoded."""
    try:
        return object_.decode(MachineReport)
    except msgspec.ValidationError:  # the caches of others report that
        return _EMPTY


def reduced_unless_control_plane(object_: Object) -> Object:
    """The machines of control planes as they are; of all others only the metadata and a `MachineReport`."""
    stripped = strip_managed_fields(object_)
    if contract.CONTROL_PLANE_LABEL in object_.metadata.labels:
        return stripped
    found = reported(stripped)
    kept = [one for one in found.status.conditions if one.type in (READY, DELETING)]
    report = MachineReport(found.spec, _Status(kept))
    tree = {**msgspec.to_builtins(stripped.head), **msgspec.to_builtins(report)}
    return Object(encode_json(tree), stripped.head)


def cluster_named_in(object_: Object) -> str:
    """The cluster that the spec of a Machine or MachineSet names, which nobody can change; else its label's."""
    return reported(object_).spec.cluster_name or object_.metadata.labels.get(contract.CLUSTER_NAME_LABEL, "")


def deletion_of(machine: Object) -> str:
    """The message of a Machine's condition Deleting."""
    found = condition_list.get(reported(machine).status.conditions, DELETING)
    return found.message if found is not None and found.status == "True" else ""


def mislabelled(object_: Object) -> tuple[str, ...]:
    """The labels of a Machine or MachineSet that differ from its spec and its owner, each with the remedy."""
    return tuple(_mislabelled(object_))


def _mislabelled(object_: Object) -> Iterator[str]:
    labels, what = object_.metadata.labels, f"{object_.kind} {object_.key}"
    for label, wanted, source in _labels(object_):
        found = labels.get(label)
        if found is None or (wanted and found != wanted):
            is_there = f'has "{found}"' if found is not None else "is missing"
            yield f'label {label} of {what} {is_there}, but {source}: set it to "{wanted}"'


def _labels(object_: Object) -> Iterator[tuple[str, str, str]]:
    """The labels that Cluster API and we follow: each with its value, and the reason for it."""
    name = reported(object_).spec.cluster_name
    if name:
        yield contract.CLUSTER_NAME_LABEL, name, f"spec.clusterName is {name}"
    owner = controller_of(object_.metadata)
    if owner is None:
        return
    source = f"its controller is {owner.kind} {owner.name}"
    if object_.kind == MachineSet.resource.kind and owner.kind == MachineDeployment.resource.kind:
        yield contract.DEPLOYMENT_NAME_LABEL, owner.name, source
    if object_.kind == Machine.resource.kind and owner.kind == KubeadmControlPlane.resource.kind:
        yield contract.CONTROL_PLANE_LABEL, "", source
