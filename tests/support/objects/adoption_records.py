"""Records of clusters that were taken over from EKS Anywhere, without a server."""

from __future__ import annotations

from espalier.api.core import CONFIG_MAP
from espalier.api.eksa.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.clusters.design import adoption
from espalier.clusters.design.adoption import Adoption, claim


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
        },
        "data": {adoption.FIELD: adoption.text_of(record)},
    }
