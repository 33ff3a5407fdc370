"""ClusterResourceSets hold what the manager applies to a workload cluster: all of it, and nothing else."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest
import yaml

from espalier.api.meta import Tree
from espalier.clusters.design.rendered import Rendered
from tests.support.providers import nutanix, vsphere


def everything(provider: str) -> Rendered:
    if provider == "nutanix":
        return nutanix.made(nutanix.everything())
    return vsphere.made(vsphere.everything())


def held(extras: dict[tuple[str, str], Tree], reference: Tree) -> list[Any]:
    """The objects of a Secret or ConfigMap, as Cluster API reads them."""
    extra = extras[reference["kind"], reference["name"]]
    if extra["kind"] == "Secret":
        assert extra["type"] == "addons.cluster.x-k8s.io/resource-set"
        texts = [base64.b64decode(text).decode() for text in extra["data"].values()]
    else:
        texts = [*extra["data"].values()]
    return [tree for text in texts for tree in yaml.safe_load_all(text)]


@pytest.mark.demand(L16="in a ClusterResourceSet")
@pytest.mark.parametrize("provider", ["nutanix", "vsphere"])
def test_a_set_has_the_objects_that_are_applied(provider: str) -> None:
    cluster = everything(provider)
    trees = [msgspec.to_builtins(object_) for object_ in cluster.extras]
    extras = {(tree["kind"], tree["metadata"]["name"]): tree for tree in trees}
    (made,) = [tree for tree in trees if tree["kind"] == "ClusterResourceSet"]
    assert made["spec"]["strategy"] == "Reconcile"
    assert made["spec"]["clusterSelector"] == {
        "matchLabels": {"cluster.x-k8s.io/cluster-name": cluster.cluster.metadata.name}
    }
    assert cluster.cluster.metadata.labels.items() >= made["spec"]["clusterSelector"]["matchLabels"].items()
    objects = [tree for reference in made["spec"]["resources"] for tree in held(extras, reference)]

    def place(tree: Tree) -> tuple[str, str]:
        return tree["kind"], tree["metadata"]["name"]

    applied = [object_.body for object_ in cluster.workload]
    assert sorted(objects, key=place) == sorted(applied, key=place)
