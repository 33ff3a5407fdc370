"""Names, labels and annotations: strings that are stored or that others may rely on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

from espalier.api.definitions.reference import ConditionProse
from espalier.api.eksa.vocabulary import group, metadata_keys, reasons
from espalier.api.eksa.vocabulary.group import (
    CLUSTER_FINALIZER,
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

UNFINISHED = "unfinished"
"""In place of the CNI's content hash: a change is in progress, and objects of either CNI may exist."""

GATE_KEY, GATE_KEY_FIELD = Key(SYSTEM_NAMESPACE, "espalier-gate-key"), "key"
"""The Secret with the key for digests of credentials: more users can read content hashes than Secrets."""

MANAGEMENT_CLUSTER = Key(SYSTEM_NAMESPACE, group.MANAGEMENT_CLUSTER)
"""The ConfigMap that names the record of the management cluster."""

FINALIZERS = frozenset({CLUSTER_FINALIZER, metadata_keys.MANAGEMENT_FINALIZER})

# Conditions of a Cluster.
READY: Annotated[
    str,
    ConditionProse(
        (reasons.CLUSTER,),
        "True: everything in the spec exists and is ready. False: the reason is that of the first part that is not.",
    ),
] = "Ready"
CONTROL_PLANE_INITIALIZED: Annotated[
    str, ConditionProse((reasons.CLUSTER,), "True once the API server of the cluster has answered.")
] = "ControlPlaneInitialized"
CONTROL_PLANE_READY: Annotated[
    str, ConditionProse((reasons.CLUSTER,), "True: all control plane machines exist, are up to date and healthy.")
] = "ControlPlaneReady"
DEFAULT_CNI_CONFIGURED: Annotated[
    str, ConditionProse((reasons.CLUSTER,), "True: the CNI in the spec is installed.")
] = "DefaultCNIConfigured"
WORKERS_READY: Annotated[
    str, ConditionProse((reasons.CLUSTER,), "True: all machines of all worker node groups exist and are up to date.")
] = "WorkersReady"
SYNCED: Annotated[
    str,
    ConditionProse(
        (reasons.CLUSTER,), "True: the objects match what is rendered. False: they drifted. Not part of Ready."
    ),
] = "Synced"

SPEC_VALID: Annotated[
    str,
    ConditionProse(
        (reasons.CLUSTER,),
        "False: the spec is invalid, and is not applied until it is valid. Absent otherwise; not part of Ready.",
    ),
] = "SpecValid"

KUBECONFIG_COPIED: Annotated[
    str,
    ConditionProse(
        (reasons.CLUSTER,),
        "False: there is no copy of the kubeconfig in the Cluster's namespace. Absent otherwise; not part of Ready.",
    ),
] = "KubeconfigCopied"

CERTIFICATES_VALID: Annotated[
    str,
    ConditionProse(
        (reasons.CLUSTER,),
        "False: certificates of control plane machines have ended, or end within 90 days. Absent otherwise; not part "
        "of Ready.",
    ),
] = "CertificatesValid"

RECONCILING: Annotated[
    str,
    ConditionProse(
        (reasons.CLUSTER,),
        "True: the cluster is on its way to what its spec asks for; reason and message are those of Ready. "
        "Absent otherwise. For programs that read statuses as kstatus does.",
    ),
] = "Reconciling"

STALLED: Annotated[
    str,
    ConditionProse(
        (reasons.CLUSTER,),
        "True: somebody must act before the cluster can become what its spec asks for. Absent otherwise, and "
        "never beside Reconciling. For programs that read statuses as kstatus does.",
    ),
] = "Stalled"

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
    given = (name.strip() for name in annotations.get(metadata_keys.PATCHES_ANNOTATION, "").split(","))
    return frozenset(filter(None, given))


def is_paused_by_command(annotations: Mapping[str, str]) -> bool:
    """True if a command of ours has paused a Cluster with these annotations, and nobody else."""
    return annotations.get(PAUSED_ANNOTATION, "").startswith(PAUSED_BY_COMMAND)


def machine_deployment(cluster: str, group: str) -> str:
    """Name of the MachineDeployment of a worker node group."""
    return f"{cluster}-{group}"


def deployment_of_group(metadata: ObjectMeta, cluster: str) -> str:
    """The name of a MachineDeployment's worker node group, without the failure domain."""
    group = metadata.annotations.get(metadata_keys.GROUP_ANNOTATION)
    return machine_deployment(cluster, group) if group else metadata.name


def group_of(deployment: str, cluster: str, groups: Iterable[str]) -> str:
    """The worker node group, among `groups`, of a MachineDeployment by its name; empty if it is of none.

    A group that is spread over failure domains has a MachineDeployment for each: the longest name that fits is its own.
    """
    fits = (group for group in groups if f"{deployment}-".startswith(f"{machine_deployment(cluster, group)}-"))
    return max(fits, key=len, default="")


def control_plane_health_check(cluster: str) -> str:
    """Name of the MachineHealthCheck of the control plane."""
    return f"{cluster}-kcp-unhealthy"


def worker_health_check(cluster: str, group: str) -> str:
    """Name of the MachineHealthCheck of a worker node group."""
    return f"{machine_deployment(cluster, group)}-worker-unhealthy"
