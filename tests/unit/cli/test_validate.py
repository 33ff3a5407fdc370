"""A manifest is checked without any cluster: all that is wrong, and what only a management cluster knows."""

from __future__ import annotations

import json
import re
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

import pytest
import yaml

from espalier.cli.clusters.manifests import offline
from espalier.cli.main import run
from espalier.providers.kinds import MANIFESTS
from tests.support.providers import cloudstack, nutanix, snow, tinkerbell
from tests.support.providers.field_sweep import put
from tests.support.sampling import sampled

EXAMPLES = Path(__file__).parents[3] / "examples"
CLUSTERS = sorted(path for path in EXAMPLES.glob("*.yaml") if "kind: Cluster\n" in path.read_text())
VSPHERE = (EXAMPLES / "vsphere.yaml").read_text()
DOCKER = (EXAMPLES / "docker.yaml").read_text()


class Today(datetime):
    """A day on which the versions of the examples are supported; later ones bring warnings."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Today:
        return cls(2026, 9, 1, tzinfo=tz)


@pytest.fixture(autouse=True)
def _today(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline, "datetime", Today)


@pytest.mark.parametrize("example", CLUSTERS, ids=lambda item: item.stem)
def test_examples_are_valid(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate", "-f", str(example)]) == 0
    told = capsys.readouterr()
    assert "✓ valid: Cluster " in told.out
    assert all("nobody can log in" in line for line in told.err.splitlines()), "they have no key of anybody"


@pytest.mark.parametrize(("name", "manager"), [("garden", "laptop"), ("no", "on"), ("null", "true")])
@pytest.mark.parametrize("provider", MANIFESTS)
def test_first_manifest_is_valid_once_filled_in(
    provider: str, name: str, manager: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where the name of a cluster is no text to YAML."""
    assert run(["generate", "clusterconfig", name, "-p", provider, "--management-cluster", manager]) == 0
    told = capsys.readouterr()
    assert told.err == ""
    file = tmp_path / "garden.yaml"
    file.write_text(told.out.replace('- ""', '- "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA=="'))
    assert run(["validate", "-f", str(file)]) == 0, capsys.readouterr().err


def test_problems_are_reported_with_their_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(VSPHERE.replace('"1.35"', '"1.19"').replace('host: "192.0.2.10"', 'host: "127.0.0.1"'))
    assert run(["validate", "-f", str(file)]) == 1
    first, second = (line for line in capsys.readouterr().err.splitlines() if line.startswith("error: "))
    assert first.startswith(f"error: {file}:{1 + file.read_text()[: file.read_text().index('host:')].count(chr(10))}: ")
    assert "spec.controlPlaneConfiguration.endpoint.host: machines can't be reached there; found 127.0.0.1" in first
    assert "spec.kubernetesVersion: release v0.26.0 does not have this Kubernetes version; found 1.19" in second


def test_object_that_manifest_does_not_bring_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "bad.yaml"
    documents = VSPHERE.split("---\n")
    file.write_text("---\n".join(document for document in documents if "name: vineyard-cp\nspec" not in document))
    assert len(file.read_text()) < len(VSPHERE)
    assert run(["validate", "-f", str(file), "-o", "json"]) == 1
    parsed = json.loads(capsys.readouterr().out)
    assert not parsed["valid"]
    assert [problem["violation"]["field"] for problem in parsed["problems"]] == [
        "spec.controlPlaneConfiguration.machineGroupRef"
    ]
    assert "VSphereMachineConfig vineyard-cp in namespace default" in parsed["problems"][0]["violation"]["message"]


