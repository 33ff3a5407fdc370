"""The reads of upgrades: caches of upgrades and their owners, and of the clusters that are followed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.core import CONFIG_MAP, ConfigMap
from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.upgrades import ControlPlaneUpgrade, MachineDeploymentUpgrade, NodeUpgrade
from espalier.api.eksa.vocabulary.group import PAUSED_ANNOTATION, SYSTEM_NAMESPACE
from espalier.api.identity import owner_of
from espalier.api.resource import Key, Resource
from espalier.clusterapi.contract import CLUSTER_NAME_LABEL
from espalier.kube.objects import Object
from espalier.runtime.caches.cache import Cache, Caches
from espalier.runtime.caches.mapping import by_controller
from espalier.runtime.caches.transforms import metadata_only
from espalier.runtime.controllers.controller import Controller
from espalier.runtime.controllers.predicates import Predicate, any_change
from espalier.runtime.options import Options
from espalier.upgrades import names
from espalier.upgrades.observed.cluster_tracker import ClusterTracker
from espalier.upgrades.observed.cluster_view import BY_CONTROLLER, OWNER_KINDS, ClusterView
from espalier.upgrades.observed.definitions import Definitions

BY_CLUSTER = "upgrades/cluster"

OWN: tuple[Resource, ...] = (ControlPlaneUpgrade.resource, MachineDeploymentUpgrade.resource, NodeUpgrade.resource)


class UpgradeObserver:
    """Caches that always run. They hold only metadata of Cluster API objects, as most clusters have no upgrade."""

    def __init__(self, caches: Caches, following: ClusterTracker, options: Options) -> None:
        self.following = following
        self._options = options
        indexes = {BY_CONTROLLER: by_controller, BY_CLUSTER: _by_cluster}
        self.own: dict[Resource, Cache] = {
            resource: caches.of(resource, SYSTEM_NAMESPACE, indexes=indexes) for resource in OWN
        }
        self.owners: dict[Resource, Cache] = {
            resource: caches.of(resource, SYSTEM_NAMESPACE, indexes={BY_CLUSTER: _by_cluster}, transform=metadata_only)
            for resource in OWNER_KINDS
        }
        self._clusters = caches.of(eksa.Cluster.resource)
        self.definitions = Definitions(caches)
        self.images = caches.of(CONFIG_MAP, names.IMAGES_KEY.namespace, fields=f"metadata.name={names.IMAGES}")
        for cache in (*self.own.values(), *self.owners.values()):
            cache.subscribe(self._changed)

    def upgrade(self, resource: Resource, name: str) -> Object | None:
        """An upgrade."""
        return self.own[resource].get(Key(SYSTEM_NAMESPACE, name))

    def owner(self, resource: Resource, name: str) -> Object | None:
        """Metadata of a KubeadmControlPlane or MachineDeployment, annotated or not."""
        return self.owners[resource].get(Key(SYSTEM_NAMESPACE, name))

    def unless_of_others(self, object_: Object | None) -> Object | None:
        """An upgrade or owner, unless its cluster was made for a Cluster that another manager has."""
        cluster = cluster_of(object_) if object_ is not None else ""
        for owner in (owner for cache in self.owners.values() for owner in cache.by_index(BY_CLUSTER, cluster)):
            made_for, labels = owner_of(owner.metadata.labels), owner.metadata.labels
            if made_for is not None and not self._options.selects(made_for.namespace, labels):
                return None
        return object_

    def paused_cluster(self, owner: Object) -> Key | None:
        """The Cluster of a KubeadmControlPlane or MachineDeployment, if people have paused it."""
        cluster = self._clusters.get(_made_for(owner))
        return cluster.key if cluster is not None and PAUSED_ANNOTATION in cluster.metadata.annotations else None

    def asks_in_place(self, owner: Object) -> bool:
        """True if the Cluster of a KubeadmControlPlane or MachineDeployment asks for in-place upgrades of it."""
        cluster = self._clusters.get(_made_for(owner))
        if cluster is None or {cluster.metadata.deletion_timestamp, owner.metadata.deletion_timestamp} != {None}:
            return False
        spec = cluster.tree.get("spec") or {}
        if owner.kind == KubeadmControlPlane.resource.kind:
            configuration = spec.get("controlPlaneConfiguration") or {}
        else:  # a group has a MachineDeployment for each of its failure domains: the longest name is its own
            groups = {
                f"{cluster.name}-{group.get('name', '')}": group
                for group in spec.get("workerNodeGroupConfigurations") or ()
            }
            prefixes = [name for name in groups if owner.name == name or owner.name.startswith(f"{name}-")]
            configuration = groups[max(prefixes, key=len)] if prefixes else {}
        return (configuration.get("upgradeRolloutStrategy") or {}).get("type") == "InPlace"

    def in_cluster(self, resource: Resource, cluster: str) -> list[Object]:
        """The upgrades of a kind in a cluster."""
        return self.own[resource].by_index(BY_CLUSTER, cluster)

    def node_upgrades(self, owner: Object) -> list[Object]:
        """The NodeUpgrades that an upgrade controls."""
        return self.own[NodeUpgrade.resource].by_index(BY_CONTROLLER, owner.metadata.uid)

    def is_there(self, claim: str) -> bool:
        """True if the upgrade that claimed a control plane, by name and uid, still exists."""
        name, _, uid = claim.partition(" ")
        upgrades = (self.upgrade(kind, name) for kind in (ControlPlaneUpgrade.resource, NodeUpgrade.resource))
        return any(upgrade is not None and upgrade.metadata.uid == uid for upgrade in upgrades)

    def image(self, version: str) -> tuple[str | None, tuple[str, ...]]:
        """The upgrader image for a Kubernetes version, and all versions that have one."""
        config_map = self.images.get(names.IMAGES_KEY)
        data = config_map.decode(ConfigMap).data if config_map else {}
        return data.get(version), tuple(sorted(data))

    def view(self, cluster: str) -> ClusterView | None:
        """A view of a cluster, which is followed from then on while it has upgrades or annotated owners.

        None while it is being read, and for a cluster without upgrades or annotated owners.
        """
        return None if self._is_idle(cluster) else self.following.view(cluster)

    def _is_idle(self, cluster: str) -> bool:
        return not any(cache.by_index(BY_CLUSTER, cluster) for cache in self.own.values()) and not any(
            names.is_annotated(owner) for cache in self.owners.values() for owner in cache.by_index(BY_CLUSTER, cluster)
        )

    def _changed(self, old: Object | None, _new: Object | None, _first: bool) -> None:
        """Stop following a cluster once its last upgrade or annotation is gone."""
        cluster = cluster_of(old) if old is not None else ""
        if cluster and self._is_idle(cluster):
            self.following.leave(cluster)

    def watch(self, controller: Controller, resource: Resource, *, predicate: Predicate = any_change) -> None:
        """Have any change in a followed cluster enqueue its objects of this kind."""
        cache = (self.own | self.owners)[resource]

        def changed(cluster: str) -> None:
            for object_ in cache.by_index(BY_CLUSTER, cluster):
                if resource in self.own or names.is_annotated(object_):
                    controller.enqueue(object_.key)

        self.following.subscribe(changed)
        controller.watch(cache, predicate=predicate)
        if resource in self.own:
            self.definitions.watched_by(controller, cache)
        controller.watch(self._clusters, lambda cluster: self._upgrades_of(cache, cluster), predicate=_pause_changed)

    def _upgrades_of(self, cache: Cache, cluster: Object) -> list[Key]:
        """The upgrades of a Cluster's objects."""
        owners = [owner for owners in self.owners.values() for owner in owners.by_index(BY_CLUSTER, cluster.name)]
        is_its = any(_made_for(owner) == cluster.key for owner in owners)
        return [upgrade.key for upgrade in cache.by_index(BY_CLUSTER, cluster.name)] if is_its else []


def keys_of(cache: Cache) -> Callable[[Object], Iterable[Key]]:
    """A mapping to the keys of all objects of a cache."""
    return lambda _: [object_.key for object_ in cache.list()]


def cluster_of(object_: Object) -> str:
    """The cluster that an object's label names, empty without a label."""
    return object_.metadata.labels.get(CLUSTER_NAME_LABEL, "")


def _made_for(owner: Object) -> Key:
    """The Cluster of an object, by its labels; a key that no Cluster has without them."""
    return owner_of(owner.metadata.labels) or Key("", "")


def _pause_changed(old: Object | None, new: Object | None) -> bool:
    before, after = (
        cluster is not None and PAUSED_ANNOTATION in cluster.metadata.annotations for cluster in (old, new)
    )
    return before != after


def _by_cluster(object_: Object) -> Iterable[str]:
    cluster = cluster_of(object_)
    return (cluster,) if cluster else ()
