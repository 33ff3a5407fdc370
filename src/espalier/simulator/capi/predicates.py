"""Views of objects for predicates of other controllers: most updates change messages that none of them reads.

A controller sees every change of its own kind. Of other kinds it sees changes of the view by which it watches them, so
every field that it reads must be in that view.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from espalier.api.capi.cluster import Cluster
from espalier.api.capi.machine import NodeReference
from espalier.api.meta import Observed, Tree
from espalier.clusterapi.infrastructures.infrastructure import InfrastructureMachine
from espalier.clusterapi.objects import is_paused
from espalier.kube.objects import Object


class _ConditionView(Observed, frozen=True):
    type: str
    status: str = ""
    message: str = ""


class _Status(Observed, frozen=True):
    conditions: list[_ConditionView] = []  # noqa: RUF012  (msgspec copies empty defaults)
    node_ref: NodeReference | None = None


class _Machine(Observed, frozen=True):
    spec: Tree = {}  # noqa: RUF012
    status: _Status = _Status()


@lru_cache(maxsize=512)  # several controllers evaluate each change
def _machine(object_: Object) -> _Machine:
    return object_.decode(_Machine)


def ownership(object_: Object) -> Any:
    """The uid, labels, owners and deletion timestamp of an object."""
    metadata = object_.metadata
    return (metadata.uid, metadata.labels, metadata.owner_references, metadata.deletion_timestamp)


def counted_machine(object_: Object) -> Any:
    """The fields of a machine that a `Rollup` counts."""
    machine = _machine(object_)
    conditions = [
        (entry.type, entry.status) for entry in machine.status.conditions if entry.type in _COUNTED_CONDITIONS
    ]
    return (ownership(object_), machine.spec.get("version"), conditions)


_COUNTED_CONDITIONS = ("Ready", "Available", "UpToDate")


def owned_machine(object_: Object) -> Any:
    """A machine for its owner: spec, node ref and conditions.

    Without the fields that are copied from the infrastructure machine, and the name of the bootstrap data Secret: for
    those the owner would only write a new observedGeneration.
    """
    machine = _machine(object_)
    spec = {name: value for name, value in machine.spec.items() if name not in _COPIED_FIELDS}
    spec["bootstrap"] = (machine.spec.get("bootstrap") or {}).get("configRef")
    conditions = [(entry.type, entry.status) for entry in machine.status.conditions]
    return (ownership(object_), object_.metadata.annotations, spec, machine.status.node_ref, conditions)


_COPIED_FIELDS = ("providerID", "failureDomain")
"""Fields of a Machine's spec that its controller copies from the infrastructure machine."""


def health_checked_machine(object_: Object) -> Any:
    """A machine for health checks. The node's conditions show in messages; nodes are not watched themselves."""
    machine = _machine(object_)
    conditions = [entry for entry in machine.status.conditions if entry.type in _HEALTH_CONDITIONS]
    return (
        ownership(object_),
        object_.metadata.annotations,
        machine.spec.get("providerID"),
        machine.status.node_ref,
        conditions,
    )


_HEALTH_CONDITIONS = ("NodeHealthy", "HealthCheckSucceeded", "OwnerRemediated")


def compared_part(object_: Object) -> Any:
    """A machine's part as its control plane compares it: its spec, and the template that it was cloned from."""
    metadata = object_.metadata
    return (ownership(object_), metadata.generation, metadata.annotations)


def awaited_cluster(object_: Object) -> Any:
    """A Cluster for controllers that wait for its infrastructure and control plane."""
    metadata = object_.metadata
    initialization = object_.decode(Cluster).status.initialization
    return (metadata.uid, metadata.generation, is_paused(object_), initialization)


def booting_machine(object_: Object) -> Any:
    """An infrastructure machine for its infrastructure cluster."""
    return (ownership(object_), object_.decode(InfrastructureMachine).status.provisioned)
