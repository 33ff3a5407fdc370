"""The rules of MachineHealthCheck: when a machine is unhealthy. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from espalier.api.capi.machine import HealthChecks, Machine, RemediationTrigger
from espalier.api.meta import Observed
from espalier.clusterapi.intstr import share

STARTUP_SECONDS = 600
"""The default time within which a machine must become a node (0: no limit)."""


class NodeCondition(Observed, frozen=True):
    """A condition of a node."""

    type: str
    status: str
    last_transition_time: str = ""


class NodeHealth(Observed, frozen=True):
    """The status of a node."""

    conditions: list[NodeCondition] = []  # noqa: RUF012  (msgspec copies empty defaults)


class CheckedNode(Observed, frozen=True):
    """A node, with the fields that its health depends on."""

    status: NodeHealth = NodeHealth()


class Verdict(NamedTuple):
    """Why a machine is unhealthy (empty: healthy), and in how many seconds it may become so if nothing changes."""

    problem: str = ""
    within: float | None = None


def examine(machine: Machine, node: CheckedNode | None, checks: HealthChecks | None, now: datetime) -> Verdict:
    """Check one machine. `node` is None while it has none."""
    if node is None:
        if machine.status.node_ref is not None:
            return Verdict("its node was deleted")
        limit = STARTUP_SECONDS
        if checks and checks.node_startup_timeout_seconds is not None:
            limit = checks.node_startup_timeout_seconds
        if not limit:
            return Verdict()
        left = _left(machine.metadata.creation_timestamp or "", limit, now)
        return Verdict(within=left) if left > 0 else Verdict(f"it did not become a node within {limit} seconds")
    soonest: float | None = None
    for unhealthy in checks.unhealthy_node_conditions if checks else ():
        for observed in node.status.conditions:
            if (observed.type, observed.status) != (unhealthy.type, unhealthy.status):
                continue
            left = _left(observed.last_transition_time, unhealthy.timeout_seconds, now)
            if left <= 0:
                return Verdict(
                    f"its node's {observed.type} has been {observed.status} over {unhealthy.timeout_seconds} seconds"
                )
            soonest = left if soonest is None else min(soonest, left)
    return Verdict(within=soonest)


def remediations(trigger: RemediationTrigger | None, expected: int, unhealthy: int) -> int:
    """The number of machines that may still be replaced; 0 when too many are unhealthy."""
    if trigger is not None and trigger.unhealthy_in_range:
        low, _, high = trigger.unhealthy_in_range.strip("[]").partition("-")
        return int(high) - unhealthy + 1 if int(low) <= unhealthy <= int(high) else 0
    limit = share(trigger.unhealthy_less_than_or_equal_to if trigger else None, expected, default="100%")
    return max(0, limit - unhealthy) if unhealthy <= limit else 0


def is_remediable(trigger: RemediationTrigger | None, expected: int, unhealthy: int) -> bool:
    """True if the unhealthy machines may be replaced."""
    if trigger is not None and trigger.unhealthy_in_range:
        return remediations(trigger, expected, unhealthy) > 0
    return unhealthy <= share(trigger.unhealthy_less_than_or_equal_to if trigger else None, expected, default="100%")


def _left(since: str, seconds: int, now: datetime) -> float:
    if not since:
        return float(seconds)
    return (datetime.fromisoformat(since) + timedelta(seconds=seconds) - now).total_seconds()
