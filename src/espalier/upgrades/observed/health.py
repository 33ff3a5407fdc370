"""The health of a control plane, checked before and after each node. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from espalier.upgrades.observed.views import Node, Pod

CONTROL_PLANE = "node-role.kubernetes.io/control-plane"


def obstacle(nodes: Sequence[Node], pods: Sequence[Pod], spared: str, machines: int, *, has_etcd: bool = True) -> str:
    """The message on why the control plane can't spare this node now; empty if it can.

    All other nodes must be healthy, and enough for a majority of etcd: an upgrade must not make another fault worse.
    The only node of a control plane is upgraded anyway, with downtime. `has_etcd` is False for external etcd, where
    there is no majority to keep.
    """
    members = [node for node in nodes if CONTROL_PLANE in node.metadata.labels]
    if len(members) < machines:
        return f"{len(members)} of {machines} control plane nodes exist"
    other_members = [node for node in members if node.metadata.name != spared]
    for node in other_members:
        if not node.is_ready:
            advice = "repair its kubelet, or delete its Machine to have it replaced"
            return f"control plane node {node.metadata.name} is not ready: {advice}"
        for component in ("etcd", "kube-apiserver") if has_etcd else ("kube-apiserver",):
            pod = next((pod for pod in pods if _is_of(pod, component, node.metadata.name)), None)
            if pod is None:
                source = f"its kubelet runs it from /etc/kubernetes/manifests/{component}.yaml"
                advice = f"{source}; repair one of them, or delete its Machine to have it replaced"
                return f"{component} on node {node.metadata.name} has no pod in kube-system: {advice}"
            if not pod.is_ready:
                advice = f"see the log of Pod kube-system/{pod.metadata.name}"
                return f"{component} on node {node.metadata.name} is not ready: {advice}"
    majority = machines // 2 + 1
    if has_etcd and machines > 1 and len(other_members) < majority:
        remaining = f"{len(other_members)} of {machines} etcd members are left"
        return f"without node {spared}, {remaining}, which is not a quorum ({majority})"
    return ""


def rolled_out(machines: Sequence[str], wanted: int, upgraded: Collection[str]) -> str:
    """The message on a control plane of which Cluster API is replacing a machine; empty if it is not.

    `machines` are all of its machines, oldest first, and `upgraded` those to upgrade in place.
    """
    added = [name for name in machines if name not in upgraded]
    if not added or len(machines) <= wanted:
        return ""
    finding = f"{added[-1]} is one machine more than the {wanted} asked for: Cluster API is replacing one"
    advice = "set upgradeRolloutStrategy.type to RollingUpdate to let it continue, or revert the change"
    return f"{finding}: {advice}, unless a node already has the new version"


def _is_of(pod: Pod, component: str, node: str) -> bool:
    return pod.metadata.labels.get("component") == component and pod.spec.node_name == node
