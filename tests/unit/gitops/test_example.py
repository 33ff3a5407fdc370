"""The repository in examples/gitops is what is written for the examples, and can be applied.

ESPALIER_TELL_STORIES=1 writes it anew.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from espalier.api.manifests.manifests import check, read_manifests
from espalier.api.trees import yaml_trees
from espalier.gitops.layout import CLUSTER_FILE, Files, base_of, cluster_files, flux_files
from espalier.providers.kinds import CATALOG

EXAMPLES = Path(__file__).parents[3] / "examples"
REPOSITORY = EXAMPLES / "gitops"
URL = "ssh://git@git.example.com/fleet"


def written() -> Files:
    base = base_of("laptop")
    files = flux_files(base, URL, "main", {}, secret="flux-system")
    for name in ("docker", "docker-cilium"):
        trees = yaml_trees.trees((EXAMPLES / f"{name}.yaml").read_bytes(), name)
        files |= cluster_files(base, trees, files)
    return files


def test_example_is_what_is_written_for_its_clusters() -> None:
    if os.environ.get("ESPALIER_TELL_STORIES"):
        shutil.rmtree(REPOSITORY, ignore_errors=True)
        for path, text in written().items():
            (REPOSITORY / path).parent.mkdir(parents=True, exist_ok=True)
            (REPOSITORY / path).write_bytes(text)
    there = {
        path.relative_to(REPOSITORY).as_posix(): path.read_bytes() for path in REPOSITORY.rglob("*") if path.is_file()
    }
    assert there == written()


def test_clusters_of_the_example_are_accepted() -> None:
    paths = sorted(REPOSITORY.rglob(CLUSTER_FILE))
    assert len(paths) == 2
    for path in paths:
        check(read_manifests(path.read_bytes(), source=path.name), CATALOG)


def test_every_file_of_the_example_is_listed_once() -> None:
    """A file that no kustomization.yaml lists is not applied."""
    for listing in REPOSITORY.rglob("kustomization.yaml"):
        (tree,) = yaml_trees.trees(listing.read_bytes(), listing.name)
        others = {path.name for path in listing.parent.glob("*.yaml")} - {listing.name}
        assert sorted(tree["resources"]) == sorted(others)


def test_each_cluster_of_example_has_kustomization() -> None:
    flux = REPOSITORY / "clusters/laptop/flux-system"
    paths = {}
    for file in flux.glob("*.yaml"):
        for tree in yaml_trees.trees(file.read_bytes(), file.name):
            if tree["kind"] == "Kustomization" and "spec" in tree:
                paths[tree["metadata"]["name"]] = tree["spec"]["path"]
                assert tree["spec"]["force"] is False
    clusters = {path.parents[1].name for path in REPOSITORY.rglob(CLUSTER_FILE)}
    assert paths.keys() == clusters | {"flux-system"}
    assert all((REPOSITORY / path).is_dir() for path in paths.values())
