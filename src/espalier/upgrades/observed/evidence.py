"""The facts that show whether a node was upgraded, whatever somebody has written into a status. Pure."""

from __future__ import annotations

from espalier.api.eksa.upgrades import NodeUpgrade
from espalier.api.eksa.vocabulary.upgrade_keys import NODE_UPGRADE_ANNOTATION
from espalier.clusterapi import kubernetes_versions
from espalier.kube.objects import Object
from espalier.upgrades.observed.views import Node, Pod

UPGRADE = "NODE_UPGRADE"
"""The environment variable with the uid of the pod's NodeUpgrade."""


def is_of_name(pod: Object, node_upgrade: Object) -> bool:
    """True if an upgrader pod is of a NodeUpgrade of this name, maybe of an earlier one."""
    return pod.metadata.annotations.get(NODE_UPGRADE_ANNOTATION, "") in ("", str(node_upgrade.key))


def is_own(pod: Object, node_upgrade: Object) -> bool:
    """True if an upgrader pod is of this NodeUpgrade."""
    return is_of_name(pod, node_upgrade) and pod.decode(Pod).variable(UPGRADE) in ("", node_upgrade.metadata.uid)


def is_outdated(upgrade: NodeUpgrade, node: Node | None) -> bool:
    """True if the node is seen with a kubelet of an earlier version than the one asked for."""
    version = node.status.node_info.kubelet_version if node else ""
    return bool(version) and not kubernetes_versions.is_reached(version, upgrade.spec.kubernetes_version)


def contradiction(upgrade: NodeUpgrade, node: Node | None, pod: Object | None) -> str:
    """The fact that shows that a node is not upgraded; empty if neither the node nor its upgrader pod shows that."""
    if node is not None and is_outdated(upgrade, node):
        return f"node {node.metadata.name} has {node.status.node_info.kubelet_version}"
    unfinished = pod.decode(Pod).unfinished if pod is not None else ""
    return f"container {unfinished} of its pod has not succeeded" if unfinished else ""
