"""The manifest to begin with is taken as it is, by our reader, admission and rendering."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from espalier.api.manifests import read_manifests
from espalier.cli.main import program
from espalier.providers.kinds import MANIFESTS


def said(*arguments: str, stdin: str = "") -> str:
    done = CliRunner().invoke(program, ["generate", *arguments], input=stdin)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize("provider", MANIFESTS)
def test_what_is_generated_becomes_objects_unchanged(provider: str) -> None:
    manifest = said("clusterconfig", "garden", "--provider", provider, "--management-cluster", "laptop")
    documents = read_manifests(manifest.encode(), source="garden.yaml")
    assert documents[0].kind == "Cluster"
    assert documents[0].tree["spec"]["managementCluster"] == {"name": "laptop"}
    objects = said("objects", "-f", "-", stdin=manifest)
    has_etcd = "externalEtcdConfiguration" in documents[0].tree["spec"]
    assert ("kind: EtcdadmCluster" in objects) == has_etcd == (provider != "tinkerbell")
    assert "kind: KubeadmControlPlane" in objects


def test_without_another_the_cluster_is_its_own_management_cluster_as_in_eks_anywhere() -> None:
    documents = read_manifests(said("clusterconfig", "garden", "-p", "docker").encode(), source="garden.yaml")
    cluster, datacenter = (document.tree for document in documents)
    assert cluster["spec"]["managementCluster"] == {"name": "garden"}
    assert cluster["spec"]["externalEtcdConfiguration"] == {"count": 1}
    assert cluster["spec"]["kubernetesVersion"] == "1.36"
    assert datacenter["metadata"] == {"name": "garden"}


def test_a_name_that_no_cluster_can_have_is_refused() -> None:
    for arguments, field in ((["Garden_1"], "metadata.name"), (["garden", "--management-cluster", "Foo_Bar"], "--man")):
        done = CliRunner().invoke(program, ["generate", "clusterconfig", *arguments, "-p", "docker"])
        assert done.exit_code != 0
        assert field in str(done.exception)
        assert "must be a DNS label that begins with a letter" in str(done.exception)
