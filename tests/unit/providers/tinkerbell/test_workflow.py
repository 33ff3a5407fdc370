"""The workflow that makes a machine: what Tinkerbell reads is what was meant."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import yaml

from espalier.api.meta import Tree
from espalier.providers.tinkerbell import workflow
from espalier.providers.tinkerbell.kinds import Workflow
from tests.support.providers.tinkerbell import MACHINES, everything, made, manifest, of, template

IMAGE = "https://images.example.com/ubuntu-1-35.gz"


def usual(os: str = "ubuntu", **proxy: str) -> Workflow:
    return workflow.usual("forge", os, IMAGE, "192.0.2.9", proxy)


def actions(text: str) -> list[dict[str, Any]]:
    actions_of_task: list[dict[str, Any]] = yaml.safe_load(text)["tasks"][0]["actions"]
    return actions_of_task


@pytest.mark.parametrize("os", ["ubuntu", "redhat"])
def test_the_text_means_the_workflow(os: str) -> None:
    asked = usual(os, HTTP_PROXY="http://proxy:3128")
    assert yaml.safe_load(workflow.text(asked)) == msgspec.to_builtins(asked)


def test_any_text_keeps_its_meaning() -> None:
    """Tinkerbell fills in its own part before the YAML is read, so quotes in it must not be escaped."""
    asked = usual()
    texts = [
        '{{ printf "%s" .A }}',
        "a: b # c",
        "first\nsecond",
        "yes",
        "0600",
        " leading\n\ttab\n",
        "",
        "é",
        "x" * 5000,
    ]
    for text in texts:
        asked.tasks[0].actions[0].environment["TEXT"] = text
        assert yaml.safe_load(workflow.text(asked)) == msgspec.to_builtins(asked)
    asked.tasks[0].actions[0].environment["TEXT"] = f"{texts[0]}\nsecond"
    assert f"{texts[0]}\n" in workflow.text(asked)


def test_values_are_written_into_templates_unchanged() -> None:
    text = workflow.text(usual())
    assert "worker: '{{.device_1}}'" in text
    assert "\\" not in text


def test_red_hat_has_its_root_on_the_first_partition() -> None:
    stream, network, *_, reboot = actions(workflow.text(usual("redhat")))
    assert (stream["environment"]["IMG_URL"], reboot["pid"]) == (IMAGE, "host")
    assert network["environment"]["DEST_DISK"] == "{{ formatPartition ( index .Hardware.Disks 0 ) 1 }}"
    assert network["environment"]["DEST_PATH"].startswith("/etc/NetworkManager/")


def test_an_address_of_ipv6_stands_in_brackets() -> None:
    text = workflow.text(workflow.usual("forge", "ubuntu", IMAGE, "fd00::9", {}))
    assert "http://[fd00::9]:7172" in text


def of_workers(trees: list[Tree]) -> str:
    machine_template = msgspec.to_builtins(made(trees).groups[0].machine_template)
    text: str = machine_template["spec"]["template"]["spec"]["templateOverride"]
    return text


def with_template(**action: Any) -> list[Tree]:
    trees = [*manifest(), template("team-a")]
    of(trees, MACHINES)["templateRef"] = {"kind": "TinkerbellTemplateConfig", "name": "forge"}
    first = of(trees, "TinkerbellTemplateConfig")["template"]["tasks"][0]["actions"][0]
    first.update(action)
    return trees


def test_custom_workflow_gets_operating_system_of_spec() -> None:
    assert actions(of_workers(with_template()))[0]["environment"]["IMG_URL"] == IMAGE
    other = with_template(environment={"DEST_DISK": "/dev/sda"})
    assert actions(of_workers(other))[0]["environment"] == {"DEST_DISK": "/dev/sda"}
    without = with_template()
    del of(without, "TinkerbellDatacenterConfig")["osImageURL"]
    of(without, MACHINES, "forge-cp")["osImageURL"] = IMAGE
    assert actions(of_workers(without))[0]["environment"]["IMG_URL"] == "https://images.example.com/old.gz"


def test_images_come_from_the_mirror_of_their_registry() -> None:
    assert actions(of_workers(everything()))[0]["image"] == "mirror.example.com:5000/tools/image2disk:v1"
    trees = everything()
    mirror = trees[0]["spec"]["registryMirrorConfiguration"]
    mirror["ociNamespaces"] = [{"registry": "public.ecr.aws", "namespace": "eks-anywhere"}]
    assert actions(of_workers(trees))[0]["image"] == "mirror.example.com:5000/eks-anywhere/tools/image2disk:v1"
    mirror["ociNamespaces"] = [{"registry": "quay.io", "namespace": "quay"}]
    assert actions(of_workers(trees))[0]["image"] == "public.ecr.aws/tools/image2disk:v1"
