"""Changes of Cluster API objects that can make a difference to a Cluster: to look at them is cheaper than to reconcile.

Cluster API reports often, and mostly of what we do not read. What a Cluster's status is made of is listed here; other
kinds matter by their spec, labels and existence alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from espalier.api import conditions as condition_list
from espalier.api.capi import cluster as capi
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment, MachineSet
from espalier.api.meta import Observed, Tree
from espalier.api.resource import Key, Resource
from espalier.clusterapi import contract, remediation
from espalier.kube.objects import Object, encode_json
from espalier.runtime.predicates import Predicate

View: TypeAlias = Callable[[Object], Any]
"""What is looked at of an object."""


def relevant(resource: Resource) -> Predicate:
    """Passes changes that can make a difference."""
    view = _VIEWS.get(resource, _provisioned)

    def predicate(old: Object | None, new: Object | None) -> bool:
        if old is None or new is None or _desired(old) != _desired(new):
            return True
        return bool(view(old) != view(new))

    return predicate


class Reports:
    """Tells what we wrote to Clusters from what others did: their edit of a status is put right, ours is no news.

    Told by content and before the write, for its event may come before its answer.
    """

    def __init__(self) -> None:
        self._statuses: dict[Key, bytes] = {}
        """Encoded: there are as many as Clusters."""
        self._marks: dict[Key, dict[str, str]] = {}

    def says(self, key: Key, status: Tree) -> None:
        """This will be the status of a Cluster."""
        self._statuses[key] = encode_json(status)

    def marks(self, key: Key, annotation: str, value: str) -> None:
        """This will be an annotation of a Cluster."""
        self._marks.setdefault(key, {})[annotation] = value

    def by_others(self, old: Object | None, new: Object | None) -> bool:
        """Passes changes of status and annotations that are not ours."""
        if new is None and old is not None:
            self._statuses.pop(old.key, None)
            self._marks.pop(old.key, None)
        if old is None or new is None:
            return True
        before, after = old.metadata.annotations, new.metadata.annotations
        ours = self._marks.get(new.key, {})
        changed = (name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
        if any(after.get(name) != ours.get(name, ...) for name in changed):
            return True
        status = _status(new)
        return status != _status(old) and status != self._said(new.key)

    def _said(self, key: Key) -> Tree | None:
        said = self._statuses.get(key)
        return None if said is None else msgspec.json.decode(said, type=Tree)


class _Reported(Observed, frozen=True):
    status: Tree | None = None


def _status(object_: Object) -> Tree | None:
    return object_.decode(_Reported).status


def _desired(object_: Object) -> object:
    metadata = object_.metadata
    return (metadata.uid, metadata.generation, metadata.labels, metadata.annotations)


def _provisioned(object_: Object) -> object:
    if object_.metadata.generation:
        return contract.is_provisioned(object_), contract.failure(object_)
    return {name: value for name, value in object_.tree.items() if name != "metadata"}  # a Secret, or the like


def _cluster(object_: Object) -> object:
    status = object_.decode(capi.Cluster).status
    deleting = condition_list.get(status.conditions, "Deleting") if object_.metadata.deletion_timestamp else None
    return (status.initialization, deleting.message if deleting else "")


def _control_plane(object_: Object) -> object:
    status = object_.decode(KubeadmControlPlane).status
    counts = (status.replicas, status.ready_replicas, status.up_to_date_replicas)
    available = condition_list.get(status.conditions, "Available")
    state = (available.status, available.message) if available else None
    last = remediation.last(status.last_remediation)
    return (status.observed_generation, counts, status.version, state, last, status.initialization)


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
