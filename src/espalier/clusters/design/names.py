"""Names, labels and annotations: strings that are stored or that others may rely on."""

from __future__ import annotations

from collections.abc import Mapping

from espalier.api.eksa import group, reasons
from espalier.api.eksa.group import (
    CLUSTER_FINALIZER,
    GROUP,
    PAUSED_ANNOTATION,
    PAUSED_BY_COMMAND,
    SYSTEM_NAMESPACE,
)
from espalier.api.identity import ClusterIdentity, owner_of
from espalier.api.meta import ObjectMeta
from espalier.api.resource import Key
from espalier.clusterapi.contract import WATCH_FILTER_LABEL

FIELD_MANAGER = "eks-a-controller"
"""The field manager, the same as EKS Anywhere's: either can take over the other's clusters."""

CNI_ANNOTATION = f"{GROUP}/cni"
"""On the Cluster API Cluster: the content hash of the CNI that was installed in the workload cluster."""

WORKLOAD_OBJECTS_ANNOTATION = f"{GROUP}/workload-objects"
"""On the Cluster API Cluster: the provider's objects in the workload cluster, and a digest of them."""

UNFINISHED = "unfinished"
"""In place of the CNI's content hash: a change is in progress, and objects of either CNI may exist."""

KUBECONFIG_ANNOTATION = f"{GROUP}/kubeconfig-copied"
"""On the Cluster: a digest of the kubeconfig that was copied to its namespace."""

GATE_ANNOTATION = f"{GROUP}/reconciled-content"
"""On the Cluster: the content hash of the last complete reconcile; `open` during a change."""

IDENTITY_ANNOTATION = f"{GROUP}/reconciled-as"
"""On the Cluster: the uids of its management cluster's record and of itself at the last write of the gate.

A Cluster that was exported, deleted and created again carries the uids of its predecessor."""

GROUP_ANNOTATION = f"{GROUP}/worker-node-group"
"""On a MachineDeployment of one failure domain: its worker node group."""

REMEDIATION_STOPPED_ANNOTATION = f"{GROUP}/remediation-stopped"
"""On a MachineHealthCheck: the last replacement of an unhealthy machine before we paused the check."""

GATE_KEY, GATE_KEY_FIELD = Key(SYSTEM_NAMESPACE, "espalier-gate-key"), "key"
"""The Secret with the key for digests of credentials: more users can read content hashes than Secrets."""

MANAGEMENT_CLUSTER = Key(SYSTEM_NAMESPACE, group.MANAGEMENT_CLUSTER)
"""The ConfigMap that names the record of the management cluster."""

MANAGEMENT_FINALIZER = f"{GROUP}/manages-clusters"
"""The finalizer on the record of the management cluster while it manages clusters."""

FINALIZERS = frozenset({CLUSTER_FINALIZER, MANAGEMENT_FINALIZER})

RELEASE_ANNOTATION = f"{GROUP}/release-content"
"""On the Cluster: digests of its release objects as they were first used."""

PATCHES_ANNOTATION = f"{GROUP}/patches"
"""On the Cluster, set by users: names of patch layers that it consents to, separated by commas. Counts as content."""

DRIFT_ANNOTATION = f"{GROUP}/drift"
"""On the Cluster, set by users: a `drift_policy.Policy`. Does not count as content."""

# Conditions of a Cluster.
READY = "Ready"
CONTROL_PLANE_INITIALIZED = "ControlPlaneInitialized"
CONTROL_PLANE_READY = "ControlPlaneReady"
DEFAULT_CNI_CONFIGURED = "DefaultCNIConfigured"
WORKERS_READY = "WorkersReady"
SYNCED = "Synced"
"""The condition for drift. Not part of Ready."""

SPEC_VALID = "SpecValid"
"""False, with the reason, while the spec is invalid; else absent. Not part of Ready: the cluster keeps running."""

KUBECONFIG_COPIED = "KubeconfigCopied"
"""Why the kubeconfig is not copied to the Cluster's namespace: present only while it isn't, and not part of Ready."""

RECONCILING = "Reconciling"
"""True while the cluster is not what its spec asks for, and gets there without anybody; else absent. As kstatus has it,
so never beside `STALLED`."""

STALLED = "Stalled"
"""True while somebody must act before the cluster can become what its spec asks for; else absent. As kstatus has it."""

FAILURES = reasons.waiting_for_people(reasons.CLUSTER)
"""Values of status.failureReason: the cluster makes no progress until somebody acts."""

DEFAULT_GROUP = "md-0"
"""Default name of a worker node group."""

ETCD_GROUP = "etcd"
"""Reserved for external etcd's objects: no worker node group has this name if there is one."""

DEFAULT_WORKERS = 1
"""Default number of workers of a group."""


def labels(cluster: Key, watch_filter: str = "") -> dict[str, str]:
    """Labels of every Cluster API object that is made for a cluster."""
    labels = ClusterIdentity.of(cluster).labels
    return labels | {WATCH_FILTER_LABEL: watch_filter} if watch_filter else labels


cluster_of = owner_of


def consents(annotations: Mapping[str, str]) -> frozenset[str]:
    """The patch layers that a Cluster with these annotations consents to, including unknown ones."""
    given = (name.strip() for name in annotations.get(PATCHES_ANNOTATION, "").split(","))
    return frozenset(filter(None, given))


def is_paused_by_command(annotations: Mapping[str, str]) -> bool:
    """True if a command of ours has paused a Cluster with these annotations, and nobody else."""
    return annotations.get(PAUSED_ANNOTATION, "").startswith(PAUSED_BY_COMMAND)


def machine_deployment(cluster: str, group: str) -> str:
    """Name of the MachineDeployment of a worker node group."""
    return f"{cluster}-{group}"


def deployment_of_group(metadata: ObjectMeta, cluster: str) -> str:
    """The name of a MachineDeployment's worker node group, without the failure domain."""
    group = metadata.annotations.get(GROUP_ANNOTATION)
    return machine_deployment(cluster, group) if group else metadata.name


def control_plane_health_check(cluster: str) -> str:
    """Name of the MachineHealthCheck of the control plane."""
    return f"{cluster}-kcp-unhealthy"


def worker_health_check(cluster: str, group: str) -> str:
    """Name of the MachineHealthCheck of a worker node group."""
    return f"{machine_deployment(cluster, group)}-worker-unhealthy"
