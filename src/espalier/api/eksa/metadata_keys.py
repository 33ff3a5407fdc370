"""Annotations, labels and finalizers: those of Espalier and EKS Anywhere, and those of Cluster API that we set or obey.

One table. `make pages` writes `docs/reference/metadata.md` from it, and `tests/conventions` compares it with the code.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from espalier.api.eksa.group import GROUP


class Sort(StrEnum):
    """Part of an object's metadata that has a key."""

    ANNOTATION = "annotation"
    LABEL = "label"
    FINALIZER = "finalizer"


class Writer(StrEnum):
    """Writer of a key."""

    USER = "user"
    MANAGER = "manager"
    PROVIDER = "infrastructure provider"
    UPGRADER = "program on the node"
    CLI = "`eksctl anywhere`"


class MetadataKey(NamedTuple):
    """A key, and what is known of it. `to_do` is empty where nobody ever has to do anything about it."""

    key: str
    on: str
    writer: Writer
    meaning: str
    to_do: str = ""


_CLUSTER = "Cluster"
_CAPI_CLUSTER = "Cluster (Cluster API)"
_CREDENTIALS = "Secret in `eksa-system`"
_OWNER = "KubeadmControlPlane, MachineDeployment"

ANNOTATIONS: tuple[MetadataKey, ...] = (
    MetadataKey(
        f"{GROUP}/paused",
        "Cluster, ControlPlaneUpgrade, MachineDeploymentUpgrade",
        Writer.USER,
        "With any value: a Cluster is not reconciled; an upgrade in place begins with no further node.",
        "remove it to go on",
    ),
    MetadataKey(
        f"{GROUP}/allow-delete-when-paused",
        _CLUSTER,
        Writer.USER,
        "A paused Cluster may be deleted all the same.",
        "set it to delete a Cluster that stays paused",
    ),
    MetadataKey(
        f"{GROUP}/drift",
        _CLUSTER,
        Writer.USER,
        "What is done about drift: `report` (default), `correct` (all but what replaces machines), `correct-machines`.",
        "set it when condition `Synced` says `Drifted`",
    ),
    MetadataKey(
        f"{GROUP}/patches",
        _CLUSTER,
        Writer.USER,
        "Names of the patch layers that the cluster consents to, separated by commas.",
        "`espalier plan` shows what a patch changes",
    ),
    MetadataKey(
        f"{GROUP}/skip-eksa-version-skew-check",
        _CLUSTER,
        Writer.USER,
        "An update of `eksaVersion` may skip minor versions, or go back.",
        "remove it after the update",
    ),
    MetadataKey(
        f"{GROUP}/retry",
        "NodeUpgrade",
        Writer.USER,
        "The failed upgrader pod is deleted and created anew; the manager then removes the annotation.",
        "`espalier upgrades retry` sets it; remove the cause of the failure before",
    ),
    MetadataKey(
        f"{GROUP}/ignore-preflight-errors",
        "Machine, infrastructure machine",
        Writer.USER,
        "Preflight checks of kubeadm that say nothing about this host, like `Swap,Mem`. A provider may set it too.",
        "set it when a NodeUpgrade fails with such an `[ERROR Name]` in its message",
    ),
    MetadataKey(
        f"{GROUP}/managed-by-cli",
        _CLUSTER,
        Writer.CLI,
        "Accepted, without effect.",
    ),
    MetadataKey(
        f"{GROUP}/control-plane", "machine configs", Writer.CLI, "Accepted, without effect: the Cluster names them."
    ),
    MetadataKey(f"{GROUP}/etcd", "machine configs", Writer.CLI, "Accepted, without effect: the Cluster names them."),
    MetadataKey(f"{GROUP}/managed-by", "machine configs", Writer.CLI, "Accepted, without effect."),
    MetadataKey(f"{GROUP}/management-components-version", _CLUSTER, Writer.CLI, "Accepted, without effect."),
    MetadataKey(
        f"{GROUP}/reconciled-content",
        _CLUSTER,
        Writer.MANAGER,
        "Content hash of the last finished reconcile; `open` while a change is made (`docs/isolation.md`).",
        "removing it makes the manager adopt or reconcile the Cluster again",
    ),
    MetadataKey(
        f"{GROUP}/reconciled-as",
        _CLUSTER,
        Writer.MANAGER,
        "UIDs of the management cluster's record and of the Cluster for which `reconciled-content` was written.",
    ),
    MetadataKey(
        f"{GROUP}/release-content",
        _CLUSTER,
        Writer.MANAGER,
        "Digests of the release objects that the cluster was made from.",
        "remove it to accept release objects with other content (reason `ReleaseReplaced`)",
    ),
    MetadataKey(
        f"{GROUP}/kubeconfig-copied",
        _CLUSTER,
        Writer.MANAGER,
        "Digest of the kubeconfig that was copied into the Cluster's namespace.",
    ),
    MetadataKey(
        f"{GROUP}/credentials-servers",
        _CREDENTIALS,
        Writer.USER,
        "Servers to which the credentials may be sent, as specs name them, separated by commas.",
        "set it on Secrets with credentials of providers and registries (reason `CredentialsNotPermitted`)",
    ),
    MetadataKey(
        f"{GROUP}/credentials-namespaces",
        _CREDENTIALS,
        Writer.USER,
        "Namespaces whose Clusters may use the credentials, separated by commas; `*` for all.",
        "set it beside `credentials-servers`",
    ),
    MetadataKey(
        f"{GROUP}/hardware-namespaces",
        "Hardware in `eksa-system`",
        Writer.USER,
        "Namespaces whose Clusters may use the Hardware, separated by commas; without it, all.",
        "set it on the Hardware of tenants, and give that labels of its own (reason `MachineConfigInvalid`)",
    ),
    MetadataKey(
        f"{GROUP}/credentials-in-workload-clusters",
        "Secrets with credentials for vCenters and Prism Centrals, in `eksa-system`",
        Writer.USER,
        "With `allowed`: workload clusters may have the credentials of the user that makes machines. Whoever is "
        "administrator of such a cluster can read them.",
        "give an account of a user that only reads, or set it (reason `CredentialsNotPermitted`)",
    ),
    MetadataKey(
        "mountpath.diskoffering.cloudstack.anywhere.eks.amazonaws.com/v1alpha1",
        "CloudStackMachineTemplate",
        Writer.MANAGER,
        "Directory in which the second disk is mounted.",
    ),
    MetadataKey(
        "device.diskoffering.cloudstack.anywhere.eks.amazonaws.com/v1alpha1",
        "CloudStackMachineTemplate",
        Writer.MANAGER,
        "Device of the second disk.",
    ),
    MetadataKey(
        "filesystem.diskoffering.cloudstack.anywhere.eks.amazonaws.com/v1alpha1",
        "CloudStackMachineTemplate",
        Writer.MANAGER,
        "File system of the second disk.",
    ),
    MetadataKey(
        "label.diskoffering.cloudstack.anywhere.eks.amazonaws.com/v1alpha1",
        "CloudStackMachineTemplate",
        Writer.MANAGER,
        "Label of that file system.",
    ),
    MetadataKey(
        "symlinks.cloudstack.anywhere.eks.amazonaws.com/v1alpha1",
        "CloudStackMachineTemplate",
        Writer.MANAGER,
        "Directories that are links, and to what, as `DIRECTORY:TARGET`, separated by commas.",
    ),
    MetadataKey(
        f"{GROUP}/upgrader-registry",
        "ConfigMap `in-place-upgrade`",
        Writer.USER,
        "Registry, with a path if it has one, from which nodes pull upgrader images instead of that of the Bundles.",
        "set it where nodes pull images from a mirror",
    ),
    MetadataKey(
        f"{GROUP}/cni",
        _CAPI_CLUSTER,
        Writer.MANAGER,
        "Name and content hash of the CNI that is installed in the workload cluster.",
    ),
    MetadataKey(
        f"{GROUP}/remediation-stopped",
        "MachineHealthCheck",
        Writer.MANAGER,
        "Machines were replaced several times without getting healthy; the check is paused since.",
        "mend the cause, then remove `cluster.x-k8s.io/paused` from the check",
    ),
    MetadataKey(
        f"{GROUP}/in-place-fallback",
        _OWNER,
        Writer.MANAGER,
        "`RollingUpdate`: machines are replaced when a change can't be made in place; otherwise it is refused.",
        "set `upgradeRolloutStrategy.fallback` in the Cluster instead",
    ),
    MetadataKey(
        f"{GROUP}/in-place-replacing",
        "KubeadmControlPlane",
        Writer.MANAGER,
        "A machine was lost during an upgrade in place; Cluster API is not paused until it is replaced.",
    ),
    MetadataKey(
        f"{GROUP}/in-place-node",
        "KubeadmControlPlane",
        Writer.MANAGER,
        "Name and uid of the ControlPlaneUpgrade or NodeUpgrade that has its nodes upgraded: one at a time.",
        "delete that upgrade, if it has failed and another one is to go first",
    ),
    MetadataKey(
        f"{GROUP}/in-place-hooks",
        _OWNER,
        Writer.MANAGER,
        "Cluster API upgrades these machines in place by our runtime hooks. The value is the fallback.",
    ),
    MetadataKey(
        f"{GROUP}/in-place-refused",
        _OWNER,
        Writer.MANAGER,
        "Generation, and the fields of it that the runtime hooks can't change in place.",
        "take the change back, or set a fallback",
    ),
    MetadataKey(
        f"{GROUP}/in-place-node-has",
        "Machine",
        Writer.MANAGER,
        "What its node had of the bootstrap configuration before the last upgrade by runtime hooks: digests of files, "
        "kubelet flags, the folder of patches.",
    ),
    MetadataKey(
        f"{GROUP}/in-place-unfinished",
        "Machine",
        Writer.MANAGER,
        "Files and kubelet flags that an upgrade in place may have changed on its node, until the Machine says what "
        "the node has: what was broken off is done by the next upgrade.",
        "to have the node upgraded once more, or replaced: delete the Machine",
    ),
    MetadataKey(
        f"{GROUP}/in-place-goal",
        "NodeUpgrade",
        Writer.MANAGER,
        "Digest of the bootstrap configuration that runtime hooks bring the node to.",
    ),
    MetadataKey(
        "controlplane.clusters.x-k8s.io/in-place-upgrade-needed",
        "KubeadmControlPlane",
        Writer.MANAGER,
        "`true`: its machines are to be upgraded in place.",
    ),
    MetadataKey(
        "machinedeployment.clusters.x-k8s.io/in-place-upgrade-needed",
        "MachineDeployment",
        Writer.MANAGER,
        "`true`: its machines are to be upgraded in place.",
    ),
    MetadataKey(
        f"{GROUP}/in-place-upgrade-seconds",
        "Machine",
        Writer.MANAGER,
        "Duration of its last upgrade in place, for `espalier plan`.",
    ),
    MetadataKey(
        f"{GROUP}/node-upgrade",
        "Pod (workload cluster)",
        Writer.MANAGER,
        "Namespace and name of the NodeUpgrade for which an upgrader pod runs.",
    ),
    MetadataKey(
        f"{GROUP}/cordoned-by-upgrade",
        "Node (workload cluster)",
        Writer.UPGRADER,
        "The upgrade has cordoned the node, and uncordons it. A node that an operator cordoned stays cordoned.",
    ),
    MetadataKey(
        f"{GROUP}/drain-blocked",
        "Node (workload cluster)",
        Writer.UPGRADER,
        "The pods that the drain of the node waits for, and what holds each.",
        "let the PodDisruptionBudget that is named allow the eviction, or delete the pod",
    ),
    MetadataKey(
        f"{GROUP}/restarted-by-upgrade",
        "static pod (workload cluster)",
        Writer.UPGRADER,
        "The upgrade, by its uid, that restarted the pod because a file that it mounts has changed.",
    ),
    MetadataKey(
        f"{GROUP}/kubeadm-patches",
        "infrastructure machine",
        Writer.PROVIDER,
        "Directory on the host with patches for kubeadm. That of the KubeadmConfig comes first.",
    ),
    MetadataKey(
        "cluster.x-k8s.io/paused",
        "objects of Cluster API",
        Writer.MANAGER,
        "Cluster API does not reconcile the object. `in-place-upgrade` and `external-etcd-changes` are our values and "
        "end with the change; any other is a user's and stays.",
        "reason `ClusterAPIPaused`: remove what a user has set",
    ),
    MetadataKey(
        "cluster.x-k8s.io/skip-remediation",
        "Machine",
        Writer.MANAGER,
        "No MachineHealthCheck replaces the machine while its node is upgraded in place.",
    ),
    MetadataKey(
        "controlplane.cluster.x-k8s.io/skip-coredns",
        "KubeadmControlPlane",
        Writer.MANAGER,
        "CoreDNS is left as it is while an upgrade of Kubernetes is taken back.",
    ),
    MetadataKey(
        "cluster.x-k8s.io/delete-machine",
        "Machine",
        Writer.USER,
        "The machine is the first to go when its group is scaled down.",
        "set it to choose which machine goes",
    ),
    MetadataKey(
        f"{GROUP}/workload-objects",
        _CAPI_CLUSTER,
        Writer.MANAGER,
        "Hash and names of the provider's objects in the workload cluster.",
    ),
    MetadataKey(
        f"{GROUP}/worker-node-group",
        "MachineDeployment",
        Writer.MANAGER,
        "The worker node group of a MachineDeployment that is one of several, by failure domains.",
    ),
)

