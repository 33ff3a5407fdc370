"""Versions of what runs in a management cluster, beside those of a release."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from espalier.api.eksa.releases.infrastructure import CloudStackBundle
from espalier.api.eksa.vocabulary.metadata_keys import SIMULATED_PROVIDERS
from espalier.cli.kit.printing.layout import Layout
from espalier.cli.management.commands import components_of
from espalier.cli.management.components import components
from espalier.cli.management.components.component_versions import Versions, compared
from espalier.kube.objects import Object, to_bytes
from espalier.releases import Releases

BUNDLE = Releases.load().newest().bundles.spec.versions_bundles[-1]


def deployment(namespace: str, name: str, image: str, provider: str = "") -> Object:
    labels = {"cluster.x-k8s.io/provider": provider} if provider else {}
    metadata = {"namespace": namespace, "name": name, "labels": labels}
    spec = {"template": {"spec": {"containers": [{"name": "manager", "image": image}]}}}
    return Object(to_bytes({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}))


def test_what_runs_stands_beside_what_a_release_has() -> None:
    rows = compared(
        [
            deployment("capi-system", "capi-controller-manager", "registry.k8s.io/cluster-api/x:v1.12.0"),
            deployment("anywhere", "any-name", "localhost:5000/x:v1.16.0", "infrastructure-vsphere"),
            deployment("eksa-system", "espalier-controller-manager", "e/espalier:v0.26.0"),
            deployment("default", "capd-controller-manager", "somebody/else:v1"),
        ],
        BUNDLE,
    )
    assert {row.title: (row.present, row.change) for row in rows} == {
        "Espalier": ("v0.26.0", "stays"),
        "Cluster API": ("v1.12.0", "changes"),
        "kubeadm bootstrap": ("", "missing"),
        "kubeadm control plane": ("", "missing"),
        "vSphere": ("v1.16.0", "changes"),
    }
    assert next(row.wanted for row in rows if row.title == "Cluster API").startswith("v1.13")


@pytest.mark.parametrize(
    ("image", "present"),
    [
        ("localhost:5000/x:v1", "v1"),
        (f"r.io/x@sha256:{'a' * 64}", f"sha256:{'a' * 64}"),
        (f"r.io/x:v2@sha256:{'a' * 64}", "v2"),
        ("localhost:5000/x", "localhost:5000/x"),
    ],
)
def test_a_version_is_that_of_the_image(image: str, present: str) -> None:
    (row, *_) = compared([deployment("eksa-system", "espalier-controller-manager", image)], BUNDLE)
    assert row.present == present


def test_a_release_without_a_version_changes_nothing() -> None:
    assert Versions("x", "v1", "").change == "stays"


def test_component_that_is_no_longer_released_stays() -> None:
    """Bundles of EKS Anywhere say so of CloudStack's provider."""
    bundle = replace(BUNDLE, cloud_stack=CloudStackBundle(version="deprecated"))
    rows = compared([deployment("capc-system", "capc-controller-manager", "r.io/capc:v0.6.1")], bundle)
    assert ("CloudStack", "v0.6.1", "stays") in [(row.title, row.present, row.change) for row in rows]


def test_image_of_the_release_stays() -> None:
    """Its tag has the number of a build, which the version of the component lacks."""
    assert BUNDLE.eksa is not None
    assert BUNDLE.eksa.cluster_controller is not None
    image = BUNDLE.eksa.cluster_controller.uri
    (row, *_) = compared([deployment("eksa-system", "espalier-controller-manager", image)], BUNDLE)
    assert (row.present, row.change) == (image.rpartition(":")[2], "stays")


def test_a_version_in_a_heading_is_written_as_it_is() -> None:
    assert Layout(components_of("v0.26.0"), 80).lines([])[0].split() == ["COMPONENT", "FOUND", "v0.26.0", "CHANGE"]


def test_simulated_providers_are_named_and_stay() -> None:
    """One Deployment has all of their controllers."""
    release = Releases.load().newest().version
    trees = components.simulated_cluster_api(release)
    rows = compared([Object(to_bytes(tree)) for tree in trees if tree["kind"] == "Deployment"], BUNDLE)
    core = next(row for row in rows if row.title == "Cluster API")
    assert core.present.startswith("v1.")
    assert core.present == core.wanted
    others = {row.title: (row.present, row.change) for row in rows if row.title not in ("Espalier", "Cluster API")}
    kubeadm = ("kubeadm bootstrap", "kubeadm control plane")
    names = (*kubeadm, "Docker", "vSphere", "CloudStack", "Nutanix", "Tinkerbell", "Snow")
    assert others == dict.fromkeys(names, ("simulated", "stays"))
    assert all(row.wanted.startswith("v") for row in rows if row.title in kubeadm)


def test_providers_claimed_by_others_are_missing() -> None:
    item = deployment("default", "any", "x:v1")
    tree = {
        **item.tree,
        "metadata": {**item.tree["metadata"], "annotations": {SIMULATED_PROVIDERS: "bootstrap-kubeadm"}},
    }
    assert {row.change for row in compared([Object(to_bytes(tree))], BUNDLE)} == {"missing"}
