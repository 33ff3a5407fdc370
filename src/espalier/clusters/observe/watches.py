"""Watches of the Cluster controller: the Clusters that a change of another object concerns."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment, MachineSet
from espalier.api.eksa.vocabulary.group import CLUSTER_NAME_LABEL, CLUSTER_NAMESPACE_LABEL
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.resource import Key, Resource
from espalier.clusterapi import kubeconfig
from espalier.clusterapi import labels as capi_labels
from espalier.clusterapi.objects import controller_of
from espalier.clusters.design import names
from espalier.clusters.design.cluster_objects import object_names
from espalier.clusters.observe import adoptions, git_ops
from espalier.clusters.observe.observe import BY_ADDRESS, BY_GIT_OPS, BY_LINK, BY_NAME, BY_SERIES, ClusterObserver, link
from espalier.clusters.observe.predicates import machine_relevant, relevant
from espalier.clusters.observe.rules.control_planes import endpoint
from espalier.clusters.observe.scope import is_self_managed, read
from espalier.kube.objects import Object
from espalier.runtime.caches.mapping import ToKeys, named_by_label
from espalier.runtime.controllers.controller import Controller
from espalier.runtime.controllers.predicates import any_of, generation_changed


class Watches:
    """Watches of everything that an observer reads."""

    def __init__(self, observer: ClusterObserver) -> None:
        self._observer = observer
        self._clusters = observer.clusters

    def begin(self, controller: Controller) -> None:
        """Enqueue, for every change of these objects, the Clusters that it concerns."""
        observer = self._observer
        asked = any_of(generation_changed, observer.own_writes.by_others, _finalizers_changed)
        controller.watch(self._clusters, predicate=asked)
        observer.linked.watched_by(controller, self._users_of)
        observer.git_ops.watched_by(controller, self._users_of_git_ops)
        by_labels = self._here(named_by_label(CLUSTER_NAME_LABEL, namespace=CLUSTER_NAMESPACE_LABEL))
        for resource, cache in observer.written.items():
            controller.watch(cache, by_labels, predicate=relevant(resource))
            controller.watch(cache, self._needing_name_of, predicate=_may_free_name)
            controller.watch(cache, self._here(self._adopting(resource)), predicate=relevant(resource))
        controller.watch(observer.adoptions.cache, self._here(adoptions.cluster_of))
        controller.watch(observer.eks_anywhere, lambda _changed: [cluster.key for cluster in self._clusters.list()])
        controller.watch(observer.secrets, self._users_of_secret)
        for cache in observer.upgrades:
            controller.watch(cache, self._here(self._of_upgrade))
        if observer.extension is not None:
            controller.watch(observer.extension, lambda _changed: self._unsettled())
        controller.watch(observer.sets, self._of_spec, predicate=relevant(MachineSet.resource))
        controller.watch(observer.machines, self._of_spec, predicate=machine_relevant)
        controller.watch(observer.cluster_definition, lambda _changed: self._unsettled())
        controller.watch(observer.cluster_api, lambda _changed: self._unsettled(), predicate=generation_changed)
        observer.releases.watched_by(controller, self._unsettled, self._users_of_release)
        observer.management_cluster.watched_by(controller, lambda: [cluster.key for cluster in self._clusters.list()])
        controller.watch(observer.all_clusters, self._affected_by_name, predicate=generation_changed)

    def _here(self, to_keys: ToKeys) -> ToKeys:
        """Without the Clusters that this manager does not have: those of others, and those that are yet to come."""
        return lambda object_: [key for key in to_keys(object_) if key in self._clusters]

    def _users_of_git_ops(self, object_: Object) -> Iterable[Key]:
        """The Clusters that reference it; for that of the management cluster, also those that are compared with it."""
        users = [cluster.key for cluster in self._clusters.by_index(BY_LINK, link(object_.kind, object_.key))]
        known = self._observer.management_cluster
        if git_ops.of_management(known.record) != (object_.kind, object_.key):
            return users
        managed = {cluster.key for cluster in known.managed()}
        compared = (cluster.key for cluster in self._clusters.by_index(BY_LINK, BY_GIT_OPS) if cluster.key in managed)
        return dict.fromkeys([*users, *compared])

    def _users_of_release(self, object_: Object) -> Iterable[Key]:
        users = self._observer.release_use.users(object_)
        return [user.key for user in users if self._clusters.get(user.key) is not None]

    def _users_of(self, linked: Object) -> Iterable[Key]:
        users = self._clusters.by_index(BY_LINK, link(linked.kind, linked.key))
        return [*(cluster.key for cluster in users), *self._observer.excluded]

    def _users_of_secret(self, secret: Object) -> Iterable[Key]:
        """The Cluster of a kubeconfig; for other Secrets the Clusters that are not settled, which may wait for one
        to be created or deleted.
        """
        users = self._of_cluster_api(secret)
        if kubeconfig.cluster_of(secret) is not None:
            return users
        return [key for key in users if (cluster := self._clusters.get(key)) and not _is_settled(cluster)]

    def _needing_name_of(self, object_: Object) -> list[Key]:
        """The Clusters that may need the name of an object that belongs to another Cluster, or to none."""
        owner = names.cluster_of(object_.metadata.labels)
        is_extra = any(object_.kind == kind.kind for kind in self._observer.extra_kinds)
        parts = object_names.parts if is_extra else object_names.prefixes
        users = (cluster for name in parts(object_.name) for cluster in self._clusters.by_index(BY_NAME, name))
        return [cluster.key for cluster in users if cluster.key != owner]

    def _adopting(self, resource: Resource) -> Callable[[Object], Iterable[Key]]:
        """Maps objects without our labels to the Clusters whose records claim them."""

        def adopting(object_: Object) -> Iterable[Key]:
            if names.cluster_of(object_.metadata.labels) is not None:
                return ()
            return self._observer.adoptions.claiming(resource, object_.name)

        return adopting

    def _of_cluster_api(self, object_: Object) -> list[Key]:
        """The Clusters of the name in Cluster API's label."""
        name = object_.metadata.labels.get(kubeconfig.CLUSTER_NAME_LABEL, "")
        return [cluster.key for cluster in self._clusters.by_index(BY_NAME, name)]

    def _of_upgrade(self, upgrade: Object) -> set[Key]:
        """The Clusters of an upgrade by its label, and by its controller."""
        keys, controller = set(self._of_cluster_api(upgrade)), controller_of(upgrade.metadata)
        for kind in (KubeadmControlPlane.resource, MachineDeployment.resource):
            if controller is not None and controller.kind == kind.kind:
                owner = self._observer.written[kind].get(Key(upgrade.namespace, controller.name))
                cluster = self._observer.adoptions.owner_of(kind, owner) if owner is not None else None
                keys |= {cluster} if cluster is not None else set()
        return keys

    def _of_spec(self, object_: Object) -> list[Key]:
        """The Clusters of the name in the spec of a MachineSet or Machine."""
        return [cluster.key for cluster in self._clusters.by_index(BY_NAME, capi_labels.cluster_of(object_))]

    def _unsettled(self) -> Iterable[Key]:
        """The Clusters that may be waiting for release objects."""
        return [cluster.key for cluster in self._clusters.list() if not _is_settled(cluster)]

    def _affected_by_name(self, changed: Object) -> Iterable[Key]:
        """A created, changed or deleted Cluster concerns those that need the same names, and its management cluster.

        A record concerns all managed Clusters: which releases they may have depends on its own.
        """
        return [*self._observer.excluded, *self._namesakes_and_managed(changed)]

    def _namesakes_and_managed(self, changed: Object) -> Iterable[Key]:
        same = [self._clusters.by_index(BY_NAME, changed.name)]
        try:
            decoded = read(changed)
        except msgspec.ValidationError:
            return [other.key for other in same[0] if other.key != changed.key]
        same += [self._clusters.by_index(BY_SERIES, prefix) for prefix in self._observer.series_of(decoded)]
        if (place := endpoint.place(decoded.spec)) is not None:
            same.append(self._clusters.by_index(BY_ADDRESS, place.host))
        others = list(dict.fromkeys(other.key for clusters in same for other in clusters if other.key != changed.key))
        key = self._observer.management_cluster.key
        if is_self_managed(decoded) and (changed.key == key or not self._observer.management_cluster.is_named):
            return [*others, *(cluster.key for cluster in self._clusters.list())]
        return [*others, *([key] if key is not None and self._clusters.get(key) is not None else [])]


def _finalizers_changed(old: Object | None, new: Object | None) -> bool:
    """Passes a Cluster that got or lost our finalizer: that does not change the generation."""
    return _finalizers(old) != _finalizers(new)


def _finalizers(object_: Object | None) -> frozenset[str]:
    return names.FINALIZERS.intersection(object_.metadata.finalizers) if object_ is not None else frozenset()


def _may_free_name(old: Object | None, new: Object | None) -> bool:
    """Passes changes that may free a name: an object was deleted, or its owners changed."""
    if old is None:
        return False
    return new is None or _owners(old) != _owners(new)


def _owners(object_: Object) -> object:
    return (names.cluster_of(object_.metadata.labels), object_.metadata.owner_references, object_.metadata.uid)


def _is_settled(object_: Object) -> bool:
    try:
        cluster = read(object_)
    except msgspec.ValidationError:
        return True
    status = cluster.status
    if any(condition.reason == Reason.NOT_COMPARABLE for condition in status.conditions):
        return False
    return status.observed_generation == cluster.metadata.generation and not status.failure_reason
