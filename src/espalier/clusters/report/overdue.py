"""Names what holds a change for longer than is usual for its reason: objects and their conditions, since when. Pure.

Times are those of the objects, so that a restarted manager says the same, and a message changes only when what holds
the change does. Nothing is polled: a reconcile follows once, when the next object or reason gets overdue.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from espalier.api import conditions as condition_list
from espalier.api.capi.etcdadm import EtcdadmCluster
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment
from espalier.api.eksa.vocabulary import reasons
from espalier.api.meta import Condition
from espalier.api.text import listing
from espalier.clusterapi import contract, external_etcd
from espalier.clusters.design import names
from espalier.clusters.observe.machines import machine_reports
from espalier.clusters.observe.machines.machine_reports import DELETING, READY, reported
from espalier.clusters.observe.scope import Scope
from espalier.kube.objects import Object

MOST = 3
"""The objects that a message names; it counts the others."""

_LONGEST = 600
"""Characters of another controller's message. Names of pods in it come from the workload cluster."""

_DRAIN_LIMIT = timedelta(minutes=2)
"""Pods end within seconds; what a PodDisruptionBudget forbids is only ended by somebody, or by a timeout."""

_DRAIN_ADVICE = "its pods go once their PodDisruptionBudgets allow that, or after nodeDrainTimeout"

_WAITING = ("ScalingUp", "ScalingDown", "RollingOut", "Remediating")
"""Conditions of owners of machines that are True while something is to be done; their messages say what blocks it."""


_MACHINES_READY = "MachinesReady"


class Holder(NamedTuple):
    """An object that holds a change."""

    what: str
    since: str
    """A timestamp of Kubernetes."""
    message: str
    is_drain: bool = False
    """True for a Machine whose node is being drained, which is named earlier than others."""

    def __str__(self) -> str:
        lines = (line.strip().removeprefix("* ") for line in self.message.splitlines())  # Cluster API writes lists
        text = " ".join(filter(None, lines))
        text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
        advice = f" ({_DRAIN_ADVICE})" if self.is_drain else ""
        return f"{self.what} since {self.since}{f': {text}' if text else ''}{advice}"


def complete(scope: Scope, parts: Iterable[Condition], now: datetime) -> float | None:
    """Add to the messages of conditions that outlast the limit of their reason what holds them, and the advice.

    Returns the seconds until a message has to be completed again; None if it will not, until something changes.
    """
    later = []
    for part in parts:
        limit = reasons.limit_of(part.reason) if part.status != "True" else None
        if scope.is_deleted and not any(scope.capi_objects.objects.values()):
            limit = None  # the message names the finalizers of others that are left
        if limit is None:
            continue
        holders = sorted(holders_of(scope, part.type), key=lambda holder: (holder.since, holder.what))
        bound = timedelta(seconds=limit.seconds)
        due = [
            (_moment(holder.since, now) + (min(bound, _DRAIN_LIMIT) if holder.is_drain else bound), holder)
            for holder in holders
        ]
        overdue = [holder for end, holder in due if end <= now]
        since = _unchanged_since(scope, part, now)
        ends = [end for end, _ in due]
        if overdue:
            advice = "" if all(holder.is_drain for holder in overdue) else f"; {limit.advice_on(scope.key)}"
            part.message = f"{part.message}; {listing.first(overdue, MOST, separator='; ')}{advice}"
        elif _moment(since, now) + bound <= now:
            part.message = f"{part.message}; {limit.overdue(since, scope.key)}"
        if not overdue:
            ends.append(_moment(since, now) + bound)
        later += [(end - now).total_seconds() for end in ends if end > now]
    return min(later, default=None)


def _moment(timestamp: str, now: datetime) -> datetime:
    """A time that others wrote; now for what is no time."""
    return condition_list.parse_timestamp(timestamp) or now


def _unchanged_since(scope: Scope, part: Condition, now: datetime) -> str:
    """The last progress: the condition's transition, or a machine that has become ready since, or a step of an upgrade
    in place. A new machine is none: a MachineHealthCheck may replace machines for ever.
    """
    before = condition_list.get(scope.status.conditions, part.type)
    times = [condition_list.transition_time(before, part.status, condition_list.timestamp(now))]
    capi_objects = scope.capi_objects
    for machine in (*capi_objects.machines, *capi_objects.other_machines):
        ready = condition_list.get(reported(machine).status.conditions, READY)
        times += [ready.last_transition_time] if ready is not None and ready.status == "True" else []
    for upgrade in (*capi_objects.node_upgrades, *capi_objects.upgrades):
        times.append(upgrade.metadata.creation_timestamp or "")
        times += [step.last_transition_time for step in reported(upgrade).status.conditions]
    return max(times)


def holders_of(scope: Scope, type_: str) -> Iterator[Holder]:
    """The objects that hold what a condition reports."""
    capi_objects = scope.capi_objects
    if scope.is_deleted:
        yield from _machines((*capi_objects.machines, *capi_objects.other_machines))
    elif type_ in (names.CONTROL_PLANE_INITIALIZED, names.CONTROL_PLANE_READY):
        yield from _machines(capi_objects.machines)
        yield from _machines(
            machine for machine in capi_objects.other_machines if external_etcd.MACHINE_LABEL in machine.metadata.labels
        )
        etcds = capi_objects.of(EtcdadmCluster.resource)
        yield from _owners((*capi_objects.of(KubeadmControlPlane.resource).values(), *etcds.values()))
    elif type_ == names.WORKERS_READY:
        workers = (
            machine
            for machine in capi_objects.other_machines
            if external_etcd.MACHINE_LABEL not in machine.metadata.labels
        )
        yield from _machines(workers)
        yield from _owners(capi_objects.of(MachineDeployment.resource).values())


def _machines(machines: Iterable[Object]) -> Iterator[Holder]:
    for machine in machines:
        ready = condition_list.get(reported(machine).status.conditions, READY)
        if machine.metadata.deletion_timestamp is not None:
            reason, why = machine_reports.deletion_of(machine)
            since, is_drain = machine.metadata.deletion_timestamp, reason == contract.DRAINING
            yield Holder(f"Machine {machine.key} is being deleted", since, why, is_drain)
        elif ready is None:
            yield Holder(f"Machine {machine.key} is not ready", machine.metadata.creation_timestamp or "", "")
        elif ready.status != "True":
            yield Holder(f"Machine {machine.key} is not ready", ready.last_transition_time, ready.message)


def _owners(owners: Iterable[Object]) -> Iterator[Holder]:
    for owner in owners:
        for condition in reported(owner).status.conditions:
            if condition.type in _WAITING and condition.status == "True" and condition.message:
                yield Holder(
                    f"{owner.kind} {owner.key} has condition {condition.type}",
                    condition.last_transition_time,
                    condition.message,
                )
            elif (
                condition.type == _MACHINES_READY and condition.status == "False"
            ):  # its message names other machines each time
                yield Holder(
                    f"{owner.kind} {owner.key} has condition {condition.type} False", condition.last_transition_time, ""
                )
            elif condition.type == DELETING and condition.status == "True":
                yield Holder(
                    f"{owner.kind} {owner.key} is being deleted", condition.last_transition_time, condition.message
                )
