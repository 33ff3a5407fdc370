"""Obstacles that keep a target from getting the objects of a cluster."""

from __future__ import annotations

import pytest

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION
from espalier.api.meta import Tree
from espalier.kube.objects import Object, encode_json
from espalier.moving.copies import Copies
from espalier.moving.objects import CLUSTER, Item
from espalier.moving.sides import Inventory
from tests.support.objects.moved_clusters import GARDEN, NoRules, made


def definition(*versions: str, served: bool = True) -> Object:
    results = [{"name": version, "served": served, "storage": False} for version in versions]
    spec: Tree = {"group": CLUSTER.group, "names": {"kind": CLUSTER.kind}, "versions": results}
    resource = CUSTOM_RESOURCE_DEFINITION
    return Object(
        encode_json(
            {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "a"}, "spec": spec}
        )
    )


@pytest.mark.parametrize(
    ("definitions", "reason"),
    [
        ([definition("v1alpha1", "v1")], ""),
        (
            [definition("v1", "v1beta1")],
            "is not served as v1alpha1 at the target, only as v1, v1beta1: install",
        ),
        ([definition("v1alpha1", served=False)], "is not served at the target: install what defines it there"),
        ([], "is not served at the target: install what defines it there"),
    ],
    ids=["served", "other versions", "no version", "not defined"],
)
def test_a_target_has_to_serve_the_version(definitions: list[Object], reason: str) -> None:
    here = Inventory([Item(CLUSTER, made(CLUSTER.api_version, GARDEN, 1), True)], [], frozenset())
    there = Inventory([], definitions, frozenset({GARDEN.namespace}))
    copies = Copies("uid", None, NoRules())  # type: ignore[arg-type]  # nothing is written
    results = list(copies.unserved(here, there, GARDEN))
    assert len(results) == bool(reason)
    assert reason in "".join(results)
