"""Reasons of conditions that are not True, for clusters and in-place upgrades. One table.

A row has the kinds that report a reason, the condition for progress, and the meaning. `status.failureReason`, and when
a command stops waiting, follow from it. `make pages` writes `docs/reference/conditions.md`.
"""

from __future__ import annotations

from espalier.api.reference import Limit, Reason, Remedy

CLUSTER = "Cluster"
GROUP = "ControlPlaneUpgrade, MachineDeploymentUpgrade"
NODE = "NodeUpgrade"
LOG = "the manager's log alone"


def _person(name: str, meaning: str, *kinds: str) -> Reason:
    return Reason(name, Remedy.PERSON, meaning, kinds or (CLUSTER,))


def _change(name: str, meaning: str, kind: str, *kinds: str) -> Reason:
    return Reason(name, Remedy.CHANGE, meaning, (kind, *kinds))


def _time(name: str, meaning: str, *kinds: str, limit: Limit | None = None, unlimited: str = "") -> Reason:
    return Reason(name, Remedy.TIME, meaning, kinds or (CLUSTER,), limit, unlimited)


def _lasting(name: str, meaning: str) -> Reason:
    """A reason that describes a wanted state: it stays, and holds nothing up."""
    return Reason(name, Remedy.NONE, meaning, (CLUSTER,))


_MACHINES = Limit(
    1800,
    "`espalier describe cluster NAME -n NAMESPACE` shows its machines and what each waits for; the logs of Cluster "
    "API's controllers and of the infrastructure provider have the cause. An object that somebody paused, or that has "
    "a finalizer of others, waits too",
)
"""Half an hour: bare metal takes about twenty minutes to boot."""

_WORKLOAD = Limit(
    900,
    "the pods of kube-system in the workload cluster and the events there say what fails; the manager's log has the "
    "last answer",
)
_CLUSTER_API = Limit(
    300, "Cluster API's controllers usually do it within seconds: see that they run, and what their logs say"
)
_MANAGER = Limit(300, "the manager usually does it within seconds: its log has the last error")
_UPGRADE = Limit(
    1800,
    "`espalier upgrades describe NAME` shows the steps; the pods and events of the node in the workload cluster have "
    "the cause",
)
_OWNER = Limit(
    1800,
    "the conditions and finalizers of its Machines say what their deletion waits for; the logs of Cluster API's "
    "controllers have the cause",
)
_LOGGED = "no condition has it: the next reconcile follows at once"

STEPS = {
    "CopyingComponents": "the components are copied to the node",
    "UpgradingContainerd": "containerd is upgraded",
    "UpgradingCNIPlugins": "the CNI plugins are upgraded",
    "UpgradingKubeadm": "kubeadm is upgraded and run on the node",
    "DrainingNode": "the node is drained",
    "UpgradingKubelet": "kubelet and kubectl are upgraded",
    "UncordoningNode": "the node is uncordoned",
    "CleaningUp": "the node is cleaned up",
}
"""The steps of an in-place upgrade of a node. The reason for a failed step ends in `Failed`."""

