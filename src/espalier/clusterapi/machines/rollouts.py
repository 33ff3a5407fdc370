"""The progress of a MachineDeployment's rollout, judged by its MachineSets.

Its own counters sum up the last reports of its sets. Just after a change of its template they still count for the
previous one, although `observedGeneration` is already new: all machines would seem up to date.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from espalier.api import conditions
from espalier.api.capi.machine import MachineDeployment, MachineSet
from espalier.clusterapi.changes.machine_change import ChangeKind, machine_change, of_machine_template


def is_before_rollout(created: str | None, after: str | None, now: datetime) -> bool:
    """True if a machine, or a MachineSet, is replaced because it was created before the time in `rollout.after` of its
    owner, and that time has come. Times are RFC 3339; Cluster API compares whole seconds.
    """
    due = conditions.parse_timestamp(after or "")
    made = conditions.parse_timestamp(created or "")
    return due is not None and made is not None and made < due <= now


def seconds_until(after: str | None, now: datetime) -> float | None:
    """Seconds until the time in `rollout.after`; None if there is none to come."""
    due = conditions.parse_timestamp(after or "")
    return (due - now).total_seconds() if due is not None and due > now else None


def has_current_set(deployment: MachineDeployment, sets: Iterable[MachineSet]) -> bool:
    """True if a set exists for the present template: before that, nothing is known of its machines."""
    wanted = of_machine_template(deployment.spec.template)
    kinds = (machine_change(of_machine_template(machine_set.spec.template), wanted).kind for machine_set in sets)
    return any(kind is not ChangeKind.REPLACE for kind in kinds)


def outdated_machines(deployment: MachineDeployment, sets: Iterable[MachineSet]) -> int:
    """The number of existing or desired machines in sets of older templates."""
    wanted = of_machine_template(deployment.spec.template)
    old = (
        machine_set
        for machine_set in sets
        if machine_change(of_machine_template(machine_set.spec.template), wanted).kind is ChangeKind.REPLACE
    )
    return sum(
        max(1 if machine_set.spec.replicas is None else machine_set.spec.replicas, machine_set.status.replicas or 0)
        for machine_set in old
    )
