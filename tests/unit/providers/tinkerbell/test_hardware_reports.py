"""Reports on TinkerbellMachineConfigs: a failed write stops no other, and is tried again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from espalier.kube.errors import Unreachable
from espalier.kube.objects import Object
from espalier.providers.tinkerbell.hardware import controller
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
