"""Every field of what a cluster on CloudStack links: an accepted value changes rendered objects, or is refused by a
rule.

The schema and the rules of the CRDs are judged as an API server does. No field is left out.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.clusters.report.validity import problem
from espalier.providers.cloudstack.kinds import KINDS, RESERVED, CloudStackDatacenterConfig, CloudStackMachineConfig
from tests.support.objects.rendered_manifests import objects
from tests.support.providers.cloudstack import API, KEY_OF_ANN, disk, everything, made, of, seen, zone
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

DATACENTER, MACHINE = CloudStackDatacenterConfig, CloudStackMachineConfig
NETWORK = {"name": "network-3"}
NAMED = Values(
    [{"name": "another"}, {"id": "f0d2"}, {"id": "f0d2", "name": "another"}],
    [{}, {"name": ""}, {"id": "", "name": ""}, {"name": 1}, {"name": "x" * 254}],
)
ZONE = Values(
    [{"name": "zone-3", "network": NETWORK}, {"id": "f0d2", "network": {"id": "f0d2"}}],
    [{"network": NETWORK}, {"name": "zone-3"}, {"name": "zone-3", "network": {}}, {"name": "", "network": NETWORK}],
)
APIS = [
    *("", "cloudstack.example.com", "ftp://cloudstack.example.com", "https://localhost/client/api"),
    *("http://127.0.0.1:8080/client/api", "https://169.254.169.254/", "https://[::1]/", "https://[fe80::1]/"),
    *(
        "https://user:password@cloudstack.example.com/client/api",
        "https://cloudstack.example.com/?a=b",
        "HTTP://LOCALHOST",
    ),
    *(f"https://[{address}]:8443/client/api" for address in LOCAL),
    *(f"https://{host}/client/api" for host in NO_NAMES),
    *("https://cloudstack.example.com:65536/", "https://cloudstack.example.com:0/"),
    *("https://a.localhost:1/", "https://localhost./", "https://cloudstack.example.com:x/", "https:///client/api"),
]
DEPRECATED_SPEC: Tree = {
    "zones": [{"name": "zone-1", "network": NETWORK}],
    "domain": "ROOT",
    "managementApiEndpoint": API,
}


def in_zone(field: str, accepted: list[Any], refused: list[Any]) -> Values:
    """An availability zone with these values."""
    return Values(
        [[zone("az-3", **{field: value})] for value in accepted],
        [[zone("az-3", **{field: value})] for value in refused],
    )


def in_deprecated_spec(field: str, accepted: list[Any], refused: list[Any]) -> Values:
    """Deprecated zones with these values; the whole spec."""
    return Values(
        [DEPRECATED_SPEC | {field: value} for value in accepted],
        [DEPRECATED_SPEC | {field: value} for value in refused],
    )


def in_disk_offering(field: str, accepted: list[Any], refused: list[Any]) -> Values:
    """A disk with these values."""
    return Values([disk(**{field: value}) for value in accepted], [disk(**{field: value}) for value in refused])


ZONES = Values(
    [[zone("az-3", zone=value)] for value in ZONE.accepted], [[zone("az-3", zone=value)] for value in ZONE.refused]
)
DEPRECATED_ZONES = in_deprecated_spec(
    "zones", [[value] for value in ZONE.accepted], [[value] for value in ZONE.refused]
)
NO_DISK = {"mountPath": "", "device": "", "filesystem": "", "label": ""}
PATHS = ["/data", "/data/a.b-c_d"], ["", "data", "/", "/data/", "/a b", "/a;b", "/$(x)", "/a//b"]

FIELDS: dict[type[KubeObject], dict[str, Values]] = {
    DATACENTER: {
        "availabilityZones[].name": in_zone("name", ["a", "A.b_c-1"], ["", "-a", "a b", "x" * 64]),
        "availabilityZones[].credentialsRef": in_zone("credentialsRef", ["North", "a.b"], ["", "a/b", "-a", "x" * 254]),
        **{f"availabilityZones[].zone.{name}": ZONES for name in ("id", "name", "network.id", "network.name")},
        "availabilityZones[].domain": in_zone("domain", ["ROOT/boats"], ["", 1]),
        "availabilityZones[].account": in_zone("account", ["boats", ""], [1, "x" * 254]),
        "availabilityZones[].managementApiEndpoint": in_zone(
            "managementApiEndpoint", ["http://10.0.0.9:8080/client/api", "https://[fd00::1]/client/api"], APIS
        ),
        **{f"zones[].{name}": DEPRECATED_ZONES for name in ("id", "name", "network.id", "network.name")},
        "domain": in_deprecated_spec("domain", ["ROOT/boats"], ["", 1]),
        "account": in_deprecated_spec("account", ["boats"], [1, "x" * 254]),
        "managementApiEndpoint": in_deprecated_spec(
            "managementApiEndpoint", ["https://other.example.com/client/api"], APIS
        ),
    },
    MACHINE: {
        **{f"computeOffering.{name}": NAMED for name in ("id", "name")},
        **{
            f"template.{name}": Values([{"name": "rhel9-v1-35"}, {"id": "f0d2"}], NAMED.refused)
            for name in ("id", "name")
        },
        "diskOffering.id": in_disk_offering("id", ["f0d2"], [1]),
        "diskOffering.name": Values([disk(name="Large"), NO_DISK], [disk(name=""), disk(name="") | NO_DISK]),
        "diskOffering.customSizeInGB": in_disk_offering("customSizeInGB", [0, 2**31 - 1], [-1, 2**31, "1"]),
        "diskOffering.mountPath": in_disk_offering("mountPath", *PATHS),
        "diskOffering.device": in_disk_offering(
            "device", ["/dev/sdb", "/dev/nvme1n1"], ["", "vdb", "/dev/", "/dev/a b", "/etc"]
        ),
        "diskOffering.filesystem": in_disk_offering("filesystem", ["xfs"], ["", "EXT4", "ext4;", "a b"]),
        "diskOffering.label": in_disk_offering("label", ["data"], ["", "a b", "x" * 17, "-a"]),
        "affinity": Values(["pro", "anti", "no"], ["many", "PRO", 1]),
        "affinityGroupIds[]": Values([["group-c"], []], [[1], ["a"] * 17]),
        "symlinks{}": Values(
            [{"/var/log/a": path} for path in PATHS[0]],
            [*({"/var/log/a": path} for path in PATHS[1]), *({path: "/data"} for path in PATHS[1])],
        ),
        "userCustomDetails{}": Values(
            [{"team": "ships"}, {}], [{"": "a"}, {"a": 1}, *({name: "a"} for name in (*RESERVED, "CPUNUMBER"))]
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

ATOMIC = ("computeOffering", "template", "diskOffering")
DEPRECATED = ("zones", "domain", "account", "managementApiEndpoint")


def example_with(kind: type[KubeObject], path: str, value: Any) -> list[Tree]:
    """The example with everything, in which a field has another value."""
    trees = copy.deepcopy(everything())
    spec, section = of(trees, kind.resource.kind), path.partition(".")[0].removesuffix("[]")
    if section in DEPRECATED:
        spec.clear()
        spec.update(value)
    else:
        put(spec, section if section in ATOMIC else path.removesuffix("{}"), value)
    if path == "affinity":
        del spec["affinityGroupIds"]
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


INVALID_ZONES = [
    DEPRECATED_SPEC | {"availabilityZones": [zone("az-1")]},
    {"availabilityZones": [zone("a"), zone("a")]},
    {},
]


@pytest.mark.parametrize("spec", INVALID_ZONES)
def test_datacenter_has_one_of_both_kinds_of_zones(spec: Tree) -> None:
    trees = everything()
    of(trees, DATACENTER.resource.kind).clear()
    of(trees, DATACENTER.resource.kind).update(spec)
    assert "availability" in refusal_of(KINDS, DATACENTER, trees)


def test_affinity_groups_and_affinity_are_exclusive() -> None:
    trees = everything()
    of(trees, MACHINE.resource.kind)["affinity"] = "pro"
    assert "affinityGroupIds and affinity exclude each other" in refusal_of(KINDS, MACHINE, trees)


FIRST, SECOND = of(everything(), DATACENTER.resource.kind)["availabilityZones"]
CHANGES: list[tuple[type[KubeObject], Tree, str]] = [
    (DATACENTER, {"availabilityZones": [FIRST, SECOND, zone("az-3")]}, ""),
    (DATACENTER, {"availabilityZones": [SECOND]}, ""),
    (DATACENTER, {"availabilityZones": [zone("az-3"), FIRST]}, ""),
    (
        DATACENTER,
        {"availabilityZones": [FIRST | {"account": "other"}, SECOND]},
        "an availability zone can't be changed, because",
    ),
    (DATACENTER, {"availabilityZones": [zone("az-3")]}, "at least one of these availability zones must remain"),
    (DATACENTER, {"availabilityZones": None} | DEPRECATED_SPEC, "it can't be changed"),
    (MACHINE, {"affinityGroupIds": ["group-a"]}, "it can't be changed"),
    (MACHINE, {"affinityGroupIds": None}, "it can't be changed"),
    (MACHINE, {"affinity": "no"}, "it can't be changed"),
    (MACHINE, {"computeOffering": {"name": "another"}}, ""),
]


@pytest.mark.parametrize(("kind", "changes", "sentence"), CHANGES)
def test_fields_of_existing_machines_are_immutable(kind: type[KubeObject], changes: Tree, sentence: str) -> None:
    refusal = refusal_of_change(KINDS, kind, everything(), changes)
    assert sentence in refusal
    assert bool(refusal) == bool(sentence)


@pytest.mark.parametrize("kind", KINDS)
def test_the_sweep_covers_every_field(kind: type[KubeObject]) -> None:
    assert [path for path in all_leaves(kind) if path not in FIELDS[kind]] == []


def test_the_sweep_is_large_enough(capsys: pytest.CaptureFixture[str]) -> None:
    accepted, refused = counted(capsys, "CloudStack", KINDS, swept(FIELDS))
    assert accepted > 40
    assert refused > 150
