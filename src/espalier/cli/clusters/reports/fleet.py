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
from espalier.api.eksa.vocabulary.group import MOVE_ANNOTATION, PAUSED_ANNOTATION
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.meta import Condition
from espalier.api.resource import Key
from espalier.api.text.listing import counted
from espalier.clusterapi.contract import MachineCounts
from espalier.clusters.design import names
from espalier.clusters.observe.adoptions import Adoptions
from espalier.clusters.observe.scope import is_self_managed
from espalier.clusters.report.readiness import machines_are_elsewhere
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

    def __str__(self) -> str:
        return self.name.lower()


_WARNINGS = (names.CERTIFICATES_VALID, names.SYNCED, names.KUBECONFIG_COPIED, names.SPEC_VALID)
"""Conditions beside Ready that are False when something is to be done, the most urgent first."""


@dataclass(frozen=True)
class Row:
    """A cluster of a fleet."""

    key: Key
    attention: Attention
    kubernetes: str
    release: str
    machines: MachineCounts | None
    """None if they may not be read, and of the record of a management cluster whose machines are elsewhere."""
    since: datetime | None
    """When it got into its state."""
    reason: str
    message: str

    @property
    def sentence(self) -> str:
        """Why it needs attention; empty for a ready one."""
        return ": ".join(filter(None, (self.reason, self.message)))


def rows(clusters: Iterable[Cluster], machines: dict[Key, MachineCounts] | None) -> list[Row]:
    """The clusters, those that need attention most first; of equal ones, those that have needed it longest."""
    made = [_row(cluster, machines) for cluster in clusters]
    return sorted(made, key=lambda row: (row.attention, row.since.timestamp() if row.since else 0.0, row.key))


def summary(fleet: Sequence[Row]) -> str:
    """How many clusters are in which state."""
    counts = Counter(row.attention for row in fleet)
    parts = [f"{counts[attention]} {attention}" for attention in Attention if counts[attention]]
    return f"{counted(len(fleet), 'cluster')}: {', '.join(parts)}" if fleet else "no clusters"


def machines_of(
    control_planes: Iterable[Object], deployments: Iterable[Object], adopted: Adoptions
) -> dict[Key, MachineCounts]:
    """Machines by the Cluster for which they were made, or that was taken over with them."""
    owners: list[tuple[Key | None, KubeadmControlPlane | MachineDeployment]] = [
        *(
            (adopted.owner_of(KubeadmControlPlane.resource, item), item.decode(KubeadmControlPlane))
            for item in control_planes
        ),
        *((adopted.owner_of(MachineDeployment.resource, item), item.decode(MachineDeployment)) for item in deployments),
    ]
    machines: dict[Key, MachineCounts] = {}
    for cluster, owner in owners:
        if cluster is not None:
            machines[cluster] = machines.get(cluster, MachineCounts()) + MachineCounts.of(owner)
    return machines


def _row(cluster: Cluster, machines: dict[Key, MachineCounts] | None) -> Row:
    key = Key(cluster.metadata.namespace, cluster.metadata.name)
    attention, why = _attention(cluster)
    return Row(
        key,
        attention,
        cluster.spec.kubernetes_version or "",
        cluster.spec.eksa_version or "",
        None if machines is None or machines_are_elsewhere(cluster.status) else machines.get(key, MachineCounts()),
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
    if PAUSED_ANNOTATION in annotations and not is_self_managed(cluster):  # records are always paused
        return Attention.HELD, structs.replace(ready, reason=Reason.PAUSED, message="")
    return Attention.READY, ready
