"""Fields that the command of EKS Anywhere fills in can be left out, with the same result and a warning."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from espalier.api.definitions.crd import crd_of
from espalier.api.meta import Tree
from espalier.cli.main import program
from espalier.providers.kinds import CATALOG
from espalier.providers.registry import PROVIDERS
from tests.support.sampling import sampled

EXAMPLES = Path(__file__).parents[3] / "examples"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJlPc5P7IIoi4WmYJ+v74zqKui8ZNxOeO56BHBZWM0sD"

FILLED_IN: dict[str, dict[str, Any]] = {
    "VSphereDatacenterConfig": {"thumbprint": "", "insecure": False},
    "VSphereMachineConfig": {"memoryMiB": 8192, "numCPUs": 2, "osFamily": "bottlerocket", "folder": ""},
    "NutanixDatacenterConfig": {"credentialRef": {"kind": "Secret", "name": "nutanix-credentials"}},
    "NutanixMachineConfig": {"osFamily": "ubuntu"},
    "SnowDatacenterConfig": {"identityRef": {"kind": "Secret", "name": "snow-credentials"}},
    "SnowMachineConfig": {
        "instanceType": "sbe-c.large",
        "physicalNetworkConnector": "SFP_PLUS",
        "osFamily": "bottlerocket",
    },
}
"""The defaults of EKS Anywhere's command, by kind."""

USERS = {
    "VSphereMachineConfig": ("ubuntu", "capv"),
    "NutanixMachineConfig": ("ubuntu", "eksa"),
    "CloudStackMachineConfig": ("", "capc"),
    "TinkerbellMachineConfig": ("ubuntu", "ec2-user"),
}
"""By kind: an operating system, and the name of its user."""


def example(kind: str) -> list[Tree]:
    """The example with objects of a kind; its machines have a user with a key."""
    (file,) = (path for path in EXAMPLES.glob("*.yaml") if f"kind: {kind}\nmetadata" in path.read_text())
    trees = list(yaml.safe_load_all(file.read_text()))
    for tree in trees:
        for user in tree["spec"].get("users", []) if "spec" in tree else []:
            user["sshAuthorizedKeys"] = [KEY]
    return trees


def edited(trees: list[Tree], kind: str, **fields: Any) -> list[Tree]:
    """A copy in which all objects of a kind have these values; None removes a field."""
    copied = copy.deepcopy(trees)
    for spec in (item["spec"] for item in copied if item["kind"] == kind):
        for name, value in fields.items():
            spec.pop(name, None)
            if value is not None:
                spec[name] = value
    return copied


def run(trees: list[Tree], *command: str) -> str:
    done = CliRunner().invoke(program, [*command, "-f", "-"], input=yaml.safe_dump_all(trees))
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


def warned(trees: list[Tree]) -> list[str]:
    """The warnings of a valid manifest."""
    result: list[str] = json.loads(run(trees, "validate", "-o", "json"))["warnings"]
    return result


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in FILLED_IN.items() for name in names])
def test_a_missing_field_means_the_default(kind: str, name: str) -> None:
    trees = example(kind)
    if FILLED_IN[kind][name] == "bottlerocket":
        trees = edited(trees, kind, users=None)  # which has no other than its own
    given, missing = edited(trees, kind, **{name: FILLED_IN[kind][name]}), edited(trees, kind, **{name: None})
    assert run(missing, "generate", "objects") == run(given, "generate", "objects")
    told = [
        warning
        for warning in warned(missing)
        if "the defaults of EKS Anywhere apply" in warning and f" {name} (" in warning
    ]
    datacenter = next(tree["spec"]["datacenterRef"]["kind"] for tree in trees if tree["kind"] == "Cluster")
    assert bool(told) == (name in PROVIDERS[datacenter].links.defaults.get(kind, {}))
    assert not [warning for warning in warned(given) if f" {name} (" in warning]


@pytest.mark.parametrize("kind", FILLED_IN)
def test_no_filled_in_field_is_required(kind: str) -> None:
    """Not by the CRD either, which judges before any webhook."""
    cls = CATALOG.kind_of("anywhere.eks.amazonaws.com/v1alpha1", kind)
    assert cls is not None
    (version,) = crd_of(cls)["spec"]["versions"]
    required = version["schema"]["openAPIV3Schema"]["properties"]["spec"].get("required", [])
    assert not set(required) & set(FILLED_IN[kind])


@pytest.mark.parametrize("kind", USERS)
def test_a_user_without_a_name_gets_the_usual_one(kind: str) -> None:
    system, name = USERS[kind]
    trees = edited(example(kind), kind, users=[{"sshAuthorizedKeys": [KEY]}])
    if system:
        trees = edited(trees, kind, osFamily=system)
    assert f"name: {name}\n" in run(trees, "generate", "objects")
    assert warned(trees) == []


NO_KEY: dict[str, list[Tree]] = {
    "no user": [],
    "no keys": [{"name": "ann"}],
    "an empty list": [{"name": "ann", "sshAuthorizedKeys": []}],
    "an empty key": [{"name": "ann", "sshAuthorizedKeys": [""]}],
    "half a key": [{"name": "ann", "sshAuthorizedKeys": [KEY[:30]]}],
    "a key of another type": [{"name": "ann", "sshAuthorizedKeys": [KEY.replace("ed25519 ", "rsa ")]}],
}


KIND_AND_SPELLING = [(kind, spelling) for spelling in NO_KEY for kind in USERS]


@pytest.mark.parametrize(("kind", "spelling"), sampled(KIND_AND_SPELLING, 0, 5, 10, 15, 16, 21))
def test_nobody_can_log_in_is_said(kind: str, spelling: str) -> None:
    if (kind, spelling) == ("TinkerbellMachineConfig", "no user"):
        return  # refused, as in EKS Anywhere
    trees = example(kind)
    if USERS[kind][0]:
        trees = edited(trees, kind, osFamily=USERS[kind][0])
    assert not [warning for warning in warned(trees) if "log in" in warning]
    told = [
        warning for warning in warned(edited(trees, kind, users=NO_KEY[spelling])) if "nobody can log in" in warning
    ]
    assert len(told) == sum(tree["kind"] == kind for tree in trees)
    assert all(item.startswith(f"{kind} ") and "set your public key" in item for item in told)


@pytest.mark.parametrize("text", ["  ", "# ann's key", "ssh-rsa AAAA...", "ann", "-----BEGIN OPENSSH PRIVATE KEY-----"])
@pytest.mark.parametrize("kind", USERS)
def test_what_is_no_key_is_refused(kind: str, text: str) -> None:
    trees = edited(example(kind), kind, users=[{"name": "ann", "sshAuthorizedKeys": [text]}])
    told = run(trees, "validate", "-o", "json")
    problems = [problem["violation"]["message"] for problem in json.loads(told)["problems"]]
    assert len(problems) == sum(tree["kind"] == kind for tree in trees)
    assert all("not an SSH public key; set it to the line in a .pub file" in problem for problem in problems)
    assert "PRIVATE" not in told
