"""The scheduler: filters nodes, and binds each pending pod to the matching node with the fewest pods.

Nodes without a pod of the same controller are preferred. Like kube-scheduler it does not bind a pod before its claims
are bound, or while one is being deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from espalier.api import conditions
from espalier.api.core import POD
from espalier.api.resource import Key
from espalier.simulator.workload_controllers.snapshot import Snapshot
from espalier.simulator.workload_controllers.views import Node, Pod, PodSpec, Toleration
from espalier.simulator.workload_controllers.writes import Change, Write


def plan(snapshot: Snapshot) -> Iterator[Write]:
    """The missing bindings; a pod that can't be scheduled gets the condition PodScheduled once."""
    occupied = {name: len(pods) for name, pods in snapshot.pods_by_node.items()}
    siblings = {(pod.owner, pod.spec.node_name) for pod in snapshot.pods if pod.owner and pod.spec.node_name}
    bound = {
        key for key, claim in snapshot.claim_by_key.items() if claim.status.phase == "Bound" and not claim.deleting
    }
    for pod in snapshot.pods:
        if pod.spec.node_name or pod.deleting:
            continue
        if any(Key(pod.metadata.namespace, claim) not in bound for claim in pod.spec.claims):
            yield from _unschedulable(snapshot, pod, "pod has unbound immediate PersistentVolumeClaims.")
            continue
        candidates = [node.metadata.name for node in snapshot.nodes if fits(pod.spec, node)]
        if not candidates:
            yield from _unschedulable(snapshot, pod, "no node fits the pod's node selector and tolerations.")
            continue
        owner = pod.owner
        chosen = min(candidates, key=lambda name: ((owner, name) in siblings, occupied.get(name, 0), name))
        occupied[chosen] = occupied.get(chosen, 0) + 1
        siblings.add((owner, chosen))
        yield Change(POD, pod.key, {"spec": {"nodeName": chosen}})


def _unschedulable(snapshot: Snapshot, pod: Pod, reason: str) -> Iterator[Write]:
    if conditions.get(pod.status.conditions, "PodScheduled") is not None:
        return
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": f"0/{len(snapshot.nodes)} nodes are available: {reason}",
        "lastTransitionTime": snapshot.timestamp,
    }
    patch = {"status": {"phase": "Pending", "conditions": [condition]}}
    yield Change(POD, pod.key, patch, "status")


NOT_READY = "node.kubernetes.io/not-ready"
"""The taint of a node that is not ready."""

SCHEDULING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})
"""Effects of taints that keep pods without a toleration off a node."""

_NODE_TAINTS = ("not-ready", "unreachable", "disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")

DAEMON_TOLERATIONS = tuple(
    Toleration(
        key=f"node.kubernetes.io/{name}",
        operator="Exists",
        effect="NoExecute" if name in ("not-ready", "unreachable") else "NoSchedule",
    )
    for name in _NODE_TAINTS
)
"""Tolerations that the DaemonSet controller adds to its pods."""

NETWORK_TOLERATION = Toleration(key="node.kubernetes.io/network-unavailable", operator="Exists", effect="NoSchedule")
"""The toleration that is added as well to pods with hostNetwork."""


def fits(pod: PodSpec, node: Node, extra: Iterable[Toleration] = (), *, ignore_readiness: bool = False) -> bool:
    """True if the pod may run on the node; with `ignore_readiness` (DaemonSets) also if it is cordoned or unready."""
    labels = node.metadata.labels
    if any(labels.get(name) != value for name, value in pod.node_selector.items()):
        return False
    if node.deleting or (node.spec.unschedulable and not ignore_readiness):
        return False
    tolerations = (*pod.tolerations, *extra)
    return all(
        any(toleration.tolerates(taint) for toleration in tolerations)
        for taint in node.spec.taints
        if taint.effect in SCHEDULING_EFFECTS and not (ignore_readiness and taint.key == NOT_READY)
    )
