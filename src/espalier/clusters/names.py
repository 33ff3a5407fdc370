"""Names, labels, annotations and reasons: everything that others may rely on by its spelling."""

from __future__ import annotations

from collections.abc import Mapping

from espalier.api.eksa import group, reasons
from espalier.api.eksa.group import (
    CLUSTER_FINALIZER,
    GROUP,
    SYSTEM_NAMESPACE,
)
from espalier.api.identity import ClusterIdentity, owner_of
from espalier.api.meta import ObjectMeta
from espalier.api.resource import Key
from espalier.clusterapi.contract import WATCH_FILTER_LABEL

FIELD_MANAGER = "eks-a-controller"
"""Who owns the fields that we apply, as in EKS Anywhere: a cluster can change hands between the two."""

CNI_ANNOTATION = f"{GROUP}/cni"
"""On the Cluster of Cluster API: which CNI, with what content, was installed in the workload cluster."""

WORKLOAD_OBJECTS_ANNOTATION = f"{GROUP}/workload-objects"
"""On the Cluster of Cluster API: which objects the provider has in the workload cluster, and a digest of them."""

UNFINISHED = "unfinished"
"""In place of the content of a CNI: another was installed before, and objects of either may be there."""

KUBECONFIG_ANNOTATION = f"{GROUP}/kubeconfig-copied"
"""On the Cluster: a digest of the kubeconfig whose copy lies beside it."""

GATE_ANNOTATION = f"{GROUP}/reconciled-content"
"""On the Cluster: a digest of the content with which it was last reconciled to its end; `open` while it is changed."""

IDENTITY_ANNOTATION = f"{GROUP}/reconciled-as"
"""On the Cluster: uids of its management cluster's record and its own when the gate was written last.

A Cluster that was exported, deleted and made again carries those of the one before."""

GROUP_ANNOTATION = f"{GROUP}/worker-node-group"
"""On a MachineDeployment of one failure domain: the worker node group whose machines these are."""

ETCD_CHANGES_ANNOTATION = f"{GROUP}/etcd-changes"
"""On a KubeadmControlPlane that we paused while machines of its etcd are replaced."""

REMEDIATION_STOPPED_ANNOTATION = f"{GROUP}/remediation-stopped"
"""On a MachineHealthCheck: which replacement of an unhealthy machine was the last, before we paused the check."""

GATE_KEY, GATE_KEY_FIELD = Key(SYSTEM_NAMESPACE, "espalier-gate-key"), "key"
"""The Secret with the key to the digests of credentials, which are in marks that more people may read than Secrets."""

MANAGEMENT_CLUSTER = Key(SYSTEM_NAMESPACE, group.MANAGEMENT_CLUSTER)
"""The ConfigMap that says which Cluster is the record of the management cluster."""

MANAGEMENT_FINALIZER = f"{GROUP}/manages-clusters"
"""On the record of the management cluster, while there are clusters that it manages."""

FINALIZERS = frozenset({CLUSTER_FINALIZER, MANAGEMENT_FINALIZER})

RELEASE_ANNOTATION = f"{GROUP}/release-content"
"""On the Cluster: digests of the release objects that it was made of when they were first used."""

PATCHES_ANNOTATION = f"{GROUP}/patches"
"""On the Cluster, by people: names of patch layers that it consents to, by comma. Counts as content."""

DRIFT_ANNOTATION = f"{GROUP}/drift"
"""On the Cluster, by people: what is done about drift, a value of `drift.Policy`. No content."""

# Conditions of a Cluster.
READY = "Ready"
CONTROL_PLANE_INITIALIZED = "ControlPlaneInitialized"
CONTROL_PLANE_READY = "ControlPlaneReady"
DEFAULT_CNI_CONFIGURED = "DefaultCNIConfigured"
WORKERS_READY = "WorkersReady"
SYNCED = "Synced"
"""Whether what was made is as it is rendered. No part of Ready."""

SPEC_VALID = "SpecValid"
"""False, with the reason, while the spec is not valid; else absent. No part of Ready: what was made goes on."""

KUBECONFIG_COPIED = "KubeconfigCopied"
"""Why no copy of the kubeconfig lies beside the Cluster: there only while there is none, and no part of Ready."""

VALUES_NOT_RESOLVED = "ValuesNotResolved"
"""Reason of waiting for what a controller of the provider looks up."""

# Values of status.failureReason: nothing goes on until somebody changes something.
MISSING_DEPENDENT_OBJECTS = "MissingDependentObjects"
MANAGEMENT_CLUSTER_REF_INVALID = "ManagementClusterRefInvalid"
EKSA_VERSION_INVALID = "EksaVersionInvalid"
BUNDLES_NOT_FOUND = "BundleNotFoundForCluster"
EKSD_RELEASE_INVALID = "EksdReleaseInvalid"
RELEASE_REPLACED = "ReleaseReplaced"
CLUSTER_INVALID = "ClusterInvalid"
CLUSTER_NAME_TAKEN = "ClusterNameTaken"
REQUIRES_EKS_ANYWHERE = "RequiresEKSAnywhereClusterAPI"
OBJECT_REFUSED = "ObjectRefused"
KUBECONFIG_SECRET_TAKEN = "KubeconfigSecretTaken"  # noqa: S105 - a reason
CLUSTER_API_OBJECTS_MISSING = "ClusterAPIObjectsMissing"

FAILURES = reasons.waiting_for_people(reasons.CLUSTER)
"""All of them, by the table."""

CONTROL_PLANE_LOST = "ControlPlaneLost"
CLUSTER_API_OBJECT_DELETED = "ClusterAPIObjectDeleted"
CERTIFICATES_MISSING = "ClusterCertificatesMissing"

WORKLOAD_CLUSTER_UNREACHABLE = "WorkloadClusterUnreachable"
"""Reason of a fault that passes once the API server of the workload cluster answers again."""

DEFAULT_GROUP = "md-0"
"""Name of a worker node group that has none."""

ETCD_GROUP = "etcd"
"""No worker node group has this name where etcd has machines of its own, which it is the name of."""

DEFAULT_WORKERS = 1
"""Number of workers of a group that gives none."""


def labels(cluster: Key, watch_filter: str = "") -> dict[str, str]:
    """Labels of every Cluster API object that is made for a cluster."""
    found = ClusterIdentity.of(cluster).labels
    return found | {WATCH_FILTER_LABEL: watch_filter} if watch_filter else found


cluster_of = owner_of


def consents(annotations: Mapping[str, str]) -> frozenset[str]:
    """The patch layers that a Cluster with these annotations consents to, known or not."""
    given = (name.strip() for name in annotations.get(PATCHES_ANNOTATION, "").split(","))
    return frozenset(filter(None, given))


def machine_deployment(cluster: str, group: str) -> str:
    """Name of the MachineDeployment of a worker node group."""
    return f"{cluster}-{group}"


def deployment_of_group(metadata: ObjectMeta, cluster: str) -> str:
    """The name that a MachineDeployment has for its worker node group, without the failure domain if it is of one."""
    group = metadata.annotations.get(GROUP_ANNOTATION)
    return machine_deployment(cluster, group) if group else metadata.name


def control_plane_health_check(cluster: str) -> str:
    """Name of the MachineHealthCheck of the control plane."""
    return f"{cluster}-kcp-unhealthy"


def worker_health_check(cluster: str, group: str) -> str:
    """Name of the MachineHealthCheck of a worker node group."""
    return f"{machine_deployment(cluster, group)}-worker-unhealthy"
