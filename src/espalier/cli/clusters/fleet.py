"""All clusters of a management cluster in the order in which they need attention. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum

from msgspec import structs

from espalier.api import conditions
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.group import MOVE_ANNOTATION, PAUSED_ANNOTATION
from espalier.api.eksa.reasons import Reason
from espalier.api.meta import Condition
from espalier.api.resource import Key
from espalier.clusterapi import contract
from espalier.clusters.design import names
from espalier.kube.objects import Object


class Attention(IntEnum):
    """How much attention a cluster needs, the most first."""

    FAILING = 0
    """Somebody must act."""
    WAITING = 1
    """It is not ready, and on its way."""
    UNKNOWN = 2
    """No manager has reported it yet."""
    WARNED = 3
    """It is ready, and something is to be done: certificates, drift, a kubeconfig that is not copied."""
    HELD = 4
    """It is ready, and paused or being moved."""
    READY = 5


WORDS = {
    Attention.FAILING: "failing",
    Attention.WAITING: "waiting",
    Attention.UNKNOWN: "unknown",
    Attention.WARNED: "warned",
    Attention.HELD: "held",
    Attention.READY: "ready",
}
_WARNINGS = (names.CERTIFICATES_VALID, names.SYNCED, names.KUBECONFIG_COPIED, names.SPEC_VALID)
"""Conditions beside Ready that are False when something is to be done, the most urgent first."""


@dataclass(frozen=True)
class Machines:
    """Machines of a cluster: wanted, ready, and not up to date."""

    wanted: int = 0
    ready: int = 0
    outdated: int = 0

    def __add__(self, other: Machines) -> Machines:
        return Machines(self.wanted + other.wanted, self.ready + other.ready, self.outdated + other.outdated)

    def __str__(self) -> str:
        text = f"{self.ready}/{self.wanted}"
        return f"{text} ({self.outdated} old)" if self.outdated else text


@dataclass(frozen=True)
class Row:
    """A cluster of a fleet."""

    key: Key
    attention: Attention
    kubernetes: str
    release: str
    machines: Machines | None
    """None if they may not be read."""
    since: datetime | None
    """When it got into its state."""
    reason: str
    message: str

    @property
    def sentence(self) -> str:
        """Why it needs attention; empty for a ready one."""
        return ": ".join(filter(None, (self.reason, self.message)))


def rows(clusters: Iterable[Cluster], machines: dict[Key, Machines] | None) -> list[Row]:
    """The clusters, those that need attention most first; of equal ones, those that have needed it longest."""
    made = [_row(cluster, machines) for cluster in clusters]
    return sorted(made, key=lambda row: (row.attention, row.since.timestamp() if row.since else 0.0, row.key))


def summary(fleet: Sequence[Row]) -> str:
    """How many clusters are in which state."""
    counts = Counter(row.attention for row in fleet)
    parts = [f"{counts[attention]} {WORDS[attention]}" for attention in Attention if counts[attention]]
    return f"{len(fleet)} cluster{'s' if len(fleet) != 1 else ''}: {', '.join(parts)}" if fleet else "no clusters"


def machines_of(control_planes: Iterable[Object], deployments: Iterable[Object]) -> dict[Key, Machines]:
    """Machines by the Cluster for which they were made."""
    owners: list[tuple[Object, KubeadmControlPlane | MachineDeployment]] = [
        *((item, item.decode(KubeadmControlPlane)) for item in control_planes),
        *((item, item.decode(MachineDeployment)) for item in deployments),
    ]
    counted: dict[Key, Machines] = {}
    for item, typed in owners:
        cluster = names.cluster_of(item.metadata.labels)
        if cluster is not None:
            replicas, current = typed.status.replicas or 0, typed.status.up_to_date_replicas or 0
            wanted, ready = contract.desired_replicas(typed), typed.status.ready_replicas or 0
            part = Machines(wanted, ready, max(0, replicas - current))
            counted[cluster] = counted.get(cluster, Machines()) + part
    return counted


def _row(cluster: Cluster, machines: dict[Key, Machines] | None) -> Row:
    key = Key(cluster.metadata.namespace, cluster.metadata.name)
    attention, why = _attention(cluster)
    return Row(
        key,
        attention,
        cluster.spec.kubernetes_version or "",
        cluster.spec.eksa_version or "",
        None if machines is None else machines.get(key, Machines()),
        conditions.parse_timestamp(why.last_transition_time or "") if why is not None else None,
        why.reason if why is not None and attention is not Attention.READY else "",
        why.message if why is not None and attention is not Attention.READY else "",
    )


def _attention(cluster: Cluster) -> tuple[Attention, Condition | None]:
    """How much attention a cluster needs, and the condition that says why."""
    by_type = {condition.type: condition for condition in cluster.status.conditions}
    ready, stalled = by_type.get(names.READY), by_type.get(names.STALLED)
    if stalled is not None and stalled.status == "True":
        return Attention.FAILING, stalled
    if cluster.status.failure_reason and ready is not None:
        return Attention.FAILING, ready
    expired = by_type.get(names.CERTIFICATES_VALID)
    if expired is not None and expired.reason == Reason.CERTIFICATES_EXPIRED:
        return Attention.FAILING, expired
    if ready is None:
        return Attention.UNKNOWN, None
    if ready.status != "True":
        return Attention.WAITING, ready
    for type_ in _WARNINGS:
        warning = by_type.get(type_)
        if warning is not None and warning.status == "False":
            return Attention.WARNED, warning
    annotations = cluster.metadata.annotations
    if MOVE_ANNOTATION in annotations:
        return Attention.HELD, structs.replace(ready, reason="Moving", message="")
    manager = cluster.spec.management_cluster.name if cluster.spec.management_cluster else ""
    is_record = manager in ("", cluster.metadata.name)  # those are always paused
    if PAUSED_ANNOTATION in annotations and not is_record:
        return Attention.HELD, structs.replace(ready, reason=Reason.PAUSED, message="")
    return Attention.READY, ready
