"""The files of clusters in a repository: laid out as EKS Anywhere does, and without what must not be in Git."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from espalier.api.definitions.reference import Writer
from espalier.api.meta import Tree
from espalier.api.metadata_rows import ANNOTATIONS
from espalier.api.trees import yaml_trees
from espalier.gitops.content import LAST_APPLIED, desired, secrets_in
from espalier.gitops.layout import Unfit, base_of, cluster_files, flux_files

EXAMPLES = Path(__file__).parents[3] / "examples"
BASE = base_of("laptop")
CLUSTER = "clusters/laptop/garden/eksa-system/eksa-cluster.yaml"
LISTING = "clusters/laptop/flux-system/kustomization.yaml"


def manifest(name: str = "docker") -> list[Tree]:
    return yaml_trees.trees((EXAMPLES / f"{name}.yaml").read_bytes(), name)


def read(text: bytes | None) -> list[Tree]:
    assert text is not None
    return list(yaml.safe_load_all(text))


def test_a_cluster_has_the_files_of_eks_anywhere() -> None:
    files = cluster_files(BASE, manifest(), {})
    assert sorted(files) == [
        "clusters/laptop/flux-system/garden.yaml",
        LISTING,
        CLUSTER,
        "clusters/laptop/garden/eksa-system/kustomization.yaml",
    ]
    assert read(files[CLUSTER]) == [
        tree | {"metadata": tree["metadata"] | {"namespace": "default"}} for tree in manifest()
    ]
    assert read(files["clusters/laptop/garden/eksa-system/kustomization.yaml"])[0]["resources"] == ["eksa-cluster.yaml"]


def test_a_namespace_of_the_manifest_is_that_of_all() -> None:
    """Flux has no default namespace, as kubectl has."""
    cluster, *others = manifest()
    cluster["metadata"]["namespace"] = "team-a"
    files = cluster_files(BASE, [cluster, *others], {})
    assert {tree["metadata"]["namespace"] for tree in read(files[CLUSTER])} == {"team-a"}


def test_configured_path_takes_place_of_default() -> None:
    assert {path.partition("/")[0] for path in cluster_files(base_of("laptop", "/fleet/"), manifest(), {})} == {"fleet"}


def test_each_cluster_has_kustomization_without_force() -> None:
    files = cluster_files(BASE, manifest(), {})
    (item,) = read(files["clusters/laptop/flux-system/garden.yaml"])
    spec = item["spec"]
    assert (spec["force"], spec["prune"], spec["path"]) == (False, True, "./clusters/laptop/garden/eksa-system")
    assert not spec.keys() & {"healthChecks", "wait"}


def test_a_listing_keeps_what_others_wrote() -> None:
    before = b"# ours\nkind: Kustomization\nresources: [gotk-components.yaml, other.yaml]\npatches: []\n"
    (item,) = read(cluster_files(BASE, manifest(), {LISTING: before})[LISTING])
    assert item == {
        "kind": "Kustomization",
        "resources": ["gotk-components.yaml", "other.yaml", "garden.yaml"],
        "patches": [],
    }
    listed = b"# ours\nresources: [garden.yaml]\n"
    assert cluster_files(BASE, manifest(), {LISTING: listed})[LISTING] == listed


@pytest.mark.parametrize(
    ("before", "words"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 3\n", "a pointer of Git LFS"),
        (b"resources: [", "mend the file in the repository"),
        (b"resources: 1", "allowed: a list of files"),
    ],
)
def test_a_listing_that_is_none_is_not_overwritten(before: bytes, words: str) -> None:
    with pytest.raises(Unfit, match=words):
        cluster_files(BASE, manifest(), {LISTING: before})


@pytest.mark.parametrize(
    ("url", "is_secret"),
    [
        ("ssh://git@git.example.com:22/fleet.git", False),
        ("ssh://git:s3cret@git.example.com/fleet.git", True),
        ("https://token@git.example.com/fleet.git", True),
    ],
)
def test_a_user_of_ssh_is_no_secret(url: str, is_secret: bool) -> None:
    config = {"kind": "FluxConfig", "metadata": {"name": "fleet"}, "spec": {"git": {"repositoryUrl": url}}}
    assert bool(list(secrets_in([config], "a.yaml"))) is is_secret


def test_flux_deletes_no_management_cluster() -> None:
    files = cluster_files(BASE, manifest(), {}, namespace="flux", manages=True)
    (item,) = read(files["clusters/laptop/flux/garden.yaml"])
    assert (item["spec"]["prune"], item["metadata"]["namespace"]) == (False, "flux")
    assert item["spec"]["sourceRef"]["name"] == "flux"


def test_a_cluster_has_not_the_name_of_flux() -> None:
    (cluster, *others) = manifest()
    cluster["metadata"]["name"] = "flux-system"
    with pytest.raises(Unfit, match="is the folder of Flux"):
        cluster_files(BASE, [cluster, *others], {})


@pytest.mark.parametrize("name", ["gotk-sync", "gotk-components", "kustomization"])
def test_a_cluster_takes_no_file_of_flux(name: str) -> None:
    """Without these, Flux would delete what it follows the repository by."""
    cluster, *others = manifest()
    cluster["metadata"]["name"] = name
    with pytest.raises(Unfit, match=f"clusters/laptop/flux-system/{name}.yaml is a file of Flux"):
        cluster_files(BASE, [cluster, *others], {})


def test_the_same_cluster_gives_the_same_files() -> None:
    files = cluster_files(BASE, manifest(), {})
    assert cluster_files(BASE, manifest(), files) == files


def test_what_servers_and_managers_write_is_left_out() -> None:
    """Flux deletes an object whose uid or resourceVersion in Git is another one's."""
    (cluster, *_) = manifest()
    wanted = cluster["metadata"].get("annotations", {}) | {"team": "a"}
    of_managers = {key: "x" for key, prose in ANNOTATIONS if prose.writer is not Writer.USER} | {LAST_APPLIED: "{}"}
    stored = {
        **cluster,
        "metadata": cluster["metadata"]
        | {
            "annotations": wanted | of_managers,
            "uid": "1",
            "resourceVersion": "2",
            "generation": 3,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": [],
        },
        "status": {"phase": "Running"},
    }
    assert desired(stored) == cluster | {"metadata": cluster["metadata"] | {"annotations": wanted}}


