"""A manifest with several faults gives as many errors, each with the line of its field."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from msgspec.structs import replace

from espalier.api.manifests.manifests import read_manifests
from espalier.api.meta import Tree
from espalier.api.text import paths
from espalier.api.text.violations import ManifestError
from espalier.cli.clusters.manifests import documents
from espalier.cli.main import program
from tests.support.objects.faulty_manifests import EXAMPLES, OBJECTS, Error, Fault, check, faults, manifest
from tests.support.objects.refused_clusters import WRONG
from tests.support.sampling import sampled
from tests.support.servers.admission_reviews import edited


def problems(text: str) -> list[Tree]:
    done = CliRunner().invoke(program, ["validate", "-f", "-", "-o", "json"], input=text)
    assert done.stdout, done.exception
    result: list[Tree] = json.loads(done.stdout)["problems"]
    return result


def errors(text: str) -> list[Error]:
    """Those of `-o json`, where what was found and is allowed is in fields of its own."""
    messages = [problem["violation"]["message"] for problem in problems(text)]
    assert [message for message in messages if "; found " in message or "; allowed: " in message] == []
    return [(problem["violation"]["field"], problem["line"]) for problem in problems(text)]


@pytest.mark.parametrize("provider", sampled(OBJECTS, 1))
def test_each_fault_alone_is_one_error(provider: str) -> None:
    for fault in faults(provider):
        check(provider, [fault], errors)


@pytest.mark.parametrize("provider", OBJECTS)
def test_all_faults_together_are_as_many_errors(provider: str) -> None:
    check(provider, faults(provider), errors)


@pytest.mark.parametrize("seed", sampled(range(30), 0, 16))
def test_any_faults_of_a_cluster_are_reported_together(seed: int) -> None:
    """Of those that do not touch the same part."""
    chance = random.Random(seed)
    cases = [("Cluster", "garden", edits, field) for edits, field, _ in WRONG if is_for_validate(edits)]
    chosen: list[Fault] = []
    for item in chance.sample(cases, len(cases)):
        areas = {area(path) for fault in chosen for path in (*fault[2], fault[3])}
        if not areas & {area(path) for path in (*item[2], item[3])} and len(chosen) < 5:
            chosen.append(item)
    assert len(chosen) == 5
    check("docker", copy.deepcopy(chosen), errors)


LABELS: dict[str, tuple[str, str]] = {
    "b c": ("d", "not a valid label name"),
    "d": ("e f", "not a valid label value"),
    "kubernetes.io/a": ("b", "the kubelet"),
    "g h": ("i", "not a valid label name"),
    "j": ("k l", "not a valid label value"),
}
"""Labels that are wrong, with the message."""


@pytest.mark.parametrize("part", ["controlPlaneConfiguration", "workerNodeGroupConfigurations[0]"])
def test_each_wrong_label_of_a_map_is_an_error(part: str) -> None:
    field = f"spec.{part}.labels"
    labels = {name: value for name, (value, _) in LABELS.items()}
    results = problems(manifest("docker", [("Cluster", "garden", {field: labels | {"right": "one"}}, "")]))
    assert [item["violation"]["field"] for item in results] == [f"{field}[{name}]" for name in LABELS]
    for element, (name, (value, message)) in zip(results, LABELS.items(), strict=True):
        assert element["violation"]["message"].startswith(message)
        assert element["violation"]["found"] == (value if "value" in message else name)
        assert element["violation"]["allowed"]
    first = results[0]["line"]
    assert [item["line"] for item in results] == list(range(first, first + len(LABELS)))


ENCRYPTED: Any = [
    {
        "providers": [{"kms": {"name": "a", "socketListenAddress": "unix:///var/run/kmsplugin/a.sock"}}],
        "resources": ["!a", "secrets", "!b"],
    }
]
DOMAINS: Any = [
    {
        "name": "a",
        "cluster": {"type": "name", "name": "c"},
        "subnets": [{"type": "name", "name": "s"}],
        "workerMachineGroups": ["md-0", "b", "c"],
    }
]
WRONG_ENTRIES: list[tuple[str, str, str, str, Any, list[str]]] = [
    ("cloudstack", "CloudStackMachineConfig", "harbor-cp", "symlinks", {"a": "/b", "/c": "/d", "e": "/f"}, []),
    ("cloudstack", "CloudStackMachineConfig", "harbor-cp", "symlinks", {"/a": "b", "/c": "/d", "/e": "f"}, []),
    ("snow", "SnowMachineConfig", "glacier-cp", "devices", ["a", "192.0.2.1", "b"], ["[0]", "[2]"]),
    ("nutanix", "NutanixDatacenterConfig", "quarry", "ccmExcludeNodeIPs", ["a", "192.0.2.1", "b"], ["[0]", "[2]"]),
    ("vsphere", "Cluster", "vineyard", "etcdEncryption", ENCRYPTED, ["[0].resources[0]", "[0].resources[2]"]),
    (
        "nutanix",
        "NutanixDatacenterConfig",
        "quarry",
        "failureDomains",
        DOMAINS,
        ["[0].workerMachineGroups[1]", "[0].workerMachineGroups[2]"],
    ),
    ("vsphere", "Cluster", "vineyard", "controlPlaneConfiguration.certSans", ["a b", "c.d", "e f"], ["[0]", "[2]"]),
    (
        "vsphere",
        "Cluster",
        "vineyard",
        "controlPlaneConfiguration.apiServerExtraArgs",
        {"--a": "b", "c d": "e"},
        ["[--a]", "[c d]"],
    ),
]
"""Maps and lists with two wrong entries each; of maps without places, the first and the last one are wrong."""


@pytest.mark.parametrize(("example", "kind", "name", "field", "value", "places"), WRONG_ENTRIES)
def test_each_wrong_entry_of_a_part_is_an_error(
    example: str, kind: str, name: str, field: str, value: Any, places: list[str]
) -> None:
    places = places or [f"[{entry}]" for entry in (next(iter(value)), list(value)[-1])]
    results = problems(manifest(example, [(kind, name, {f"spec.{field}": value}, "")]))
    assert [item["violation"]["field"] for item in results] == [f"spec.{field}{place}" for place in places]
    assert len({item["line"] for item in results}) == len(places)
    assert all(item["violation"]["found"] and item["violation"]["allowed"] for item in results)


def test_object_given_twice_is_no_change_of_the_first() -> None:
    text = (EXAMPLES / "vsphere.yaml").read_text()
    other = edited(
        {"spec.controlPlaneConfiguration.endpoint.host": "192.0.2.77", "spec.kubernetesVersion": "1.34"},
        next(yaml.safe_load_all(text)),
    )
    results = [problem["violation"] for problem in problems(f"{text}---\n{yaml.safe_dump(other)}")]
    assert [(item["field"], item["message"].partition(",")[0]) for item in results] == [
        ("metadata.name", "duplicate object")
    ]


def fields(tree: Any, at: tuple[paths.PathStep, ...] = ()) -> Iterator[tuple[paths.PathStep, ...]]:
    """The paths of all fields of an object, but for those that say what it is."""
    steps = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for step, value in steps:
        if (*at, step) not in (("apiVersion",), ("kind",), ("metadata",)):
            yield (*at, step)
            yield from fields(value, (*at, step))


@pytest.mark.parametrize("wrong", sampled(["Wrong!", {"wrong": 1}, [None]], 1), ids=str)
@pytest.mark.parametrize("example", sampled(OBJECTS, 2))
def test_a_wrong_field_hides_no_object_from_the_rules(example: str, wrong: Any) -> None:
    manifests = read_manifests((EXAMPLES / f"{example}.yaml").read_bytes(), source="a.yaml")
    for at, document in enumerate(manifests):
        for *around, last in fields(document.tree):
            tree = copy.deepcopy(document.tree)
            holder: Any = tree
            for step in around:
                holder = holder[step]
            holder[last] = copy.deepcopy(wrong)
            beside = [*manifests[:at], replace(document, tree=tree), *manifests[at + 1 :]]
            names = [(part.kind, part.name) for part in documents.readable_parts(beside)]
            assert names == [(item.kind, item.name) for item in manifests], (*around, last)


def is_for_validate(edits: dict[str, Any]) -> bool:
    """True for faults that need no management cluster, and that do not remove or replace what others are in."""
    removed = any(value is None or value == [] for value in edits.values())
    elsewhere = any(
        item in path for path in edits for item in ("externalEtcd", "bundlesRef", "datacenterRef", "metadata")
    )
    is_double = "kind: Pod" in str(edits)  # its apiVersion is missing, too
    return not (removed or elsewhere or is_double)


def area(path: str) -> str:
    """A part of a Cluster that rules judge as a whole."""
    for part in ("clusterNetwork", "workerNodeGroupConfigurations", "identityProviderRefs", "apiServerExtraArgs"):
        if part in path:
            return part if part != "apiServerExtraArgs" else "identityProviderRefs"
    return ".".join(path.split("[", maxsplit=1)[0].split(".")[:3])


@pytest.mark.demand(U53="all that the example lacks is named at once")
def test_all_that_the_proposals_example_lacks_is_named() -> None:
    """U53; why none of them can be accepted as it is: decision 0128."""
    group = {"count": 3, "upgradeRolloutStrategy": {"type": "InPlace"}}
    config = {"kind": "TinkerbellMachineConfig"}
    cluster = {
        "apiVersion": "anywhere.eks.amazonaws.com/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": "my-cluster"},
        "spec": {
            "eksaVersion": "0.19.0",
            "controlPlaneConfiguration": {**group, "machineGroupRef": {**config, "name": "my-cluster-cp"}},
            "datacenterRef": {"kind": "TinkerbellDatacenterConfig", "name": "my-cluster-dc"},
            "workerNodeGroupConfigurations": [
                {"name": "md-0", **group, "machineGroupRef": {**config, "name": "my-cluster-worker-1"}}
            ],
        },
    }
    results = {problem["violation"]["field"]: problem["violation"] for problem in problems(yaml.safe_dump(cluster))}
    assert set(results) == {
        "spec.eksaVersion",
        "spec.kubernetesVersion",
        "spec.clusterNetwork",
        "spec.controlPlaneConfiguration.endpoint.host",
        "spec.controlPlaneConfiguration.machineGroupRef",
        "spec.datacenterRef",
        "spec.workerNodeGroupConfigurations[0].machineGroupRef",
    }
    assert results["spec.eksaVersion"]["allowed"].startswith("a version like v0.26.0")


@pytest.mark.parametrize("text", ["kind: Nothing\n", "", "---\n", "- a\n"])
@pytest.mark.parametrize("command", [["validate"], ["generate", "objects"]])
def test_a_file_without_objects_is_refused(command: list[str], text: str) -> None:
    done = CliRunner().invoke(program, [*command, "-f", "-"], input=text)
    assert "error:" in done.output or isinstance(done.exception, ManifestError), done.exception
