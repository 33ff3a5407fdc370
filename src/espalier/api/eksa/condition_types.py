"""The conditions of our kinds. One table; the reasons that they give are in `reasons.py`.

`make pages` writes `docs/reference/conditions.md` from both, and `tests/conventions` compares them with the code.
"""

from __future__ import annotations

from typing import NamedTuple

from espalier.api.eksa.reasons import CLUSTER, GROUP, NODE


class ConditionType(NamedTuple):
    """A condition, on which kinds it stands, and what its values mean."""

    name: str
    kinds: tuple[str, ...]
    meaning: str


def _step(name: str, meaning: str) -> ConditionType:
    return ConditionType(name, (NODE,), meaning)


CONDITIONS: tuple[ConditionType, ...] = (
    ConditionType(
        "Ready",
        (CLUSTER,),
        "True: everything that the spec asks for is there. False: the reason is that of the first part that is not.",
    ),
    ConditionType("ControlPlaneInitialized", (CLUSTER,), "True once the API server of the cluster has answered."),
    ConditionType(
        "ControlPlaneReady", (CLUSTER,), "True: all control plane machines are there, up to date and healthy."
    ),
    ConditionType("DefaultCNIConfigured", (CLUSTER,), "True: the CNI of the spec is installed."),
    ConditionType("WorkersReady", (CLUSTER,), "True: all machines of all worker node groups are there and up to date."),
    ConditionType(
        "Synced",
        (CLUSTER,),
        "True: the objects are as they are rendered. False: they drifted. Not part of Ready.",
    ),
    ConditionType(
        "SpecValid",
        (CLUSTER,),
        "False: the spec is not valid, and nothing is written for it until it is. Absent otherwise; not part of Ready.",
    ),
    ConditionType(
        "KubeconfigCopied",
        (CLUSTER,),
        "False: there is no copy of the kubeconfig in the Cluster's namespace. Absent otherwise; not part of Ready.",
    ),
    ConditionType("Ready", (GROUP,), "True: all machines of the group are upgraded."),
    ConditionType("Ready", (NODE,), "True: the node is upgraded."),
    ConditionType(
        "Progressing",
        (GROUP, NODE),
        "True: it goes on by itself, or is done. Unknown: it waits for something else. False: somebody has to act.",
    ),
    ConditionType("Accepted", (GROUP, NODE), "False: the change can't be made in place."),
    _step("UpgraderPodCreated", "True: the upgrader pod exists."),
    _step("BinariesCopied", "True: the components are on the node."),
    _step("ContainerdUpgraded", "True: containerd runs in its new version."),
    _step("CNIPluginsUpgraded", "True: the CNI plugins are in place."),
    _step("KubeadmUpgraded", "True: kubeadm has upgraded the node."),
    _step("NodeDrained", "True: the node is drained, or nothing can move from it."),
    _step("KubeletUpgraded", "True: the kubelet runs in its new version."),
    _step("NodeUncordoned", "True: the node takes pods again."),
    _step("PostUpgradeCleanupCompleted", "True: temporary files are removed from the node."),
)


def of_kind(kind: str) -> list[ConditionType]:
    """The conditions of a kind, in the order in which they are evaluated."""
    return [one for one in CONDITIONS if kind in one.kinds]


SATISFIED = {
    "AsRendered": "nothing drifted",
    "ClusterReady": "everything that the spec asks for is there",
    "ControlPlaneInitialized": "the API server has answered",
    "ControlPlaneReady": "all control plane machines are ready",
    "DefaultCNIConfigured": "the CNI is installed",
    "Done": "the step on the node succeeded",
    "NoWorkers": "the spec asks for no workers",
    "NothingCanMove": "the step was left out: no pod can be moved to another node",
    "PodCreated": "the upgrader pod exists",
    "ServesThisAPI": "the management cluster: it serves the API that was asked",
    "Upgraded": "the upgrade in place is done",
    "WorkersReady": "all workers are ready",
}
"""Reasons of conditions that are True. Nobody has to do anything."""
