"""Which cluster: the Cluster that asks for it, and the Cluster of Cluster API that is made for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from espalier.api.capi import cluster as capi
from espalier.api.eksa.group import CLUSTER_NAME_LABEL, CLUSTER_NAMESPACE_LABEL, SYSTEM_NAMESPACE
from espalier.api.meta import ObjectMeta
from espalier.api.resource import Key


@dataclass(frozen=True)
class ClusterIdentity:
    """One cluster. Who means the same cluster has an equal identity, whichever of its objects he came by.

    What is made for a Cluster lies in one namespace under its name. So of Clusters of one name in several namespaces
    one has a cluster, and each has an identity of its own.
    """

    owner: Key | None
    """The Cluster that asks for it; None where Cluster API's objects name none."""
    capi: Key
    """Its Cluster of Cluster API."""
    uid: str = field(default="", compare=False)
    """Of its Cluster of Cluster API; empty while there is none, and where it is not known."""

    @classmethod
    def of(cls, owner: Key, uid: str = "") -> ClusterIdentity:
        """That of the cluster which a Cluster asks for."""
        return cls(owner, Key(SYSTEM_NAMESPACE, owner.name), uid)

    @classmethod
    def unowned(cls, name: str) -> ClusterIdentity:
        """That of a cluster of Cluster API for which there is no Cluster."""
        return cls(None, Key(SYSTEM_NAMESPACE, name))

    @classmethod
    def of_objects(cls, name: str, objects: Iterable[ObjectMeta]) -> ClusterIdentity:
        """That of a cluster of Cluster API, by these objects of it: the first that names a Cluster tells."""
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
    clusters = (one for one in metadata.owner_references if one.kind == capi.Cluster.resource.kind)
    return next((one.uid for one in clusters if one.api_version.partition("/")[0] == capi.GROUP), "")


def owner_of(labels: Mapping[str, str]) -> Key | None:
    """The Cluster for which an object with these labels was made, None for an object of others."""
    name, namespace = labels.get(CLUSTER_NAME_LABEL), labels.get(CLUSTER_NAMESPACE_LABEL)
    return Key(namespace, name) if name and namespace else None
