"""Every field of what a cluster on bare metal links: an accepted value changes rendered objects, is listed as without
effect, or is refused by a rule. No field is left out.
"""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest

from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.clusters.report.validity import problem
from espalier.providers.tinkerbell.kinds import (
    KINDS,
    TinkerbellDatacenterConfig,
    TinkerbellMachineConfig,
    TinkerbellTemplateConfig,
)
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
    server,
    swept,
    verdict,
)
from tests.support.providers.tinkerbell import FORGE, MACHINES, everything, made, objects, of, seen
from tests.support.providers.vsphere import KEY_OF_ANN

DATACENTER, MACHINE, TEMPLATE = TinkerbellDatacenterConfig, TinkerbellMachineConfig, TinkerbellTemplateConfig

URL = "https://images.example.com/1-36-and-1-35"
NOT_URLS = ["images.example.com/a", "https://", "https://a b", "https://a/{{println}}1.36,1.35", 1]


def selector(**labels: str) -> Tree:
    return {"labelSelector": {"matchLabels": labels}}


def required(**requirement: Any) -> Values:
    """Hardware that an expression selects."""
    expression = {"key": "type", "operator": "In", "values": ["a"]} | requirement
    return Values([[{"labelSelector": {"matchExpressions": [expression]}}]], [])


def refused(values: Values, *others: Values) -> Values:
    return Values(values.accepted, [value for other in others for value in other.accepted])


def preferred(term: Tree, weight: Any = 1) -> list[Tree]:
    return [{"weight": weight, "hardwareAffinityTerm": term}]


REQUIRED, PREFERRED = "hardwareAffinity.required[]", "hardwareAffinity.preferred[]"
TERM = "hardwareAffinityTerm.labelSelector"
LABELS = Values([[selector(a="b")], [selector(a="b"), selector(c="d")]], [[]])
KEY = refused(required(key="example.com/rack"), required(key=""), required(key="a b"))
OPERATOR = refused(required(operator="NotIn"), required(operator="Like"), required(operator="Exists"))
OPERATOR.accepted.extend(required(operator="DoesNotExist", values=[]).accepted)
VALUES = refused(required(values=["a", "b"]), required(values=[]), required(values=[1]))


def as_preferred(values: Values) -> Values:
    accepted, refused_ = (
        [preferred(values_of_term[0]) for values_of_term in value if values_of_term] for value in values
    )
    return Values(list(accepted), list(refused_))


def tasks(**fields: Any) -> list[Tree]:
    """The tasks of a workflow whose only action has these fields."""
    action = {"name": "a", "image": "b", "timeout": 1} | fields
    return [{"name": "a", "worker": "{{.device_1}}", "actions": [action]}]


def task(**fields: Any) -> list[Tree]:
    return [tasks()[0] | fields]


def of_action(name: str, accepted: list[Any], refused_: list[Any]) -> tuple[str, Values]:
    given = Values([tasks(**{name: value}) for value in accepted], [tasks(**{name: value}) for value in refused_])
    is_list, is_map = isinstance(accepted[0], list), isinstance(accepted[0], dict)
    return f"template.tasks[].actions[].{name}{'[]' if is_list else '{}' if is_map else ''}", given


