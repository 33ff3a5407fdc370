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
    one = extras[reference["kind"], reference["name"]]
    if one["kind"] == "Secret":
        assert one["type"] == "addons.cluster.x-k8s.io/resource-set"
        texts = [base64.b64decode(text).decode() for text in one["data"].values()]
    else:
        texts = [*one["data"].values()]
    return [tree for text in texts for tree in yaml.safe_load_all(text)]


@pytest.mark.parametrize("provider", ["nutanix", "vsphere"])
def test_a_set_has_the_objects_that_are_applied(provider: str) -> None:
    found = everything(provider)
    trees = [msgspec.to_builtins(one) for one in found.extras]
    extras = {(one["kind"], one["metadata"]["name"]): one for one in trees}
    (made,) = [one for one in trees if one["kind"] == "ClusterResourceSet"]
    assert made["spec"]["strategy"] == "Reconcile"
    assert made["spec"]["clusterSelector"] == {
        "matchLabels": {"cluster.x-k8s.io/cluster-name": found.cluster.metadata.name}
    }
    assert found.cluster.metadata.labels.items() >= made["spec"]["clusterSelector"]["matchLabels"].items()
    objects = [tree for reference in made["spec"]["resources"] for tree in held(extras, reference)]

    def place(tree: Tree) -> tuple[str, str]:
        return tree["kind"], tree["metadata"]["name"]

    applied = [one.body for one in found.workload]
    assert sorted(objects, key=place) == sorted(applied, key=place)
