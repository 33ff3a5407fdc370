"""The steps of a node's upgrade, each a container of the upgrader pod, in the order of EKS Anywhere's proposal."""

from __future__ import annotations

from typing import NamedTuple

from espalier.api.eksa.reasons import Reason


class NodeStep(NamedTuple):
    """A container, its condition, its reason while it runs, and the upgrader's command."""

    container: str
    condition: str
    doing: Reason
    command: str
    on_host: bool = True


COPY = NodeStep("components-copier", "BinariesCopied", Reason.COPYING_COMPONENTS, "copy")
KUBEADM = NodeStep("kubeadm-upgrader", "KubeadmUpgraded", Reason.UPGRADING_KUBEADM, "kubeadm")
DRAIN = NodeStep("drainer", "NodeDrained", Reason.DRAINING_NODE, "drain", on_host=False)
UNCORDON = NodeStep("uncordoner", "NodeUncordoned", Reason.UNCORDONING_NODE, "uncordon", on_host=False)
KUBELET = NodeStep("kubelet-kubectl-upgrader", "KubeletUpgraded", Reason.UPGRADING_KUBELET, "kubelet")
DONE = NodeStep("done", "PostUpgradeCleanupCompleted", Reason.CLEANING_UP, "done")

STEPS: tuple[NodeStep, ...] = (
    COPY,
    NodeStep("containerd-upgrader", "ContainerdUpgraded", Reason.UPGRADING_CONTAINERD, "containerd"),
    NodeStep("cni-plugins-upgrader", "CNIPluginsUpgraded", Reason.UPGRADING_CNI_PLUGINS, "cni-plugins"),
    KUBEADM,
    DRAIN,
    KUBELET,
    UNCORDON,
    DONE,
)
"""All steps; the last is the pod's main container. Draining and uncordoning are skipped if no pod can move."""

UNDER_WAY = frozenset({step.doing for step in STEPS})
"""Reasons of a node whose upgrade progresses as expected."""

BEGINNING = frozenset({Reason.NODE_UPGRADE_PENDING, Reason.CACHE_NOT_SYNCED, Reason.WAITING, Reason.RETRYING})
"""Reasons of a NodeUpgrade before its steps that need no action."""

TRANSIENT = frozenset({Reason.POD_CREATED})
"""Reasons that are never reported: the pod is in the cache right after its creation, and its first step is reported."""

POD_CREATED = "UpgraderPodCreated"
"""Condition: the pod exists."""
