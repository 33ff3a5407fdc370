"""The example of overlays: what kustomize must know of our kinds, and what it then makes of a cluster."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

from espalier.api.meta import Tree
from espalier.cli.install import manifests
from espalier.providers.registry import PROVIDERS
from tests.support.servers.helm import trees_of
from tests.support.servers.kubectl import find_kubectl

FOLDER = Path(__file__).parents[3] / "examples/kustomize"
OWN = "anywhere.eks.amazonaws.com"
UNWRITTEN = {"ControlPlaneUpgrade", "MachineDeploymentUpgrade", "NodeUpgrade", "EKSARelease"}
"""Kinds that nobody writes into an overlay."""
OF_ANOTHER_NAMESPACE = {("Cluster", "spec/bundlesRef/name")}
"""Bundles lie in a namespace of the management cluster, whatever the overlay is called."""


def test_kustomize_knows_each_reference() -> None:
    known = {(spec["kind"], spec["path"]) for entry in _entries() for spec in entry["fieldSpecs"]}
    assert known == set(_references()) - OF_ANOTHER_NAMESPACE


def test_each_named_kind_is_one_that_exists() -> None:
    kinds = {definition["spec"]["names"]["kind"] for definition in _definitions()}
    assert {entry["kind"] for entry in _entries()} <= kinds | {"Secret"}


def test_overlay_keeps_groups_it_does_not_name() -> None:
    cluster, datacenter = _built("production")
    assert [(group["name"], group["count"]) for group in cluster["spec"]["workerNodeGroupConfigurations"]] == [
        ("general", 5),
        ("builds", 1),
    ]
    assert cluster["spec"]["datacenterRef"]["name"] == datacenter["metadata"]["name"] == "production-garden"
    assert cluster["spec"]["managementCluster"]["name"] == "laptop"


def _entries() -> list[Tree]:
    (file,) = trees_of((FOLDER / "espalier/references.yaml").read_text())
    entries: list[Tree] = file["nameReference"]
    return entries


def _references() -> Iterator[tuple[str, str]]:
    for definition in _definitions():
        kind = definition["spec"]["names"]["kind"]
        if kind not in UNWRITTEN:
            for version in definition["spec"]["versions"]:
                spec = version["schema"]["openAPIV3Schema"]["properties"].get("spec", {})
                yield from ((kind, path) for path in _named(spec, "spec"))


def _named(schema: Tree, path: str) -> Iterator[str]:
    """Paths of the names in references of a schema."""
    properties = schema.get("properties", {})
    if path.rpartition("/")[2].endswith(("Ref", "Refs")) or path == "spec/managementCluster":
        yield f"{path}/name" if properties else path
    for name, field in properties.items():
        yield from _named(field.get("items", field), f"{path}/{name}")


def _definitions() -> list[Tree]:
    trees = manifests.installed(PROVIDERS)
    return [tree for tree in trees if tree["kind"] == "CustomResourceDefinition" and tree["spec"]["group"] == OWN]


def _built(folder: str) -> list[Tree]:
    command = [str(find_kubectl()), "kustomize", str(FOLDER / folder)]
    return trees_of(subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout)
