"""Records of clusters that were taken over from EKS Anywhere, without a server."""

from __future__ import annotations

from espalier.api.capi import cluster as capi
from espalier.api.core import CONFIG_MAP
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.clusters.design.cluster_objects import adoption
from espalier.clusters.design.cluster_objects.adoption import Adoption, claim

KIND = capi.Cluster.resource
_UID = "made-by-eks-anywhere"


def adopted_cluster(name: str) -> Tree:
    """The Cluster of Cluster API that owns the record of a Cluster of this name."""
    metadata = {"namespace": SYSTEM_NAMESPACE, "name": name, "uid": _UID, "resourceVersion": "1"}
    return {"apiVersion": KIND.api_version, "kind": KIND.kind, "metadata": metadata, "spec": {}}


def adoption_record(cluster: Key, *objects: tuple[Resource, str]) -> Tree:
    """The record that these objects, by kind and name, belong to a Cluster."""
    claims = tuple(claim(resource, name) for resource, name in objects)
    record = Adoption(namespace=cluster.namespace, name=cluster.name, objects=claims)
    return {
        "apiVersion": CONFIG_MAP.api_version,
        "kind": CONFIG_MAP.kind,
        "metadata": {
            "namespace": SYSTEM_NAMESPACE,
            "name": adoption.config_map(cluster.name),
            "uid": "record",
            "resourceVersion": "1",
            "ownerReferences": [{"apiVersion": KIND.api_version, "kind": KIND.kind, "name": cluster.name, "uid": _UID}],
        },
        "data": {adoption.FIELD: adoption.text_of(record)},
    }