FIELDS: dict[type[KubeObject], dict[str, Values]] = {
    DATACENTER: {
        "tinkerbellIP": Values(
            ["10.0.0.9", "fd00::9"],
            [
                *("", "tinkerbell.example.com", "10.0.0.9:80", 1),
                *("::1", "fe80::1", *LOCAL, *LOCAL_IPV4),
            ],
        ),
        "osImageURL": Values([URL, "http://a/1.36,1.35"], NOT_URLS),
        "hookImagesURLPath": Values(["https://images.example.com/hook"], NOT_URLS),
        "hookIsoURL": Values(["https://images.example.com/other.iso"], ["https://a/hook.img", *NOT_URLS]),
        "isoBoot": Values([True], ["yes", False]),
        "loadBalancerInterface": Values(["eth1"], [1, "e" * 65]),
        "skipLoadBalancerDeployment": Values([True], ["no"]),
    },
    MACHINE: {
        "hardwareSelector": Values(
            [{"type": "anvil"}, {"example.com/rack": ""}],
            [{}, {"a": "b", "c": "d"}, {"a b": "c"}, {"a": "b c"}, {"a": 1}, {"a": "x" * 64}],
        ),
        f"{REQUIRED}.labelSelector.matchLabels": LABELS,
        f"{REQUIRED}.labelSelector.matchExpressions[].key": KEY,
        f"{REQUIRED}.labelSelector.matchExpressions[].operator": OPERATOR,
        f"{REQUIRED}.labelSelector.matchExpressions[].values[]": VALUES,
        f"{PREFERRED}.weight": Values(
            [preferred(selector(a="b"), weight) for weight in (1, 100)],
            [preferred(selector(a="b"), weight) for weight in (0, 101, "1")],
        ),
        f"{PREFERRED}.{TERM}.matchLabels": as_preferred(LABELS),
        f"{PREFERRED}.{TERM}.matchExpressions[].key": as_preferred(KEY),
        f"{PREFERRED}.{TERM}.matchExpressions[].operator": as_preferred(OPERATOR),
        f"{PREFERRED}.{TERM}.matchExpressions[].values[]": as_preferred(VALUES),
        "osFamily": Values(["redhat"], ["windows", "Ubuntu"]),
        "osImageURL": Values([URL], NOT_URLS),
        "templateRef.kind": Values([], ["Template", ""]),
        "templateRef.name": Values(["", "another"], [1]),
        "users[].name": Values(
            [[{"name": "bob", "sshAuthorizedKeys": []}]], [[{"name": "B b", "sshAuthorizedKeys": []}], []]
        ),
        "users[].sshAuthorizedKeys[]": Values(
            [[{"name": "ann", "sshAuthorizedKeys": [key]}] for key in ("", f"ecdsa-sha2-nistp256 {KEY_OF_ANN[12:]}")],
            [[{"name": "ann", "sshAuthorizedKeys": ["-----BEGIN OPENSSH PRIVATE KEY-----"]}]],
        ),
        "hostOSConfiguration.ntpConfiguration.servers[]": Values([["10.0.0.1", "a.example"]], [[], ["a b"]]),
    },
    TEMPLATE: {
        "template.name": Values(["hammer"], [1]),
        "template.id": Values(["0"], [1]),
        "template.version": Values(["0.2"], [0.1]),
        "template.global_timeout": Values([0, 60], [-1, "60"]),
        "template.tasks[].name": Values([task(name="b")], [task(name=1), [], task(actions=[])]),
        "template.tasks[].worker": Values([task(worker="{{ .device_1 }}")], [task(worker=1)]),
        "template.tasks[].volumes[]": Values([task(volumes=["/a:/b"])], [task(volumes="/a")]),
        "template.tasks[].environment": Values([task(environment={"A": "b"})], [task(environment={"A": 1})]),
        **dict(
            (
                of_action("name", ["b"], [1]),
                of_action("image", ["registry.example.com/a:v1"], [1]),
                of_action("timeout", [0, 600], [-1, "1"]),
                of_action("command", [["a", "{{ index .Hardware.Disks 0 }}"]], ["a"]),
                of_action("on-timeout", [["a"]], ["a"]),
                of_action("on-failure", [["a"]], ["a"]),
                of_action("volumes", [["/a:/b"]], ["/a"]),
                of_action("environment", [{"A": "b\nc\n", "B": "'\"}"}], [{"A": 1}]),
                of_action("pid", ["host"], [1]),
            )
        ),
    },
}
"""By path, of values in the example with everything: `[]` is the whole list."""

WITHOUT_EFFECT = {
    "hookImagesURLPath": "of Tinkerbell's own installation",
    "hookIsoURL": "likewise: Tinkerbell serves it to bare metal, at an address of its own",
    "loadBalancerInterface": "likewise",
    "skipLoadBalancerDeployment": "where there are no workers alone",
    "isoBoot": "the example has it",
}

ELSEWHERE = {
    "hostOSConfiguration.bottlerocketConfiguration.": "refused for other systems, and Bottlerocket as a whole",
    "hostOSConfiguration.certBundles[].": "likewise",
}
"""By their beginnings."""

