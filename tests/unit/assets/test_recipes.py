"""Buildable assets: versions that belong together, and recipes that change when their sources change."""

from __future__ import annotations

import hashlib
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from espalier.api.version_matrix import CLUSTER_API, ETCD, KUBERNETES, ROWS, Row, minor_of
from espalier.assets.component import HERE, with_needs
from espalier.assets.go import GoModule
from espalier.assets.node_base import NodeBase
from espalier.assets.recipes import CNI_PLUGINS, PROBE, chosen, etcd, node_bases, of_all_rows, programs_of

EVERY_ROW = pytest.mark.parametrize("row", ROWS.values(), ids=str)
ALL_BASES = [base for row in ROWS.values() for base in node_bases(row=row)]


@EVERY_ROW
def test_every_row_pins_the_versions_that_it_names(row: Row) -> None:
    versions = {component.name: component.version for component in programs_of(row)}
    assert versions["kubernetes"] == row.kubernetes == KUBERNETES[row.name].patch
    assert versions["cluster-api"] == row.cluster_api == CLUSTER_API[minor_of(row.cluster_api)].patch
    assert versions["etcdutl"] == row.etcd == ETCD[minor_of(row.etcd)].patch
    assert minor_of(row.etcd_before) == ETCD[minor_of(row.etcd)].before
    assert etcd(row.etcd_before).version == row.etcd_before


@EVERY_ROW
def test_nodes_of_a_row_run_three_minors(row: Row) -> None:
    minors = [minor_of(base.version) for base in node_bases(row=row)]
    assert minors == [f"1.{int(row.name[2:]) - lag}" for lag in (2, 1, 0)]
    assert CNI_PLUGINS.version == row.cni_plugins
    *_, newest = node_bases(row=row)
    assert newest.containerd.version == row.containerd


def test_a_row_names_its_control_plane() -> None:
    older, newer = (chosen(["tests"], row=ROWS[name])[1].version for name in ("1.36", "1.37"))
    assert (older, newer) == ("1.36.3", "1.37.2")
    assert [component.key for component in chosen(["kubernetes-1.37.2"])] == ["kubernetes-1.37.2"]


def test_every_pinned_version_belongs_to_a_row() -> None:
    built = {(module.folder, module.modfile) for module in of_all_rows() if isinstance(module, GoModule)}
    pinned = {(path.parent, path.name) for path in HERE.glob("*/v*.mod")}
    assert pinned <= built


@pytest.mark.parametrize("base", ALL_BASES, ids=lambda base: str(base.version))
def test_all_of_kubernetes_is_of_one_version(base: NodeBase) -> None:
    (kubernetes,) = (component for component in with_needs([base]) if component.name == "kubernetes-node")
    assert isinstance(kubernetes, GoModule)
    replaced = re.findall(r"(k8s.io/\S+) => k8s.io/\S+ v(\S+)", (kubernetes.folder / kubernetes.modfile).read_text())
    assert len(replaced) > 25
    assert {version for _, version in replaced} == {f"0.{base.version.removeprefix('1.')}"}


@pytest.mark.parametrize("base", ALL_BASES, ids=lambda base: str(base.version))
def test_images_have_the_versions_of_what_is_in_them(base: NodeBase) -> None:
    versions = {component.name: component.version for component in with_needs([base])}
    names = base.image_names
    assert names["etcd"] == f"registry.k8s.io/etcd:{versions['etcd']}-0"
    assert names["coredns"] == f"registry.k8s.io/coredns/coredns:v{versions['coredns']}"
    assert names["kube-proxy"] == f"registry.k8s.io/kube-proxy:v{base.version}"


def test_own_repository_is_asked_as_kubeadm_asks_it() -> None:
    names = node_bases("example.org/images", ROWS["1.36"])[1].image_names
    assert names["coredns"].startswith("example.org/images/coredns:v")
    assert names["kube-apiserver"] == "example.org/images/kube-apiserver:v1.35.4"


def test_another_source_is_another_recipe(tmp_path: Path) -> None:
    copy = replace(PROBE, folder=Path(shutil.copytree(PROBE.folder, tmp_path / "probe")))
    assert copy.recipe == PROBE.recipe
    (copy.folder / "further.go").write_text("package main")
    further = replace(copy, minutes=2).recipe
    (copy.folder / "main.go").write_text("package main")
    assert len({PROBE.recipe, further, replace(copy, minutes=3).recipe}) == 3
    assert replace(PROBE, folders=("config",)).recipe != PROBE.recipe
    assert replace(PROBE, minutes=2).recipe == PROBE.recipe  # what it costs does not decide what it is


def test_assets_of_the_former_name_are_still_used() -> None:
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
