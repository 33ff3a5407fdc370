"""Every field of what a cluster on Nutanix links: an accepted value changes rendered objects, or is refused by a rule.

The schema and the rules of the CRDs are judged as an API server does. No field is left out.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.clusters.report.validity import problem
from espalier.providers.nutanix.kinds import KINDS, NutanixDatacenterConfig, NutanixMachineConfig
from tests.support.objects.rendered_manifests import objects
from tests.support.providers.field_sweep import (
    LOCAL,
    NO_NAMES,
    Values,
    all_leaves,
    counted,
    problems_of,
    put,
    refusal_of_change,
    swept,
)
from tests.support.providers.nutanix import AUTHORITY, KEY_OF_ANN, UUID, domain, everything, made, named, of, seen

DATACENTER, MACHINE = NutanixDatacenterConfig, NutanixMachineConfig
BY_UUID = {"type": "uuid", "uuid": UUID.replace("0005", "0006").upper()}
NO_IDENTIFIERS: list[Tree] = [
    {"type": "name"},
    {"type": "name", "name": ""},
    {"type": "uuid"},
    {"type": "uuid", "uuid": "1"},
    {"type": "uuid", "uuid": UUID.replace("-", "")},
    {"type": "id", "name": "a"},
    {"name": "a"},
]
IDENTIFIER = Values([named("another-1.35"), BY_UUID, BY_UUID | {"name": "a"}], NO_IDENTIFIERS)
GPU = {"type": "name", "name": "Ampere 40"}
CATEGORY = {"key": "stone", "value": "marble"}
EAST = domain("east", "md-0")


def of_identifier(field: str) -> dict[str, Values]:
    return {f"{field}.{name}": IDENTIFIER for name in ("type", "name", "uuid")}


def in_domain(field: str, *, several: bool = False) -> dict[str, Values]:
    """The identifiers of a failure domain."""

    def each(values: list[Any]) -> list[Any]:
        return [[EAST | {field: [value] if several else value}] for value in values]

    values = Values(each(IDENTIFIER.accepted), each(IDENTIFIER.refused))
    place = f"failureDomains[].{field}{'[]' if several else ''}"
    return {f"{place}.{name}": values for name in ("type", "name", "uuid")}


FIELDS: dict[type[KubeObject], dict[str, Values]] = {
    DATACENTER: {
        "endpoint": Values(
            ["10.0.0.9", "prism.other.example", "[fd00::1]", "fd00::1"],
            [
                *("", "https://prism.example.com", "localhost", "a.localhost", "127.0.0.1", "prism:9440"),
                *("169.254.169.254", "::1", "[::1]", "fe80::1", "0.0.0.0", "a b", "LOCALHOST", "localhost."),
                *(*LOCAL, *NO_NAMES),
            ],
        ),
        "port": Values([1, 65535], [0, 65536, "9440"]),
        "insecure": Values([True], ["yes"]),
        "additionalTrustBundle": Values(
            ["", AUTHORITY * 2], ["MIIB", AUTHORITY + "-----BEGIN PRIVATE KEY-----", "x" * 300_000]
        ),
        "credentialRef.kind": Values([{"kind": "Secret", "name": "another"}], [{"kind": "ConfigMap", "name": "a"}]),
        "credentialRef.name": Values([{"kind": "Secret", "name": "another"}], [{"kind": "Secret", "name": ""}]),
        "failureDomains[].name": Values(
            [[EAST | {"name": "east-1"}]], [[EAST | {"name": "East"}], [EAST | {"name": ""}], [EAST, EAST]]
        ),
        **in_domain("cluster"),
        **in_domain("subnets", several=True),
        "failureDomains[].workerMachineGroups[]": Values([[domain("east")]], [[EAST | {"workerMachineGroups": [1]}]]),
        "ccmExcludeNodeIPs[]": Values(
            [[], ["10.0.0.1"], ["10.0.0.0/24"], ["10.0.0.1-10.0.0.9"], ["fd00::1"]],
            [["a"], ["10.0.0.1-"], ["10.0.0.1-a"], ["10.0.0.0/33"], ["10.0.0.1-10.0.0.2-10.0.0.3"], ["10.0.0.1"] * 65],
        ),
    },
    MACHINE: {
        "vcpusPerSocket": Values([2, 2**31 - 1], [0, 2**31, "1"]),
        "vcpuSockets": Values([3, 2**31 - 1], [1, 0, 2**31]),
        "memorySize": Values(["4Gi", "4294967296", 5_000_000_000, "5e9", "4.5Gi"], ["x", "-4Gi", "4 Gi", "1e999", ""]),
        "systemDiskSize": Values(["41Gi", 2**40], ["x", "-40Gi", ""]),
        "osFamily": Values([], ["bottlerocket", "windows"]),
        **of_identifier("image"),
        **of_identifier("cluster"),
        **of_identifier("subnet"),
        **of_identifier("project"),
        "bootType": Values(["legacy"], ["bios"]),
        "additionalCategories[].key": Values([[CATEGORY | {"key": "a"}]], [[CATEGORY | {"key": ""}]]),
        "additionalCategories[].value": Values([[CATEGORY]], [[CATEGORY | {"value": ""}]]),
        "gpus[].type": Values([[GPU]], [[GPU | {"type": "model"}], [GPU, {"type": "deviceID", "deviceID": 1}]]),
        "gpus[].name": Values(
            [[GPU, GPU]], [[GPU | {"name": ""}], [{"type": "name"}], [{"type": "name", "deviceID": 1}]]
        ),
        "gpus[].deviceID": Values(
            [[{"type": "deviceID", "deviceID": 0}]], [[{"type": "deviceID"}], [{"type": "deviceID", "deviceID": -1}]]
        ),
        "users[].name": Values(
            [[{"name": "bob", "sshAuthorizedKeys": []}]], [[{"name": "B b", "sshAuthorizedKeys": []}]]
        ),
        "users[].sshAuthorizedKeys[]": Values(
            [[{"name": "ann", "sshAuthorizedKeys": ["", KEY_OF_ANN]}]],
            [[{"name": "ann", "sshAuthorizedKeys": ["-----BEGIN OPENSSH PRIVATE KEY-----"]}]],
        ),
    },
}
"""By path, of values in the example with everything: what is in a list or names something is written whole."""

ATOMIC = ("credentialRef", "image", "cluster", "subnet", "project")
ANOTHER_OS = "osFamily says of which operating system the image is; nothing rendered depends on it"


def example_with(kind: type[KubeObject], path: str, value: Any) -> list[Tree]:
    """The example with everything, in which a field has another value."""
    trees = copy.deepcopy(everything())
    section = path.partition(".")[0]
    put(of(trees, kind.resource.kind), section if section in ATOMIC else path, value)
    if path.startswith(("cluster.", "subnet.")):  # failure domains would set it: all workers are in one
        of(trees, "NutanixDatacenterConfig")["failureDomains"] = []
    return trees


RENDERED = objects(made(everything()))


def has_effect(trees: list[Tree]) -> bool:
    """True if a value has an effect: in objects, or in the permission or the Secret for which the cluster waits."""
    scope = seen(trees)
    if scope.missing:
        return True
    assert problem(scope) is None
    return objects(made(trees)) != RENDERED


@pytest.mark.soak
def test_each_value_has_an_effect_or_is_refused() -> None:
    def is_expected(_path: str, _value: Any, trees: list[Tree]) -> bool:
        return has_effect(trees)

    assert problems_of(KINDS, swept(FIELDS), example_with, is_expected) == []


@pytest.mark.parametrize("identifier", [named("cluster-1") | {"uuid": UUID}, {"type": "name", "name": "cluster-1"}])
def test_only_field_named_by_identifiers_type_counts(identifier: Tree) -> None:
    assert objects(made(example_with(MACHINE, "cluster", identifier))) == RENDERED


def test_operating_system_of_image_has_no_effect() -> None:
    assert objects(made(example_with(MACHINE, "osFamily", "redhat"))) == RENDERED, ANOTHER_OS


CHANGES: list[tuple[type[KubeObject], str, Any]] = [
    (DATACENTER, "endpoint", "b.example.com"),
    (DATACENTER, "credentialRef", None),
    (MACHINE, "osFamily", "redhat"),
    (MACHINE, "cluster", named("another-1.35")),
    (MACHINE, "subnet", named("another-1.35")),
    (MACHINE, "bootType", "legacy"),
    (MACHINE, "bootType", None),
]


@pytest.mark.parametrize(("kind", "field", "value"), CHANGES)
def test_fields_of_existing_machines_are_immutable(kind: type[KubeObject], field: str, value: Any) -> None:
    refusal = refusal_of_change(KINDS, kind, everything(), {field: value})
    assert "it can't be changed" in refusal or "it can't be removed" in refusal


@pytest.mark.parametrize("kind", KINDS)
def test_the_sweep_covers_every_field(kind: type[KubeObject]) -> None:
    assert [path for path in all_leaves(kind) if path not in FIELDS[kind]] == []


def test_the_sweep_is_large_enough(capsys: pytest.CaptureFixture[str]) -> None:
    accepted, refused = counted(capsys, "Nutanix", KINDS, swept(FIELDS))
    assert accepted > 60
    assert refused > 150
