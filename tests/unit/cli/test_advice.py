"""Advice of an error can be followed: no other rule refuses what it allows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from espalier.api.meta import Tree
from espalier.cli.main import program
from tests.support.sampling import sampled
from tests.support.servers.admission_reviews import edited

EXAMPLES = Path(__file__).parents[3] / "examples"
HOST_OS = "spec.hostOSConfiguration"
CERTIFICATES = [{"name": "a", "data": "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"}]

CHOICES: list[tuple[str, str, str, Any]] = [
    ("vsphere", "VSphereMachineConfig", "spec.osFamily", "windows"),
    ("vsphere", "VSphereMachineConfig", "spec.cloneMode", "copy"),
    ("tinkerbell", "TinkerbellMachineConfig", "spec.osFamily", "windows"),
    ("nutanix", "NutanixMachineConfig", "spec.osFamily", "windows"),
    ("nutanix", "NutanixMachineConfig", "spec.bootType", "bios"),
    ("snow", "SnowMachineConfig", "spec.osFamily", "windows"),
    ("snow", "SnowMachineConfig", "spec.physicalNetworkConnector", "USB"),
    ("cloudstack", "CloudStackMachineConfig", "spec.affinity", "some"),
]
"""Of a provider's example: the kind, and a field with a value that has a few allowed ones."""


def problems(example: str, kind: str, path: str, value: Any) -> list[Tree]:
    """The problems of a manifest whose objects of a kind have this value."""
    trees = list(yaml.safe_load_all((EXAMPLES / f"{example}.yaml").read_text()))
    if path == "spec.osFamily" and value == "bottlerocket":
        for tree in trees:
            tree["spec"].pop("users", None)  # which has no other than its own
    trees = [edited({path: value}, tree) if tree["kind"] == kind else tree for tree in trees]
    done = CliRunner().invoke(program, ["validate", "-f", "-", "-o", "json"], input=yaml.safe_dump_all(trees))
    assert done.stdout, done.exception
    result: list[Tree] = json.loads(done.stdout)["problems"]
    return result


@pytest.mark.parametrize(("example", "kind", "path", "bad"), sampled(CHOICES, 2, 6))
def test_each_allowed_value_is_accepted(example: str, kind: str, path: str, bad: Any) -> None:
    results = problems(example, kind, path, bad)
    assert results
    text = results[0]["violation"]["allowed"] or results[0]["violation"]["message"].partition("allowed: ")[2]
    allowed = [word.strip(' "') for word in text.replace(" or ", ", ").split(",") if word.strip(' "')]
    assert len(allowed) >= 2, text
    for value in allowed:
        assert problems(example, kind, path, value) == [], f"{path}: {value} is allowed"


@pytest.mark.parametrize("example", sampled(["vsphere", "tinkerbell", "snow"], 1))
def test_bottlerocket_is_advised_where_it_is_accepted(example: str) -> None:
    kind = {"vsphere": "VSphere", "tinkerbell": "Tinkerbell", "snow": "Snow"}[example] + "MachineConfig"
    results = problems(example, kind, f"{HOST_OS}.certBundles", CERTIFICATES)
    assert results
    advised = "allowed: bottlerocket" in results[0]["violation"]["message"]
    accepted = problems(example, kind, "spec.osFamily", "bottlerocket") == []
    assert advised == accepted
