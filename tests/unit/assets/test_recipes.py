"""Buildable assets: versions that belong together, and recipes that change when their sources change."""

from __future__ import annotations

import hashlib
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from espalier.assets.component import with_needs
from espalier.assets.go import GoModule
from espalier.assets.node_base import NodeBase
from espalier.assets.recipes import PROBE, chosen, node_bases


def test_there_are_nodes_of_three_minors_in_a_row() -> None:
    assert [base.version for base in node_bases()] == ["1.34.4", "1.35.4", "1.36.3"]


@pytest.mark.parametrize("base", node_bases(), ids=lambda base: str(base.version))
def test_all_of_kubernetes_is_of_one_version(base: NodeBase) -> None:
    (kubernetes,) = (component for component in with_needs([base]) if component.name == "kubernetes-node")
    assert isinstance(kubernetes, GoModule)
    replaced = re.findall(r"(k8s.io/\S+) => k8s.io/\S+ v(\S+)", (kubernetes.folder / kubernetes.modfile).read_text())
    assert len(replaced) > 25
    assert {version for _, version in replaced} == {f"0.{base.version.removeprefix('1.')}"}


@pytest.mark.parametrize("base", node_bases(), ids=lambda base: str(base.version))
def test_images_have_the_versions_of_what_is_in_them(base: NodeBase) -> None:
    versions = {component.name: component.version for component in with_needs([base])}
    names = base.image_names
    assert names["etcd"] == f"registry.k8s.io/etcd:{versions['etcd']}-0"
    assert names["coredns"] == f"registry.k8s.io/coredns/coredns:v{versions['coredns']}"
    assert names["kube-proxy"] == f"registry.k8s.io/kube-proxy:v{base.version}"


def test_an_image_repository_of_ones_own_is_asked_as_kubeadm_asks_it() -> None:
    names = node_bases("example.org/images")[1].image_names
    assert names["coredns"].startswith("example.org/images/coredns:v")
    assert names["kube-apiserver"] == "example.org/images/kube-apiserver:v1.35.4"


def test_another_source_is_another_recipe(tmp_path: Path) -> None:
    copy = replace(PROBE, folder=Path(shutil.copytree(PROBE.folder, tmp_path / "probe")))
    assert copy.recipe == PROBE.recipe
    (copy.folder / "main.go").write_text("package main")
    assert replace(copy, minutes=2).recipe != PROBE.recipe
    assert replace(PROBE, minutes=2).recipe == PROBE.recipe  # what it costs does not decide what it is


def test_assets_built_under_the_packages_former_name_are_still_used() -> None:
    base = node_bases()[0]
    digest = hashlib.sha256()
    for ingredient in base.ingredients:
        digest.update(ingredient.replace(b"from espalier.assets", b"from espalier.local.assets"))
    for need in base.needs:
        digest.update(need.home(Path()).name.encode())
    assert base.recipe == digest.hexdigest()[:12]


def test_ingredients_are_built_first() -> None:
    order = [component.key for component in chosen(["nodes"])]
    assert len(order) == len(set(order))
    for base in node_bases():
        assert all(order.index(need.key) < order.index(base.key) for need in base.needs)
