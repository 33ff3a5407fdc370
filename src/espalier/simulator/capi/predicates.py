"""What of an object matters to the controllers of other kinds: most reports change a message that none of them reads.

A controller sees every change of its own kind. Of others it sees those that can change what it does: whatever it reads
of them has to be in the view by which it watches them.
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


class _Statement(Observed, frozen=True):
    type: str
    status: str = ""
    message: str = ""


class _Status(Observed, frozen=True):
    conditions: list[_Statement] = []  # noqa: RUF012  (msgspec copies empty defaults)
    node_ref: NodeReference | None = None


class _Machine(Observed, frozen=True):
    spec: Tree = {}  # noqa: RUF012
    status: _Status = _Status()


@lru_cache(maxsize=512)  # several controllers look at each change
def _machine(object_: Object) -> _Machine:
    return object_.decode(_Machine)


def ties(object_: Object) -> Any:
    """To what an object belongs, and whether it goes."""
    metadata = object_.metadata
    return (metadata.uid, metadata.labels, metadata.owner_references, metadata.deletion_timestamp)


def counted_machine(object_: Object) -> Any:
    """A machine as one of many (`Rollup`)."""
    found = _machine(object_)
    counted = [(one.type, one.status) for one in found.status.conditions if one.type in _COUNTED]
    return (ties(object_), found.spec.get("version"), counted)


_COUNTED = ("Ready", "Available", "UpToDate")


def owned_machine(object_: Object) -> Any:
    """A machine as whoever keeps it as it should be: what is asked of it, and what holds of it.

    What a machine takes over from its parts is its own: for that alone the owner would only write a generation anew.
    """
    found = _machine(object_)
    asked = {name: value for name, value in found.spec.items() if name not in _TAKEN_OVER}
    asked["bootstrap"] = (found.spec.get("bootstrap") or {}).get("configRef")
    holds = [(one.type, one.status) for one in found.status.conditions]
    return (ties(object_), object_.metadata.annotations, asked, found.status.node_ref, holds)


_TAKEN_OVER = ("providerID", "failureDomain")
"""And of what a machine boots with, the name of the Secret."""


def examined_machine(object_: Object) -> Any:
    """A machine as health checks see it. What its node says is in messages, and not watched by itself."""
    found = _machine(object_)
    health = [one for one in found.status.conditions if one.type in _HEALTH]
    return (ties(object_), object_.metadata.annotations, found.spec.get("providerID"), found.status.node_ref, health)


_HEALTH = ("NodeHealthy", "HealthCheckSucceeded", "OwnerRemediated")


def compared_part(object_: Object) -> Any:
    """What a machine consists of as its control plane compares it: its spec, and from which template it was made."""
    metadata = object_.metadata
    return (ties(object_), metadata.generation, metadata.annotations)


def awaited_cluster(object_: Object) -> Any:
    """A Cluster as those who wait for its infrastructure and its control plane."""
    metadata = object_.metadata
    initialization = object_.decode(Cluster).status.initialization
    return (metadata.uid, metadata.generation, is_paused(object_), initialization)


def booting_machine(object_: Object) -> Any:
    """A machine's infrastructure as that of its cluster."""
    return (ties(object_), object_.decode(InfrastructureMachine).status.provisioned)
