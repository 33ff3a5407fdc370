"""Which changes of Cluster API's objects can make a difference to a Cluster: a pass costs more than a look at them.

Cluster API reports often, and mostly of what we do not read. What a Cluster's status is made of is listed here; other
kinds matter by their spec, labels and existence alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from espalier.api.capi import cluster as capi
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment, MachineSet
from espalier.api.meta import Observed
from espalier.api.resource import Key, Resource
from espalier.clusterapi import contract
from espalier.kube.objects import Object
from espalier.runtime.predicates import Predicate

View: TypeAlias = Callable[[Object], Any]
"""What is looked at of an object."""


def relevant(resource: Resource) -> Predicate:
    """Passes changes that can make a difference."""
    view = _VIEWS.get(resource, _desired)

    def predicate(old: Object | None, new: Object | None) -> bool:
        if old is None or new is None or _desired(old) != _desired(new):
            return True
        return view is not _desired and view(old) != view(new)

    return predicate


class Reports:
    """Tells a status that we wrote from one that somebody else did: that is put right at once, ours is no news."""

    def __init__(self) -> None:
        self._written: dict[Key, str] = {}

    def wrote(self, object_: Object) -> None:
        """This is how an object is since our last report."""
        self._written[object_.key] = object_.resource_version

    def by_others(self, old: Object | None, new: Object | None) -> bool:
        """Passes changes of a status that are not ours, as far as known: our own may be seen before we are told."""
        if new is None and old is not None:
            self._written.pop(old.key, None)
        if old is None or new is None:
            return True
        return self._written.get(new.key) != new.resource_version and _status(old) != _status(new)


class _Reported(Observed, frozen=True):
    status: msgspec.Raw = msgspec.Raw()


def _status(object_: Object) -> bytes:
    return bytes(object_.decode(_Reported).status)


def _desired(object_: Object) -> object:
    metadata = object_.metadata
    return (metadata.uid, metadata.generation, metadata.labels, metadata.annotations)


def _cluster(object_: Object) -> object:
    return object_.decode(capi.Cluster).status.initialization


def _control_plane(object_: Object) -> object:
    status = object_.decode(KubeadmControlPlane).status
    counts = (status.replicas, status.ready_replicas, status.up_to_date_replicas)
    available = contract.condition(status.conditions, "Available")
    state = (available.status, available.message) if available else None
    return (status.observed_generation, counts, status.version, state)


def _deployment(object_: Object) -> object:
    status = object_.decode(MachineDeployment).status
    return (status.observed_generation, status.replicas, status.ready_replicas, status.up_to_date_replicas)


def _set(object_: Object) -> object:
    return object_.decode(MachineSet).status.replicas


_VIEWS: Mapping[Resource, View] = {
    capi.Cluster.resource: _cluster,
    KubeadmControlPlane.resource: _control_plane,
    MachineDeployment.resource: _deployment,
    MachineSet.resource: _set,
}
