"""Components of providers in files: which provider each file is of, its version, and what no provider installs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from espalier.api.meta import Tree
from espalier.clusterapi.installed import CORE, PROVIDER_LABEL
from espalier.management.providers import folder as folders
from espalier.management.providers.components import BOOTSTRAP, CERT_MANAGER, Unusable, read

NAMESPACE: Tree = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "capi-system"}}


def labelled(tree: Tree, label: str = CORE) -> Tree:
    return {**tree, "metadata": {**tree["metadata"], "labels": {PROVIDER_LABEL: label}}}


def deployment(image: str, name: str = "manager", **more: object) -> Tree:
    containers = [{"name": "proxy", "image": "proxy:v9.9.9"}, {"name": name, "image": image}]
    spec = {"template": {"spec": {"containers": containers}}, **more}
    metadata = {"name": "manager", "namespace": "capi-system"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def definition(name: str, group: str) -> Tree:
    spec = {"group": group, "versions": [{"name": "v1", "served": True}]}
    metadata = {"name": f"{name}.{group}"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": spec,
    }


def text(*trees: object) -> bytes:
    return yaml.safe_dump_all(trees).encode()


CORE_TEXT = text(labelled(NAMESPACE), labelled(deployment("registry.example.com:5000/capi/controller:v1.13.5")))


def refused(files: dict[str, bytes], **variables: str) -> list[str]:
    with pytest.raises(Unusable) as error:
        read(files, variables)
    return str(error.value).splitlines()


@pytest.mark.parametrize(
    ("path", "image", "version"),
    [
        ("core.yaml", "a:v1.13.5-eks-a-1", "v1.13.5-eks-a-1"),
        ("core.yaml", "a:v1.13.5@sha256:0", "v1.13.5"),
        ("core.yaml", "a@sha256:0", ""),
        ("cluster-api/v1.13.5/core-components.yaml", "a@sha256:0", "v1.13.5"),
        ("cluster-api/v1.13.5/core-components.yaml", "a:v1.13.5-eks-a-1", "v1.13.5-eks-a-1"),
    ],
)
def test_the_version_is_that_of_image_or_folder(path: str, image: str, version: str) -> None:
    """Of the manager's image, wherever it stands among the containers."""
    content = text(labelled(NAMESPACE), labelled(deployment(image)))
    (provider,) = read({path: content}, {})
    assert (provider.label, provider.file) == (CORE, path)
    assert provider.version == version


def test_cert_manager_comes_first() -> None:
    """It has no label of a provider, and elects its leaders in kube-system."""
    role: Tree = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "leaders"}}
    role["metadata"]["namespace"] = "kube-system"
    files = {
        "a.yaml": CORE_TEXT,
        "b.yaml": text(labelled(NAMESPACE, BOOTSTRAP)),
        "c.yaml": text(definition("certificates", "cert-manager.io"), role),
    }
    assert [provider.label for provider in read(files, {})] == [CERT_MANAGER, CORE, BOOTSTRAP]


def test_other_files_of_a_repository_are_left_out() -> None:
    files = {"core.yaml": CORE_TEXT}
    others = ("metadata.yaml", "clusterctl.yaml", "cluster-template-external.yaml", "clusterclass-a.yml", "README.md")
    assert len(read({**files, **dict.fromkeys(others, b"no: object")}, {})) == 1


ELSEWHERE = {"name": "a", "namespace": "eksa-system"}


