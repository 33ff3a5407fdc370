"""Every field of what a cluster on vSphere links: an accepted value changes rendered objects, or is refused by a rule.

The schema and the rules of the CRDs are judged as an API server does. No field is left out.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.clusters.report.validity import problem, unresolved_values
from espalier.providers.vsphere.kinds import KINDS, VSphereDatacenterConfig, VSphereMachineConfig
from tests.support.objects.rendered_manifests import objects
from tests.support.providers import bottlerocket_fields
from tests.support.providers.field_sweep import (
    LOCAL,
    NO_NAMES,
    Values,
    all_leaves,
    counted,
    problems_of,
    put,
    refusal_of,
    refusal_of_change,
    swept,
)
from tests.support.providers.vsphere import DOMAIN, KEY_OF_ANN, everything, everything_with_bottlerocket, made, of, seen

DATACENTER, MACHINE = VSphereDatacenterConfig, VSphereMachineConfig
Example = Callable[[], list[Tree]]


PRINT = ":".join(["0f"] * 20)
PATHS = {"datastore": "Rows", "resourcePool": "*/Pool", "folder": "/Datacenter/vm/a b", "template": "ubuntu"}
FAILURE_DOMAIN: dict[str, Values] = {
    f"failureDomains[].{name}": Values([[DOMAIN | {name: "another"}]], [[DOMAIN | {name: ""}]])
    for name in ("computeCluster", "datastore", "folder", "network", "resourcePool")
}
FIELDS: dict[type[KubeObject], dict[str, Values]] = {
    DATACENTER: {
        "server": Values(
            [
                "10.0.0.9",
                *("vc.example.com:8443", "vc.example.com:65535", "127.vc.example.com", "[64:ff9b::c000:201]:1"),
                "[fd00::1]:443",
                "vcenter",
                "10.0.0.9.4com:1",
                "1x.e",
                "vc_1.example.com.",
            ],
            [
                *("", "https://vc.example.com", "localhost", "a.localhost", "127.0.0.1", "127.0.0.1:443"),
                *("169.254.169.254", "::1", "[::1]:443", "fe80::1", "0.0.0.0", "a b", "LOCALHOST", "localhost."),
                *("vc.example.com:99999", "1.1.1.1:0", "[fd00::1]:65536"),
                *(
                    *LOCAL,
                    *NO_NAMES,
                    *(f"[{address}]:443" for address in LOCAL),
                    *(f"{address}:443" for address in NO_NAMES),
                ),
            ],
        ),
        "datacenter": Values(["/Datacenter"], ["", 1]),
        "network": Values(["Rows", "/Datacenter/network/Rows"], ["", "/Other/network/Rows"]),
        "thumbprint": Values(["", PRINT, PRINT.upper()], [PRINT[:-3], PRINT.replace(":", ""), "zz" + PRINT[2:]]),
        "insecure": Values([True], ["yes"]),
        "failureDomains[].name": Values(
            [[DOMAIN | {"name": "east-1"}]], [[DOMAIN | {"name": "East"}], [DOMAIN, DOMAIN]]
        ),
        **FAILURE_DOMAIN,
    },
    MACHINE: {
        **{name: Values([value], [1] if name in ("folder", "template") else ["", 1]) for name, value in PATHS.items()},
        "cloneMode": Values(["fullClone", "linkedClone"], ["copy"]),
        "diskGiB": Values([21, 2**31 - 1], [-1, 2**31, "20"]),
        "memoryMiB": Values([4096, 2**31 - 1], [-1, 2**31]),
        "numCPUs": Values([3, 2**31 - 1], [-1, 1.5]),
        "osFamily": Values([], ["windows"]),
        "storagePolicyName": Values(["slow"], [1]),
        "tags[]": Values([["urn:a"]], [["a"] * 129]),
        "networks[]": Values([["Rows"], ["Rows", "Barn"]], [["a", "b", "c"]]),
        "users[].name": Values(
            [[{"name": "bob", "sshAuthorizedKeys": []}]], [[{"name": "B b", "sshAuthorizedKeys": []}]]
        ),
        "users[].sshAuthorizedKeys[]": Values(
            [
                [{"name": "ann", "sshAuthorizedKeys": [key]}]
                for key in ("", f"ecdsa-sha2-nistp256 {KEY_OF_ANN.split()[1]}", "ssh-rsa AAAAB3NzaC1yc2EAAAADAQ== a b")
            ],
            [
                [{"name": "ann", "sshAuthorizedKeys": [key]}]
                for key in ("-----BEGIN OPENSSH PRIVATE KEY-----", "AAAAC3", "ssh-ed25519", "ssh-ed25519 MIIB")
            ],
        ),
        "hostOSConfiguration.ntpConfiguration.servers[]": Values([["10.0.0.1", "a.example"]], [[], ["a b"], [""]]),
    },
}
"""By path, of values in the example with everything: `[]` is the whole list."""

SYSTEM = "hostOSConfiguration."
REFUSED_FOR_UBUNTU = {
    f"{SYSTEM}certBundles": [{"name": "a", "data": "b"}],
    f"{SYSTEM}bottlerocketConfiguration": {"kernel": {"sysctlSettings": {"a": "b"}}},
}


def example_with(kind: type[KubeObject], path: str, value: Any, example: Example = everything) -> list[Tree]:
    """The example with everything, in which a field has another value."""
    trees = copy.deepcopy(example())
    put(of(trees, kind.resource.kind), path, value)
    if path.startswith("failureDomains"):  # groups name what is there
        trees[0]["spec"]["workerNodeGroupConfigurations"][0]["failureDomains"] = [domain["name"] for domain in value][
            :1
        ]
    return trees


WITHOUT_EFFECT = {
    ("insecure", True): "the thumbprint is verified; without one, another permission is asked for",
    ("cloneMode", "linkedClone"): "the example has it",
}


def has_effect(trees: list[Tree], before: list[Tree]) -> bool:
    """True if a value has an effect: in objects, in what the cluster waits for, or for which permission it waits."""
    scope = seen(trees)
    if scope.missing or unresolved_values(scope) is not None:
        return True
    assert problem(scope) is None
    return objects(made(trees)) != before


RENDERED = objects(made(everything()))


@pytest.mark.soak
def test_bottlerocket_setting_has_effect_or_is_refused() -> None:
    """Certificates that are none are refused by the controller, which reads them."""
    before = objects(made(everything_with_bottlerocket()))
    fields = (
        (MACHINE, bottlerocket_fields.path_of(field), values) for field, values in bottlerocket_fields.FIELDS.items()
    )

    def example(kind: type[KubeObject], path: str, value: Any) -> list[Tree]:
        return example_with(kind, path, value, everything_with_bottlerocket)

    def is_expected(_path: str, _value: Any, trees: list[Tree]) -> bool:
        return problem(seen(trees)) is not None or has_effect(trees, before)

    assert problems_of(KINDS, fields, example, is_expected) == []


@pytest.mark.soak
def test_each_value_has_an_effect_or_is_refused() -> None:
    def is_expected(path: str, value: Any, trees: list[Tree]) -> bool:
        return has_effect(trees, RENDERED) or (path, value) in list(WITHOUT_EFFECT)

    assert problems_of(KINDS, swept(FIELDS), example_with, is_expected) == []


@pytest.mark.parametrize("path", REFUSED_FOR_UBUNTU)
def test_bottlerocket_settings_are_refused_for_others(path: str) -> None:
    refusal = refusal_of(KINDS, MACHINE, example_with(MACHINE, path, REFUSED_FOR_UBUNTU[path]))
    assert "found ubuntu; allowed: bottlerocket" in refusal


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        *(
            (DATACENTER, "server", "b.example.com"),
            (DATACENTER, "datacenter", "Other"),
            (DATACENTER, "network", "Other"),
        ),
        *((MACHINE, "osFamily", "redhat"), (MACHINE, "storagePolicyName", "slow")),
        *(
            (DATACENTER, "failureDomains", [DOMAIN | {name: "/Datacenter/vm/other"}])
            for name in DOMAIN
            if name != "name"
        ),
    ],
)
def test_fields_of_existing_machines_are_immutable(kind: type[KubeObject], field: str, value: Any) -> None:
    assert "can't be changed" in changed(kind, field, value)


@pytest.mark.parametrize("domains", [[], [DOMAIN, DOMAIN | {"name": "west"}], [DOMAIN | {"name": "west"}]])
def test_failure_domains_can_be_added_and_removed(domains: list[Tree]) -> None:
    assert changed(DATACENTER, "failureDomains", domains) == ""


def changed(kind: type[KubeObject], field: str, value: Any) -> str:
    """The refusal of another value for a field of a stored object; empty if it is accepted."""
    return refusal_of_change(KINDS, kind, everything(), {field: value})


@pytest.mark.demand(L38="the fields")
@pytest.mark.parametrize("kind", KINDS)
def test_the_sweep_covers_every_field(kind: type[KubeObject]) -> None:
    left = [
        path
        for path in all_leaves(kind)
        if path.removesuffix("{}") not in FIELDS[kind] and not (kind is MACHINE and path in bottlerocket_fields.FIELDS)
    ]
    assert left == []


def test_the_sweep_is_large_enough(capsys: pytest.CaptureFixture[str]) -> None:
    accepted, refused = counted(capsys, "vSphere", KINDS, swept(FIELDS))
    assert accepted > 35
    assert refused > 50
