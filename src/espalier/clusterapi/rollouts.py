"""How far a MachineDeployment is on its way to machines of its present template, judged by its sets.

Its own counters add up what its sets said last. Just after a change of its template they speak of the template before,
although `observedGeneration` is that of the change: then all machines seem up to date.
"""

from __future__ import annotations

from collections.abc import Iterable

from espalier.api.capi.machine import MachineDeployment, MachineSet
from espalier.clusterapi.machine_change import ChangeKind, machine_change, of_machine_template


def is_seen(deployment: MachineDeployment, sets: Iterable[MachineSet]) -> bool:
    """True if there is a set for the present template: before that, nothing is known of machines of it."""
    wanted = of_machine_template(deployment.spec.template)
    kinds = (machine_change(of_machine_template(one.spec.template), wanted).kind for one in sets)
    return any(kind is not ChangeKind.REPLACE for kind in kinds)


def to_replace(deployment: MachineDeployment, sets: Iterable[MachineSet]) -> int:
    """How many machines there are, or are still asked for, in sets whose machines the template replaces."""
    wanted = of_machine_template(deployment.spec.template)
    old = (
        one for one in sets if machine_change(of_machine_template(one.spec.template), wanted).kind is ChangeKind.REPLACE
    )
    return sum(max(1 if one.spec.replicas is None else one.spec.replicas, one.status.replicas or 0) for one in old)
