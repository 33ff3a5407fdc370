"""Annotations, labels and finalizers of Espalier and EKS Anywhere, and those of Cluster API that we set or obey.

One table. `make pages` writes `docs/reference/metadata.md` from it, and `tests/conventions` compares it with the code.
Annotations of a single provider are in its `Provider.annotations`.
"""

from __future__ import annotations

from espalier.api.eksa.group import GROUP
from espalier.api.reference import MetadataField, MetadataKey, Writer

_CLUSTER = "Cluster"
_CAPI_CLUSTER = "Cluster (Cluster API)"
_CREDENTIALS = "Secret in `eksa-system`"
_OWNER = "KubeadmControlPlane, MachineDeployment"

ANNOTATIONS: tuple[MetadataKey, ...] = (
    MetadataKey(
        f"{GROUP}/paused",
        "Cluster, ControlPlaneUpgrade, MachineDeploymentUpgrade",
        Writer.USER,
        "With any value: a Cluster is not reconciled; an in-place upgrade starts no further node.",
        "remove it to resume",
    ),
    MetadataKey(
        f"{GROUP}/move",
        _CLUSTER,
        Writer.USER,
        "`espalier move` is taking the Cluster to another management cluster: the record of the move. No manager acts "
        "on the Cluster meanwhile.",
        "give the same `espalier move` again, or with `--back`",
    ),
    MetadataKey(
        f"{GROUP}/moved-from",
        "all objects of a cluster",
        Writer.USER,
        "`espalier move` copied the object from the management cluster with this uid; the number counts the moves.",
    ),
    MetadataKey(
        f"{GROUP}/allow-delete-when-paused",
        _CLUSTER,
        Writer.USER,
        "Allows the deletion of a paused Cluster.",
        "set it to delete a Cluster that stays paused",
    ),
    MetadataKey(
        f"{GROUP}/drift",
        _CLUSTER,
        Writer.USER,
        "How drift is handled: `report` (default), `correct` (except where it replaces machines), `correct-machines`.",
        "set it when condition `Synced` says `Drifted`",
    ),
    MetadataKey(
        f"{GROUP}/patches",
        _CLUSTER,
        Writer.USER,
        "Comma-separated names of the patch layers that may apply to the cluster.",
        "`espalier plan` shows what a patch changes",
    ),
    MetadataKey(
        f"{GROUP}/skip-eksa-version-skew-check",
        _CLUSTER,
        Writer.USER,
        "Allows an update of `eksaVersion` to skip minor versions, or to downgrade.",
        "remove it after the update",
    ),
    MetadataKey(
        f"{GROUP}/retry",
        "NodeUpgrade",
        Writer.USER,
        "The failed upgrader pod is recreated; the manager then removes the annotation.",
        "`espalier upgrades retry` sets it; fix the cause of the failure first",
    ),
    MetadataKey(
        f"{GROUP}/ignore-preflight-errors",
        "Machine, infrastructure machine",
        Writer.USER,
        "Preflight checks of kubeadm to ignore on this host, like `Swap,Mem`. A provider may set it too.",
        "set it when a NodeUpgrade fails with such an `[ERROR Name]` in its message",
    ),
    MetadataKey(
        f"{GROUP}/managed-by-cli",
        _CLUSTER,
        Writer.CLI,
        "Accepted, without effect.",
    ),
    MetadataKey(
        f"{GROUP}/control-plane",
        "machine configs",
        Writer.CLI,
        "Accepted, without effect: see the Cluster.",
    ),
    MetadataKey(f"{GROUP}/etcd", "machine configs", Writer.CLI, "Accepted, without effect: see the Cluster."),
    MetadataKey(f"{GROUP}/managed-by", "machine configs", Writer.CLI, "Accepted, without effect."),
    MetadataKey(f"{GROUP}/management-components-version", _CLUSTER, Writer.CLI, "Accepted, without effect."),
    MetadataKey(
        f"{GROUP}/reconciled-content",
        _CLUSTER,
        Writer.MANAGER,
        "Content hash of the last completed reconcile; `open` while a change is in progress (`docs/isolation.md`).",
        "remove it to have the manager adopt or reconcile the Cluster again",
    ),
    MetadataKey(
        f"{GROUP}/reconciled-as",
        _CLUSTER,
        Writer.MANAGER,
        "UIDs of the management Cluster and of the Cluster for which `reconciled-content` was written.",
    ),
    MetadataKey(
        f"{GROUP}/release-content",
        _CLUSTER,
        Writer.MANAGER,
        "Digests of the release objects that the cluster was created from.",
        "remove it to accept changed release objects (reason `ReleaseReplaced`)",
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
        "Comma-separated servers to which the credentials may be sent, as written in specs.",
        "set it on Secrets with credentials of providers and registries (reason `CredentialsNotPermitted`)",
    ),
    MetadataKey(
        f"{GROUP}/credentials-namespaces",
        _CREDENTIALS,
        Writer.USER,
        "Comma-separated namespaces whose Clusters may use the credentials; `*` for all.",
        "set it together with `credentials-servers`",
    ),
    MetadataKey(
        f"{GROUP}/credentials-in-workload-clusters",
        "Secrets with credentials of providers, in `eksa-system`",
        Writer.USER,
        "With `allowed`: workload clusters may get the credentials of the user that creates machines. Administrators "
        "of such a cluster can read them.",
        "provide credentials of a read-only user, or set it (reason `CredentialsNotPermitted`)",
    ),
    MetadataKey(
        f"{GROUP}/upgrader-registry",
        "ConfigMap `in-place-upgrade`",
        Writer.USER,
        "Registry, with an optional path, from which nodes pull upgrader images instead of that in the Bundles.",
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
        "Machines were replaced several times without becoming healthy, so the check was paused.",
        "fix the cause, then remove `cluster.x-k8s.io/paused` from the check",
    ),
    MetadataKey(
        f"{GROUP}/in-place-fallback",
        _OWNER,
        Writer.MANAGER,
        "`RollingUpdate`: machines are replaced when a change can't be made in place; otherwise it is rejected.",
        "set `upgradeRolloutStrategy.fallback` in the Cluster instead",
    ),
    MetadataKey(
        f"{GROUP}/in-place-replacing",
        "KubeadmControlPlane",
        Writer.MANAGER,
        "A machine was lost during an in-place upgrade; Cluster API stays unpaused until the machine is replaced.",
    ),
    MetadataKey(
        f"{GROUP}/in-place-node",
        "KubeadmControlPlane",
        Writer.MANAGER,
        "Name and UID of the ControlPlaneUpgrade or NodeUpgrade that upgrades its nodes: one at a time.",
        "if that upgrade has failed, delete it to start another one",
    ),
    MetadataKey(
        f"{GROUP}/in-place-hooks",
        _OWNER,
        Writer.MANAGER,
        "Cluster API upgrades these machines in place through our runtime hooks. The value is the fallback.",
    ),
    MetadataKey(
        f"{GROUP}/in-place-refused",
        _OWNER,
        Writer.MANAGER,
        "Generation, and its fields that the runtime hooks can't change in place.",
        "revert the change, or set a fallback",
    ),
    MetadataKey(
        f"{GROUP}/in-place-node-has",
        "Machine",
        Writer.MANAGER,
        "Bootstrap configuration of its node before the last upgrade through runtime hooks: digests of files, "
        "kubelet flags, the folder of patches.",
    ),
    MetadataKey(
        f"{GROUP}/in-place-unfinished",
        "Machine",
        Writer.MANAGER,
        "Files and kubelet flags that an in-place upgrade may have changed on its node, until the Machine records the "
        "result. The next upgrade completes an aborted one.",
        "delete the Machine to have it replaced instead",
    ),
    MetadataKey(
        f"{GROUP}/in-place-goal",
        "NodeUpgrade",
        Writer.MANAGER,
        "Digest of the bootstrap configuration that runtime hooks apply to the node.",
    ),
    MetadataKey(
        "controlplane.clusters.x-k8s.io/in-place-upgrade-needed",
        "KubeadmControlPlane",
        Writer.MANAGER,
        "`true`: requests an in-place upgrade of its machines.",
    ),
    MetadataKey(
        "machinedeployment.clusters.x-k8s.io/in-place-upgrade-needed",
        "MachineDeployment",
        Writer.MANAGER,
        "`true`: requests an in-place upgrade of its machines.",
    ),
    MetadataKey(
        f"{GROUP}/in-place-upgrade-seconds",
        "Machine",
        Writer.MANAGER,
        "Duration of its last in-place upgrade, for `espalier plan`.",
    ),
    MetadataKey(
        f"{GROUP}/node-upgrade",
        "Pod (workload cluster)",
        Writer.MANAGER,
        "Namespace and name of the NodeUpgrade that an upgrader pod belongs to.",
    ),
    MetadataKey(
        f"{GROUP}/cordoned-by-upgrade",
        "Node (workload cluster)",
        Writer.UPGRADER,
        "The upgrade cordoned the node and will uncordon it. A node that an operator cordoned stays cordoned.",
    ),
    MetadataKey(
        f"{GROUP}/drain-blocked",
        "Node (workload cluster)",
        Writer.UPGRADER,
        "The pods that the drain of the node waits for, and what blocks each.",
        "make the PodDisruptionBudget in it allow the eviction, or delete the pod",
    ),
    MetadataKey(
        f"{GROUP}/restarted-by-upgrade",
        "static pod (workload cluster)",
        Writer.UPGRADER,
        "UID of the upgrade that restarted the pod because a file that it mounts has changed.",
    ),
    MetadataKey(
        f"{GROUP}/kubeadm-patches",
        "infrastructure machine",
        Writer.PROVIDER,
        "Directory on the host with patches for kubeadm. The directory in the KubeadmConfig takes precedence.",
    ),
    MetadataKey(
        "cluster.x-k8s.io/paused",
        "objects of Cluster API",
        Writer.MANAGER,
        "Cluster API does not reconcile the object. The manager sets `in-place-upgrade` and `external-etcd-changes`, "
        "and removes them after the change; any other value is a user's and stays.",
        "reason `ClusterAPIPaused`: remove a user's value",
    ),
    MetadataKey(
        "clusterctl.cluster.x-k8s.io/delete-for-move",
        "Cluster, upgrades, datacenter and machine configs, objects of Cluster API",
        Writer.USER,
        "The object was moved to another management cluster (`clusterctl move` sets it): nothing is done for it any "
        "more, and when it is deleted, nothing else is.",
        "remove it to resume, if the object is not managed elsewhere",
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
        "CoreDNS is not changed while an upgrade of Kubernetes is reverted.",
    ),
    MetadataKey(
        "cluster.x-k8s.io/delete-machine",
        "Machine",
        Writer.USER,
        "The machine is deleted first when its group is scaled down.",
        "set it to choose which machine is deleted",
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
        "The worker node group, if it has a MachineDeployment for each failure domain.",
    ),
)