@pytest.mark.parametrize(
    ("trees", "told"),
    [
        ([], "it has no objects"),
        ([NAMESPACE], "its objects have no label cluster.x-k8s.io/provider"),
        ([labelled(NAMESPACE), labelled(NAMESPACE, BOOTSTRAP)], "found objects of bootstrap-kubeadm, cluster-api"),
        (["a"], "document 1: Expected `object`"),
        ([{"kind": "Namespace", "metadata": {"name": "a"}}], "missing required field `apiVersion`"),
        ([{**deployment("a"), "spec": {"template": {"spec": {"containers": []}}}}], "of length >= 1"),
        ([{**NAMESPACE, "metadata": {"name": "a", "namespace": []}}], "`$.metadata.namespace`"),
        (
            [labelled({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "capi-system"}})],
            "v1 Pod is not among the kinds that a provider may install",
        ),
        (
            [
                labelled(
                    {
                        "apiVersion": "v1",
                        "kind": "Deployment",
                        "metadata": {"name": "a"},
                        "spec": deployment("a")["spec"],
                    }
                )
            ],
            "v1 Deployment is not among the kinds",
        ),
        ([labelled({**NAMESPACE, "metadata": {"name": "eksa-system"}})], "may not install this namespace"),
        ([labelled({**NAMESPACE, "metadata": {"name": "kube-system"}})], "may not install this namespace"),
        (
            [labelled(NAMESPACE), labelled({"apiVersion": "v1", "kind": "Secret", "metadata": ELSEWHERE})],
            "found namespace eksa-system, allowed are those of the file: capi-system",
        ),
        (
            [labelled(NAMESPACE), labelled({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}})],
            "found namespace none, allowed are those of the file",
        ),
        ([labelled(definition("clusters", "anywhere.eks.amazonaws.com"))], "found group anywhere.eks.amazonaws.com"),
        ([labelled(definition("clusters", "evilcluster.x-k8s.io"))], "found group evilcluster.x-k8s.io"),
    ],
)
def test_what_no_provider_installs_is_refused(trees: Sequence[object], told: str) -> None:
    (problem,) = refused({"some.yaml": text(*trees)})
    assert problem.startswith("some.yaml: ")
    assert told in problem


def test_all_problems_of_all_files_are_told() -> None:
    """Up to ten; a file that is no YAML is one of them."""
    pods = [labelled({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"a{n}"}}) for n in range(11)]
    problems = refused({"a.yaml": b"a: [", "b.yaml": text(*pods)})
    assert (len(problems), problems[-1]) == (11, "and 2 more")
    assert problems[0].startswith("a.yaml:2:1: ")


def test_objects_of_one_namespace_are_told_in_a_line() -> None:
    """With the advice for a chart, which lacks its Namespace; nobody is advised to install one of others."""
    metadata = [{"name": f"a{n}", "namespace": namespace} for namespace in ("own", "kube-system") for n in range(3)]
    trees = [labelled({"apiVersion": "v1", "kind": "Secret", "metadata": each}) for each in metadata]
    assert refused({"a.yaml": text(*trees)}) == [
        "a.yaml: Secret a0, Secret a1 and 1 more: found namespace own, allowed are those of the file: none: add "
        "Namespace own to it",
        "a.yaml: Secret a0, Secret a1 and 1 more: found namespace kube-system, allowed are those of the file: none",
    ]


def test_one_provider_in_two_files_is_refused() -> None:
    (problem,) = refused({"a.yaml": CORE_TEXT, "cluster-api/v1.13.5/b.yaml": CORE_TEXT})
    assert problem == "cluster-api/v1.13.5/b.yaml: provider cluster-api is in a.yaml, too: leave one of the files there"


def test_folder_and_image_that_differ_are_refused() -> None:
    (problem,) = refused({"cluster-api/v1.14.2/core.yaml": CORE_TEXT})
    assert "its folder says v1.14.2, its image v1.13.5" in problem


def test_files_of_a_folder_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a" / "v1.0.0").mkdir(parents=True)
    (tmp_path / "a" / "v1.0.0" / "b.yaml").write_bytes(b"1234")
    (tmp_path / "c.yml").write_bytes(b"12")
    (tmp_path / ".hidden.yaml").write_bytes(b"1")
    (tmp_path / "text").write_bytes(b"1")
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "a" / "loop").symlink_to(tmp_path, target_is_directory=True)
    assert folders.files(tmp_path) == {"c.yml": b"12", "a/v1.0.0/b.yaml": b"1234"}
    for name, most, told in (("BYTES", 5, "MiB of YAML"), ("FILES", 1, "more than 1 YAML"), ("LEVELS", 1, "levels")):
        with monkeypatch.context() as patch:
            patch.setattr(folders, f"MOST_{name}", most)
            with pytest.raises(Unusable, match=told):
                folders.files(tmp_path)
    with pytest.raises(Unusable, match="this is no folder"):
        folders.files(tmp_path / "c.yml")
