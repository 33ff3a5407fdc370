"""Flux's manifests: what is missing in them is named, and images come from where the cluster gets them."""

from __future__ import annotations

from typing import Any

import pytest

from espalier.api.definitions.crd import crd_of
from espalier.api.flux import KINDS
from espalier.api.meta import Tree
from espalier.gitops.components import Unusable, components
from tests.support.environments.git_fleet import flux_components

NAMESPACE = "flux-system"


def manifests() -> list[Tree]:
    return flux_components([crd_of(kind) for kind in KINDS])


def images(trees: list[Tree]) -> list[str]:
    pods = [tree["spec"]["template"]["spec"] for tree in trees if tree["kind"] == "Deployment"]
    return [container["image"] for pod in pods for container in pod["containers"]]


def test_images_come_from_the_longest_prefix() -> None:
    replaced = {"ghcr.io/": "mirror/", "ghcr.io/fluxcd/source-controller": "other/source"}
    made = components(manifests(), NAMESPACE, replaced)
    assert images(made) == ["other/source:v1.9.6", "mirror/fluxcd/kustomize-controller:v1.9.6"]
    assert components(manifests(), NAMESPACE, {}) == manifests()


def without(kind: str, name: str) -> list[Tree]:
    return [tree for tree in manifests() if (tree["kind"], tree["metadata"]["name"]) != (kind, name)]


def of_version(version: str) -> list[Tree]:
    trees: list[Any] = manifests()
    for tree in trees:
        if tree["kind"] == "CustomResourceDefinition":
            tree["spec"]["versions"][0]["name"] = version
    return trees


@pytest.mark.parametrize(
    ("trees", "words"),
    [
        ([], "gitrepositories.source.toolkit.fluxcd.io: it is missing; needed is v1"),
        (of_version("v1beta2"), "found v1beta2; needed is v1"),
        (without("Deployment", "kustomize-controller"), "Deployment kustomize-controller is missing"),
        ([*manifests(), {"kind": "Secret", "metadata": {"name": "a"}}], "Secret a; they come into Git"),
        ([{"data": 1}], "give the output of flux install --export"),
    ],
)
def test_manifests_that_are_not_fluxs_are_refused(trees: list[Tree], words: str) -> None:
    with pytest.raises(Unusable) as refused:
        components(trees, NAMESPACE, {})
    assert words in str(refused.value)


def test_manifests_for_another_namespace_are_refused() -> None:
    with pytest.raises(Unusable, match="is in namespace flux-system, the configuration names flux; write them with"):
        components(manifests(), "flux", {})
