"""The steps of a node's upgrade, each a container of the upgrader pod, in the order of EKS Anywhere's proposal."""

from __future__ import annotations

from typing import NamedTuple


class NodeStep(NamedTuple):
    """A container, its condition, its reason while it runs, and the upgrader's command."""

    container: str
    condition: str
    doing: str
    command: str
    on_host: bool = True


COPY = NodeStep("components-copier", "BinariesCopied", "CopyingComponents", "copy")
KUBEADM = NodeStep("kubeadm-upgrader", "KubeadmUpgraded", "UpgradingKubeadm", "kubeadm")
DRAIN = NodeStep("drainer", "NodeDrained", "DrainingNode", "drain", on_host=False)
UNCORDON = NodeStep("uncordoner", "NodeUncordoned", "UncordoningNode", "uncordon", on_host=False)
KUBELET = NodeStep("kubelet-kubectl-upgrader", "KubeletUpgraded", "UpgradingKubelet", "kubelet")
DONE = NodeStep("done", "PostUpgradeCleanupCompleted", "CleaningUp", "done")

STEPS: tuple[NodeStep, ...] = (
    COPY,
    NodeStep("containerd-upgrader", "ContainerdUpgraded", "UpgradingContainerd", "containerd"),
    NodeStep("cni-plugins-upgrader", "CNIPluginsUpgraded", "UpgradingCNIPlugins", "cni-plugins"),
    KUBEADM,
    DRAIN,
    KUBELET,
    UNCORDON,
    DONE,
)
"""All steps; the last is the pod's main container. Draining and uncordoning are skipped if no pod can move."""

UNDER_WAY = frozenset({step.doing for step in STEPS})
"""Reasons of a node whose upgrade progresses as expected."""

BEGINNING = frozenset({"NodeUpgradePending", "CacheNotSynced", "Waiting", "Retrying"})
"""Reasons of a NodeUpgrade before its steps that need no action."""

TRANSIENT = frozenset({"PodCreated"})
"""Reasons that are never reported: the pod is in the cache right after its creation, and its first step is reported."""

POD_CREATED = "UpgraderPodCreated"
"""Condition: the pod exists."""

SKIPPED = "NothingCanMove"
"""Reason of a step that counts as done because it was skipped."""