@pytest.mark.parametrize("provider", [path.stem for path in CLUSTERS])
def test_object_of_another_namespace_is_none_of_it(
    provider: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A reference has no namespace: it names an object in the Cluster's own, also where that is the command's."""
    documents = [document for document in yaml.safe_load_all((EXAMPLES / f"{provider}.yaml").read_text()) if document]
    for linked in (document for document in documents if document["kind"] != "Cluster"):
        linked["metadata"]["namespace"] = "team-b"
        problems = messages_of(yaml.safe_dump_all(documents), tmp_path, capsys)
        del linked["metadata"]["namespace"]
        name = f"{linked['kind']} {linked['metadata']['name']}"
        assert problems, name
        for problem in problems:
            assert f"names {name} in namespace default, which does not exist; the manifest has it in" in problem
            assert "namespace team-b: give both the same namespace" in problem
        linked["metadata"]["namespace"] = "default"
    assert messages_of(yaml.safe_dump_all(documents), tmp_path, capsys) == []


@pytest.mark.parametrize(
    ("right", "wrong", "field"),
    [
        ("count: 3\n", "count: 2\n", "spec.controlPlaneConfiguration.count"),
        ('"1.35"', '"1.19"', "spec.kubernetesVersion"),
        ('"192.0.2.10"', '"127.0.0.1"', "spec.controlPlaneConfiguration.endpoint.host"),
    ],
)
def test_refused_content_hides_no_missing_object(
    right: str, wrong: str, field: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert right in VSPHERE
    text = VSPHERE.replace(right, wrong, 1).replace("      name: vineyard\n", "      name: meadow\n")
    copied = dict(problems_of(text, tmp_path, capsys))
    reference = "spec.workerNodeGroupConfigurations[0].machineGroupRef"
    assert set(copied) == {field, reference}
    assert text.splitlines()[copied[reference] - 1].strip() == "machineGroupRef:"


@pytest.mark.parametrize(
    ("right", "wrong", "fields"),
    [
        (
            'datacenter: "Datacenter"\n  # A name',
            'datacenter: ""\n  # A name',
            ["spec.datacenter"],
        ),
        ("osFamily: ubuntu", "osFamilly: ubuntu", ["spec.osFamilly", "spec.osFamilly"]),
        ("osFamily: ubuntu", "osFamily: plan9", ["spec.osFamily", "spec.osFamily"]),
        ("osFamily: ubuntu", "osFamily: bottlerocket", ["spec.users", "spec.users"]),
    ],
)
def test_rules_that_read_a_wrong_field_say_nothing(
    right: str, wrong: str, fields: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = VSPHERE.replace('network: "VM Network"', 'network: "/Datacenter/network/VM Network"')
    assert right in text
    assert problems_of(text, tmp_path, capsys) == []
    assert [field for field, _ in problems_of(text.replace(right, wrong), tmp_path, capsys)] == fields


def test_fields_known_to_a_provider_alone_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "looked-up.yaml"
    file.write_text("".join(line for line in VSPHERE.splitlines(keepends=True) if "template:" not in line))
    assert run(["validate", "-f", str(file)]) == 0
    told = capsys.readouterr().out
    assert "not checked: VSphereMachineConfig vineyard-cp: spec.template (of Kubernetes 1.35)" in told


MIRROR = """  registryMirrorConfiguration:
    endpoint: harbor.example.com
    port: "443"
    authenticate: true
"""


@pytest.mark.parametrize(
    ("old", "awaited"),
    [
        ('resourcePool: "Resources"', 'resourcePool: "*/Resources"'),
        ('  kubernetesVersion: "1.35"\n', '  kubernetesVersion: "1.35"\n' + MIRROR),
    ],
    ids=["a value of the provider", "a Secret"],
)
def test_a_missing_object_does_not_hide_other_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, awaited: str
) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(VSPHERE.replace(old, awaited))
    assert run(["validate", "-f", str(file)]) == 0
    assert "not checked: " in capsys.readouterr().out
    file.write_text(file.read_text().replace("  - count: 2\n", "  - count: 2\n    failureDomains: [fd-9]\n"))
    assert run(["validate", "-f", str(file)]) == 1
    assert "VSphereDatacenterConfig vineyard has no such failure domain; found fd-9" in capsys.readouterr().err


def test_rules_about_linked_objects_hold_as_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "bad.yaml"
    of_bottlerocket = VSPHERE.replace("osFamily: ubuntu", "osFamily: bottlerocket").replace(
        "name: capv", "name: ec2-user"
    )
    file.write_text(of_bottlerocket)
    assert run(["validate", "-f", str(file)]) == 0
    in_place = "controlPlaneConfiguration:\n    upgradeRolloutStrategy: {type: InPlace}"
    file.write_text(of_bottlerocket.replace("controlPlaneConfiguration:", in_place))
    assert run(["validate", "-f", str(file)]) == 1
    assert "Bottlerocket is not upgraded in place" in capsys.readouterr().err


@pytest.mark.parametrize("there", [True, False])
def test_objects_of_a_machine_config_are_in_manifest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, there: bool
) -> None:
    documents = (EXAMPLES / "snow.yaml").read_text().split("---\n")
    file = tmp_path / "pool.yaml"
    file.write_text("---\n".join(documents if there else documents[:-1]))
    assert "kind: SnowIPPool\nmetadata" in documents[-1]
    assert run(["validate", "-f", str(file)]) == (0 if there else 1)
    assert ("SnowIPPool glacier in namespace default" in capsys.readouterr().err) is not there


def test_rules_of_crds_are_asked_as_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As a dry run on an API server refuses them, with the line; beside what else is wrong."""
    file = tmp_path / "bad.yaml"
    oidc = "---\napiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: OIDCConfig\nmetadata:\n  name: company\nspec:\n"
    text = (EXAMPLES / "docker.yaml").read_text().replace('"1.35"', '"1.19"')
    file.write_text(f'{text}\n{oidc}  clientId: ""\n  issuerUrl: https://login.example.com\n')
    assert run(["validate", "-f", str(file)]) == 1
    told = capsys.readouterr().err.splitlines()
    line = 1 + file.read_text()[: file.read_text().index("clientId")].count("\n")
    message = "spec.clientId: set the client that tokens must be issued for; found nothing"
    assert "spec.kubernetesVersion: release v0.26.0 does not have this Kubernetes version" in told[0]
    assert told[1] == f"error: {file}:{line}: {message}", "in the order of lines"


def test_null_field_is_absent_as_for_an_api_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text((EXAMPLES / "nutanix.yaml").read_text().replace('name: "subnet-1"', "name:"))
    for command in (["generate", "objects"], ["validate"]):
        assert run([*command, "-f", str(file)]) == 1
        assert "spec.subnet.name: type name requires a name" in capsys.readouterr().err


def test_number_in_a_text_field_is_reported_with_types(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (EXAMPLES / "docker.yaml").read_text().replace("    name: garden\n", "    name: 1_2\n")
    path = tmp_path / "a.yaml"
    path.write_text(text.replace("kind: DockerDatacenterConfig\nmetadata:\n  name: garden", DATACENTER_OF_A_NUMBER))
    assert run(["validate", "-f", str(path)]) == 1
    wrong = "name: wrong type; put the value in quotes; found 12 (a number); allowed: a string"
    assert capsys.readouterr().err.splitlines() == [
        f"error: {path}:20: spec.datacenterRef.{wrong}",
        f"error: {path}:32: metadata.{wrong}",
    ]


DATACENTER_OF_A_NUMBER = "kind: DockerDatacenterConfig\nmetadata:\n  name: 1_2"


def test_yaml_read_differently_is_valid_and_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (EXAMPLES / "docker.yaml").read_text().replace('"1.35"', "1.35").replace("clusterNetwork", "ClusterNetwork")
    file = tmp_path / "a.yaml"
    file.write_text(f"{text}status: {{}}\n")
    assert run(["validate", "-f", str(file)]) == 0
    assert capsys.readouterr().err.splitlines() == [
        f"Warning: {file}:7: spec.clusterNetwork: ClusterNetwork is read as clusterNetwork; kubectl accepts no other",
        f'Warning: {file}:21: spec.kubernetesVersion: read as text; kubectl requires quotes: "1.35"',
    ]


@pytest.mark.parametrize("version", ["v1.35.2", "1.99", "1.35.4"])
def test_unknown_kubernetes_is_refused_with_the_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], version: str
) -> None:
    path = tmp_path / "a.yaml"
    path.write_text((EXAMPLES / "docker.yaml").read_text().replace('"1.35"', f'"{version}"'))
    assert run(["validate", "-f", str(path)]) == 1
    assert "allowed: 1.34, 1.35, 1.36" in capsys.readouterr().err


