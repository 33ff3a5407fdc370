"""Manifests with faults that have nothing to do with each other, and the errors that they should give."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from espalier.api.text import paths
from tests.support.servers.admission_reviews import edited

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
        ("Cluster", "vineyard", {"spec.workerNodeGroupConfigurations[0].failureDomains": ["x"]}, "failureDomains[0]"),
    ],
    "tinkerbell": [
        ("TinkerbellDatacenterConfig", "forge", {"spec.tinkerbellIP": "here"}, "spec.tinkerbellIP"),
        ("TinkerbellDatacenterConfig", "forge", {"spec.osImageURL": "http://192.0.2.7/a.gz"}, "spec.osImageURL"),
        ("TinkerbellMachineConfig", "forge-cp", {"spec.hardwareSelector": {"a": "b c"}}, "spec.hardwareSelector[a]"),
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
        places = [at for at, item in enumerate(trees) if (item["kind"], item["metadata"]["name"]) == (kind, name)]
        trees[places[0]] = edited(edits, trees[places[0]])
    return yaml.safe_dump_all(trees, sort_keys=False, default_flow_style=False)


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
                result = [(key, value) for key, value in pairs if key.value == step] if isinstance(step, str) else []
                if not result:
                    break
                at, node = result[0][0].start_mark.line, result[0][1]
            return at + 1
    raise LookupError(name)


Error = tuple[str, int]
"""Field and line."""


def check(example: str, chosen: list[Fault], errors: Callable[[str], list[Error]]) -> None:
    """Each fault gives one error, at a field that ends like that of the fault, in or around it, on its line."""
    text = manifest(example, chosen)
    result = errors(text)
    left = list(result)
    for kind, name, _, field in chosen:
        of_it = [
            item
            for item in left
            if (item[0].endswith(field) or item[0].startswith(f"{field}[") or field.startswith(item[0] or "?"))
            and item[1] == line(text, kind, name, item[0])
        ]
        assert of_it, f"no error for {kind} {name} {field}:\n{result}\n{text}"
        left.remove(of_it[0])
    assert left == [], "one fault gives one error"