REASONS: tuple[Reason, ...] = (
    # The spec can't be applied.
    _person("ClusterInvalid", "the spec is invalid; the message has the field, its value and what is allowed"),
    _person(
        "CredentialsNotPermitted", "a Secret with credentials is missing, or its annotations do not permit this use"
    ),
    _person("MissingDependentObjects", "an object that the spec names does not exist; create it"),
    _time(
        "DependentObjectsAwaited",
        "an object that the spec names does not exist yet; the rest of a manifest has some seconds to come",
        unlimited="it ends with those seconds, and MissingDependentObjects says what to create",
    ),
    _person("DatacenterConfigInvalid", "the provider does not have what the datacenter config names; see its status"),
    _person("MachineConfigInvalid", "the provider does not have what a machine config names; see its status"),
    _person(
        "ControlPlaneAddressTaken",
        "another cluster, or a machine outside the cluster, uses the address of its control plane",
    ),
    _person("MachineAddressesTaken", "machines of another cluster use some of the addresses for machines of this one"),
    _person("NotEnoughHardware", "machine configs select too little unused Hardware for the requested machines"),
    _time(
        "LinkedObjectsNotChecked",
        "the provider has not checked the linked objects yet",
        limit=Limit(300, "the conditions of the linked objects say what keeps the provider from checking them"),
    ),
    _time(
        "ValuesNotResolved",
        "a name in a linked object was not looked up yet, or has no match; `status.failureMessage` of the object has "
        "it, and its conditions say whether the infrastructure was reached",
        limit=Limit(300, "the conditions of the linked objects say whether the infrastructure was reached"),
    ),
    _person("ManagementClusterRefInvalid", "spec.managementCluster does not name the management cluster"),
    _person("EksaVersionInvalid", "spec.eksaVersion is missing or unknown; the message lists the known releases"),
    _person(
        "BundleNotFoundForCluster", "the Bundles of the release do not exist; apply them, or choose another release"
    ),
    _person("BundlesInvalid", "the Bundles have invalid images; the message names each of them"),
    _person("EksdReleaseInvalid", "the EKS Distro Release that the Bundles reference is missing or invalid"),
    _person(
        "ReleaseReplaced",
        "the content of a release object has changed; restore the original, or choose another release",
    ),
    _person("ManagesClusters", "the management cluster can't be deleted while it manages clusters; delete those first"),
    _person(
        "ClusterNameTaken",
        "the name, or an object of that name, belongs to another cluster; choose another name, or delete the object",
    ),
    _person("ObjectRefused", "the API server rejected an object; see the message"),
    # The copy of the kubeconfig: condition KubeconfigCopied. Nothing else depends on it.
    _person(
        "KubeconfigSecretTaken",
        "the Secret for the kubeconfig exists and belongs to somebody else; delete or rename it",
    ),
    _person(
        "KubeconfigCopyNotAllowed",
        "RBAC does not let the manager write Secrets in the namespace; apply what the message says",
    ),
    _person(
        "KubeconfigNotOfThisCluster",
        "the Secret with the kubeconfig was not created for this cluster, so it is not copied",
    ),
    _person(
        "ClusterAPIObjectsMissing",
        "the Cluster API objects of an existing cluster are gone; restore them, or remove the annotation that the "
        "message names, which creates a new cluster",
    ),
    _person(
        "ClusterAPIObjectDeleted",
        "a Cluster API object that the control plane needs was deleted; the message says what to do",
    ),
    _person(
        "ControlPlaneLost",
        "the KubeadmControlPlane was deleted, and etcd with it; delete and recreate the Cluster",
    ),
    _person(
        "ClusterCertificatesMissing",
        "a Secret with a certificate authority or key of the cluster is gone; the message says which, and what to do",
    ),
    _person(
        "ControlPlaneBroken",
        "the API server can't run, because its stored data is gone or damaged (local environment); the message says "
        "which file or Secret, and what to do",
    ),
    # The CNI.
    _time("DefaultCNIInstallationInProgress", "the CNI is being installed or reinstalled", limit=_WORKLOAD),
    _time("DefaultCNIUpgradeInProgress", "the CNI is being upgraded in the workload cluster", limit=_WORKLOAD),
    _lasting("SkipUpgradesForDefaultCNIConfigured", "the CNI was installed and is not upgraded, as skipUpgrade asks"),
    _person("DefaultCNIMissing", "the CNI was deleted from the workload cluster; the message says how to restore it"),
    _person("DefaultCNIRefused", "the workload cluster rejected the CNI; see the message"),
    _time(
        "WorkloadClusterUnreachable",
        "the API server of the workload cluster does not answer",
        CLUSTER,
        GROUP,
        NODE,
        limit=Limit(
            900, "see that its control plane machines run, and that the manager reaches the endpoint in the kubeconfig"
        ),
    ),
    _time(
        "WaitingForKubeconfig",
        "Cluster API has not created the kubeconfig yet",
        limit=Limit(
            300,
            "the control plane's conditions and the log of its Cluster API controller say why; a Secret "
            "NAME-kubeconfig without label cluster.x-k8s.io/cluster-name is not seen",
        ),
    ),
    # Objects of the provider in the workload cluster.
    _time(
        "WorkloadObjectsInstallationInProgress", "the provider's objects are being applied or compared", limit=_WORKLOAD
    ),
    _person("WorkloadObjectsRefused", "the workload cluster rejects an object of the provider; see the message"),
    # Machines.
    _time(
        "ControlPlaneInitializationInProgress", "the first control plane machine is not available yet", limit=_MACHINES
    ),
    _time(
        "ControlPlaneNotInitialized",
        "workers join once the control plane is available",
        unlimited="condition ControlPlaneInitialized has the limit",
    ),
    _time("ControlPlaneNotReady", "the control plane is not available yet", limit=_MACHINES),
    _time(
        "ControlPlaneComponentsUnhealthy",
        "a component of the control plane is not healthy",
        limit=Limit(
            900,
            "the conditions of the KubeadmControlPlane and its Machines name the component; the log of its "
            "static pod on the machine has the cause",
        ),
    ),
    _time("OutdatedInformation", "Cluster API has not observed the last change yet", limit=_CLUSTER_API),
    _time("RollingUpgradeInProgress", "machines are being replaced", limit=_MACHINES),
    _time("ScalingUp", "machines are being added", limit=_MACHINES),
    _time("ScalingDown", "machines are being removed", limit=_MACHINES),
    _time("NodesNotReady", "nodes are not ready", limit=_MACHINES),
    _time("ExternalEtcdNotAvailable", "external etcd is not ready yet", limit=_MACHINES),
    _person(
        "RequiresEKSAnywhereClusterAPI",
        "the Cluster needs EKS Anywhere's build of Cluster API; stock Cluster API is installed",
    ),
    _time(
        "AutoscalerConstraintNotMet",
        "a group has fewer or more machines than its autoscalingConfiguration allows; the autoscaler will scale it",
        limit=Limit(1800, "the log of the cluster autoscaler says why it does not scale the group; see that it runs"),
    ),
    _person("ClusterAPIPaused", "a Cluster API object that has to change is paused; the message says which"),
    _person(
        "LabelsChanged",
        "a label by which Machines or MachineSets are found differs from their spec or owner; the message has the "
        "label and its value: set it back",
        CLUSTER,
        GROUP,
        NODE,
    ),
    _person(
        "ReplicasChanged",
        "somebody scaled a Cluster API object; the drift annotation restores the number of machines",
    ),
    _person(
        "RemediationStopped",
        "machines were replaced several times without becoming healthy; the message says how to resume",
    ),
    # In-place upgrades, as the Cluster reports them.
    _time(
        "InPlaceUpgradeInProgress",
        "machines are upgraded in place",
        limit=Limit(1800, "`espalier upgrades list` shows the upgrades and what each waits for"),
    ),
    _person("InPlaceUpgradeRefused", "the change can't be made in place; the message says what to do"),
    _person("InPlaceUpgradeFailed", "an in-place upgrade failed; the message has the machine and what to do"),
    _person(
        "TooFewMachinesForHooks",
        "Cluster API would add a machine before it calls the hooks; run the manager with --in-place annotations, or "
        "set upgradeRolloutStrategy.fallback",
    ),
    _time(
        "RuntimeHooksNotDiscovered",
        "Cluster API has not discovered the runtime hooks yet",
        limit=Limit(300, "the conditions of the ExtensionConfig and the log of Cluster API's core controller say why"),
    ),
    # General.
    _time(
        "Settling",
        "a change was requested, and more of it may follow; it begins when the Cluster and the objects that it names "
        "have not changed for the manager's --settle-time",
        unlimited="it ends with the settle time after the last edit",
    ),
    _time(
        "ChangeBeingWritten",
        "`espalier upgrade cluster` is writing a change under a pause; if it was ended, run it again, or remove the "
        "annotation that the message names",
        limit=Limit(600, "the command may have been ended: run it again, or remove the annotation"),
    ),
    _time("ReleaseChosen", "the Cluster inherited the release of the management cluster", unlimited=_LOGGED),
    _time("WaitingForGateKey", "the manager is creating its key for digests of credentials", limit=_MANAGER),
    _time(
        "DriftNotCorrected",
        "some drift could not be corrected and is retried; condition Synced says why",
        unlimited="condition Synced has the error, and each retry reports it again",
    ),
    _time("Deleting", "the objects of the cluster or upgrade are being deleted", CLUSTER, GROUP, limit=_MACHINES),
    _person("Paused", "paused by an annotation; remove it to resume", CLUSTER, GROUP),
    _person(
        "TooManyWrites",
        "another client keeps reverting an object; its managedFields show which",
        CLUSTER,
        GROUP,
        NODE,
    ),
    # Synced.
    _person(
        "Drifted",
        "objects differ from what is rendered; the message has the fields, and the annotation that corrects them",
    ),
    _time(
        "BeingChanged",
        "the last change is in progress",
        unlimited="condition Ready has the limit of what the change waits for",
    ),
    _time(
        "NotYetCompared",
        "the workload cluster has not been compared yet",
        limit=Limit(
            3600, "see that the API server of the workload cluster answers; the manager's log has the last error"
        ),
    ),
    _person("NotComparable", "the cluster can't be rendered; the message says what is missing"),
    _lasting("NotManagedHere", "the machines of the management cluster are managed elsewhere"),
    # In-place upgrades of a group of machines.
    _time(
        "CacheNotSynced",
        "the manager reads the objects of the cluster; if that lasts, its log has `watch interrupted` with the kind",
        GROUP,
        NODE,
        limit=_MANAGER,
    ),
    _person("OwnerNotFound", "the referenced KubeadmControlPlane or MachineDeployment does not exist", GROUP),
    _time("OwnerDeleted", "the KubeadmControlPlane or MachineDeployment is being deleted", GROUP, limit=_OWNER),
    _person(
        "OwnerNotPaused",
        "Cluster API would replace the machines, because the owner is not paused; set annotation "
        "cluster.x-k8s.io/paused on it",
        GROUP,
    ),
    _person("MachineOfAnotherOwner", "a referenced machine belongs to another owner", GROUP),
    _person("NodeUpgradeTaken", "a NodeUpgrade of that name exists and belongs to somebody else; delete it", GROUP),
    _person("SpecDataInvalid", "the spec data of the upgrade can't be decoded", GROUP, NODE),
    _person("KubeadmConfigInvalid", "kubeadm's ConfigMap in the workload cluster is missing or can't be read", NODE),
    _person("SpecDataDiffers", "the upgrade's spec data differs from the owner's spec; create another upgrade", GROUP),
    _person("VersionDiffers", "the owner's version differs; machines would be replaced afterwards", GROUP),
    _change("VersionRefused", "kubeadm does not support an upgrade between these versions", GROUP, NODE),
    _change("ExternalEtcd", "control planes with external etcd are not upgraded in place", GROUP, NODE),
    _change(
        "RolloutInProgress",
        "a rollout of the group is in progress, and can't finish while the group is paused",
        GROUP,
        NODE,
    ),
    _change(
        "FieldsNotChangeableInPlace",
        "the message has the fields that can't be changed in place: revert them, or let the machines be replaced; the "
        "Cluster reports `InPlaceUpgradeRefused`",
        GROUP,
    ),
    _change("RolloutRequired", "machines would be replaced afterwards, because of the fields in the message", GROUP),
    _time(
        "ControlPlaneUnhealthy",
        "the control plane can't spare a member now",
        GROUP,
        NODE,
        limit=Limit(900, "repair what the message names: the upgrade goes on by itself"),
    ),
    _time(
        "ControlPlaneFirst",
        "workers wait for the control plane",
        GROUP,
        limit=Limit(3600, "see what the upgrade of the control plane waits for: `espalier upgrades list`"),
    ),
    _time(
        "MaxUnavailableReached",
        "maxUnavailable allows no more unavailable nodes",
        GROUP,
        limit=Limit(1800, "bring the nodes that the message names back, or raise maxUnavailable of the group"),
    ),
    _time(
        "ReplacingMachine",
        "Cluster API replaces a lost control plane machine, then the upgrade resumes",
        GROUP,
        limit=_OWNER,
    ),
    _person("KubeadmConfigMissing", "a machine's KubeadmConfig was deleted; restore it, or replace the machine", GROUP),
    _person(
        "OwnerPaused",
        "a machine is lost; Cluster API replaces it once its owner is not paused",
        GROUP,
    ),
    _time("OwnerEdited", "the owner was edited; the next upgrade applies its new spec", GROUP, limit=_UPGRADE),
    _time("Upgrading", "the upgrade is in progress; the message counts the nodes", GROUP, limit=_UPGRADE),
    _time(
        "UpgradingNodes",
        "nodes are upgraded: those of a control plane one at a time, workers as maxUnavailable allows",
        GROUP,
        limit=_UPGRADE,
    ),
    _time("UpgradeCreated", "an in-place upgrade was created", LOG, unlimited=_LOGGED),
    _time(
        "NodeUpgradeInProgress",
        "a node is being upgraded; its result is recorded before the next change",
        LOG,
        unlimited=_LOGGED,
    ),
    _person("KubeconfigMissing", "the Secret with the kubeconfig was deleted; restore it from a copy", GROUP, NODE),
    _person(
        "NodeUpgradeNotCompleted",
        "a NodeUpgrade is completed, but its node has another version; delete it",
        GROUP,
    ),
    _time("UpgradeDeleting", "the finished in-place upgrade is being deleted", LOG, unlimited=_LOGGED),
    # In-place upgrades of a node.
    _time("NodeUpgradePending", "the NodeUpgrade has not been reconciled yet", GROUP, NODE, limit=_MANAGER),
    _person("MachineNotFound", "the referenced machine does not exist, or was replaced", GROUP, NODE),
    _time(
        "ControlPlaneTaken",
        "another node of the control plane is being upgraded",
        NODE,
        limit=Limit(3600, "see what the other NodeUpgrade waits for, or delete it"),
    ),
    _time("MachineDeleted", "the machine is being deleted", NODE, limit=_OWNER),
    _change("WrongNodeType", "nodeType does not match the role of the machine", NODE),
    _person("NodeMissing", "the machine has no node, or its node is gone", NODE),
    _time(
        "NodeTaken",
        "another NodeUpgrade is upgrading the node",
        NODE,
        limit=Limit(3600, "see what the other NodeUpgrade waits for, or delete it"),
    ),
    _time(
        "NodeNotReady",
        "the node is not ready",
        NODE,
        limit=Limit(
            900, "the node's conditions and the log of its kubelet have the cause; the upgrade goes on by itself"
        ),
    ),
    _time(
        "NodeOutdated",
        "the kubelet has not reported its new version yet",
        NODE,
        limit=Limit(600, "the log of the kubelet on the node says why it does not start with the new version"),
    ),
    _time(
        "WaitingForUncordon",
        "the node is not reported as uncordoned yet",
        NODE,
        limit=Limit(600, "`kubectl uncordon` of the node in the workload cluster does the same"),
    ),
    _person(
        "UpgraderImageInvalid",
        "the value for the version in ConfigMap in-place-upgrade is not an image reference",
        NODE,
    ),
    _person("UpgraderImageMissing", "ConfigMap in-place-upgrade has no image for the version", NODE),
    _time("PodCreated", "the upgrader pod was created", NODE, limit=_UPGRADE),
    _time("Waiting", "the upgrader pod does not exist yet", NODE, limit=_UPGRADE),
    _time("Retrying", "the upgrader pod is being recreated", NODE, limit=_UPGRADE),
    _time("UpgraderPodRunning", "deletion waits for the upgrader pod to end", NODE, limit=_UPGRADE),
    _person("PodRefused", "Pod Security of the workload cluster rejects the upgrader pod; label its namespace", NODE),
    _person("PodNotStarting", "the upgrader pod can't start, usually because of its image", NODE),
    _person("PodFailed", "the upgrader pod failed; fix the cause and retry", NODE),
    *(_time(name, meaning, NODE, limit=_UPGRADE) for name, meaning in STEPS.items()),
    *(_person(f"{name}Failed", f"failed: {meaning}; fix the cause and retry", NODE) for name, meaning in STEPS.items()),
)

BY_NAME = {reason.name: reason for reason in REASONS}


def waiting_for_people(kind: str) -> frozenset[str]:
    """Reasons of a kind that need somebody to act."""
    return frozenset(
        reason.name for reason in REASONS if reason.remedy in (Remedy.PERSON, Remedy.CHANGE) and kind in reason.kinds
    )


def remedy_of(reason: str) -> Remedy:
    """The remedy for a reason; time for reasons that are not ours, like those of API servers."""
    known = BY_NAME.get(reason)
    return known.remedy if known else Remedy.TIME


def limit_of(reason: str) -> Limit | None:
    """The limit of a reason that ends by itself; None for others, and for those that are not ours."""
    known = BY_NAME.get(reason)
    return known.limit if known else None
