"""When a machine is unhealthy, and whether it may be replaced."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from espalier.api.capi.cluster import ContractReference
from espalier.api.capi.machine import (
    Bootstrap,
    HealthChecks,
    Machine,
    MachineHealthCheck,
    MachineSpec,
    MachineStatus,
    NodeReference,
    RemediationTrigger,
    UnhealthyNodeCondition,
)
from espalier.api.kinds import LARGEST_INT32
from espalier.api.manifests.schema import violations
from espalier.api.meta import ObjectMeta, Tree
from espalier.simulator.capi.states.health import (
    CheckedNode,
    MachineHealth,
    NodeCondition,
    NodeHealth,
    check_machine,
    is_remediable,
    remediations,
)

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
CHECKS = HealthChecks(
    node_startup_timeout_seconds=600,
    unhealthy_node_conditions=[UnhealthyNodeCondition(type="Ready", status="Unknown", timeout_seconds=300)],
)


def machine(*, created: int = 0, node: bool = True, labels: dict[str, str] | None = None) -> Machine:
    """A machine made so many seconds ago."""
    reference = ContractReference(api_group="infrastructure.cluster.x-k8s.io", kind="DockerMachine", name="x")
    return Machine(
        metadata=ObjectMeta(creation_timestamp=ago(created), labels=labels or {}),
        spec=MachineSpec(cluster_name="garden", bootstrap=Bootstrap(), infrastructure_ref=reference),
        status=MachineStatus(node_ref=NodeReference(name="x") if node else None),
    )


def node(status: str, since: int) -> CheckedNode:
    ready = NodeCondition(type="Ready", status=status, last_transition_time=ago(since))
    return CheckedNode(status=NodeHealth(conditions=[ready]))


def ago(seconds: int) -> str:
    return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.mark.parametrize(
    ("value", "seen", "health"),
    [
        (machine(), node("True", 9999), MachineHealth()),
        (machine(), node("False", 9999), MachineHealth()),
        (machine(), node("Unknown", 100), MachineHealth(next_check=200.0)),
        (machine(), node("Unknown", 300), MachineHealth("its node's Ready has been Unknown over 300 seconds")),
        (machine(), None, MachineHealth("its node was deleted")),
        (machine(node=False, created=100), None, MachineHealth(next_check=500.0)),
        (machine(node=False, created=600), None, MachineHealth("it did not become a node within 600 seconds")),
    ],
)
def test_health_of_one_machine(value: Machine, seen: CheckedNode | None, health: MachineHealth) -> None:
    assert check_machine(value, seen, CHECKS, NOW) == health


def test_longest_check_time_is_waited_for() -> None:
    longest = HealthChecks(
        node_startup_timeout_seconds=LARGEST_INT32,
        unhealthy_node_conditions=[
            UnhealthyNodeCondition(type="Ready", status="Unknown", timeout_seconds=LARGEST_INT32)
        ],
    )
    for health in (
        check_machine(machine(node=False), None, longest, NOW),
        check_machine(machine(), node("Unknown", 0), longest, NOW),
    ):
        assert health == MachineHealth(next_check=float(LARGEST_INT32))


@pytest.mark.parametrize("seconds", [-1, LARGEST_INT32 + 1])
def test_a_check_names_no_longer_time(seconds: int) -> None:
    spec: Tree = {"clusterName": "a", "selector": {}, "checks": {"nodeStartupTimeoutSeconds": seconds}}
    condition = {"type": "Ready", "status": "False", "timeoutSeconds": seconds}
    spec["checks"]["unhealthyNodeConditions"] = [condition]
    broken = violations(MachineHealthCheck, {"metadata": {"name": "a"}, "spec": spec})
    assert {violation.message for violation in broken} <= {"too small", "too large"}
    assert len(broken) == 2


def test_a_startup_timeout_of_zero_waits_for_ever() -> None:
    checks = HealthChecks(node_startup_timeout_seconds=0)
    assert check_machine(machine(node=False, created=99999), None, checks, NOW) == MachineHealth()


@pytest.mark.parametrize(
    ("trigger", "expected", "unhealthy", "remediable", "left"),
    [
        (None, 3, 3, True, 0),
        (RemediationTrigger(unhealthy_less_than_or_equal_to="40%"), 3, 1, True, 0),
        (RemediationTrigger(unhealthy_less_than_or_equal_to="40%"), 3, 2, False, 0),
        (RemediationTrigger(unhealthy_less_than_or_equal_to=2), 5, 1, True, 1),
        (RemediationTrigger(unhealthy_less_than_or_equal_to=0), 5, 0, True, 0),
        (RemediationTrigger(unhealthy_in_range="[1-3]"), 5, 2, True, 2),
        (RemediationTrigger(unhealthy_in_range="[2-3]"), 5, 1, False, 0),
    ],
)
def test_too_many_unhealthy_machines_are_not_replaced(
    trigger: RemediationTrigger | None, expected: int, unhealthy: int, remediable: bool, left: int
) -> None:
    assert is_remediable(trigger, expected, unhealthy) is remediable
    assert remediations(trigger, expected, unhealthy) == left
