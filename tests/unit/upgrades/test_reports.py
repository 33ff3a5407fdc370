"""Reports of an upgrade outside its status."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from espalier.api.eksa.upgrades import NodeUpgradeStatus
from espalier.runtime.outcome import Wait
from espalier.upgrades import reconciling
from espalier.upgrades.node import controller as node_upgrade
from tests.support.observed_upgrades import made


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
    report = reconciling.Report((), now, lambda conditions_of: (NodeUpgradeStatus(conditions_of), {}))
    found = reconciling._reported(tools, made({"metadata": {"name": "a"}}), report)
    assert [(one.type, one.reason, one.message) for one in found.events] == [(type_, reason, "so it is")]
