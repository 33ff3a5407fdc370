"""The reports of Machines and of their owners that a Cluster names if they hold a change.

Caches keep no more than that of the machines of workers, which are many.
"""

# ruff: noqa: RUF012  (msgspec copies empty defaults)

from __future__ import annotations

import msgspec

from espalier.api import conditions as condition_list
from espalier.api.meta import Observed
from espalier.clusterapi import contract
from espalier.kube.objects import Object, encode_json
from espalier.runtime.caches.transforms import strip_managed_fields

READY, DELETING = "Ready", "Deleting"


class ReportedCondition(Observed, frozen=True):
    """A condition, as far as it says what is waited for and since when."""

    type: str = ""
    status: str = ""
    reason: str = ""
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
    decoded = reported(stripped)
    conditions = [condition for condition in decoded.status.conditions if condition.type in (READY, DELETING)]
    report = MachineReport(decoded.spec, _Status(conditions))
    tree = {**msgspec.to_builtins(stripped.head), **msgspec.to_builtins(report)}
    return Object(encode_json(tree), stripped.head)


def deletion_of(machine: Object) -> tuple[str, str]:
    """The reason and message of a Machine's condition Deleting; empty while it is not True."""
    condition = condition_list.get(reported(machine).status.conditions, DELETING)
    return (condition.reason, condition.message) if condition is not None and condition.status == "True" else ("", "")
