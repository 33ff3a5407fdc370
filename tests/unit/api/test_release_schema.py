"""The API's schema of releases: it also holds for those that users make themselves."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from espalier.api.definitions.crd import crd_of
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.releases.release import Bundles, EKSARelease
from espalier.api.manifests.schema import violations
from espalier.api.meta import Tree
from espalier.releases import image_at, images


def spec_schema(kind: type[Cluster] | type[EKSARelease]) -> Tree:
    version = msgspec.to_builtins(crd_of(kind))["spec"]["versions"][0]
    properties: Tree = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return properties


def release(**edits: Any) -> Tree:
    reference = {"apiVersion": "anywhere.eks.amazonaws.com/v1alpha1", "name": "bundles-1", "namespace": "eksa-system"}
    facts = {"version": "v0.26.0", "date": "2026-01-01T00:00:00Z", "gitCommit": "c", "bundleManifestUrl": "u"}
    spec = {key: value for key, value in (facts | {"bundlesRef": reference} | edits).items() if value is not None}
    return {
        "apiVersion": "anywhere.eks.amazonaws.com/v1alpha1",
        "kind": "EKSARelease",
        "metadata": {"name": "eksa-v0-26-0"},
        "spec": spec,
    }


def bundles(*versions: Tree) -> Tree:
    return {
        "apiVersion": "anywhere.eks.amazonaws.com/v1alpha1",
        "kind": "Bundles",
        "metadata": {"name": "bundles-1"},
        "spec": {"number": 1, "cliMinVersion": "v0.26.0", "cliMaxVersion": "v0.26.0", "versionsBundles": [*versions]},
    }


@pytest.mark.demand("V20")
@pytest.mark.parametrize("field", ["date", "version", "gitCommit", "bundleManifestUrl", "bundlesRef"])
@pytest.mark.parametrize("value", [None, 15, ""])
def test_a_release_has_all_its_facts(field: str, value: int | str | None) -> None:
    assert violations(EKSARelease, release()) == []
    assert {violation.field for violation in violations(EKSARelease, release(**{field: value}))} == {f"spec.{field}"}


def test_stored_release_with_an_empty_fact_is_readable() -> None:
    assert msgspec.convert(release(gitCommit="", bundleManifestUrl=""), EKSARelease).spec.git_commit == ""


@pytest.mark.demand("V19")
def test_the_date_of_a_release_is_a_moment() -> None:
    date = spec_schema(EKSARelease)["properties"]["date"]
    assert (date["type"], date["format"]) == ("string", "date-time")


@pytest.mark.demand("V2", "V4")
def test_optional_release_replaces_the_bundles() -> None:
    spec = spec_schema(Cluster)
    assert spec["properties"]["eksaVersion"]["type"] == "string"
    assert not {"eksaVersion", "bundlesRef"} & set(spec.get("required", []))
    assert "Deprecated: use eksaVersion" in spec["properties"]["bundlesRef"]["description"]


@pytest.mark.demand("V31")
def test_other_fields_are_named_as_in_the_proposal() -> None:
    assert set(spec_schema(Cluster)["properties"]) >= {
        "kubernetesVersion",
        "controlPlaneConfiguration",
        "workerNodeGroupConfigurations",
        "datacenterRef",
        "identityProviderRefs",
        "gitOpsRef",
        "clusterNetwork",
        "externalEtcdConfiguration",
        "proxyConfiguration",
        "registryMirrorConfiguration",
        "managementCluster",
        "podIamConfig",
        "packages",
    }


def test_bundles_have_installer_for_each_architecture() -> None:
    none: Tree = {"bottlerocket": {}}
    hook = {
        "iso": {
            architecture: {"name": architecture, "uri": f"https://example.com/{architecture}.iso"}
            for architecture in ("amd", "arm")
        }
    }
    versions = {
        "kubeVersion": "1.35",
        "eksD": {"name": "kubernetes-1-35-eks-1", "ami": none, "ova": none, "raw": none},
        "tinkerbell": {"version": "v0.6.6", "tinkerbellStack": {"hook": hook}},
    }
    tree = bundles(versions)
    assert violations(Bundles, tree) == []
    entry = msgspec.convert(tree, Bundles).spec.versions_bundles[0]
    assert msgspec.to_builtins(entry.tinkerbell)["tinkerbellStack"]["hook"] == hook


def test_bundles_may_lack_parts_of_a_provider() -> None:
    """Its Bundles of v0.8 have CloudStack like that."""
    unreleased: Tree = {"clusterAPIController": {}, "components": {}, "kubeVip": {}, "metadata": {}, "version": ""}
    versions = {"kubeVersion": "1.20", "eksD": {"name": "kubernetes-1-20-eks-13"}, "cloudStack": unreleased}
    tree = bundles(versions)
    assert violations(Bundles, tree) == []
    (entry,) = msgspec.convert(tree, Bundles).spec.versions_bundles
    assert image_at(entry, "cloudStack.kubeVip") is None, "a Cluster that needs it is told that the release lacks it"
    assert images(entry) == {}
