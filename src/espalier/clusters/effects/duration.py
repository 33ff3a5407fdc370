"""Estimates of the time that machines need, from the machines that exist."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from espalier.api import conditions as condition_list
from espalier.api.capi.machine import Machine
from espalier.api.eksa.vocabulary.upgrade_keys import UPGRADE_SECONDS
from espalier.clusterapi.machines.machine_objects import MachineObjects
from espalier.clusters.effects.machines import Fleet, Group

UNKNOWN = 300.0
"""Seconds assumed for a machine if none of the cluster can be measured."""


UNKNOWN_IN_PLACE = 200.0
"""Seconds assumed for the in-place upgrade of a node if no machine of the cluster recorded any: about the time that
kubeadm needs on small real nodes (docs/figures.md)."""


class Duration(NamedTuple):
    """An estimate. It does not include draining of the removed machines."""

    seconds: float
    machine_seconds: float
    """Seconds for one machine."""
    measured: int
    """The number of machines that were measured; 0: it is assumed."""


def duration(groups: Sequence[Group], fleet: Fleet, *, workers_wait: bool) -> Duration:
    """The time until all machines exist: external etcd first, then the control plane; worker node groups side by
    side, and maybe after the control plane.
    """
    took = [seconds for machine in fleet.machines if (seconds := seconds_to_ready(machine)) is not None]
    each = median(took) if took else UNKNOWN
    control_plane = sum(group.coming for group in groups if not group.is_of_workers)
    workers = max((group.rounds for group in groups if group.is_of_workers), default=0)
    rounds = control_plane + workers if workers_wait else max(control_plane, workers)
    return Duration(rounds * each, each, len(took))


def in_place(groups: Sequence[Group], fleet: Fleet) -> Duration | None:
    """The time until all nodes are upgraded in place: node by node, worker node groups side by side. None without any.

    Machines of the cluster record the duration of their last upgrade.
    """
    if not any(group.upgraded for group in groups):
        return None
    took = [seconds for machine in fleet.machines if (seconds := seconds_in_place(machine.machine)) is not None]
    each = median(took) if took else UNKNOWN_IN_PLACE
    control_plane = sum(len(group.upgraded) for group in groups if not group.name)
    workers = max((len(group.upgraded) for group in groups if group.name), default=0)
    return Duration((control_plane + workers) * each, each, len(took))


def median(seconds: list[float]) -> float:
    """The middle of some durations."""
    ordered, middle = sorted(seconds), len(seconds) // 2
    return (ordered[middle] + ordered[~middle]) / 2


def seconds_in_place(machine: Machine) -> float | None:
    """The duration of a machine's last in-place upgrade, if it was recorded."""
    try:
        return float(machine.metadata.annotations.get(UPGRADE_SECONDS, ""))
    except ValueError:
        return None


def seconds_to_ready(seen: MachineObjects) -> float | None:
    """Seconds from a machine's bootstrap data to its readiness; None when it is not ready.

    Not from its creation: workers of a new cluster wait for their control plane, which later ones do not.
    """
    metadata, conditions = seen.machine.metadata, seen.machine.status.conditions
    ready, bootstrapped = (condition_list.get(conditions, type_) for type_ in ("Ready", "BootstrapConfigReady"))
    if ready is None or ready.status != "True":
        return None
    created = condition_list.parse_timestamp(metadata.creation_timestamp or "")
    became_ready = condition_list.parse_timestamp(ready.last_transition_time)
    if created is None or became_ready is None:
        return None
    if bootstrapped is not None and bootstrapped.status == "True":
        had_data = condition_list.parse_timestamp(bootstrapped.last_transition_time)
        created = had_data if had_data is not None and created <= had_data <= became_ready else created
    return max(0.0, (became_ready - created).total_seconds())
