"""True if a control plane can spare a member: before and after each node. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from espalier.upgrades.views import Node, Pod

CONTROL_PLANE = "node-role.kubernetes.io/control-plane"


def obstacle(nodes: Sequence[Node], pods: Sequence[Pod], spared: str, machines: int, *, has_etcd: bool = True) -> str:
    """Why the control plane can't spare this node's member now; empty when it can.

    The others must all be well, and enough for a majority of etcd: an upgrade makes no other fault worse.
    The only member of a control plane is spared with the downtime that this means. `has_etcd` is whether etcd runs on
    these nodes; where it is elsewhere, there is no majority to keep.
    """
    members = [node for node in nodes if CONTROL_PLANE in node.metadata.labels]
    if len(members) < machines:
        return f"{len(members)} of {machines} control plane nodes are there"
    others = [node for node in members if node.metadata.name != spared]
    for node in others:
        if not node.is_ready:
            return f"control plane node {node.metadata.name} is not ready"
        for component in ("etcd", "kube-apiserver") if has_etcd else ("kube-apiserver",):
            found = next((pod for pod in pods if _is_of(pod, component, node.metadata.name)), None)
            if found is None or not found.is_ready:
                return f"{component} on node {node.metadata.name} is {'not there' if found is None else 'not ready'}"
    majority = machines // 2 + 1
    if has_etcd and machines > 1 and len(others) < majority:
        return f"etcd has {machines} members, and {len(others)} beside node {spared} are no majority ({majority})"
    return ""


def _is_of(pod: Pod, component: str, node: str) -> bool:
    return pod.metadata.labels.get("component") == component and pod.spec.node_name == node
