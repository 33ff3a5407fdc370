"""Every field of what a cluster on Snow links: an accepted value changes rendered objects, or is refused by a rule.

The schema and the rules of the CRDs are judged as an API server does. No field is left out.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.clusters.report.validity import problem
from espalier.providers.snow.kinds import KINDS, SnowDatacenterConfig, SnowIPPool, SnowMachineConfig
from tests.support.objects.rendered_manifests import objects
from tests.support.providers import bottlerocket_fields
from tests.support.providers.field_sweep import (
    LOCAL,
    LOCAL_IPV4,
    Values,
    all_leaves,
    counted,
    problems_of,
    put,
    refusal_of,
    refusal_of_change,
    swept,
)
from tests.support.providers.snow import everything, everything_with_bottlerocket, made, of, seen

Example = Callable[[], list[Tree]]
DATACENTER, MACHINE, POOL = SnowDatacenterConfig, SnowMachineConfig, SnowIPPool

FIRST = {"index": 1, "vlanID": 7, "dhcp": True}
SECOND = {"index": 2, "primary": True, "ipPoolRef": {"kind": "SnowIPPool", "name": "crevasse"}}
DISK = {"deviceName": "/dev/sdd", "size": 20, "type": "sbp1"}
RANGE = {"ipStart": "192.0.2.20", "ipEnd": "192.0.2.60", "subnet": "192.0.2.0/24", "gateway": "192.0.2.1"}


def interface(**fields: Any) -> list[Tree]:
    """Two interfaces, of which the first has other fields; None: without the field."""
    return [{name: value for name, value in (FIRST | fields).items() if value is not None}, SECOND]


def disk(**fields: Any) -> list[Tree]:
    return [{name: value for name, value in (DISK | fields).items() if value is not None}]


def pools(**fields: Any) -> list[Tree]:
    return [RANGE | fields]


OF_POOL = {"kind": "SnowIPPool", "name": "glacier"}
FIELDS: dict[type[KubeObject], dict[str, Values]] = {
    DATACENTER: {
        "identityRef.kind": Values([{"kind": "Secret", "name": "another"}], [{"kind": "ConfigMap", "name": "a"}]),
        "identityRef.name": Values([{"kind": "Secret", "name": "another"}], [{"kind": "Secret", "name": ""}]),
    },
    MACHINE: {
        "amiID": Values(["", "s.ami-1"], [1, "x" * 300]),
        "instanceType": Values(
            ["", "sbe-c.large", "sbe-c.24xlarge", "sbe-g.xlarge"],
            ["m5.large", "sbe-x.large", "sbe-c.medium", "sbe-c.2large x", "sbe-cxlarge"],
        ),
        "physicalNetworkConnector": Values(["", "SFP_PLUS", "RJ45"], ["SFP", "qsfp"]),
        "sshKeyName": Values(["another"], ["", 1]),
        "devices[]": Values(
            [["10.0.0.9"], ["10.0.0.9", "10.0.0.10"], ["fd00::9"]],
            [
                *([], ["glacier.example.com"], ["10.0.0.9", "10.0.0.9"], ["10.0.0.9:8443"], [""]),
                *(["127.0.0.1"], ["10.0.0.9", "169.254.169.254"], ["::1"], ["fe80::1"], ["FE80::1"], ["0.0.0.0"]),
                *([address] for address in (*LOCAL, *LOCAL_IPV4)),
                *(["::ffff:127.0.0.1"], [f"10.0.0.{number}" for number in range(65)]),
            ],
        ),
        "containersVolume.deviceName": Values(
            [{"size": 100, "deviceName": "/dev/sdf"}], [{"size": 9, "deviceName": 1}]
        ),
        "containersVolume.size": Values([{"size": 8}, {"size": 2**40}], [{"size": 7}, {}, {"size": "9"}]),
        "containersVolume.type": Values([{"size": 100, "type": "sbg1"}], [{"size": 100, "type": "gp2"}]),
        "nonRootVolumes[].deviceName": Values(
            [disk()], [disk(deviceName=None), disk(deviceName=""), disk(deviceName="/dev/sda1"), disk() * 2]
        ),
        "nonRootVolumes[].size": Values([[], disk(size=8)], [disk(size=7), disk(size=None)]),
        "nonRootVolumes[].type": Values([disk(type=None), disk(type="sbg1")], [disk(type="st1")]),
        "network.directNetworkInterfaces[].index": Values(
            [interface(index=None), interface(index=8)],
            [interface(index=0), interface(index=9), interface(index=2), [], [SECOND] * 9],
        ),
        "network.directNetworkInterfaces[].vlanID": Values(
            [interface(vlanID=0), interface(vlanID=4095), interface(vlanID=None)],
            [interface(vlanID=-1), interface(vlanID=4096)],
        ),
        "network.directNetworkInterfaces[].dhcp": Values(
            [interface(dhcp=False, ipPoolRef=OF_POOL)], [interface(dhcp=False), interface(dhcp=None)]
        ),
        "network.directNetworkInterfaces[].primary": Values(
            [[FIRST | {"primary": True}]], [interface(primary=True), [FIRST], [SECOND | {"primary": False}]]
        ),
        "network.directNetworkInterfaces[].ipPoolRef.kind": Values(
            [interface(dhcp=None, ipPoolRef=OF_POOL)], [interface(dhcp=None, ipPoolRef=OF_POOL | {"kind": "IPPool"})]
        ),
        "network.directNetworkInterfaces[].ipPoolRef.name": Values(
            [interface(dhcp=None, ipPoolRef=OF_POOL), interface(dhcp=None, ipPoolRef=OF_POOL | {"name": "absent"})],
            [interface(ipPoolRef=OF_POOL), interface(dhcp=None, ipPoolRef=OF_POOL | {"name": ""})],
        ),
        "osFamily": Values(["", "bottlerocket"], ["redhat", "windows"]),
        "hostOSConfiguration.ntpConfiguration.servers[]": Values([["10.0.0.1"]], [[], ["a b"]]),
    },
    POOL: {
        "pools[].ipStart": Values([pools(ipStart="192.0.2.21")], [pools(ipStart=""), pools(ipStart="a"), []]),
        "pools[].ipEnd": Values([pools(ipEnd="192.0.2.61")], [pools(ipEnd="192.0.2.256")]),
        "pools[].subnet": Values([pools(subnet="192.0.2.0/25")], [pools(subnet="192.0.2.0"), pools(subnet="a/24")]),
        "pools[].gateway": Values(
            [pools(gateway="192.0.2.2"), [RANGE, RANGE]], [pools(gateway="gateway"), pools() * 17]
        ),
    },
}
"""By path, of values in the example with everything: what is in a list or names something is written whole."""

ATOMIC = ("identityRef", "containersVolume")


def example_with(kind: type[KubeObject], path: str, value: Any, example: Example = everything) -> list[Tree]:
    """The example with everything, in which a field has another value."""
    trees = copy.deepcopy(example())
    section = path.partition(".")[0]
    put(of(trees, kind.resource.kind), section if section in ATOMIC else path, value)
    return trees


RENDERED = objects(made(everything()))


def has_effect(trees: list[Tree], before: list[Tree]) -> bool:
    """True if a value has an effect: in objects, or in what the cluster waits for or is refused for."""
    scope = seen(trees)
    return bool(scope.missing) or problem(scope) is not None or objects(made(trees)) != before


@pytest.mark.soak
def test_bottlerocket_setting_has_effect_or_is_refused() -> None:
    before = objects(made(everything_with_bottlerocket()))
    fields = (
        (MACHINE, bottlerocket_fields.path_of(field), values) for field, values in bottlerocket_fields.FIELDS.items()
    )

    def example(kind: type[KubeObject], path: str, value: Any) -> list[Tree]:
        return example_with(kind, path, value, everything_with_bottlerocket)

    def is_expected(_path: str, _value: Any, trees: list[Tree]) -> bool:
        return has_effect(trees, before)

    assert problems_of(KINDS, fields, example, is_expected) == []


@pytest.mark.soak
def test_each_value_has_an_effect_or_is_refused() -> None:
    def is_expected(_path: str, _value: Any, trees: list[Tree]) -> bool:
        return has_effect(trees, RENDERED)

    assert problems_of(KINDS, swept(FIELDS), example_with, is_expected) == []


SETTINGS: list[Tree] = [
    {"bottlerocketConfiguration": {"kernel": {"sysctlSettings": {"a": "b"}}}},
    {"certBundles": [{"name": "a", "data": "b"}]},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_bottlerocket_settings_are_refused_for_others(settings: Tree) -> None:
    refusal = refusal_of(KINDS, MACHINE, example_with(MACHINE, "hostOSConfiguration", settings))
    assert "found ubuntu; allowed: bottlerocket" in refusal


CHANGES: list[tuple[type[KubeObject], str, Any]] = [
    (MACHINE, "sshKeyName", "another"),
    (POOL, "pools", pools(ipEnd="192.0.2.61")),
]


@pytest.mark.parametrize(("kind", "field", "value"), CHANGES)
def test_fields_of_existing_machines_are_immutable(kind: type[KubeObject], field: str, value: Any) -> None:
    assert "can't be changed" in refusal_of_change(KINDS, kind, everything(), {field: value})


@pytest.mark.parametrize("kind", KINDS)
def test_the_sweep_covers_every_field(kind: type[KubeObject]) -> None:
    left = [path for path in all_leaves(kind) if path not in FIELDS[kind]]
    assert [path for path in left if not (kind is MACHINE and path in bottlerocket_fields.FIELDS)] == []


def test_the_sweep_is_large_enough(capsys: pytest.CaptureFixture[str]) -> None:
    accepted, refused = counted(capsys, "Snow", KINDS, swept(FIELDS))
    assert accepted > 40
    assert refused > 60