LABELS: tuple[MetadataKey, ...] = (
    MetadataKey(
        "cluster.anywhere.eks.amazonaws.com/cluster-name",
        "objects of Cluster API, Secrets",
        Writer.MANAGER,
        "Name of the Cluster that an object was created for. Objects without it are never changed or deleted.",
        "set it and the next one on Secrets with keys that a new cluster is to reuse",
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
        "Selects the manager (`espalier manager --watch-filter`). Objects created for a Cluster inherit it.",
    ),
    MetadataKey(
        "eks-d-upgrader",
        "Pod, ServiceAccount, ClusterRole, ClusterRoleBinding (workload cluster)",
        Writer.MANAGER,
        "Belongs to an in-place upgrade of a node.",
    ),
)

FINALIZERS: tuple[MetadataKey, ...] = (
    MetadataKey(
        "clusters.anywhere.eks.amazonaws.com/finalizer",
        _CLUSTER,
        Writer.MANAGER,
        "Keeps a Cluster until everything that was created for it is deleted.",
        "condition `Ready` lists what is left; removing the finalizer leaves the machines running",
    ),
    MetadataKey(
        f"{GROUP}/manages-clusters",
        _CLUSTER,
        Writer.MANAGER,
        "Keeps the management Cluster while it manages other clusters.",
        "delete those first",
    ),
    MetadataKey(
        f"controlplaneupgrades.{GROUP}/finalizer",
        "ControlPlaneUpgrade",
        Writer.MANAGER,
        "Keeps the upgrade until its NodeUpgrades are gone.",
    ),
    MetadataKey(
        f"machinedeploymentupgrades.{GROUP}/finalizer",
        "MachineDeploymentUpgrade",
        Writer.MANAGER,
        "Keeps the upgrade until its NodeUpgrades are gone.",
    ),
    MetadataKey(
        f"nodeupgrades.{GROUP}/finalizer",
        "NodeUpgrade",
        Writer.MANAGER,
        "Keeps the upgrade until the step on the node has ended and its pod is gone.",
    ),
)

BY_METADATA_FIELD = {
    MetadataField.ANNOTATION: ANNOTATIONS,
    MetadataField.LABEL: LABELS,
    MetadataField.FINALIZER: FINALIZERS,
}
