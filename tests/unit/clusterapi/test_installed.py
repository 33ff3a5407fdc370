"""The Cluster API that is installed: what does not work with it, and what later ones do not have."""

from __future__ import annotations

from typing import Any

import pytest

from espalier.api.version_matrix import CLUSTER_API
from espalier.clusterapi.infrastructures.infrastructure import GROUP
from espalier.clusterapi.installed import manager_image, problems, unread, unsupported, version_of, warnings

Tree = dict[str, Any]


def deployment(image: str, provider: str = "cluster-api") -> Tree:
    template = {"spec": {"containers": [{"name": "manager", "image": image}]}}
    return {"metadata": {"labels": {"cluster.x-k8s.io/provider": provider}}, "spec": {"template": template}}


def definition(
    name: str = "clusters.cluster.x-k8s.io",
    kind: str = "Cluster",
    versions: tuple[str, ...] = ("v1beta1", "v1beta2"),
    stored: tuple[str, ...] = ("v1beta2",),
    labels: tuple[str, ...] = (),
) -> Tree:
    plural, _, group = name.partition(".")
    return {
        "metadata": {"name": name, "labels": dict.fromkeys(labels, "v1")},
        "spec": {
            "group": group,
            "names": {"plural": plural, "kind": kind},
            "versions": [{"name": version, "served": True, "storage": version == versions[-1]} for version in versions],
        },
        "status": {"storedVersions": list(stored)},
    }


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("registry.example:5000/cluster-api/cluster-api-controller:v1.14.2", "1.14.2"),
        ("example.org/cluster-api-controller:v1.13.2-eks-a-1@sha256:00", "1.13.2"),
        ("example.org/cluster-api-controller@sha256:00", ""),
        ("registry.example:5000/cluster-api-controller", ""),
        ("example.org/cluster-api-controller:main", ""),
        ("", ""),
    ],
)
def test_the_version_is_that_of_the_managers_image(image: str, version: str) -> None:
    assert version_of([deployment("example.org/x:v9.9.9", "other"), deployment(image)]) == version


def test_no_containers_tell_no_version() -> None:
    labels = {"labels": {"cluster.x-k8s.io/provider": "cluster-api"}}
    assert version_of([{"metadata": {}}, {"metadata": labels}, {"metadata": labels, "spec": {"template": None}}]) == ""


def test_a_program_beside_the_manager_tells_nothing() -> None:
    both = deployment("example.org/cluster-api-controller:v1.14.2")
    containers = both["spec"]["template"]["spec"]["containers"]
    containers.insert(0, {"name": "kube-rbac-proxy", "image": "example.org/kube-rbac-proxy:v0.20.0"})
    assert version_of([both]) == "1.14.2"
    containers.pop()
    assert manager_image(both) == "example.org/kube-rbac-proxy:v0.20.0"


def test_an_image_without_a_version_is_warned_of() -> None:
    image = "mirror.example:5000/cluster-api@sha256:00"
    assert list(unread([deployment(image)])) == [
        f"Cluster API: found image {image}, which does not tell the version; allowed are versions 1.13, 1.14: check "
        "that it is one of them"
    ]
    assert list(unread([deployment("example.org/cluster-api-controller:v1.14.2"), deployment("x", "other")])) == []


@pytest.mark.parametrize(
    ("version", "kubernetes", "warning"),
    [
        (
            "1.13.5",
            "1.37",
            "Kubernetes: found 1.37, Cluster API 1.13.5 supports 1.30 to 1.36; upgrade Cluster API to 1.13.6 or a "
            "later one first",
        ),
        (
            "1.14.2",
            "1.38",
            "Kubernetes: found 1.38, Cluster API 1.14.2 supports 1.31 to 1.37; choose one of these, or another version "
            "of Cluster API",
        ),
        (
            "1.14.0",
            "1.30",
            "Kubernetes: found 1.30, Cluster API 1.14.0 supports 1.31 to 1.36; choose one of these, or another version "
            "of Cluster API",
        ),
    ],
)
def test_kubernetes_that_it_does_not_support(version: str, kubernetes: str, warning: str) -> None:
    assert list(unsupported(version, [kubernetes, "1.36", "", "latest"])) == [warning]


@pytest.mark.parametrize("version", ["", "1.15.0", "1.13.6", "1.14.2"])
def test_kubernetes_that_it_supports_is_not_named(version: str) -> None:
    assert list(unsupported(version, ["1.35", "1.36", "1.37"])) == []


