"""The steps by which a node is upgraded, in the proposal's order: a container of the upgrader pod each."""

from __future__ import annotations

from typing import NamedTuple


class NodeStep(NamedTuple):
    """A container, the condition that tells of it, and the word for being at it."""

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
"""All of them; the last is the pod's main container. Draining and uncordoning are left out where nothing can move."""

UNDER_WAY = frozenset({step.doing for step in STEPS})
"""Reasons of a node that is being upgraded, as it should be."""

BEGINNING = frozenset({"NodeUpgradePending", "Reading", "Waiting", "Retrying"})
"""Reasons of a NodeUpgrade before its steps, which pass by themselves."""

PASSING = frozenset({"PodCreated"})
"""Reasons that are never told: a pod that was made is seen at once, and its first step is told."""

POD_CREATED = "UpgraderPodCreated"
"""Condition: the pod is there."""

SKIPPED = "NothingCanMove"
"""Reason of a step that is done because it is left out."""
