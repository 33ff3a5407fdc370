"""The conditions of our kinds. One table; their reasons are in `reasons.py`.

`make pages` writes `docs/reference/conditions.md` from both, and `tests/conventions` compares them with the code.
"""

from __future__ import annotations

from espalier.api.eksa.reasons import CLUSTER, GROUP, NODE
from espalier.api.reference import ConditionType, Prose, Reason, Remedy


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
    ConditionType(
        "Reconciling",
        (CLUSTER,),
        "True: the cluster is on its way to what its spec asks for; reason and message are those of Ready. Absent "
        "otherwise. For programs that read statuses as kstatus does.",
    ),
    ConditionType(
        "Stalled",
        (CLUSTER,),
        "True: somebody must act before the cluster can become what its spec asks for. Absent otherwise, and never "
        "beside Reconciling. For programs that read statuses as kstatus does.",
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


def _satisfied(name: str, meaning: str) -> Prose:
    return Prose(name, Remedy.NONE, meaning, ())


class Satisfied(Reason):
    """Reasons of conditions that are True."""

    AS_RENDERED = _satisfied("AsRendered", "nothing drifted")
    CLUSTER_READY = _satisfied("ClusterReady", "everything in the spec exists and is ready")
    CONTROL_PLANE_INITIALIZED = _satisfied("ControlPlaneInitialized", "the API server has answered")
    CONTROL_PLANE_READY = _satisfied("ControlPlaneReady", "all control plane machines are ready")
    DEFAULT_CNI_CONFIGURED = _satisfied("DefaultCNIConfigured", "the CNI is installed")
    DONE = _satisfied("Done", "the step on the node succeeded")
    NO_WORKERS = _satisfied("NoWorkers", "the spec has no workers")
    NOTHING_CAN_MOVE = _satisfied("NothingCanMove", "the step was skipped: no pod can move to another node")
    POD_CREATED = _satisfied("PodCreated", "the upgrader pod exists")
    SERVES_THIS_API = _satisfied("ServesThisAPI", "the management cluster itself: its API server answered the request")
    UPGRADED = _satisfied("Upgraded", "the in-place upgrade is done")
    WORKERS_READY = _satisfied("WorkersReady", "all workers are ready")