LABELS: tuple[MetadataKey, ...] = (
    MetadataKey(
        "cluster.anywhere.eks.amazonaws.com/cluster-name",
        "objects of Cluster API, Secrets",
        Writer.MANAGER,
        "Name of the Cluster for which an object was made. Objects without it are never changed or deleted.",
        "set it with the next one on Secrets with keys that a new cluster is to take over",
    ),
    MetadataKey(
        "cluster.anywhere.eks.amazonaws.com/cluster-namespace",
        "objects of Cluster API, Secrets",
        Writer.MANAGER,
        "Namespace of that Cluster.",
    ),
    MetadataKey(
        "cluster.x-k8s.io/cluster-name",
        "objects of Cluster API, Secrets",
        Writer.MANAGER,
        "Name of the Cluster of Cluster API to which an object belongs.",
    ),
    MetadataKey(
        "cluster.x-k8s.io/watch-filter",
        "Cluster, objects of Cluster API",
        Writer.USER,
        "Which manager is responsible: `espalier manager --watch-filter`. What is made for a Cluster gets the same.",
    ),
    MetadataKey(
        "eks-d-upgrader",
        "Pod, ServiceAccount, ClusterRole, ClusterRoleBinding (workload cluster)",
        Writer.MANAGER,
        "Belongs to an upgrade of a node in place.",
    ),
)

