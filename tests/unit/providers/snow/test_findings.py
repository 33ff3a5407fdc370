"""The conclusions from answers of Snow devices: each problem is named, with the field and the device."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from espalier.clusters.report.checks.questions import Credentials, Server
from espalier.providers.simulated.snow import simulated_answers
from espalier.providers.snow.checks import findings
from espalier.providers.snow.checks.questions import Answers, Query
from espalier.providers.snow.kinds import SnowMachineConfig, SnowMachineConfigSpec
from tests.support.providers.snow import DEVICE, MACHINES, OTHER_DEVICE, manifest, of

SPEC = of(manifest(), MACHINES)
THERE = Answers(
    "108",
    {SPEC["instanceType"]: 4, "sbe-c.small": 1},
    frozenset({SPEC["sshKeyName"]}),
    frozenset({SPEC["amiID"], "s.ami-other"}),
)


def spec_of(**changes: Any) -> SnowMachineConfigSpec:
    """That of the example, changed."""
    return msgspec.convert({"spec": SPEC | changes}, SnowMachineConfig).spec


def problems_of(*answers: Answers | None, **changes: Any) -> list[str]:
    """The problems of the example, where devices answer so."""
    devices = [DEVICE, OTHER_DEVICE][: len(answers)]
    return list(findings.judge_machines(spec_of(devices=devices, **changes), answers))


def lacking(**without: Any) -> Answers:
    return msgspec.structs.replace(THERE, **without)


def test_the_example_has_no_problems() -> None:
    assert problems_of(THERE) == problems_of(THERE, THERE) == problems_of(lacking(images=None), amiID="") == []


@pytest.mark.parametrize(
    ("field", "answer", "sentence"),
    [
        (
            "amiID",
            "images",
            "has no such image, but s.ami-other; correct the field, or import the image on each device",
        ),
        ("instanceType", "instance_types", "has no such instance type, but sbe-c.small; use one that all devices"),
        ("sshKeyName", "key_pairs", "has no such key pair; correct the field, or import the key pair on each device"),
    ],
)
def test_the_missing_resources_of_a_device_are_named(field: str, answer: str, sentence: str) -> None:
    there = getattr(THERE, answer)
    without = type(there)(
        resource for resource in (there.items() if isinstance(there, dict) else there) if SPEC[field] not in resource
    )
    (problem,) = problems_of(THERE, lacking(**{answer: without}))
    assert problem.startswith(f"spec.{field}: found {SPEC[field]}; device {OTHER_DEVICE} {sentence}")


def test_devices_with_the_same_problem_share_a_message() -> None:
    (problem,) = problems_of(lacking(images=frozenset({"a", "b"})), lacking(images=frozenset({"b", "c"})))
    assert f"devices {DEVICE}, {OTHER_DEVICE} have no such image, but b; correct" in problem


def test_the_resources_of_a_device_are_listed_briefly() -> None:
    (problem,) = problems_of(lacking(images=frozenset("s.ami-" + "a\n" * 99 + str(number) for number in range(99))))
    assert len(problem) < 500
    assert "\n" not in problem


def test_the_default_instance_type_is_checked() -> None:
    (problem,) = problems_of(lacking(instance_types={"sbe-c.xlarge": 4}), instanceType="")
    assert problem.startswith(f"spec.instanceType: found sbe-c.large; device {DEVICE} has no such instance type")


@pytest.mark.parametrize(("number", "right"), [(1, False), (2, True), (0, True)])
def test_machines_need_two_cpus(number: int, *, right: bool) -> None:
    problems = problems_of(lacking(instance_types={SPEC["instanceType"]: number}))
    assert (problems == []) is right
    assert right or f"which has 1 virtual CPU on device {DEVICE}; nodes of Kubernetes need 2" in problems[0]


@pytest.mark.parametrize(
    ("version", "right"), [("101", False), ("99", False), ("102", True), ("1000", True), ("", True)]
)
def test_the_software_of_a_device_must_be_new_enough(version: str, *, right: bool) -> None:
    problems = problems_of(THERE, lacking(software=version))
    assert (problems == []) is right
    assert right or problems[0].startswith(
        f"spec.devices[1]: found {OTHER_DEVICE}, which runs software version {version};"
    )


def test_a_device_without_answers_has_no_problems() -> None:
    assert problems_of(None, THERE) == problems_of(None) == []
    assert len(problems_of(None, lacking(images=frozenset()))) == 1


async def test_simulated_devices_have_everything() -> None:
    assert problems_of(await simulated_answers(Query(Server(DEVICE), images=True), Credentials("a", "b"))) == []
