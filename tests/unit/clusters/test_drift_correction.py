"""Corrected drift, and drift that is left until later."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from espalier.api.resource import Key
from espalier.clusters.act import drift_correction
from espalier.clusters.act.drift_correction import Answer, correct_drift
from espalier.clusters.design import cni
from espalier.clusters.design.drift.drift_policy import Policy
from espalier.clusters.design.drift.gate import Isolation
from espalier.clusters.plan.drift import Drift
from espalier.clusters.report import synced
from espalier.runtime.controllers.outcome import Done

REMEDY: Any = object()
DRIFTS = [Drift("ConfigMap a", "data", REMEDY), Drift("ConfigMap b", "data", REMEDY)]


async def corrected(
    monkeypatch: pytest.MonkeyPatch,
    *,
    disputed: tuple[str, ...] = (),
    limited: bool = False,
    failure: str = "",
    paused: bool | None = None,
) -> tuple[list[str], str]:
    """The objects that are corrected, and the failure that is reported."""
    done: list[str] = []
    reported: list[str] = []

    async def correct(_ctx: object, drift: Drift) -> None:
        done.append(drift.what)

    async def nothing(*_: object) -> Answer:
        return Answer()

    async def of_provider(_ctx: object) -> Answer:
        return Answer(failure=failure)

    def seen(_scope: object, _drifts: object, why: str, *_: object) -> str:
        reported.append(why)
        return why

    monkeypatch.setattr(synced, "incomparable", lambda _scope: False)
    monkeypatch.setattr(synced, "seen", seen)
    monkeypatch.setattr(drift_correction, "policy", lambda _annotations: Policy.CORRECT)
    monkeypatch.setattr(drift_correction, "_all_drifts", lambda *_: DRIFTS)
    monkeypatch.setattr(drift_correction, "_correct", correct)
    monkeypatch.setattr(drift_correction, "seen_in_workload", nothing)
    monkeypatch.setattr(drift_correction, "seen_of_provider", of_provider)
    rate_limits = SimpleNamespace(
        disputed=lambda _key, fields: {field: 3 for field in fields if field in disputed},
        is_limited=lambda _key: limited,
        limit=lambda _key: None,
        corrected=lambda _key, _fields: None,
    )
    objects = SimpleNamespace(cluster=SimpleNamespace(spec=SimpleNamespace(paused=paused)), kubeconfig=None)
    cluster = SimpleNamespace(metadata=SimpleNamespace(annotations={}))
    scope = SimpleNamespace(
        isolation=Isolation.LAYERS,
        compares_cni=False,
        render_input=None,
        capi_objects=objects,
        cluster=cluster,
        key=Key("default", "garden"),
    )
    tools = SimpleNamespace(rate_limits=rate_limits)
    ctx: Any = SimpleNamespace(scope=scope, tools=tools, event=lambda *_: None, refresh=lambda: None)
    assert await correct_drift(ctx) == Done()
    return done, reported[-1]


async def test_field_changed_back_by_another_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two writers that correct each other would write for ever; the rest is corrected."""
    assert await corrected(monkeypatch) == (["ConfigMap a", "ConfigMap b"], "")
    assert (await corrected(monkeypatch, disputed=("ConfigMap a: data",)))[0] == ["ConfigMap b"]


async def test_a_cluster_that_was_just_corrected_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await corrected(monkeypatch, limited=True))[0] == []


async def test_uncompared_objects_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A condition that says Synced would be wrong: nobody knows."""
    assert (await corrected(monkeypatch, failure="Unreachable"))[1] == "Unreachable"


async def test_paused_cluster_api_is_not_corrected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects may be missing because they are being moved elsewhere."""
    assert (await corrected(monkeypatch, paused=True))[0] == []


@pytest.mark.parametrize(
    ("left_alone", "render_input", "expected"), [(False, "input", ["CNI"]), (True, "input", []), (False, None, [])]
)
async def test_a_cni_that_users_maintain_is_not_compared(
    monkeypatch: pytest.MonkeyPatch, left_alone: bool, render_input: str | None, expected: list[str]
) -> None:
    compared: list[str] = []

    async def seen_in_workload(_ctx: object, manifests: list[str]) -> None:
        compared.extend(manifests)

    monkeypatch.setattr(synced, "incomparable", lambda _scope: False)
    monkeypatch.setattr(drift_correction, "seen_in_workload", seen_in_workload)
    monkeypatch.setattr(cni, "objects", lambda _render_input: ["CNI"])
    scope = SimpleNamespace(
        isolation=Isolation.LAYERS,
        compares_cni=not left_alone,
        render_input=render_input,
        capi_objects=SimpleNamespace(cluster=object()),
    )
    ctx: Any = SimpleNamespace(scope=scope)
    assert await correct_drift(ctx) == Done()
    assert compared == expected
