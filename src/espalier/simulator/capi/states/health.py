"""The rules of MachineHealthCheck: when a machine is unhealthy. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from espalier.api import conditions as condition_list
from espalier.api.capi.machine import HealthChecks, Machine, RemediationTrigger
from espalier.api.meta import Observed
from espalier.clusterapi.machines.intstr import share

STARTUP_SECONDS = 600
"""The default nodeStartupTimeoutSeconds, within which a machine must become a node; 0 means no limit."""


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


class MachineHealth(NamedTuple):
    """The result of checking one machine."""

    problem: str = ""
    """The reason why the machine is unhealthy; empty if it is healthy."""
    next_check: float | None = None
    """Seconds until the machine may become unhealthy if nothing changes; None if it can't."""


def check_machine(
    machine: Machine, node: CheckedNode | None, checks: HealthChecks | None, now: datetime
) -> MachineHealth:
    """Check one machine; `node` is None while it has none. Without `checks` only the startup timeout applies."""
    if node is None:
        if machine.status.node_ref is not None:
            return MachineHealth("its node was deleted")
        limit = STARTUP_SECONDS
        if checks and checks.node_startup_timeout_seconds is not None:
            limit = checks.node_startup_timeout_seconds
        if not limit:
            return MachineHealth()
        remaining = _remaining(machine.metadata.creation_timestamp or "", limit, now)
        return (
            MachineHealth(next_check=remaining)
            if remaining > 0
            else MachineHealth(f"it did not become a node within {limit} seconds")
        )
    next_check: float | None = None
    for unhealthy in checks.unhealthy_node_conditions if checks else ():
        for reported in node.status.conditions:
            if (reported.type, reported.status) != (unhealthy.type, unhealthy.status):
                continue
            remaining = _remaining(reported.last_transition_time, unhealthy.timeout_seconds, now)
            if remaining <= 0:
                return MachineHealth(
                    f"its node's {reported.type} has been {reported.status} over {unhealthy.timeout_seconds} seconds"
                )
            next_check = remaining if next_check is None else min(next_check, remaining)
    return MachineHealth(next_check=next_check)


def remediations(trigger: RemediationTrigger | None, expected: int, unhealthy: int) -> int:
    """The number of machines that may still be remediated (`remediationsAllowed`); 0 when too many are unhealthy."""
    if trigger is not None and trigger.unhealthy_in_range:
        low, _, high = trigger.unhealthy_in_range.strip("[]").partition("-")
        return int(high) - unhealthy + 1 if int(low) <= unhealthy <= int(high) else 0
    limit = share(trigger.unhealthy_less_than_or_equal_to if trigger else None, expected, default="100%")
    return max(0, limit - unhealthy) if unhealthy <= limit else 0


def is_remediable(trigger: RemediationTrigger | None, expected: int, unhealthy: int) -> bool:
    """True if the unhealthy machines may be remediated."""
    if trigger is not None and trigger.unhealthy_in_range:
        return remediations(trigger, expected, unhealthy) > 0
    return unhealthy <= share(trigger.unhealthy_less_than_or_equal_to if trigger else None, expected, default="100%")


def _remaining(since: str, seconds: int, now: datetime) -> float:
    began = condition_list.parse_timestamp(since)
    return seconds - (now - began).total_seconds() if began is not None else float(seconds)
