"""Manifests of those who know EKS Anywhere's command: it reads more than kubectl does."""

from __future__ import annotations

from typing import Any

import pytest

from espalier.api.eksa.cluster import Cluster
from espalier.api.manifests import leniency
from espalier.api.manifests.manifests import read_manifests
from espalier.api.manifests.schema import violations
from espalier.api.meta import Tree

HEAD = "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Cluster\nmetadata:\n  name: garden\n"


def read(spec: str) -> tuple[Any, tuple[leniency.Note, ...]]:
    (document,) = read_manifests(f"{HEAD}spec:\n{spec}", source="a.yaml")
    lenient = leniency.read(Cluster, document.tree, document.node)
    return lenient.tree["spec"], lenient.notes


def test_names_of_fields_have_any_letter_case() -> None:
    spec, notes = read("  KubernetesVersion: '1.35'\n  clusternetwork: {pods: {CIDRBlocks: [192.168.0.0/16]}}\n")
    assert spec == {"kubernetesVersion": "1.35", "clusterNetwork": {"pods": {"cidrBlocks": ["192.168.0.0/16"]}}}
    assert notes == (
        (
            "spec.kubernetesVersion",
            "KubernetesVersion is read as kubernetesVersion; kubectl accepts no other",
        ),
        ("spec.clusterNetwork", "clusternetwork is read as clusterNetwork; kubectl accepts no other"),
        ("spec.clusterNetwork.pods.cidrBlocks", "CIDRBlocks is read as cidrBlocks; kubectl accepts no other"),
    )


def test_keys_of_maps_are_no_fields() -> None:
    spec, notes = read("  controlPlaneConfiguration: {labels: {Team: blue, team: green}}\n")
    assert spec == {"controlPlaneConfiguration": {"labels": {"Team": "blue", "team": "green"}}}
    assert notes == ()


@pytest.mark.parametrize("other", ["kubernetesversion: '1.34'", "kubernetesVersion: '1.34'"])
def test_field_given_in_two_ways_is_not_guessed(other: str) -> None:
    spec, notes = read(f"  KubernetesVersion: '1.35'\n  {other}\n")
    assert "KubernetesVersion" in spec
    assert notes == ()


def test_a_version_is_the_text_that_is_written() -> None:
    spec, notes = read("  kubernetesVersion: 1.30\n  workerNodeGroupConfigurations: [{kubernetesVersion: 1.40}]\n")
    assert spec == {"kubernetesVersion": "1.30", "workerNodeGroupConfigurations": [{"kubernetesVersion": "1.40"}]}
    assert notes[0] == ("spec.kubernetesVersion", 'read as text; kubectl requires quotes: "1.30"')


def test_numbers_and_booleans_become_text_where_needed() -> None:
    spec, _ = read(
        "  registryMirrorConfiguration: {port: 5000, authenticate: true}\n"
        "  workerNodeGroupConfigurations:\n  - {count: 2, labels: {gpu: true, row: 7, ratio: 1.5}}\n"
        "  controlPlaneConfiguration: {certSans: [12, api.example.com]}\n"
    )
    assert spec == {
        "registryMirrorConfiguration": {"port": "5000", "authenticate": True},
        "workerNodeGroupConfigurations": [{"count": 2, "labels": {"gpu": "true", "row": "7", "ratio": "1.5"}}],
        "controlPlaneConfiguration": {"certSans": ["12", "api.example.com"]},
    }


@pytest.mark.parametrize("written", ["NO", "yes", "1.10", "0x10", "1_000", "1e3", "True"])
def test_value_that_becomes_another_text_is_refused(written: str) -> None:
    spec, notes = read(f"  workerNodeGroupConfigurations: [{{name: md-0, labels: {{country: {written}}}}}]\n")
    assert notes == ()
    tree: Tree = {"spec": spec}
    (wrong,) = (violation for violation in violations(Cluster, tree) if "labels" in violation.field)
    assert wrong.message == "wrong type; put the value in quotes"


def test_scalar_of_merged_map_is_not_turned_into_text() -> None:
    """The text of a scalar is not at hand there: it is refused where that matters."""
    spec, _ = read("  controlPlaneConfiguration: &all {labels: {row: 7}}\n  externalEtcdConfiguration: {<<: *all}\n")
    assert spec["controlPlaneConfiguration"] == {"labels": {"row": "7"}}
    assert spec["externalEtcdConfiguration"] == {"labels": {"row": 7}}


def test_no_status_is_asked_for() -> None:
    """`kubectl get -o yaml` prints it, and that of EKS Anywhere has other fields."""
    text = f"{HEAD}spec: {{}}\nstatus: {{conditions: [{{type: Ready, status: 'True'}}], reconciledGeneration: 3}}\n"
    (document,) = read_manifests(text, source="a.yaml")
    assert "status" not in leniency.read(Cluster, document.tree, document.node).tree


def test_names_labels_and_annotations_are_text_as_well() -> None:
    text = HEAD.replace("garden", "123") + "  annotations: {anywhere.eks.amazonaws.com/paused: true}\n"
    (document,) = read_manifests(text, source="a.yaml")
    metadata = leniency.read(Cluster, document.tree, document.node).tree["metadata"]
    assert metadata == {"name": "123", "annotations": {"anywhere.eks.amazonaws.com/paused": "true"}}


def test_nothing_is_kept_of_the_object_that_was() -> None:
    """An owner that is gone would take along what is made anew, and a uid or a version is another object's."""
    owner = "[{apiVersion: anywhere.eks.amazonaws.com/v1alpha1, kind: Cluster, name: garden, uid: u-1}]"
    text = f"{HEAD}  uid: u-2\n  resourceVersion: '7'\n  creationTimestamp: null\n  ownerReferences: {owner}\n"
    (document,) = read_manifests(f"{text}  finalizers: [example.com/mine]\n", source="a.yaml")
    metadata = leniency.read(Cluster, document.tree, document.node).tree["metadata"]
    assert metadata == {"name": "garden", "finalizers": ["example.com/mine"]}


def test_a_corrected_field_keeps_its_line() -> None:
    (document,) = read_manifests(f"{HEAD}spec:\n  KubernetesVersion: '1.19'\n", source="a.yaml")
    leniency.read(Cluster, document.tree, document.node)
    assert document.line("spec.kubernetesVersion") == 6
