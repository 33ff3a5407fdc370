"""A manifest with several faults gives as many errors, each with the line of its field."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from msgspec.structs import replace

from espalier.api import paths
from espalier.api.manifests import read_manifests
from espalier.api.meta import Tree
from espalier.cli import documents
from espalier.cli.main import program
from tests.support.admission_reviews import edited
from tests.support.refused_clusters import WRONG
from tests.support.sampling import sampled

EXAMPLES = Path(__file__).parents[3] / "examples"

Fault = tuple[str, str, dict[str, Any], str]
"""Kind and name of an object, its edits, and the field of the error."""

CLUSTER_ON_MACHINES: list[tuple[dict[str, Any], str]] = [
    ({"spec.controlPlaneConfiguration.count": 2}, "spec.controlPlaneConfiguration.count"),
    ({"spec.controlPlaneConfiguration.endpoint.host": "127.0.0.1"}, "spec.controlPlaneConfiguration.endpoint.host"),
    ({"spec.controlPlaneConfiguration.labels": {"a": "b c"}}, "spec.controlPlaneConfiguration.labels[a]"),
    ({"spec.workerNodeGroupConfigurations[0].name": "A b"}, "spec.workerNodeGroupConfigurations[0].name"),
    (
        {"spec.workerNodeGroupConfigurations[0].taints": [{"key": "a", "effect": "Never"}]},
        "spec.workerNodeGroupConfigurations[0].taints[0].effect",
    ),
    ({"spec.clusterNetwork.cniConfig": None}, "spec.clusterNetwork.cniConfig"),
    ({"spec.machineHealthCheck": {"maxUnhealthy": "lots"}}, "spec.machineHealthCheck.maxUnhealthy"),
    ({"spec.kubernetesVersion": 1.35, "spec.packages": {"controller": {"tag": "a"}}}, "spec.packages.controller"),
]

NO_SERVERS: Tree = {"servers": []}

OBJECTS: dict[str, list[Fault]] = {
    "vsphere": [
        ("VSphereDatacenterConfig", "vineyard", {"spec.server": "https://vc"}, "spec.server"),
        ("VSphereDatacenterConfig", "vineyard", {"spec.thumbprint": "AB"}, "spec.thumbprint"),
        ("VSphereMachineConfig", "vineyard-cp", {"spec.memoryMiB": "lots"}, "spec.memoryMiB"),
        ("VSphereMachineConfig", "vineyard-cp", {"spec.datastore": None}, "spec.datastore"),
        ("VSphereMachineConfig", "vineyard-cp", {"spec.osFamily": "windows"}, "spec.osFamily"),
        ("VSphereMachineConfig", "vineyard", {"spec.resourcePool": ""}, "spec.resourcePool"),
        ("VSphereMachineConfig", "vineyard", {"spec.users[0].name": "Ann"}, "spec.users[0].name"),
        ("VSphereMachineConfig", "vineyard", {"spec.diskGib": 20}, "spec.diskGib"),
        ("Cluster", "vineyard", {"spec.workerNodeGroupConfigurations[0].failureDomains": ["x"]}, "failureDomains"),
    ],
    "tinkerbell": [
        ("TinkerbellDatacenterConfig", "forge", {"spec.tinkerbellIP": "here"}, "spec.tinkerbellIP"),
        ("TinkerbellDatacenterConfig", "forge", {"spec.osImageURL": "http://192.0.2.7/a.gz"}, "spec.osImageURL"),
        ("TinkerbellMachineConfig", "forge-cp", {"spec.hardwareSelector": {"a": "b c"}}, "spec.hardwareSelector"),
        ("TinkerbellMachineConfig", "forge-cp", {"spec.users": []}, "spec.users"),
        (
            "TinkerbellMachineConfig",
            "forge",
            {"spec.hostOSConfiguration.ntpConfiguration": {"servers": []}},
            "servers",
        ),
    ],
    "nutanix": [
        ("NutanixDatacenterConfig", "quarry", {"spec.endpoint": "https://a"}, "spec.endpoint"),
        ("NutanixDatacenterConfig", "quarry", {"spec.port": 0}, "spec.port"),
        ("NutanixMachineConfig", "quarry-cp", {"spec.memorySize": "1Gi"}, "spec.memorySize"),
        ("NutanixMachineConfig", "quarry-cp", {"spec.image.name": "ubuntu"}, "spec.image"),
        ("NutanixMachineConfig", "quarry", {"spec.systemDiskSize": "1Gi"}, "spec.systemDiskSize"),
        ("NutanixMachineConfig", "quarry", {"spec.vcpuSockets": 1}, "spec.vcpuSockets"),
    ],
    "cloudstack": [
        ("CloudStackDatacenterConfig", "harbor", {"spec.availabilityZones[0].domain": ""}, "domain"),
        ("CloudStackDatacenterConfig", "harbor", {"spec.availabilityZones[0].name": "a b"}, "name"),
        ("CloudStackMachineConfig", "harbor-cp", {"spec.template.name": "rhel"}, "spec.template.name"),
        ("CloudStackMachineConfig", "harbor-cp", {"spec.affinity": "some"}, "spec.affinity"),
        ("CloudStackMachineConfig", "harbor", {"spec.computeOffering": {}}, "spec.computeOffering.name"),
    ],
    "snow": [
        ("SnowDatacenterConfig", "glacier", {"spec.identityRef.kind": "ConfigMap"}, "spec.identityRef.kind"),
        ("SnowMachineConfig", "glacier-cp", {"spec.instanceType": "m5.large"}, "spec.instanceType"),
        ("SnowMachineConfig", "glacier-cp", {"spec.sshKeyName": ""}, "spec.sshKeyName"),
        ("SnowMachineConfig", "glacier", {"spec.physicalNetworkConnector": "X"}, "spec.physicalNetworkConnector"),
        ("SnowIPPool", "glacier", {"spec.pools[0].ipEnd": "192.0.2.1"}, "spec.pools[0].ipEnd"),
    ],
}


def faults(provider: str) -> list[Fault]:
    name = next(name for kind, name, *_ in OBJECTS[provider] if kind.endswith("DatacenterConfig"))
    return [*(("Cluster", name, edits, field) for edits, field in CLUSTER_ON_MACHINES), *OBJECTS[provider]]


def manifest(example: str, chosen: list[Fault]) -> str:
    trees = list(yaml.safe_load_all((EXAMPLES / f"{example}.yaml").read_text()))
    for kind, name, edits, _ in chosen:
        places = [at for at, one in enumerate(trees) if (one["kind"], one["metadata"]["name"]) == (kind, name)]
        trees[places[0]] = edited(edits, trees[places[0]])
    return yaml.safe_dump_all(trees, sort_keys=False, default_flow_style=False)


def problems(text: str) -> list[Tree]:
    done = CliRunner().invoke(program, ["validate", "-f", "-", "-o", "json"], input=text)
    assert done.stdout, done.exception
    found: list[Tree] = json.loads(done.stdout)["problems"]
    return found


def line(text: str, kind: str, name: str, field: str) -> int:
    """The line of a field of an object, or of the nearest one around it, by another reader of YAML."""
    for root in yaml.compose_all(text):
        tree = yaml.safe_load(yaml.serialize(root))
        if (tree["kind"], tree["metadata"]["name"]) == (kind, name):
            node, at = root, root.start_mark.line
            for step in paths.parsed(field) or ():
                pairs = getattr(node, "value", [])
                if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(pairs):
                    node, at = pairs[step], pairs[step].start_mark.line
                    continue
                found = [(key, value) for key, value in pairs if key.value == step] if isinstance(step, str) else []
                if not found:
                    break
                at, node = found[0][0].start_mark.line, found[0][1]
            return at + 1
    raise LookupError(name)


def check(example: str, chosen: list[Fault]) -> None:
    """Each fault gives one error, at a field that ends like that of the fault, or is around it, on its line."""
    text = manifest(example, chosen)
    found = problems(text)
    left = list(found)
    for kind, name, _, field in chosen:
        of_it = [
            one
            for one in left
            if (one["violation"]["field"].endswith(field) or field.startswith(one["violation"]["field"] or "?"))
            and one["line"] == line(text, kind, name, one["violation"]["field"])
        ]
        assert of_it, f"no error for {kind} {name} {field}:\n{json.dumps(found, indent=1)}\n{text}"
        left.remove(of_it[0])
    assert left == [], "one fault gives one error"


@pytest.mark.parametrize("provider", sampled(OBJECTS, 1))
def test_each_fault_alone_is_one_error(provider: str) -> None:
    for fault in faults(provider):
        check(provider, [fault])


@pytest.mark.parametrize("provider", OBJECTS)
def test_all_faults_together_are_as_many_errors(provider: str) -> None:
    check(provider, faults(provider))


@pytest.mark.parametrize("seed", sampled(range(30), 0, 16))
def test_any_faults_of_a_cluster_are_reported_together(seed: int) -> None:
    """Of those that do not touch the same part."""
    chance = random.Random(seed)
    cases = [("Cluster", "garden", edits, field) for edits, field, _ in WRONG if is_for_validate(edits)]
    chosen: list[Fault] = []
    for one in chance.sample(cases, len(cases)):
        areas = {area(path) for fault in chosen for path in (*fault[2], fault[3])}
        if not areas & {area(path) for path in (*one[2], one[3])} and len(chosen) < 5:
            chosen.append(one)
    assert len(chosen) == 5
    check("docker", copy.deepcopy(chosen))


def test_an_object_that_is_given_twice_is_no_change_of_the_first() -> None:
    text = (EXAMPLES / "vsphere.yaml").read_text()
    other = edited(
        {"spec.controlPlaneConfiguration.endpoint.host": "192.0.2.77", "spec.kubernetesVersion": "1.34"},
        next(yaml.safe_load_all(text)),
    )
    found = [one["violation"] for one in problems(f"{text}---\n{yaml.safe_dump(other)}")]
    assert [(one["field"], one["message"].partition(",")[0]) for one in found] == [
        ("metadata.name", "duplicate object")
    ]


def fields(tree: Any, at: tuple[paths.Step, ...] = ()) -> Iterator[tuple[paths.Step, ...]]:
    """The paths of all fields of an object, but for those that say what it is."""
    steps = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for step, value in steps:
        if (*at, step) not in (("apiVersion",), ("kind",), ("metadata",)):
            yield (*at, step)
            yield from fields(value, (*at, step))


@pytest.mark.parametrize("wrong", sampled(["Wrong!", {"wrong": 1}, [None]], 1), ids=str)
@pytest.mark.parametrize("example", sampled(OBJECTS, 2))
def test_a_wrong_field_hides_no_object_from_the_rules(example: str, wrong: Any) -> None:
    found = read_manifests((EXAMPLES / f"{example}.yaml").read_bytes(), source="a.yaml")
    for at, document in enumerate(found):
        for *around, last in fields(document.tree):
            tree = copy.deepcopy(document.tree)
            holder: Any = tree
            for step in around:
                holder = holder[step]
            holder[last] = copy.deepcopy(wrong)
            beside = [*found[:at], replace(document, tree=tree), *found[at + 1 :]]
            names = [(one.kind, one.name) for one in documents.readable_parts(beside)]
            assert names == [(one.kind, one.name) for one in found], (*around, last)


def is_for_validate(edits: dict[str, Any]) -> bool:
    """True for faults that need no management cluster, and that do not remove or replace what others are in."""
    removed = any(value is None or value == [] for value in edits.values())
    elsewhere = any(
        one in path for path in edits for one in ("externalEtcd", "bundlesRef", "datacenterRef", "metadata")
    )
    is_double = "kind: Pod" in str(edits)  # its apiVersion is missing, too
    return not (removed or elsewhere or is_double)


def area(path: str) -> str:
    """A part of a Cluster that rules judge as a whole."""
    for part in ("clusterNetwork", "workerNodeGroupConfigurations", "identityProviderRefs", "apiServerExtraArgs"):
        if part in path:
            return part if part != "apiServerExtraArgs" else "identityProviderRefs"
    return ".".join(path.split("[", maxsplit=1)[0].split(".")[:3])


def test_the_example_of_the_proposal_lacks_five_things_that_are_named_at_once() -> None:
    """U53; why none of them can be accepted as it is: decision 0176."""
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
    found = {one["violation"]["field"]: one["violation"] for one in problems(yaml.safe_dump(cluster))}
    assert set(found) == {
        "spec.managementCluster.name",
        "spec.eksaVersion",
        "spec.kubernetesVersion",
        "spec.clusterNetwork",
        "spec.controlPlaneConfiguration.endpoint.host",
    }
    assert "allowed: a version like v0.26.0" in str(found["spec.eksaVersion"])
