"""The steps of a node's upgrade, each a container of the upgrader pod, in the order of EKS Anywhere's proposal."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from espalier.api.definitions.reference import ConditionProse
from espalier.api.eksa.vocabulary import reasons
from espalier.api.eksa.vocabulary.reasons import Reason


class NodeStep(NamedTuple):
    """A container, its condition, what that means when it is True, its reason while it runs, and its command."""

    container: str
    condition: str
    meaning: str
    doing: Reason
    command: str
    on_host: bool = True


COPY = NodeStep(
    "components-copier", "BinariesCopied", "the components are on the node", Reason.COPYING_COMPONENTS, "copy"
)
KUBEADM = NodeStep(
    "kubeadm-upgrader", "KubeadmUpgraded", "kubeadm has upgraded the node", Reason.UPGRADING_KUBEADM, "kubeadm"
)
DRAIN = NodeStep(
    "drainer",
    "NodeDrained",
    "the node is drained, or none of its pods can move",
    Reason.DRAINING_NODE,
    "drain",
    on_host=False,
)
UNCORDON = NodeStep(
    "uncordoner", "NodeUncordoned", "the node is schedulable again", Reason.UNCORDONING_NODE, "uncordon", on_host=False
)
KUBELET = NodeStep(
    "kubelet-kubectl-upgrader",
    "KubeletUpgraded",
    "the kubelet runs the new version",
    Reason.UPGRADING_KUBELET,
    "kubelet",
)
DONE = NodeStep(
    "done", "PostUpgradeCleanupCompleted", "temporary files are removed from the node", Reason.CLEANING_UP, "done"
)

STEPS: tuple[NodeStep, ...] = (
    COPY,
    NodeStep(
        "containerd-upgrader",
        "ContainerdUpgraded",
        "containerd runs the new version",
        Reason.UPGRADING_CONTAINERD,
        "containerd",
    ),
    NodeStep(
        "cni-plugins-upgrader",
        "CNIPluginsUpgraded",
        "the CNI plugins are installed",
        Reason.UPGRADING_CNI_PLUGINS,
        "cni-plugins",
    ),
    KUBEADM,
    DRAIN,
    KUBELET,
    UNCORDON,
    DONE,
)
"""All steps; the last is the pod's main container. Draining and uncordoning are skipped if no pod can move."""

CERTIFICATES = NodeStep(
    "certificates-renewer",
    "CertificatesRenewed",
    "kubeadm's certificates are renewed, and in use",
    Reason.RENEWING_CERTIFICATES,
    "certificates",
)

ONLY_CERTIFICATES: tuple[NodeStep, ...] = (CERTIFICATES,)
"""The steps of a NodeUpgrade with `certificatesOnly`."""

UNDER_WAY = frozenset({step.doing for step in (*STEPS, *ONLY_CERTIFICATES)})
"""Reasons of a node whose upgrade progresses as expected."""

BEGINNING = frozenset({Reason.NODE_UPGRADE_PENDING, Reason.CACHE_NOT_SYNCED, Reason.WAITING, Reason.RETRYING})
"""Reasons of a NodeUpgrade before its steps that need no action."""

TRANSIENT = frozenset({Reason.POD_CREATED})
"""Reasons that are never reported: the pod is in the cache right after its creation, and its first step is reported."""

POD_CREATED: Annotated[str, ConditionProse((reasons.NODE,), "True: the upgrader pod exists.")] = "UpgraderPodCreated"
