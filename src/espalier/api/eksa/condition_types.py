"""The conditions of our kinds. One table; their reasons are in `reasons.py`.

`make pages` writes `docs/reference/conditions.md` from both, and `tests/conventions` compares them with the code.
"""

from __future__ import annotations

from espalier.api.eksa.reasons import CLUSTER, GROUP, NODE
from espalier.api.reference import ConditionType


def _step(name: str, meaning: str) -> ConditionType:
    return ConditionType(name, (NODE,), meaning)


CONDITIONS: tuple[ConditionType, ...] = (
    ConditionType(
        "Ready",
        (CLUSTER,),
        "True: everything in the spec exists and is ready. False: the reason is that of the first part that is not.",
    ),
    ConditionType("ControlPlaneInitialized", (CLUSTER,), "True once the API server of the cluster has answered."),
    ConditionType(
        "ControlPlaneReady", (CLUSTER,), "True: all control plane machines exist, are up to date and healthy."
    ),
    ConditionType("DefaultCNIConfigured", (CLUSTER,), "True: the CNI in the spec is installed."),
    ConditionType("WorkersReady", (CLUSTER,), "True: all machines of all worker node groups exist and are up to date."),
    ConditionType(
        "Synced",
        (CLUSTER,),
        "True: the objects match what is rendered. False: they drifted. Not part of Ready.",
    ),
    ConditionType(
        "SpecValid",
        (CLUSTER,),
        "False: the spec is invalid, and is not applied until it is valid. Absent otherwise; not part of Ready.",
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
        "True: in progress, or done. Unknown: waiting for something else. False: somebody has to act.",
    ),
    ConditionType("Accepted", (GROUP, NODE), "False: the change can't be made in place."),
    _step("UpgraderPodCreated", "True: the upgrader pod exists."),
    _step("BinariesCopied", "True: the components are on the node."),
    _step("ContainerdUpgraded", "True: containerd runs the new version."),
    _step("CNIPluginsUpgraded", "True: the CNI plugins are installed."),
    _step("KubeadmUpgraded", "True: kubeadm has upgraded the node."),
    _step("NodeDrained", "True: the node is drained, or none of its pods can move."),
    _step("KubeletUpgraded", "True: the kubelet runs the new version."),
    _step("NodeUncordoned", "True: the node is schedulable again."),
    _step("PostUpgradeCleanupCompleted", "True: temporary files are removed from the node."),
)


def of_kind(kind: str) -> list[ConditionType]:
    """The conditions of a kind, in the order in which they are evaluated."""
    return [condition for condition in CONDITIONS if kind in condition.kinds]


SATISFIED = {
    "AsRendered": "nothing drifted",
    "ClusterReady": "everything in the spec exists and is ready",
    "ControlPlaneInitialized": "the API server has answered",
    "ControlPlaneReady": "all control plane machines are ready",
    "DefaultCNIConfigured": "the CNI is installed",
    "Done": "the step on the node succeeded",
    "NoWorkers": "the spec has no workers",
    "NothingCanMove": "the step was skipped: no pod can move to another node",
    "PodCreated": "the upgrader pod exists",
    "ServesThisAPI": "the management cluster itself: its API server answered the request",
    "Upgraded": "the in-place upgrade is done",
    "WorkersReady": "all workers are ready",
}
"""Reasons of conditions that are True. There is nothing to do."""