@pytest.mark.parametrize("version", ["", *(minor.patch for minor in CLUSTER_API.values())])
def test_versions_of_the_matrix_are_taken(version: str) -> None:
    assert list(problems(version, [definition()])) == []


def test_an_older_cluster_api_is_to_be_upgraded() -> None:
    (problem,) = problems("1.12.4", [definition()])
    assert problem == "Cluster API: found 1.12.4, allowed are versions 1.13, 1.14; upgrade it to 1.14.2"


def test_an_older_one_that_is_upgraded_is_taken() -> None:
    old = definition(versions=("v1beta1",), stored=("v1beta1",))
    assert list(problems("1.12.4", [old], is_upgraded=True)) == []
    assert len(list(problems("1.15.0", [old], is_upgraded=True))) == 1


def test_a_newer_cluster_api_needs_another_espalier() -> None:
    (problem,) = problems("1.15.0", [definition()])
    assert problem.endswith("allowed are versions 1.13, 1.14; install 1.14.2, or a release of Espalier that has it")


def test_objects_in_a_gone_version_are_a_problem() -> None:
    (problem,) = problems("1.14.2", [definition(versions=("v1beta2",), stored=("v1alpha4", "v1beta2"))])
    assert problem.startswith("CustomResourceDefinition clusters.cluster.x-k8s.io: found objects stored as v1alpha4")
    others = definition("things.example.org", versions=("v2",), stored=("v1",))
    assert list(problems("1.14.2", [others])) == []


def test_a_definition_that_stores_nothing_is_a_problem() -> None:
    broken = definition()
    for version in broken["spec"]["versions"]:
        version["storage"] = False
    (problem,) = problems("", [broken])
    assert "found no version that is stored among v1beta1, v1beta2" in problem
    del broken["spec"]["versions"], broken["status"]
    broken["spec"]["versions"] = []
    (problem,) = problems("", [broken])
    assert "among none" in problem


def test_a_definition_without_v1beta2_is_a_problem() -> None:
    (problem,) = problems("", [definition(versions=("v1beta1",), stored=("v1beta1",))])
    assert problem.startswith(
        "CustomResourceDefinition clusters.cluster.x-k8s.io: found v1beta1 served, allowed is v1beta2"
    )


def test_nothing_is_said_of_an_unknown_cluster_api() -> None:
    assert list(warnings("", [definition(stored=("v1beta1",))], {"DockerCluster"})) == []


def test_nothing_that_ends_is_used() -> None:
    assert list(warnings("1.14.2", [definition()], {"VSphereCluster"})) == []


def test_objects_stored_as_v1beta1_are_warned_of() -> None:
    names = [f"{kind}s.cluster.x-k8s.io" for kind in ("machine", "machineset", "machinepool", "cluster")]
    (warning,) = warnings("1.14.2", [definition(name, stored=("v1beta1", "v1beta2")) for name in names], ())
    assert "API version v1beta1 of Cluster API: found clusters.cluster.x-k8s.io, " in warning
    assert "and 1 more; Cluster API 1.16, announced for 2027-04 does not have it: use API version v1beta2" in warning


def test_providers_of_the_old_contract_are_warned_of() -> None:
    old = definition(f"olds.{GROUP}", "Old", ("v1beta1",), ("v1beta1",), ("cluster.x-k8s.io/v1beta1",))
    both = ("cluster.x-k8s.io/v1beta1", "cluster.x-k8s.io/v1beta2")
    new = definition(f"news.{GROUP}", "New", ("v1beta1",), ("v1beta1",), both)
    assert list(warnings("1.13.5", [old, new], {"New"})) == []
    (warning,) = warnings("1.13.5", [old, new], {"Old", "New"})
    assert f"contract v1beta1 of providers: found olds.{GROUP}; Cluster API 1.16" in warning


def test_docker_kinds_in_use_are_warned_of() -> None:
    docker = definition(f"dockerclusters.{GROUP}", "DockerCluster")
    assert list(warnings("1.14.2", [docker], {"VSphereCluster"})) == []
    (warning,) = warnings("1.14.2", [docker], {"DockerCluster"})
    assert "found DockerCluster; Cluster API 1.15 does not have it: use DevCluster, DevMachine" in warning
