"""Reports on TinkerbellMachineConfigs: their condition; a failed write stops no other, and is tried again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from espalier.api.meta import ObjectMeta
from espalier.kube.errors import Unreachable
from espalier.kube.objects import Object
from espalier.providers.tinkerbell.hardware import controller
from espalier.providers.tinkerbell.hardware.findings import ConfigResult
from espalier.providers.tinkerbell.kinds import (
    HardwareOfCluster,
    TinkerbellMachineConfig,
    TinkerbellMachineConfigSpec,
)
from espalier.runtime.clock import SystemClock
from espalier.runtime.controllers.outcome import Done, Fault
from espalier.runtime.controllers.reconciler import Report


@pytest.mark.parametrize("failing", ["a", "b", ""])
async def test_a_failed_write_stops_no_other_and_is_retried(failing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []

    async def write_report(_resource: object, config: Object, *_: object) -> None:
        written.append(config.name)
        if config.name == failing:
            raise Unreachable("no answer")

    monkeypatch.setattr(controller, "write_report", write_report)
    configs = [Object(b'{"kind":"TinkerbellMachineConfig","metadata":{"name":"%s"}}' % name) for name in (b"a", b"b")]
    checks = controller._Checks.__new__(controller._Checks)
    checks._configs = cast(Any, configs)
    checks._hardware = cast(Any, SimpleNamespace(is_absent=False))
    checks._host = cast(Any, SimpleNamespace(manager=SimpleNamespace(recorder=None)))
    checks._writer = cast(Any, None)
    monkeypatch.setattr(checks, "_reports", lambda: ((config, Report({})) for config in configs))
    assert isinstance(await checks.reconcile(controller.ALL), Fault if failing else Done)
    assert written == ["a", "b"]


@pytest.mark.parametrize(
    ("reasons", "problems", "expected"),
    [
        (["", ""], [], ("True", "HardwareAvailable", "")),
        (["", "ControlPlaneAddressTaken"], [], ("False", "ControlPlaneAddressTaken", "Cluster b: taken")),
        (["NotEnoughHardware", ""], [], ("False", "NotEnoughHardware", "Cluster a: taken")),
        (["", ""], ["two labels"], ("False", "HardwareInvalid", "two labels")),
    ],
)
def test_the_condition_has_the_reason_of_a_cluster(
    reasons: list[str], problems: list[str], expected: tuple[str, str, str]
) -> None:
    clusters = [
        HardwareOfCluster(
            name=name, generation=1, machines=1, spare=0, reason=reason, message="taken" if reason else ""
        )
        for name, reason in zip("ab", reasons, strict=True)
    ]
    checks = controller._Checks.__new__(controller._Checks)
    checks._host = cast(Any, SimpleNamespace(manager=SimpleNamespace(clock=SystemClock())))
    config = TinkerbellMachineConfig(
        metadata=ObjectMeta(name="rack"), spec=TinkerbellMachineConfigSpec(hardware_selector={"type": "worker"})
    )
    status = checks._status(config, ConfigResult(tuple(problems), tuple(clusters)), "HardwareInvalid")
    (condition,) = status.conditions
    assert (condition.status, condition.reason, condition.message) == expected