FINALIZERS: tuple[MetadataKey, ...] = (
    MetadataKey(
        "clusters.anywhere.eks.amazonaws.com/finalizer",
        _CLUSTER,
        Writer.MANAGER,
        "Holds a Cluster until everything that was made for it is deleted.",
        "the condition `Ready` names what is left; removing the finalizer leaves the machines running",
    ),
    MetadataKey(
        f"{GROUP}/manages-clusters",
        _CLUSTER,
        Writer.MANAGER,
        "Holds the record of the management cluster while it manages other clusters.",
        "delete those first",
    ),
    MetadataKey(
        f"controlplaneupgrades.{GROUP}/finalizer",
        "ControlPlaneUpgrade",
        Writer.MANAGER,
        "Holds the upgrade until its NodeUpgrades are gone.",
    ),
    MetadataKey(
        f"machinedeploymentupgrades.{GROUP}/finalizer",
        "MachineDeploymentUpgrade",
        Writer.MANAGER,
        "Holds the upgrade until its NodeUpgrades are gone.",
    ),
    MetadataKey(
        f"nodeupgrades.{GROUP}/finalizer",
        "NodeUpgrade",
        Writer.MANAGER,
        "Holds the upgrade until the step on the node has ended and its pod is gone.",
    ),
)

BY_SORT = {Sort.ANNOTATION: ANNOTATIONS, Sort.LABEL: LABELS, Sort.FINALIZER: FINALIZERS}

BY_KEY = {one.key: one for rows in BY_SORT.values() for one in rows}
