"""Facts common to all objects of Cluster API."""

from __future__ import annotations

from espalier.api.capi.cluster import Cluster
from espalier.api.meta import ObjectMeta, OwnerReference, Tree
from espalier.api.resource import Key, Resource
from espalier.clusterapi import names
from espalier.kube.objects import Object


def owner_reference(resource: Resource, owner: Object, *, controller: bool = True) -> OwnerReference:
    """The reference that makes `owner` an owner, or the controller, of an object."""
    return OwnerReference(
        api_version=resource.api_version,
        kind=resource.kind,
        name=owner.name,
        uid=owner.metadata.uid,
        controller=True if controller else None,
        block_owner_deletion=True if controller else None,
    )


def controller_of(metadata: ObjectMeta) -> OwnerReference | None:
    """The owner that is the object's controller."""
    return next((owner for owner in metadata.owner_references if owner.controller), None)


def owning_cluster(metadata: ObjectMeta) -> OwnerReference | None:
    """The Cluster that owns infrastructure or a control plane: as an owner, not as their controller."""
    cluster = Cluster.resource
    owners = (owner for owner in metadata.owner_references if owner.kind == cluster.kind)
    return next((owner for owner in owners if owner.api_version.partition("/")[0] == cluster.group), None)


def cluster_name(object_: Object) -> str:
    """The cluster in the object's label; empty without one."""
    return object_.metadata.labels.get(names.CLUSTER, "")


def cluster_key(object_: Object) -> Key:
    """Key of that cluster."""
    return Key(object_.namespace, cluster_name(object_))


def is_paused(object_: Object) -> bool:
    """True if the annotation asks controllers not to reconcile the object."""
    return names.PAUSED in object_.metadata.annotations


def pause_changed(old: Object | None, new: Object | None) -> bool:
    """Predicate: a Cluster was created, deleted, paused or unpaused."""
    if old is None or new is None:
        return old is not new
    return is_cluster_paused(old) != is_cluster_paused(new)


def is_cluster_paused(cluster: Object) -> bool:
    """True if a Cluster asks controllers not to reconcile any of its objects."""
    return is_paused(cluster) or bool(cluster.decode(Cluster).spec.paused)


def cloned_from(template: Object, group: str) -> dict[str, str]:
    """The annotations that name the template that an object was created from."""
    return {names.CLONED_FROM_NAME: template.name, names.CLONED_FROM_KIND: f"{template.kind}.{group}"}


def new_object(resource: Resource, metadata: Tree, **parts: object) -> Tree:
    """A body to create."""
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **parts}
