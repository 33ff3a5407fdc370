"""`espalier generate tinkerbelltemplateconfig` and `vsphere-privileges`: what a provider's operator starts from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from espalier.cli.kit.failures import Failure
from espalier.cli.main import program

EXAMPLES = Path(__file__).parents[3] / "examples"


def generated(*words: str) -> str:
    done = CliRunner().invoke(program, ["generate", *words], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def refused(*words: str) -> str:
    error = CliRunner().invoke(program, ["generate", *words]).exception
    assert isinstance(error, Failure)
    return str(error)


def workflows(manifest: Path) -> list[str]:
    """The workflows in the machine templates of a manifest's cluster."""
    trees = yaml.safe_load_all(generated("objects", "-f", str(manifest)))
    return [
        tree["spec"]["template"]["spec"]["templateOverride"]
        for tree in trees
        if tree["kind"] == "TinkerbellMachineTemplate"
    ]


def test_a_generated_workflow_changes_nothing(tmp_path: Path) -> None:
    example = EXAMPLES / "tinkerbell.yaml"
    text = generated("tinkerbelltemplateconfig", "-f", str(example))
    trees = list(yaml.safe_load_all(example.read_text()))
    for tree in trees:
        if tree["kind"] == "TinkerbellMachineConfig":
            tree["spec"]["templateRef"] = {"kind": "TinkerbellTemplateConfig", "name": tree["metadata"]["name"]}
    named = tmp_path / "named.yaml"
    named.write_text(yaml.safe_dump_all([*trees, *yaml.safe_load_all(text)], sort_keys=False))
    assert workflows(named) == workflows(example)
    assert len(workflows(example)) == len(list(yaml.safe_load_all(text))) > 1


def test_files_in_a_generated_workflow_are_readable() -> None:
    text = generated("tinkerbelltemplateconfig", "-f", str(EXAMPLES / "tinkerbell.yaml"))
    assert "\n            network:\n" in text


def test_other_providers_have_no_workflows() -> None:
    assert "only bare metal has workflows" in refused("tinkerbelltemplateconfig", "-f", str(EXAMPLES / "docker.yaml"))
    assert "only vSphere" in refused("vsphere-privileges", "-f", str(EXAMPLES / "docker.yaml"))


def roles(manifest: Path) -> dict[str, Any]:
    document = json.loads(generated("vsphere-privileges", "-f", str(manifest), "-o", "json"))
    assert document == yaml.safe_load(generated("vsphere-privileges", "-f", str(manifest), "-o", "yaml"))
    return {role["name"]: role for role in document["roles"]}


def test_roles_name_the_objects_of_the_manifest() -> None:
    made = roles(EXAMPLES / "vsphere.yaml")
    assert made["espalier-network"] == {
        "name": "espalier-network",
        "server": "vcenter.example.com",
        "privileges": ["Network.Assign"],
        "objects": ["VM Network"],
    }
    assert "espalier-storage-policy" not in made


@pytest.mark.parametrize("named", [True, False])
def test_machine_configs_of_others_need_no_privileges(tmp_path: Path, named: bool) -> None:
    trees = list(yaml.safe_load_all((EXAMPLES / "vsphere.yaml").read_text()))
    [config, *_] = [tree for tree in trees if tree["kind"] == "VSphereMachineConfig"]
    other = {**config, "spec": {**config["spec"], "datastore": "elsewhere", "storagePolicyName": "gold"}}
    other["metadata"] = {**config["metadata"], "name": "other"}
    [cluster] = [tree for tree in trees if tree["kind"] == "Cluster"]
    if named:
        cluster["spec"]["controlPlaneConfiguration"]["machineGroupRef"]["name"] = "other"
    file = tmp_path / "manifest.yaml"
    file.write_text(yaml.safe_dump_all([*trees, other]))
    made = roles(file)
    assert ("elsewhere" in made["espalier-datastore"]["objects"]) is named
    assert (made.get("espalier-storage-policy", {}).get("objects") == ["/"]) is named
