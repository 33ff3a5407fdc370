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
from espalier.clusterapi.infrastructure import InfrastructureMachine
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


def ties(object_: Object) -> Any:
    """The owners of an object, and whether it is being deleted."""
    metadata = object_.metadata
    return (metadata.uid, metadata.labels, metadata.owner_references, metadata.deletion_timestamp)


def counted_machine(object_: Object) -> Any:
    """A machine as one of many (`Rollup`)."""
    found = _machine(object_)
    counted = [(one.type, one.status) for one in found.status.conditions if one.type in _COUNTED]
    return (ties(object_), found.spec.get("version"), counted)


_COUNTED = ("Ready", "Available", "UpToDate")


def owned_machine(object_: Object) -> Any:
    """A machine for its owner: spec and conditions.

    Without the fields that a machine copies from its parts: for those the owner would only write a new
    observedGeneration.
    """
    found = _machine(object_)
    asked = {name: value for name, value in found.spec.items() if name not in _TAKEN_OVER}
    asked["bootstrap"] = (found.spec.get("bootstrap") or {}).get("configRef")
    holds = [(one.type, one.status) for one in found.status.conditions]
    return (ties(object_), object_.metadata.annotations, asked, found.status.node_ref, holds)


_TAKEN_OVER = ("providerID", "failureDomain")
"""And the name of the bootstrap data Secret."""


def examined_machine(object_: Object) -> Any:
    """A machine for health checks. The node's conditions show in messages; nodes are not watched themselves."""
    found = _machine(object_)
    health = [one for one in found.status.conditions if one.type in _HEALTH]
    return (ties(object_), object_.metadata.annotations, found.spec.get("providerID"), found.status.node_ref, health)


_HEALTH = ("NodeHealthy", "HealthCheckSucceeded", "OwnerRemediated")


def compared_part(object_: Object) -> Any:
    """A machine's part as its control plane compares it: its spec, and the template that it was cloned from."""
    metadata = object_.metadata
    return (ties(object_), metadata.generation, metadata.annotations)


def awaited_cluster(object_: Object) -> Any:
    """A Cluster for controllers that wait for its infrastructure and control plane."""
    metadata = object_.metadata
    initialization = object_.decode(Cluster).status.initialization
    return (metadata.uid, metadata.generation, is_paused(object_), initialization)


def booting_machine(object_: Object) -> Any:
    """An infrastructure machine for its infrastructure cluster."""
    return (ties(object_), object_.decode(InfrastructureMachine).status.provisioned)