def test_versions_are_quoted() -> None:
    (cluster, *others) = manifest()
    cluster["spec"]["kubernetesVersion"] = "1.30"
    cluster["metadata"]["labels"] = {"a": "no", "b": "y", "c": "0123", "d": "1e3", "e": ""}
    text = cluster_files(BASE, [cluster, *others], {})[CLUSTER].decode()
    assert 'kubernetesVersion: "1.30"' in text
    assert yaml_trees.trees(text, "a")[0]["metadata"]["labels"] == cluster["metadata"]["labels"]


SECRET: Tree = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "keys"},
    "data": {"password": "czNjcmV0"},
    "stringData": {"token": "s3cret"},
}


def test_a_secret_is_refused_by_file_and_key() -> None:
    with pytest.raises(Unfit) as refused:
        cluster_files(BASE, [*manifest(), SECRET], {})
    assert f"{CLUSTER}: Secret keys: a Secret must not be in Git (keys: password, token)" in str(refused.value)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("spec.note", "-----BEGIN EC PRIVATE KEY-----\nMHc\n"),
        ("spec.proxyConfiguration.httpProxy", "http://anna:s3cret@proxy:3128"),
        ("spec.proxyConfiguration.httpsProxy", "anna:s3cret@proxy:3128"),
        ("spec.users[0].password", "s3cret"),
        ("spec.token", "s3cret"),
        ("spec.args", "--token=s3cret"),
    ],
)
def test_secrets_in_other_kinds_are_named_not_shown(field: str, value: str) -> None:
    tree: Any = {"kind": "Cluster", "metadata": {"name": "garden"}, "spec": {}}
    at = tree
    *parents, last = field.replace("[0]", ".0").split(".")
    for part in parents:
        at = at.setdefault(part, {}) if part != "0" else at
    at[last] = value
    (item,) = secrets_in([tree], "a.yaml")
    assert item.startswith("a.yaml: Cluster garden: spec.")
    assert last in item
    assert "s3cret" not in item


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_examples_have_no_secrets_but_secrets(path: Path) -> None:
    trees = yaml_trees.trees(path.read_bytes(), path.name)
    assert [item for item in secrets_in(trees, path.name) if "a Secret must not be in Git" not in item] == []


def test_a_manifest_without_a_cluster_is_refused() -> None:
    with pytest.raises(Unfit, match="found 0 Clusters in the manifest"):
        cluster_files(BASE, manifest()[1:], {})


def test_flux_follows_folder_of_its_management_cluster() -> None:
    files = flux_files(BASE, "https://git.example.com/fleet", "main", {}, secret="flux-system")
    source, own = read(files["clusters/laptop/flux-system/gotk-sync.yaml"])
    assert source["spec"] == {
        "interval": "1m0s",
        "ref": {"branch": "main"},
        "url": "https://git.example.com/fleet",
        "secretRef": {"name": "flux-system"},
    }
    assert (own["spec"]["path"], own["spec"]["force"]) == ("./clusters/laptop/flux-system", False)
    assert read(files[LISTING])[0]["resources"] == ["gotk-sync.yaml"]


def test_a_field_named_as_a_secret_is_refused() -> None:
    tree: Tree = {"kind": "ConfigMap", "metadata": {"name": "a"}, "spec": {"password": {"of": "anything"}}}
    assert list(secrets_in([tree], "a.yaml")) == [
        "a.yaml: ConfigMap a: spec.password.of: its name says that it is secret; take it out of the file"
    ]
    tree["spec"]["password"] = {"of": ""}
    assert list(secrets_in([tree], "a.yaml")) == []


def test_an_empty_list_of_finalizers_is_left_out() -> None:
    metadata: Tree = {"name": "a", "finalizers": []}
    assert desired({"metadata": metadata}) == {"metadata": {"name": "a"}}
    assert desired({"metadata": metadata | {"finalizers": ["b"]}}) == {"metadata": {"name": "a", "finalizers": ["b"]}}