REFUSED_FOR_UBUNTU = {
    "hostOSConfiguration.certBundles": [{"name": "a", "data": "b"}],
    "hostOSConfiguration.bottlerocketConfiguration": {"kernel": {"sysctlSettings": {"a": "b"}}},
}


def example_with(kind: type[KubeObject], path: str, value: Any) -> list[Tree]:
    """The example with everything, in which a field has another value, and others make room for it."""
    trees = copy.deepcopy(everything())
    machines = of(trees, MACHINES)
    put(of(trees, kind.resource.kind), path, value)
    if path == "hardwareSelector":
        del machines["hardwareAffinity"]
    if path == "osFamily":
        of(trees, MACHINES, f"{FORGE}-cp")["osFamily"] = value
    if path in ("osFamily", "templateRef.name"):
        put(machines, "templateRef.name", value if path == "templateRef.name" else "")
    if kind is DATACENTER and path == "osImageURL":
        for name in (FORGE, f"{FORGE}-cp"):
            del of(trees, MACHINES, name)["osImageURL"]
    return trees


def has_effect(trees: list[Tree]) -> bool:
    """True if a value has an effect: in objects, or in what the cluster waits for."""
    scope = seen(trees)
    if scope.missing:
        return True
    assert problem(scope) is None, problem(scope)
    return objects(made(trees)) != RENDERED


RENDERED = objects(made(everything()))


@pytest.mark.soak
def test_each_value_has_an_effect_or_is_refused() -> None:
    def is_expected(path: str, _value: Any, trees: list[Tree]) -> bool:
        return has_effect(trees) != (path in WITHOUT_EFFECT)

    assert problems_of(KINDS, swept(FIELDS), example_with, is_expected) == []


@pytest.mark.parametrize("path", REFUSED_FOR_UBUNTU)
def test_bottlerocket_settings_are_refused_for_others(path: str) -> None:
    refusal = refusal_of(KINDS, MACHINE, example_with(MACHINE, path, REFUSED_FOR_UBUNTU[path]))
    assert "found ubuntu" in refusal
    assert "allowed: bottlerocket" not in refusal, "another rule refuses it on bare metal"


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        (DATACENTER, "tinkerbellIP", "10.0.0.9"),
        (DATACENTER, "hookImagesURLPath", "https://a/b"),
        (DATACENTER, "skipLoadBalancerDeployment", True),
        (MACHINE, "osFamily", "redhat"),
        (MACHINE, "users", [{"name": "bob", "sshAuthorizedKeys": []}]),
    ],
)
def test_fields_of_existing_machines_are_immutable(kind: type[KubeObject], field: str, value: Any) -> None:
    assert "it can't be changed" in refusal_of_change(KINDS, kind, everything(), {field: value})


def test_exactly_one_selection_of_hardware_is_required() -> None:
    async def main() -> tuple[str, str]:
        client = await server(KINDS)
        both, none = copy.deepcopy(everything()), copy.deepcopy(everything())
        of(both, MACHINES)["hardwareSelector"] = {"type": "anvil"}
        del of(none, MACHINES)["hardwareAffinity"]
        return await verdict(client, MACHINE, both), await verdict(client, MACHINE, none)

    both, none = asyncio.run(main())
    assert "hardwareSelector and hardwareAffinity exclude each other; remove one" in both
    assert "select Hardware for the machines, by a label like type: worker; found nothing" in none


@pytest.mark.parametrize("kind", KINDS)
def test_the_sweep_covers_every_field(kind: type[KubeObject]) -> None:
    left = [
        path
        for path in all_leaves(kind)
        if path.removesuffix("{}") not in {path.removesuffix("{}") for path in FIELDS[kind]}
        and not any(part in f"{path}." for part in ELSEWHERE)
    ]
    assert left == []


def test_the_sweep_is_large_enough(capsys: pytest.CaptureFixture[str]) -> None:
    accepted, refused = counted(capsys, "Tinkerbell", KINDS, swept(FIELDS))
    assert accepted > 45
    assert refused > 60
