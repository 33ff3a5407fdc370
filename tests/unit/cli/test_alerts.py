"""Alerts over series as Prometheus has them: each fires when it should, and none in what is usual."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from espalier.cli.clusters import monitoring
from tests.support.servers import promtool
from tests.support.servers.promtool import Promtool

pytestmark = promtool.NEEDED

HOUR, DAY = 60, 24 * 60
"""In minutes."""
OURS = 'job="espalier",instance="10.0.0.1:8080"'
OTHERS = 'job="capi",instance="10.0.0.2:8080"'
CLUSTER = f'cluster_namespace="team-a",cluster="orchard",{OURS}'


def condition(type_: str, status: str, reason: str) -> str:
    return f'espalier_cluster_condition{{{CLUSTER},type="{type_}",status="{status}",reason="{reason}"}}'


def machines(state: str) -> str:
    return f'espalier_cluster_machines{{{CLUSTER},state="{state}"}}'


def leader(name: str, of: str = OURS) -> str:
    return f'leader_election_master_status{{name="{name}",{of}}}'


SINCE = f"espalier_cluster_ready_last_transition_timestamp_seconds{{{CLUSTER}}}"
READY = f"espalier_cluster_ready{{{CLUSTER}}}"
DRIFTED = f"espalier_cluster_drifted{{{CLUSTER}}}"
EXPIRY = f"espalier_cluster_certificates_expiry_timestamp_seconds{{{CLUSTER}}}"
ACTING = f"espalier_clusters_without_series{{{OURS}}}"
ERRORS = f'controller_runtime_reconcile_errors_total{{controller="cluster",{OURS}}}'
SNAPSHOT = 'etcdbr_snapshot_latest_timestamp{kind="Full",namespace="seed",pod="etcd-main-0"}'
MANAGER = leader("espalier-controller-manager")

HEALTHY = {MANAGER: f"1x{3 * DAY}", ACTING: f"0x{3 * DAY}"}
"""A manager that acts."""


def steps(*values: int, each: int) -> str:
    """Values that last some minutes each."""
    return " ".join(f"{value}x{each - 1}" for value in values)


def rollout(each: int, *, in_place: bool) -> Mapping[str, str]:
    """Twelve machines, one after the other, each taking some minutes; the cluster is not Ready from the beginning."""
    length = 13 * each
    ready = "11" if in_place else "12"
    return {
        **HEALTHY,
        READY: f"0x{length}",
        SINCE: f"0x{length}",
        condition("Ready", "False", "RolloutInProgress"): f"1x{length}",
        machines("wanted"): f"12x{length}",
        machines("ready"): f"{ready}x{length}",
        machines("outdated"): steps(*range(12, -1, -1), each=each),
        DRIFTED: f"0x{length}",
        EXPIRY: f"{200 * 86400}x{length}",
    }


USUAL: dict[str, tuple[Mapping[str, str], int]] = {
    "rollout of two hours": (rollout(10, in_place=False), 129),
    "upgrade in place of four hours": (rollout(20, in_place=True), 259),
    "failover": (
        {
            MANAGER: "1x30 0x60",
            leader("espalier-controller-manager", OURS.replace("0.1", "0.9")): "0x33 1x57",
            ACTING: "0x30 _x60",
            ACTING.replace("0.1", "0.9"): "_x33 0x57",
        },
        80,
    ),
    "a manager without election": ({ACTING: "0x100"}, 100),
    "errors of other controllers": (
        {**HEALTHY, ERRORS.replace(OURS, OTHERS): "0+600x60", leader("capi", OTHERS): "1x60"},
        60,
    ),
    "a Ready cluster": ({**HEALTHY, READY: "1x120", SINCE: "0x120", condition("Ready", "True", "Ready"): "1x120"}, 120),
    "a machine that restarts": (
        {**HEALTHY, machines("wanted"): "3x120", machines("ready"): "3x10 2x20 3x90", machines("outdated"): "0x120"},
        60,
    ),
    "drift that is corrected": ({**HEALTHY, DRIFTED: "0x10 1x30 0x80"}, 100),
    "backups of each day": ({**HEALTHY, SNAPSHOT: f"0x{DAY} {DAY * 60}x{DAY}"}, 2 * DAY),
}


@pytest.mark.parametrize("case", USUAL)
def test_nothing_fires_in_what_is_usual(case: str, tmp_path: Path) -> None:
    series, length = USUAL[case]
    minutes = sorted({length // 4, length // 2, length - 5, length})
    times = [(alert.name, minute) for alert in monitoring.alerts() for minute in minutes]
    assert Promtool(tmp_path, GROUPS).firing(series, *times) == ""


class Case(NamedTuple):
    alert: str
    series: Mapping[str, str]
    quiet: int
    """A minute at which it does not fire yet."""
    fires: int
    labels: str = 'cluster="orchard"'


def not_ready(reasons: Mapping[str, str], **others: str) -> dict[str, str]:
    length = 3 * HOUR
    return {
        **HEALTHY,
        SINCE: f"0x{length}",
        READY: f"0x{length}",
        **{condition("Ready", "False", reason): values for reason, values in reasons.items()},
        **{machines(state): values for state, values in others.items()},
    }


CASES = {
    "stalled": Case(
        "EspalierClusterNeedsSomebody", {**HEALTHY, condition("Stalled", "True", "X"): "1x60"}, 4, 6, 'reason="X"'
    ),
    "not ready": Case("EspalierClusterNotReady", not_ready({"X": "1x180"}, outdated="0x180"), 59, 62),
    "reasons that alternate": Case(
        "EspalierClusterNotReady",
        not_ready({"X": "1 stale " * 90, "Y": "stale 1 " * 90}, outdated="0x180"),
        59,
        62,
    ),
    "a rollout that stands still": Case(
        "EspalierClusterNotReady", not_ready({"X": "1x180"}, outdated="5x20 4x160"), 70, 90
    ),
    "certificates": Case("EspalierClusterCertificatesExpireSoon", {**HEALTHY, EXPIRY: f"{29 * 86400}x120"}, 58, 62),
    "drift": Case("EspalierClusterDrifted", {**HEALTHY, DRIFTED: "1x120"}, 58, 62),
    "a missing machine": Case(
        "EspalierClusterMachinesMissing",
        {**HEALTHY, machines("wanted"): "3x120", machines("ready"): "2x120", machines("outdated"): "0x120"},
        28,
        32,
    ),
    "a missing machine of a halted rollout": Case(
        "EspalierClusterMachinesMissing",
        {**HEALTHY, machines("wanted"): "3x180", machines("ready"): "2x180", machines("outdated"): "3x20 2x160"},
        70,
        90,
    ),
    "an old backup": Case(
        "EspalierEtcdBackupOld", {**HEALTHY, SNAPSHOT: f"0x{3 * DAY}"}, 2 * DAY + 10, 2 * DAY + 20, "etcd-main-0"
    ),
    "no replica": Case("EspalierNoLeader", {MANAGER: "1x10 _x100", ACTING: "0x10 _x100"}, 18, 30, "severity"),
    "none that leads": Case("EspalierNoLeader", {MANAGER: "1x10 0x100", ACTING: "0x10 _x100"}, 15, 30, "severity"),
    "none, beside other leaders": Case(
        "EspalierNoLeader",
        {MANAGER: "1x10 0x100", ACTING: "0x10 _x100", leader("capi", OTHERS): "1x110"},
        15,
        30,
        "severity",
    ),
    "one share without a leader": Case(
        "EspalierNoLeader",
        {**HEALTHY, leader("espalier-controller-manager-team-a-1a2b3c"): "0x100"},
        4,
        30,
        "team-a-1a2b3c",
    ),
    "failing reconciles": Case(
        "EspalierReconcilesFail", {**HEALTHY, ERRORS: "0+30x60"}, 10, 40, 'controller="cluster"'
    ),
}
(GROUP,) = monitoring.prometheus_rule()["spec"]["groups"]
GROUPS = [GROUP]


def test_rules_are_valid(tmp_path: Path) -> None:
    assert Promtool(tmp_path, GROUPS).check() == ""


def test_every_alert_has_a_case() -> None:
    assert {alert.name for alert in monitoring.alerts()} == {case.alert for case in CASES.values()}


@pytest.mark.parametrize("name", CASES)
def test_alert_fires_once_it_should(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    tool = Promtool(tmp_path, GROUPS)
    assert tool.firing(case.series, (case.alert, case.quiet)) == ""
    result = tool.firing(case.series, (case.alert, case.fires))
    assert case.labels in result
    assert len(re.findall(r"Labels:\{", result)) == 1, result
