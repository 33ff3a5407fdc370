"""Scheduling rules: node selectors, taints and tolerations."""

from __future__ import annotations

from collections.abc import Iterable

from espalier.simulator.workload_controllers.views import Node, PodSpec, Toleration

NOT_READY = "node.kubernetes.io/not-ready"
"""The taint of a node without network."""

KEEPS_OFF = frozenset({"NoSchedule", "NoExecute"})

_NODE_TROUBLES = ("not-ready", "unreachable", "disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")

DAEMON_TOLERATIONS = tuple(
    Toleration(
        key=f"node.kubernetes.io/{trouble}",
        operator="Exists",
        effect="NoExecute" if trouble in ("not-ready", "unreachable") else "NoSchedule",
    )
    for trouble in _NODE_TROUBLES
)
"""Tolerations that the DaemonSet controller adds to its pods."""

NETWORK_TOLERATION = Toleration(key="node.kubernetes.io/network-unavailable", operator="Exists", effect="NoSchedule")
"""Tolerations that it adds to pods with hostNetwork."""


def fits(pod: PodSpec, node: Node, extra: Iterable[Toleration] = (), *, ignore_readiness: bool = False) -> bool:
    """True if the pod may run on the node. DaemonSet pods may run before the node is ready."""
    labels = node.metadata.labels
    if any(labels.get(name) != value for name, value in pod.node_selector.items()):
        return False
    if node.deleting or (node.spec.unschedulable and not ignore_readiness):
        return False
    tolerations = (*pod.tolerations, *extra)
    return all(
        any(toleration.tolerates(taint) for toleration in tolerations)
        for taint in node.spec.taints
        if taint.effect in KEEPS_OFF and not (ignore_readiness and taint.key == NOT_READY)
    )
