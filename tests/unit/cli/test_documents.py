"""All problems of a manifest are reported at once, whoever finds them."""

from __future__ import annotations

from pathlib import Path

import pytest

from espalier.api.manifests import manifests
from espalier.api.manifests.manifests import read_manifests
from espalier.api.text.violations import ManifestError
from espalier.cli.clusters.manifests import documents
from espalier.providers.kinds import CATALOG
from espalier.providers.registry import PROVIDERS
from tests.support.providers import snow

EXAMPLE = (Path(__file__).parents[3] / "examples" / "docker.yaml").read_text()


def problems(folder: Path, manifest: str) -> dict[str, int]:
    """The fields that are named, and their lines."""
    file = folder / "cluster.yaml"
    file.write_text(manifest)
    with pytest.raises(ManifestError) as refused:
        documents.read([str(file)])
    return {problem.violation.field: problem.line for problem in refused.value.problems}


def test_schema_and_rules_are_reported_together(tmp_path: Path) -> None:
    wrong = EXAMPLE.replace("count: 1", "count: 2\n    cuont: 1").replace("192.168.0.0/16", "banana")
    assert problems(tmp_path, wrong) == {
        "spec.controlPlaneConfiguration.cuont": 18,
        "spec.controlPlaneConfiguration.count": 17,
        "spec.clusterNetwork.pods.cidrBlocks[0]": 12,
    }


def test_field_refused_twice_is_reported_once(tmp_path: Path) -> None:
    assert list(problems(tmp_path, EXAMPLE.replace("count: 1", "count: 1000001"))) == [
        "spec.controlPlaneConfiguration.count"
    ]


def test_field_of_wrong_type_gets_no_further_messages(tmp_path: Path) -> None:
    assert list(problems(tmp_path, EXAMPLE.replace('"1.35"', "[1.35]"))) == ["spec.kubernetesVersion"]
    assert list(problems(tmp_path, EXAMPLE.replace("count: 2", "count: two"))) == [
        "spec.workerNodeGroupConfigurations[0].count"
    ]
    assert list(problems(tmp_path, EXAMPLE.replace("- 192.168.0.0/16", "- [5]"))) == [
        "spec.clusterNetwork.pods.cidrBlocks[0]"
    ]


def test_a_wrong_type_does_not_hide_other_problems(tmp_path: Path) -> None:
    wrong = EXAMPLE.replace('"1.35"', "[1.35]").replace("count: 1", "count: 2").replace("192.168.0.0/16", "banana")
    assert problems(tmp_path, wrong) == {
        "spec.kubernetesVersion": 21,
        "spec.controlPlaneConfiguration.count": 17,
        "spec.clusterNetwork.pods.cidrBlocks[0]": 12,
    }


@pytest.mark.parametrize("wrong", ["kind: [5]", "kind: {}", "kind:"])
def test_a_reference_that_is_none_is_named(tmp_path: Path, wrong: str) -> None:
    manifest = EXAMPLE.replace("  datacenterRef:\n    kind: DockerDatacenterConfig", f"  datacenterRef:\n    {wrong}")
    assert "spec.datacenterRef.kind" in problems(tmp_path, manifest)


@pytest.mark.parametrize("spec", ["", "spec:\n", "spec: null\n", "spec: 3\n"])
def test_cluster_without_a_spec_is_prepared(spec: str, tmp_path: Path) -> None:
    text = f"apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Cluster\nmetadata: {{name: xy}}\n{spec}"
    result = read_manifests(text.encode(), source="xy.yaml")
    [(_, tree)] = documents.in_namespace(result, "default")
    assert tree["spec"] == {}


def test_an_object_without_a_spec_is_sent_without_one() -> None:
    """A DockerDatacenterConfig has nothing to say; with a spec it would be another than `kubectl apply` made."""
    text = "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: DockerDatacenterConfig\nmetadata: {name: xy}\n"
    [(_, tree)] = documents.in_namespace(read_manifests(text, source="xy.yaml"), "default")
    assert "spec" not in tree


def test_named_objects_belong_to_the_cluster() -> None:
    meta = {"name": "garden", "namespace": "default"}
    groups = [{"machineGroupRef": {"kind": "OrchardMachineConfig", "name": "garden"}}]
    spec = {"identityProviderRefs": [{"kind": "OIDCConfig", "name": "garden"}], "workerNodeGroupConfigurations": groups}
    cluster = {"kind": "Cluster", "metadata": meta, "spec": spec}
    for kind in ("OIDCConfig", "OrchardMachineConfig"):
        named, other = ({"kind": kind, "metadata": meta | {"name": name}} for name in ("garden", "other"))
        assert documents.linked(cluster, [other, named], PROVIDERS) == [named]
    assert {"OIDCConfig", "AWSIamConfig"} <= set(manifests.kinds_of(CATALOG))


def test_objects_of_a_machine_config_belong_to_it_too() -> None:
    cluster, *others = snow.manifest()
    *_, pool = others
    elsewhere, unnamed = snow.another_pool("team-b"), snow.another_pool()
    elsewhere["metadata"]["name"] = pool["metadata"]["name"]
    assert pool["kind"] == "SnowIPPool"
    assert documents.linked(cluster, [elsewhere, unnamed, *others], PROVIDERS) == others
