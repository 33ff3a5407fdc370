"""Reports of an upgrade outside its status."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from espalier.api.definitions.reference import UNCHANGED, Prose
from espalier.api.eksa.upgrades import NodeUpgradeStatus
from espalier.api.eksa.vocabulary import reasons
from espalier.api.meta import Condition
from espalier.runtime.controllers.outcome import Wait
from espalier.upgrades import reconciling
from espalier.upgrades.node import controller as node_upgrade
from tests.support.objects.observed_upgrades import made

LIMITED = [
    reason
    for reason in reasons.REASONS
    if reason.limit is not None and {reasons.GROUP, reasons.NODE}.intersection(reason.kinds)
]


@pytest.mark.parametrize("reason", LIMITED, ids=lambda reason: reason.name)
def test_lasting_reason_says_since_when_and_what_helps(reason: Prose) -> None:
    """From the last step that ended, not from the creation."""
    assert reason.limit is not None
    before = [Condition("ComponentsCopied", "True", "Done", last_transition_time="2026-01-01T01:00:00Z")]
    upgrade = made({"metadata": {"name": "a", "namespace": "b", "creationTimestamp": "2026-01-01T00:00:00Z"}})

    def after(seconds: float) -> tuple[str, float | None]:
        now = datetime(2026, 1, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
        tools: Any = SimpleNamespace(clock=SimpleNamespace(now=lambda: now))
        waiting = reconciling.conditions_of(Wait(reason.name, "so it is"), "", node_upgrade.QUIET)
        report = reconciling.UpgradeReport(before, waiting, lambda conditions: (NodeUpgradeStatus(conditions), {}))
        report_of_reconcile = reconciling._reported(tools, upgrade, report)
        status: Any = report_of_reconcile.status
        return next(
            condition["message"] for condition in status["conditions"] if condition["type"] == "Ready"
        ), report_of_reconcile.again

    limit = reason.limit.seconds
    assert after(limit - 1) == ("so it is", 1)
    message, again = after(limit)
    assert message.startswith("so it is; unchanged since 2026-01-01T01:00:00Z: ")
    assert again is None
    assert after(9 * limit) == (message, None)


@pytest.mark.parametrize("text", ["never", "~", "2026-01-01T00:00:00", "9999-12-31T23:59:59-23:59"])
def test_what_is_no_time_in_a_status_is_ignored(text: str) -> None:
    """Anybody with the right to write a status may write it there."""
    now = datetime(2026, 1, 2, tzinfo=UTC)
    tools: Any = SimpleNamespace(clock=SimpleNamespace(now=lambda: now))
    before = [Condition("ComponentsCopied", "True", "Done", last_transition_time=text)]
    upgrade = made({"metadata": {"name": "a", "namespace": "b", "creationTimestamp": "2026-01-01T00:00:00Z"}})
    waiting = reconciling.conditions_of(Wait(LIMITED[0].name, "so it is"), "", node_upgrade.QUIET)
    report = reconciling.UpgradeReport(before, waiting, lambda conditions: (NodeUpgradeStatus(conditions), {}))
    status: Any = reconciling._reported(tools, upgrade, report).status
    message = next(condition["message"] for condition in status["conditions"] if condition["type"] == "Ready")
    assert message.startswith("so it is; unchanged since 2026-01-01T00:00:00Z: ")


def test_advice_that_message_has_already_is_not_added() -> None:
    before = [Condition("ComponentsCopied", "True", "Done", last_transition_time="2026-01-01T01:00:00Z")]
    message = f"node a; {UNCHANGED} 2026-01-01T01:00:00Z: see its log"
    waiting = reconciling.conditions_of(Wait(LIMITED[0].name, message), "", node_upgrade.QUIET)
    tools: Any = SimpleNamespace(clock=SimpleNamespace(now=lambda: datetime(2027, 1, 1, tzinfo=UTC)))
    report = reconciling.UpgradeReport(before, waiting, lambda conditions: (NodeUpgradeStatus(conditions), {}))
    report_of_reconcile = reconciling._reported(tools, made({"metadata": {"name": "a", "namespace": "b"}}), report)
    status: Any = report_of_reconcile.status
    assert [condition["message"] for condition in status["conditions"] if condition["type"] == "Ready"] == [message]


@pytest.mark.parametrize(
    ("reason", "type_"),
    [
        ("UpgradingKubeadmFailed", "Warning"),
        ("UpgraderImageInvalid", "Warning"),
        ("KubeadmConfigInvalid", "Warning"),
        ("VersionRefused", "Warning"),
        ("UpgradingKubeadm", "Normal"),
        ("ControlPlaneTaken", "Normal"),
    ],
)
def test_an_event_warns_where_somebody_has_to_act(reason: str, type_: str) -> None:
    """Whoever is called by Warnings hears of all that does not go on by itself."""
    tools: Any = SimpleNamespace(clock=SimpleNamespace(now=lambda: datetime(2026, 1, 1, tzinfo=UTC)))
    now = reconciling.conditions_of(Wait(reason, "so it is"), "", node_upgrade.QUIET)
    report = reconciling.UpgradeReport((), now, lambda conditions_of: (NodeUpgradeStatus(conditions_of), {}))
    report_of_reconcile = reconciling._reported(tools, made({"metadata": {"name": "a"}}), report)
    assert [(event.type, event.reason, event.message) for event in report_of_reconcile.events] == [
        (type_, reason, "so it is")
    ]