@pytest.mark.soak
def test_lists_that_are_too_long_are_refused_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree, *others = yaml.safe_load_all((EXAMPLES / "docker.yaml").read_text())
    tree["spec"]["workerNodeGroupConfigurations"] = [{"name": f"md-{number}", "count": 1} for number in range(5000)]
    path = tmp_path / "a.yaml"
    path.write_text(yaml.safe_dump_all([tree, *others]))
    assert run(["validate", "-f", str(path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "spec.workerNodeGroupConfigurations: too many items; found" in line
    assert line.endswith("allowed: 100 items or less")


ONLY_THERE: dict[str, tuple[str, str]] = {
    "a release that this espalier lacks": ("eksaVersion: v0.27.0", "spec.eksaVersion: whether management"),
    "a release that the record may not fit": ("eksaVersion: v0.24.2", "spec.eksaVersion: whether the release"),
    "Bundles": (
        "bundlesRef: {apiVersion: anywhere.eks.amazonaws.com/v1alpha1, name: bundles-9, namespace: eksa-system}",
        "spec.bundlesRef: whether management cluster laptop has these Bundles",
    ),
    "GitOps": ("gitOpsRef: {kind: FluxConfig, name: own}", "spec.gitOpsRef: whether management cluster laptop"),
    "a mirror's account": (
        "registryMirrorConfiguration: {endpoint: 192.0.2.50, authenticate: true}",
        "spec.registryMirrorConfiguration.authenticate: Secret eksa-system/registry-credentials",
    ),
    "etcd machines": ("externalEtcdConfiguration: {count: 3}", "spec.externalEtcdConfiguration: whether"),
}
"""Facts that only a management cluster knows."""


@pytest.mark.parametrize("what", ONLY_THERE)
def test_knowledge_of_management_cluster_is_left_open(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is named, and the rest is checked: another error is found."""
    line, told = ONLY_THERE[what]
    path = tmp_path / "a.yaml"
    version = '  kubernetesVersion: "1.35"\n'
    text = (EXAMPLES / "docker.yaml").read_text().replace(version, f"{version}  {line}\n")
    path.write_text(text)
    assert run(["validate", "-f", str(path)]) == 0
    assert f"  not checked: {told}" in capsys.readouterr().out
    path.write_text(text.replace('"1.35"', '"1.19"'))
    assert run(["validate", "-f", str(path)]) == 1
    assert "does not have this Kubernetes version; found 1.19" in capsys.readouterr().err


HOSTILE = "\x1b[31mred\x07\u202e"


@pytest.mark.parametrize(
    "written",
    sampled(
        [
            {"kubernetesVersion": "{0}", "{0}": "a", "clusterNetwork": "{0}"},
            {
                "controlPlaneConfiguration": {
                    "count": 1,
                    "endpoint": {"host": "{0}"},
                    "apiServerExtraArgs": {"{0}": "a"},
                    "labels": {"a": "{0}", "{0}": "b"},
                },
                "podIamConfig": {"serviceAccountIssuer": "{0}"},
                "gitOpsRef": {"kind": "{0}", "name": "{0}"},
            },
            {"bundlesRef": {"apiVersion": "{0}", "name": "{0}", "namespace": "{0}"}},
            {"machineHealthCheck": {"nodeStartupTimeout": "{0}", "maxUnhealthy": "{0}"}},
            {"datacenterRef": {"kind": "DockerDatacenterConfig", "name": "{0}"}},
        ],
        3,
    ),
    ids="-".join,
)
def test_quotations_are_short_and_steer_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], written: dict[str, Any]
) -> None:
    text = HOSTILE * 2000
    tree, *others = yaml.safe_load_all((EXAMPLES / "docker.yaml").read_text())
    tree["spec"] |= filled_in(written, text)
    path = tmp_path / "a.yaml"
    path.write_text(yaml.safe_dump_all([tree, *others]))
    is_unknown = "bundlesRef" in written  # only a management cluster knows whether these Bundles exist
    assert run(["validate", "-f", str(path)]) == (0 if is_unknown else 1)
    message = capsys.readouterr().err
    assert len(message) < 10_000
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", message)
    assert all(line.startswith(("error: ", "Warning: ")) for line in message.splitlines())


def filled_in(value: Any, text: str) -> Any:
    if isinstance(value, dict):
        return {name.replace("{0}", text): filled_in(part, text) for name, part in value.items()}
    if isinstance(value, list):
        return [filled_in(part, text) for part in value]
    return value.replace("{0}", text) if isinstance(value, str) else value


UNRENDERABLE = {
    "a disk without a device": (cloudstack, "CloudStackMachineConfig", "diskOffering.device", ""),
    "a workflow without tasks": (tinkerbell, "TinkerbellTemplateConfig", "template.tasks", []),
    "an amount that is none": (nutanix, "NutanixMachineConfig", "memorySize", "x"),
    "machines without a device": (snow, "SnowMachineConfig", "devices", []),
}


@pytest.mark.parametrize("what", UNRENDERABLE)
def test_impossible_manifest_is_reported_unrendered(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    provider, kind, path, value = UNRENDERABLE[what]
    trees = provider.everything()
    for tree in (tree for tree in trees if tree["kind"] == kind):
        put(tree["spec"], path, value)
    file = tmp_path / "bad.yaml"
    file.write_text(yaml.safe_dump_all(trees))
    assert run(["validate", "-f", str(file)]) == 1
    assert f": spec.{path}: " in capsys.readouterr().err
    assert run(["generate", "objects", "-f", str(file)]) == 1
    told = capsys.readouterr()
    assert f": spec.{path}: " in told.err
    assert told.out == ""


def test_a_name_that_is_too_long_is_one_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names of groups are not judged together with it."""
    text = DOCKER.replace("name: garden", f"name: {'g' * 40}", 1)
    assert problems_of(text, tmp_path, capsys) == [("metadata.name", 5)]
    for name in ("Garden", "-garden", "garden_1"):
        assert problems_of(DOCKER.replace("name: garden", f"name: {name}", 1), tmp_path, capsys) == [
            ("metadata.name", 5)
        ]


def test_a_group_without_a_name_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ('name: ""', "labels: {}"):
        file = tmp_path / "garden.yaml"
        file.write_text(DOCKER.replace("name: md-0", name))
        assert run(["validate", "-f", str(file)]) == 0
        told = capsys.readouterr().err
        assert "workerNodeGroupConfigurations[0].name: not set, so the group is called md-0" in told


def test_devices_need_one_permission_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "devices.yaml"
    text = (EXAMPLES / "snow.yaml").read_text()
    file.write_text(text.replace('  - "192.0.2.100"\n', '  - "192.0.2.100"\n  - "192.0.2.101"\n'))
    assert run(["validate", "-f", str(file), "-o", "json"]) == 0
    (needed,) = json.loads(capsys.readouterr().out)["notChecked"]
    assert "credentials-servers with 192.0.2.100, 192.0.2.101, and" in needed


def test_a_folder_is_read_as_by_kubectl(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster, datacenter = DOCKER.split("---\n")
    assert run(["validate", "-f", str(tmp_path)]) == 1
    assert "a folder without manifests; their names end with .yaml, .yml, .json" in capsys.readouterr().err
    (tmp_path / "cluster.yaml").write_text(cluster)
    (tmp_path / "datacenter.yml").write_text(datacenter)
    (tmp_path / "notes.txt").write_text("no manifest")
    assert run(["validate", "-f", str(tmp_path)]) == 0
    assert "✓ valid: Cluster garden, DockerDatacenterConfig garden" in capsys.readouterr().out


def problems_of(text: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> list[tuple[str, int]]:
    """Field and line of each problem of a manifest."""
    return [(item["violation"]["field"], item["line"]) for item in _problems(text, folder, capsys)]


def messages_of(text: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The message of each problem of a manifest."""
    return [item["violation"]["message"] for item in _problems(text, folder, capsys)]


def _problems(text: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    file = folder / "manifest.yaml"
    file.write_text(text)
    run(["validate", "-f", str(file), "-o", "json"])
    result: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["problems"]
    return result


def test_equal_warnings_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate", "-f", str(EXAMPLES / "vsphere.yaml")]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "nobody can log in" in line]
    assert len(lines) == 1
    assert lines[0].startswith(
        "Warning: VSphereMachineConfig vineyard-cp, VSphereMachineConfig vineyard: spec.users[0]"
    )
