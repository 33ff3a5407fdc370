"""kubeadm-config is brought to what is asked for: only what is to change changes, whoever wrote the text."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as some

from espalier.api.meta import Tree
from espalier.upgrades.node.cluster_configuration import (
    WantedConfiguration,
    has_external_etcd,
    obstacle,
    read,
    text_of,
    version_of,
    wanted,
)

TEXT = """\
apiServer:
  certSANs:
  - localhost
  extraArgs:
  - name: profiling
    value: "false"
apiVersion: kubeadm.k8s.io/v1beta4
clusterName: garden
dns:
  imageTag: v1.13.1
etcd:
  local:
    dataDir: /var/lib/etcd
    imageTag: 3.6.6-0
featureGates:
  ControlPlaneKubeletLocalMode: true
imageRepository: registry.k8s.io
kind: ClusterConfiguration
kubernetesVersion: v1.35.4
networking:
  podSubnet: 192.168.0.0/16
scheduler: {}
"""
OLD, NEW = "v1.35.4", "v1.36.3"
TREE = yaml.safe_load(TEXT)


def config_map(text: object) -> dict[str, object]:
    return {"data": {"ClusterConfiguration": text}}


def test_tag_of_etcd_is_set_and_unknown_gates_go() -> None:
    configuration = wanted(read(config_map(TEXT)), WantedConfiguration(NEW, "3.6.8-0"))

    etcd = {"local": {"dataDir": "/var/lib/etcd", "imageTag": "3.6.8-0"}}
    assert configuration == {name: part for name, part in TREE.items() if name != "featureGates"} | {"etcd": etcd}
    assert version_of(configuration) == OLD, "kubeadm writes it"


@pytest.mark.parametrize(("version", "remains"), [("v1.36.3", True), ("v1.37.2", False), ("v1.38.0", False)])
@pytest.mark.parametrize("gate", ["NodeLocalCRISocket", "PublicKeysECDSA"])
def test_gates_go_that_kubeadm_1_37_does_not_know(gate: str, version: str, remains: bool) -> None:
    tree = TREE | {"kubernetesVersion": "v1.36.3", "featureGates": {gate: True, "RootlessControlPlane": True}}
    gates = {gate: True} if remains else {}
    assert wanted(tree, WantedConfiguration(version))["featureGates"] == gates | {"RootlessControlPlane": True}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"featureGates": {"PublicKeysECDSA": True}}, "ECDSA-P256"),
        ({"featureGates": {"PublicKeysECDSA": False}}, None),
        ({"featureGates": {"PublicKeysECDSA": True}, "encryptionAlgorithm": "RSA-3072"}, "RSA-3072"),
        ({"featureGates": {}}, None),
    ],
)
def test_keys_stay_ecdsa_without_their_gate(fields: Tree, expected: str | None) -> None:
    tree = TREE | {"kubernetesVersion": "v1.36.3", **fields}
    assert wanted(tree, WantedConfiguration("v1.37.2")).get("encryptionAlgorithm") == expected
    assert wanted(tree, WantedConfiguration("v1.36.3")).get("encryptionAlgorithm") == fields.get("encryptionAlgorithm")


def test_unchanged_configuration_stays() -> None:
    assert wanted(TREE, WantedConfiguration(OLD)) == TREE
    assert wanted(TREE, WantedConfiguration(OLD, "3.6.6-0")) == TREE


def test_control_plane_sets_and_removes_kubeadm_parts() -> None:
    parts: Tree = {
        "apiServer": {"extraArgs": [{"name": "v", "value": "4"}], "certSANs": ["other"]},
        "controllerManager": {"extraVolumes": [{"name": "a", "hostPath": "/a", "mountPath": "/a"}]},
        "etcd": {"local": {"imageRepository": "mirror.example", "imageTag": "v3.6.6", "dataDir": "/elsewhere"}},
        "featureGates": {"NodeLocalCRISocket": True},
        "networking": {"podSubnet": "10.0.0.0/8"},
    }

    configuration = wanted(TREE, WantedConfiguration(OLD, "", parts))

    assert configuration == TREE | {
        "apiServer": {"certSANs": ["localhost"], "extraArgs": [{"name": "v", "value": "4"}]},
        "controllerManager": {"extraVolumes": parts["controllerManager"]["extraVolumes"]},
        "etcd": {"local": {"dataDir": "/var/lib/etcd", "imageRepository": "mirror.example", "imageTag": "v3.6.6"}},
        "featureGates": {"NodeLocalCRISocket": True},
    }
    without = wanted(configuration, WantedConfiguration(OLD, "", {"etcd": {"local": {"imageTag": "v3.6.6"}}}))
    assert without["apiServer"] == {"certSANs": ["localhost"]}
    assert "featureGates" not in without
    assert "controllerManager" not in without
    assert without["etcd"]["local"] == {"dataDir": "/var/lib/etcd", "imageTag": "v3.6.6"}
    assert without["imageRepository"] == "registry.k8s.io", "kubeadm needs one; Cluster API keeps it as well"


@pytest.mark.demand("U39")
@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (WantedConfiguration("v1.35.3"), "kubernetesVersion v1.35.4 is newer than v1.35.3: downgrades are refused"),
        (WantedConfiguration(NEW, "v3.6.5"), "etcd v3.6.6 is newer than v3.6.5: kubeadm does not downgrade it"),
        (WantedConfiguration(NEW, "", {"etcd": {"local": {"imageTag": "v3.5.9"}}}), "newer than v3.5.9"),
    ],
)
def test_an_older_version_is_refused(asked: WantedConfiguration, why: str) -> None:
    tree = TREE | {"etcd": {"local": {"imageTag": "v3.6.6"}}}

    assert why in obstacle(tree, asked)
    assert obstacle(tree, WantedConfiguration(NEW, "v3.6.6")) == ""
    assert obstacle({**tree, "kubernetesVersion": 5}, asked).startswith("found kubernetesVersion nothing")
    assert obstacle(tree, WantedConfiguration(NEW, "v3.8.0")) == (
        "etcd v3.6.6 can't become v3.8.0: it is upgraded one minor version at a time; upgrade to a release with etcd "
        "3.7 first"
    )
    assert obstacle({**tree, "kubernetesVersion": "stable"}, asked).startswith(
        "found kubernetesVersion stable, allowed"
    )


@pytest.mark.demand("U7")
def test_an_etcd_on_other_machines_is_noticed() -> None:
    assert has_external_etcd({"etcd": {"external": {"endpoints": ["https://10.0.0.1:2379"]}}})
    assert not has_external_etcd(TREE)
    assert not has_external_etcd({"etcd": "x"})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "it has no ClusterConfiguration"),
        ("", "it has no ClusterConfiguration"),
        ("a: b: c", "not YAML"),
        ("[]", "is not a map"),
        ("a: 1\n---\nb: 2\n", "is not a map"),
        ("apiVersion: kubeadm.k8s.io/v1beta3\n", "its apiVersion is kubeadm.k8s.io/v1beta3"),
        ("kubernetesVersion: v1.36.3\n", "its apiVersion is missing, allowed: kubeadm.k8s.io/v1beta4"),
        ("[" * 10_000, "levels deep"),
        ("{" * 10_000, ""),
        ("a: " + "x" * 300_000, "characters, more than 262144"),
        ("a: &a [1]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a]\n" * 2, "duplicate anchor"),
    ],
)
def test_hostile_configuration_is_refused_shortly(text: object, why: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        read(config_map(text))

    assert why in str(caught.value)
    assert len(str(caught.value)) < 500


@given(some.text(max_size=20))
def test_text_is_read_as_by_other_readers(value: str) -> None:
    tree = TREE | {"clusterName": value}

    assert yaml.safe_load(text_of(tree, TEXT)) == tree
    assert json.loads(text_of(tree, "{")) == tree
    if value.isprintable():
        assert read(config_map(text_of(tree, TEXT))) == tree


@pytest.mark.parametrize("value", ["1e3", "0o17", "1_000", "2026-01-01", "yes", "on", "null", "~", "1.30", "0x1f", "y"])
def test_ambiguous_scalars_are_quoted(value: str) -> None:
    assert f"clusterName: '{value}'" in text_of(TREE | {"clusterName": value}, TEXT)
