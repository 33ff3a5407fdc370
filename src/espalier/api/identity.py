"""Identity of a cluster: its EKS Anywhere Cluster, and the Cluster API Cluster created for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from espalier.api.capi import cluster as capi
from espalier.api.eksa.vocabulary.group import CLUSTER_NAME_LABEL, CLUSTER_NAMESPACE_LABEL, SYSTEM_NAMESPACE
from espalier.api.meta import ObjectMeta
from espalier.api.resource import Key


@dataclass(frozen=True)
class ClusterIdentity:
    """One cluster. All objects of a cluster lead to equal identities.

    Objects created for a Cluster are in one namespace, under its name. So of Clusters with the same name in several
    namespaces only one has a cluster, but each has its own identity.
    """

    owner: Key | None
    """The EKS Anywhere Cluster; None if Cluster API's objects name none."""
    capi: Key
    """The Cluster of Cluster API."""
    uid: str = field(default="", compare=False)
    """UID of the Cluster API Cluster; empty if there is none, or if unknown."""

    @classmethod
    def of(cls, owner: Key, uid: str = "") -> ClusterIdentity:
        """The identity of a Cluster's cluster."""
        return cls(owner, Key(SYSTEM_NAMESPACE, owner.name), uid)

    @classmethod
    def unowned(cls, name: str) -> ClusterIdentity:
        """The identity of a Cluster API Cluster without an EKS Anywhere Cluster."""
        return cls(None, Key(SYSTEM_NAMESPACE, name))

    @classmethod
    def of_objects(cls, name: str, objects: Iterable[ObjectMeta]) -> ClusterIdentity:
        """The identity of a Cluster API Cluster by its objects: the first whose labels name a Cluster decides."""
        for metadata in objects:
            if (owner := owner_of(metadata.labels)) is not None:
                return cls(owner, Key(SYSTEM_NAMESPACE, name), _uid_of_cluster(metadata))
        return cls.unowned(name)

    @property
    def name(self) -> str:
        """Name of the cluster, and of most objects made for it."""
        return self.capi.name

    def key(self, name: str) -> Key:
        """The key of an object of Cluster API that belongs to it."""
        return Key(self.capi.namespace, name)

    @property
    def labels(self) -> dict[str, str]:
        """Labels of every object of Cluster API that is made for it."""
        named = {capi.CLUSTER_NAME_LABEL: self.name}
        if self.owner is None:
            return named
        return named | {CLUSTER_NAME_LABEL: self.owner.name, CLUSTER_NAMESPACE_LABEL: self.owner.namespace}


def _uid_of_cluster(metadata: ObjectMeta) -> str:
    clusters = (owner for owner in metadata.owner_references if owner.kind == capi.Cluster.resource.kind)
    return next((cluster.uid for cluster in clusters if cluster.api_version.partition("/")[0] == capi.GROUP), "")


def owner_of(labels: Mapping[str, str]) -> Key | None:
    """The Cluster for which an object with these labels was made; None for other objects."""
    name, namespace = labels.get(CLUSTER_NAME_LABEL), labels.get(CLUSTER_NAMESPACE_LABEL)
    return Key(namespace, name) if name and namespace else None
