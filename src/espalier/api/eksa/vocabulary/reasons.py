"""Reasons of conditions that are not True, for clusters and in-place upgrades: constants, with their prose.

The prose of a reason has the kinds that report it, the condition for progress, and the meaning. `status.failureReason`,
and when a command stops waiting, follow from it. `make pages` writes `docs/reference/conditions.md` from it.
"""

from __future__ import annotations

from espalier.api.definitions import reference
from espalier.api.definitions.reference import Limit, Prose, Remedy

CLUSTER = "Cluster"
GROUP = "ControlPlaneUpgrade, MachineDeploymentUpgrade"
NODE = "NodeUpgrade"
LOG = "the manager's log alone"


def _person(name: str, meaning: str, *kinds: str) -> Prose:
    return Prose(name, Remedy.PERSON, meaning, kinds or (CLUSTER,))


def _change(name: str, meaning: str, kind: str, *kinds: str) -> Prose:
    return Prose(name, Remedy.CHANGE, meaning, (kind, *kinds))


def _time(name: str, meaning: str, *kinds: str, limit: Limit | None = None, unlimited: str = "") -> Prose:
    return Prose(name, Remedy.TIME, meaning, kinds or (CLUSTER,), limit, unlimited)


def _lasting(name: str, meaning: str) -> Prose:
    """A reason that describes a wanted state: it stays, and holds nothing up."""
    return Prose(name, Remedy.NONE, meaning, (CLUSTER,))


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
    "RenewingCertificates": "kubeadm's certificates on the node are renewed",
}
"""The steps of an in-place upgrade of a node. The reason for a failed step ends in `Failed`."""


def _step(name: str) -> Prose:
    return _time(name, STEPS[name], NODE, limit=_UPGRADE)


def _failed(name: str) -> Prose:
    return _person(f"{name}Failed", f"failed: {STEPS[name]}; fix the cause and retry", NODE)


class Reason(reference.Reason):
    """Of clusters and in-place upgrades."""

    # The spec can't be applied.
    CLUSTER_INVALID = _person(
        "ClusterInvalid", "the spec is invalid; the message has the field, its value and what is allowed"
    )
    CREDENTIALS_NOT_PERMITTED = _person(
        "CredentialsNotPermitted", "a Secret with credentials is missing, or its annotations do not permit this use"
    )
    MISSING_DEPENDENT_OBJECTS = _person(
        "MissingDependentObjects", "an object that the spec names does not exist; create it"
    )
    DEPENDENT_OBJECTS_AWAITED = _time(
        "DependentObjectsAwaited",
        "an object that the spec names does not exist yet; the rest of a manifest has some seconds to come",
        unlimited="it ends with those seconds, and MissingDependentObjects says what to create",
    )
    DATACENTER_CONFIG_INVALID = _person(
        "DatacenterConfigInvalid", "the provider does not have what the datacenter config names; see its status"
    )
    MACHINE_CONFIG_INVALID = _person(
        "MachineConfigInvalid", "the provider does not have what a machine config names; see its status"
    )
    CONTROL_PLANE_ADDRESS_TAKEN = _person(
        "ControlPlaneAddressTaken",
        "another cluster, or a machine outside the cluster, uses the address of its control plane",
    )
    MACHINE_ADDRESSES_TAKEN = _person(
        "MachineAddressesTaken", "machines of another cluster use some of the addresses for machines of this one"
    )
    NOT_ENOUGH_HARDWARE = _person(
        "NotEnoughHardware", "machine configs select too little unused Hardware for the requested machines"
    )
    LINKED_OBJECTS_NOT_CHECKED = _time(
        "LinkedObjectsNotChecked",
        "the provider has not checked the linked objects yet",
        limit=Limit(300, "the conditions of the linked objects say what keeps the provider from checking them"),
    )
    VALUES_NOT_RESOLVED = _time(
        "ValuesNotResolved",
        "a name in a linked object was not looked up yet, or has no match; `status.failureMessage` of the object has "
        "it, and its conditions say whether the infrastructure was reached",
        limit=Limit(300, "the conditions of the linked objects say whether the infrastructure was reached"),
    )
    MANAGEMENT_CLUSTER_REF_INVALID = _person(
        "ManagementClusterRefInvalid", "spec.managementCluster does not name the management cluster"
    )
    EKSA_VERSION_INVALID = _person(
        "EksaVersionInvalid", "spec.eksaVersion is missing or unknown; the message lists the known releases"
    )
    BUNDLE_NOT_FOUND_FOR_CLUSTER = _person(
        "BundleNotFoundForCluster", "the Bundles of the release do not exist; apply them, or choose another release"
    )
    BUNDLES_INVALID = _person("BundlesInvalid", "the Bundles have invalid images; the message names each of them")
    EKSD_RELEASE_INVALID = _person(
        "EksdReleaseInvalid", "the EKS Distro Release that the Bundles reference is missing or invalid"
    )
    RELEASE_REPLACED = _person(
        "ReleaseReplaced",
        "the content of a release object has changed; restore the original, or choose another release",
    )
    MANAGES_CLUSTERS = _person(
        "ManagesClusters", "the management cluster can't be deleted while it manages clusters; delete those first"
    )
    CLUSTER_NAME_TAKEN = _person(
        "ClusterNameTaken",
        "the name, or an object of that name, belongs to another cluster; choose another name, or delete the object",
    )
    NOT_ADOPTED = _person(
        "NotAdopted",
        "EKS Anywhere made the cluster, and it was not taken over: `espalier adopt plan` shows what that would do",
    )
    EKS_ANYWHERE_RUNS = _person(
        "EKSAnywhereRuns",
        "EKS Anywhere's controller runs beside this manager, and both would write the same objects; scale its "
        "Deployment to 0",
    )
    OBJECT_REFUSED = _person("ObjectRefused", "the API server rejected an object; see the message")
    # The copy of the kubeconfig: condition KubeconfigCopied. Nothing else depends on it.
    KUBECONFIG_SECRET_TAKEN = _person(
        "KubeconfigSecretTaken",
        "the Secret for the kubeconfig exists and belongs to somebody else; delete or rename it",
    )
    KUBECONFIG_COPY_NOT_ALLOWED = _person(
        "KubeconfigCopyNotAllowed",
        "RBAC does not let the manager write Secrets in the namespace; apply what the message says",
    )
    KUBECONFIG_NOT_OF_THIS_CLUSTER = _person(
        "KubeconfigNotOfThisCluster",
        "the Secret with the kubeconfig was not created for this cluster, so it is not copied",
    )
    # Certificates of machines: condition CertificatesValid. Nothing else depends on it.
    CERTIFICATES_EXPIRE_SOON = _person(
        "CertificatesExpireSoon",
        "certificates of machines of the control plane, or of etcd, end within 90 days; renew them by `espalier renew "
        "certificates`, or by an upgrade",
    )
    CERTIFICATES_EXPIRED = _person(
        "CertificatesExpired",
        "certificates of control plane machines have ended, so their API servers and etcd members may be refused; "
        "renew them on the machines, by `kubeadm certs renew all`; those of an external etcd by etcdadm",
    )
    CLUSTER_API_OBJECTS_MISSING = _person(
        "ClusterAPIObjectsMissing",
        "the Cluster API objects of an existing cluster are gone; restore them, or remove the annotation that the "
        "message names, which creates a new cluster",
    )
    CLUSTER_API_OBJECT_DELETED = _person(
        "ClusterAPIObjectDeleted",
        "a Cluster API object that the control plane needs was deleted; the message says what to do",
    )
    CONTROL_PLANE_LOST = _person(
        "ControlPlaneLost",
        "the KubeadmControlPlane was deleted, and etcd with it; delete and recreate the Cluster",
    )
    CLUSTER_CERTIFICATES_MISSING = _person(
        "ClusterCertificatesMissing",
        "a Secret with a certificate authority or key of the cluster is gone; the message says which, and what to do",
    )
    CONTROL_PLANE_BROKEN = _person(
        "ControlPlaneBroken",
        "the API server can't run, because its stored data is gone or damaged (local environment); the message says "
        "which file or Secret, and what to do",
    )
    # The CNI.
    DEFAULT_CNI_INSTALLATION_IN_PROGRESS = _time(
        "DefaultCNIInstallationInProgress", "the CNI is being installed or reinstalled", limit=_WORKLOAD
    )
    DEFAULT_CNI_UPGRADE_IN_PROGRESS = _time(
        "DefaultCNIUpgradeInProgress", "the CNI is being upgraded in the workload cluster", limit=_WORKLOAD
    )
    SKIP_UPGRADES_FOR_DEFAULT_CNI_CONFIGURED = _lasting(
        "SkipUpgradesForDefaultCNIConfigured", "the CNI was installed and is not upgraded, as skipUpgrade asks"
    )
    DEFAULT_CNI_MISSING = _person(
        "DefaultCNIMissing", "the CNI was deleted from the workload cluster; the message says how to restore it"
    )
    DEFAULT_CNI_REFUSED = _person("DefaultCNIRefused", "the workload cluster rejected the CNI; see the message")
    WORKLOAD_CLUSTER_UNREACHABLE = _time(
        "WorkloadClusterUnreachable",
        "the API server of the workload cluster does not answer",
        CLUSTER,
        GROUP,
        NODE,
        limit=Limit(
            900, "see that its control plane machines run, and that the manager reaches the endpoint in the kubeconfig"
        ),
    )
    WAITING_FOR_KUBECONFIG = _time(
        "WaitingForKubeconfig",
        "Cluster API has not created the kubeconfig yet",
        limit=Limit(
            300,
            "the control plane's conditions and the log of its Cluster API controller say why; a Secret "
            "NAME-kubeconfig without label cluster.x-k8s.io/cluster-name is not seen",
        ),
    )
    # Objects of the provider in the workload cluster.
    WORKLOAD_OBJECTS_INSTALLATION_IN_PROGRESS = _time(
        "WorkloadObjectsInstallationInProgress", "the provider's objects are being applied or compared", limit=_WORKLOAD
    )
    WORKLOAD_OBJECTS_REFUSED = _person(
        "WorkloadObjectsRefused", "the workload cluster rejects an object of the provider; see the message"
    )
    # Machines.
    CONTROL_PLANE_INITIALIZATION_IN_PROGRESS = _time(
        "ControlPlaneInitializationInProgress", "the first control plane machine is not available yet", limit=_MACHINES
    )
    CONTROL_PLANE_NOT_INITIALIZED = _time(
        "ControlPlaneNotInitialized",
        "workers join once the control plane is available",
        unlimited="condition ControlPlaneInitialized has the limit",
    )
    CONTROL_PLANE_NOT_READY = _time("ControlPlaneNotReady", "the control plane is not available yet", limit=_MACHINES)
    CONTROL_PLANE_COMPONENTS_UNHEALTHY = _time(
        "ControlPlaneComponentsUnhealthy",
        "a component of the control plane is not healthy",
        limit=Limit(
            900,
            "the conditions of the KubeadmControlPlane and its Machines name the component; the log of its "
            "static pod on the machine has the cause",
        ),
    )
    OUTDATED_INFORMATION = _time(
        "OutdatedInformation", "Cluster API has not observed the last change yet", limit=_CLUSTER_API
    )
    ROLLING_UPGRADE_IN_PROGRESS = _time("RollingUpgradeInProgress", "machines are being replaced", limit=_MACHINES)
    SCALING_UP = _time("ScalingUp", "machines are being added", limit=_MACHINES)
    SCALING_DOWN = _time("ScalingDown", "machines are being removed", limit=_MACHINES)
    NODES_NOT_READY = _time("NodesNotReady", "nodes are not ready", limit=_MACHINES)
    EXTERNAL_ETCD_NOT_AVAILABLE = _time("ExternalEtcdNotAvailable", "external etcd is not ready yet", limit=_MACHINES)
    REQUIRES_EKS_ANYWHERE_CLUSTER_API = _person(
        "RequiresEKSAnywhereClusterAPI",
        "the Cluster needs EKS Anywhere's build of Cluster API; stock Cluster API is installed",
    )
    CLUSTER_API_VERSION_NOT_SUPPORTED = _person(
        "ClusterAPIVersionNotSupported",
        "the installed Cluster API is of a version with which this manager begins no new cluster; the message has the "
        "versions that are allowed. Existing clusters go on",
    )
    AUTOSCALER_CONSTRAINT_NOT_MET = _time(
        "AutoscalerConstraintNotMet",
        "a group has fewer or more machines than its autoscalingConfiguration allows; the autoscaler will scale it",
        limit=Limit(1800, "the log of the cluster autoscaler says why it does not scale the group; see that it runs"),
    )
    CLUSTER_API_PAUSED = _person(
        "ClusterAPIPaused", "a Cluster API object that has to change is paused; the message says which"
    )
    LABELS_CHANGED = _person(
        "LabelsChanged",
        "a label by which Machines or MachineSets are found differs from their spec or owner; the message has the "
        "label and its value: set it back",
        CLUSTER,
        GROUP,
        NODE,
    )
    REPLICAS_CHANGED = _person(
        "ReplicasChanged",
        "somebody scaled a Cluster API object; the drift annotation restores the number of machines",
    )
    REMEDIATION_STOPPED = _person(
        "RemediationStopped",
        "machines were replaced several times without becoming healthy; the message says how to resume",
    )
    # In-place upgrades, as the Cluster reports them.
    IN_PLACE_UPGRADE_IN_PROGRESS = _time(
        "InPlaceUpgradeInProgress",
        "machines are upgraded in place",
        limit=Limit(1800, "`espalier upgrades list` shows the upgrades and what each waits for"),
    )
    IN_PLACE_UPGRADE_REFUSED = _person(
        "InPlaceUpgradeRefused", "the change can't be made in place; the message says what to do"
    )
    ETCD_SETTINGS_REMOVED = _person(
        "EtcdSettingsRemoved",
        "the etcd of the new release does not take a setting that somebody made in the KubeadmControlPlane; the "
        "message has its name and place",
    )
    ETCD_UPGRADE_REFUSED = _person(
        "EtcdUpgradeRefused",
        "the etcd that runs can't become that of the release in one step; the message has both versions, and what is "
        "allowed",
    )
    IN_PLACE_UPGRADE_FAILED = _person(
        "InPlaceUpgradeFailed", "an in-place upgrade failed; the message has the machine and what to do"
    )
    TOO_FEW_MACHINES_FOR_HOOKS = _person(
        "TooFewMachinesForHooks",
        "Cluster API would add a machine before it calls the hooks; run the manager with --in-place annotations, or "
        "set upgradeRolloutStrategy.fallback",
    )
    RUNTIME_HOOKS_NOT_DISCOVERED = _time(
        "RuntimeHooksNotDiscovered",
        "Cluster API has not discovered the runtime hooks yet",
        limit=Limit(300, "the conditions of the ExtensionConfig and the log of Cluster API's core controller say why"),
    )
    # General.
    SETTLING = _time(
        "Settling",
        "a change was requested, and more of it may follow; it begins when the Cluster and the objects that it names "
        "have not changed for the manager's --settle-time",
        unlimited="it ends with the settle time after the last edit",
    )
    CHANGE_BEING_WRITTEN = _time(
        "ChangeBeingWritten",
        "`espalier upgrade cluster` is writing a change under a pause; if it was ended, run it again, or remove the "
        "annotation that the message names",
        limit=Limit(600, "the command may have been ended: run it again, or remove the annotation"),
    )
    RELEASE_CHOSEN = _time(
        "ReleaseChosen", "the Cluster inherited the release of the management cluster", unlimited=_LOGGED
    )
    WAITING_FOR_GATE_KEY = _time(
        "WaitingForGateKey", "the manager is creating its key for digests of credentials", limit=_MANAGER
    )
    DRIFT_NOT_CORRECTED = _time(
        "DriftNotCorrected",
        "some drift could not be corrected and is retried; condition Synced says why",
        unlimited="condition Synced has the error, and each retry reports it again",
    )
    DELETING = _time(
        "Deleting", "the objects of the cluster or upgrade are being deleted", CLUSTER, GROUP, limit=_MACHINES
    )
    CLUSTER_BEING_MOVED = _person(
        "ClusterBeingMoved",
        "`espalier move` copies the cluster to another management cluster; if it was ended, give it again to go on, or "
        "with --back to take the move back",
    )
    CLUSTER_BEING_RESTORED = _person(
        "ClusterBeingRestored",
        "`espalier move --from-folder` writes the objects of the cluster; if it was ended, give it again to go on, or "
        "with --back, too, to delete them",
    )
    CLUSTER_HANDED_OVER = _person(
        "ClusterHandedOver",
        "another management cluster has the cluster; if `espalier move` was ended, give it again: it deletes what is "
        "left. Of a management cluster: it is created or deleted by its bootstrap, and the message names the command",
    )
    MOVE_REFUSED = _person(
        "MoveRefused",
        "`espalier move` can't go on; the message says why. Give it again afterwards, or with --back to take the move "
        "back",
    )
    PAUSED = _person("Paused", "paused by an annotation; remove it to resume", CLUSTER, GROUP)
    TOO_MANY_WRITES = _person(
        "TooManyWrites",
        "another client keeps reverting an object; its managedFields show which",
        CLUSTER,
        GROUP,
        NODE,
    )
    # Synced.
    DRIFTED = _person(
        "Drifted",
        "objects differ from what is rendered; the message has the fields, and the annotation that corrects them",
    )
    BEING_CHANGED = _time(
        "BeingChanged",
        "the last change is in progress",
        unlimited="condition Ready has the limit of what the change waits for",
    )
    NOT_YET_COMPARED = _time(
        "NotYetCompared",
        "the workload cluster has not been compared yet",
        limit=Limit(
            3600, "see that the API server of the workload cluster answers; the manager's log has the last error"
        ),
    )
    NOT_COMPARABLE = _person("NotComparable", "the cluster can't be rendered; the message says what is missing")
    NOT_MANAGED_HERE = _lasting("NotManagedHere", "the machines of the management cluster are managed elsewhere")
    # In-place upgrades of a group of machines.
    CACHE_NOT_SYNCED = _time(
        "CacheNotSynced",
        "the manager reads the objects of the cluster; if that lasts, its log has `watch interrupted` with the kind",
        GROUP,
        NODE,
        limit=_MANAGER,
    )
    OWNER_MISSING = _person(
        "OwnerMissing", "the referenced KubeadmControlPlane or MachineDeployment does not exist", GROUP
    )
    OWNER_DELETED = _time(
        "OwnerDeleted", "the KubeadmControlPlane or MachineDeployment is being deleted", GROUP, limit=_OWNER
    )
    OWNER_NOT_PAUSED = _person(
        "OwnerNotPaused",
        "Cluster API would replace the machines, because the owner is not paused; set annotation "
        "cluster.x-k8s.io/paused on it",
        GROUP,
    )
    MACHINE_OF_ANOTHER_OWNER = _person("MachineOfAnotherOwner", "a referenced machine belongs to another owner", GROUP)
    NODE_UPGRADE_TAKEN = _person(
        "NodeUpgradeTaken", "a NodeUpgrade of that name exists and belongs to somebody else; delete it", GROUP
    )
    SPEC_DATA_INVALID = _person("SpecDataInvalid", "the spec data of the upgrade can't be decoded", GROUP, NODE)
    KUBEADM_CONFIG_INVALID = _person(
        "KubeadmConfigInvalid", "kubeadm's ConfigMap in the workload cluster is missing or can't be read", NODE
    )
    SPEC_DATA_DIFFERS = _person(
        "SpecDataDiffers", "the upgrade's spec data differs from the owner's spec; create another upgrade", GROUP
    )
    VERSION_DIFFERS = _person(
        "VersionDiffers", "the owner's version differs; machines would be replaced afterwards", GROUP
    )
    VERSION_REFUSED = _change(
        "VersionRefused", "kubeadm does not support an upgrade between these versions", GROUP, NODE
    )
    EXTERNAL_ETCD = _change("ExternalEtcd", "control planes with external etcd are not upgraded in place", GROUP, NODE)
    ROLLOUT_IN_PROGRESS = _change(
        "RolloutInProgress",
        "a rollout of the group is in progress, and can't finish while the group is paused",
        GROUP,
        NODE,
    )
    FIELDS_NOT_CHANGEABLE_IN_PLACE = _change(
        "FieldsNotChangeableInPlace",
        "the message has the fields that can't be changed in place: revert them, or let the machines be replaced; the "
        "Cluster reports `InPlaceUpgradeRefused`",
        GROUP,
    )
    ROLLOUT_REQUIRED = _change(
        "RolloutRequired", "machines would be replaced afterwards, because of the fields in the message", GROUP
    )
    CONTROL_PLANE_UNHEALTHY = _time(
        "ControlPlaneUnhealthy",
        "the control plane can't spare a member now",
        GROUP,
        NODE,
        limit=Limit(900, "repair what the message names: the upgrade goes on by itself"),
    )
    CONTROL_PLANE_FIRST = _time(
        "ControlPlaneFirst",
        "workers wait for the control plane",
        GROUP,
        limit=Limit(3600, "see what the upgrade of the control plane waits for: `espalier upgrades list`"),
    )
    MAX_UNAVAILABLE_REACHED = _time(
        "MaxUnavailableReached",
        "maxUnavailable allows no more unavailable nodes",
        GROUP,
        limit=Limit(1800, "bring the nodes that the message names back, or raise maxUnavailable of the group"),
    )
    REPLACING_MACHINE = _time(
        "ReplacingMachine",
        "Cluster API replaces a lost control plane machine, then the upgrade resumes",
        GROUP,
        limit=_OWNER,
    )
    KUBEADM_CONFIG_MISSING = _person(
        "KubeadmConfigMissing", "a machine's KubeadmConfig was deleted; restore it, or replace the machine", GROUP
    )
    OWNER_PAUSED = _person(
        "OwnerPaused",
        "a machine is lost; Cluster API replaces it once its owner is not paused",
        GROUP,
    )
    OWNER_EDITED = _time(
        "OwnerEdited", "the owner was edited; the next upgrade applies its new spec", GROUP, limit=_UPGRADE
    )
    UPGRADING_NODES = _time(
        "UpgradingNodes",
        "nodes are upgraded: those of a control plane one at a time, workers as maxUnavailable allows; the message "
        "counts them",
        GROUP,
        limit=_UPGRADE,
    )
    UPGRADE_CREATED = _time("UpgradeCreated", "an in-place upgrade was created", LOG, unlimited=_LOGGED)
    NODE_UPGRADE_IN_PROGRESS = _time(
        "NodeUpgradeInProgress",
        "a node is being upgraded; its result is recorded before the next change",
        LOG,
        unlimited=_LOGGED,
    )
    KUBECONFIG_MISSING = _person(
        "KubeconfigMissing", "the Secret with the kubeconfig was deleted; restore it from a copy", GROUP, NODE
    )
    NODE_UPGRADE_NOT_COMPLETED = _time(
        "NodeUpgradeNotCompleted",
        "the status of a NodeUpgrade says that it is completed, but its node or its pod shows otherwise",
        GROUP,
        limit=_UPGRADE,
    )
    FIELDS_UNKNOWN = _person(
        "FieldsUnknown", "the spec has fields of a later release; run the manager of that release", GROUP, NODE
    )
    DEFINITION_OUTDATED = _person(
        "DefinitionOutdated",
        "a CustomResourceDefinition of an earlier release lacks a field, without which an upgrade may ask for less; "
        "install the definitions of the manager's release",
        GROUP,
        NODE,
    )
    UPGRADE_DELETING = _time(
        "UpgradeDeleting", "the finished in-place upgrade is being deleted", LOG, unlimited=_LOGGED
    )
    # In-place upgrades of a node.
    NODE_UPGRADE_PENDING = _time(
        "NodeUpgradePending", "the NodeUpgrade has not been reconciled yet", GROUP, NODE, limit=_MANAGER
    )
    MACHINE_MISSING = _person("MachineMissing", "the referenced machine does not exist, or was replaced", GROUP, NODE)
    CONTROL_PLANE_TAKEN = _time(
        "ControlPlaneTaken",
        "another node of the control plane is being upgraded",
        NODE,
        limit=Limit(3600, "see what the other NodeUpgrade waits for, or delete it"),
    )
    MACHINE_DELETED = _time("MachineDeleted", "the machine is being deleted", NODE, limit=_OWNER)
    WRONG_NODE_TYPE = _change("WrongNodeType", "nodeType does not match the role of the machine", NODE)
    NODE_MISSING = _person("NodeMissing", "the machine has no node, or its node is gone", NODE)
    NODE_TAKEN = _time(
        "NodeTaken",
        "another NodeUpgrade is upgrading the node",
        NODE,
        limit=Limit(3600, "see what the other NodeUpgrade waits for, or delete it"),
    )
    NODE_NOT_READY = _time(
        "NodeNotReady",
        "the node is not ready",
        NODE,
        limit=Limit(
            900, "the node's conditions and the log of its kubelet have the cause; the upgrade goes on by itself"
        ),
    )
    NODE_OUTDATED = _time(
        "NodeOutdated",
        "the kubelet has not reported its new version yet",
        NODE,
        limit=Limit(600, "the log of the kubelet on the node says why it does not start with the new version"),
    )
    WAITING_FOR_UNCORDON = _time(
        "WaitingForUncordon",
        "the node is not reported as uncordoned yet",
        NODE,
        limit=Limit(600, "`kubectl uncordon` of the node in the workload cluster does the same"),
    )
    UPGRADER_IMAGE_INVALID = _person(
        "UpgraderImageInvalid",
        "the value for the version in ConfigMap in-place-upgrade is not an image reference",
        NODE,
    )
    UPGRADER_IMAGE_MISSING = _person(
        "UpgraderImageMissing", "ConfigMap in-place-upgrade has no image for the version", NODE
    )
    POD_CREATED = _time("PodCreated", "the upgrader pod was created", NODE, limit=_UPGRADE)
    WAITING = _time("Waiting", "the upgrader pod does not exist yet", NODE, limit=_UPGRADE)
    RETRYING = _time("Retrying", "the upgrader pod is being recreated", NODE, limit=_UPGRADE)
    UPGRADER_POD_RUNNING = _time(
        "UpgraderPodRunning", "deletion waits for the upgrader pod to end", NODE, limit=_UPGRADE
    )
    POD_REFUSED = _person(
        "PodRefused", "Pod Security of the workload cluster rejects the upgrader pod; label its namespace", NODE
    )
    POD_NOT_STARTING = _person("PodNotStarting", "the upgrader pod can't start, usually because of its image", NODE)
    POD_FAILED = _person("PodFailed", "the upgrader pod failed; fix the cause and retry", NODE)
    COPYING_COMPONENTS = _step("CopyingComponents")
    UPGRADING_CONTAINERD = _step("UpgradingContainerd")
    UPGRADING_CNI_PLUGINS = _step("UpgradingCNIPlugins")
    UPGRADING_KUBEADM = _step("UpgradingKubeadm")
    DRAINING_NODE = _step("DrainingNode")
    UPGRADING_KUBELET = _step("UpgradingKubelet")
    UNCORDONING_NODE = _step("UncordoningNode")
    CLEANING_UP = _step("CleaningUp")
    RENEWING_CERTIFICATES = _step("RenewingCertificates")
    COPYING_COMPONENTS_FAILED = _failed("CopyingComponents")
    UPGRADING_CONTAINERD_FAILED = _failed("UpgradingContainerd")
    UPGRADING_CNI_PLUGINS_FAILED = _failed("UpgradingCNIPlugins")
    UPGRADING_KUBEADM_FAILED = _failed("UpgradingKubeadm")
    DRAINING_NODE_FAILED = _failed("DrainingNode")
    UPGRADING_KUBELET_FAILED = _failed("UpgradingKubelet")
    UNCORDONING_NODE_FAILED = _failed("UncordoningNode")
    CLEANING_UP_FAILED = _failed("CleaningUp")
    RENEWING_CERTIFICATES_FAILED = _failed("RenewingCertificates")


REASONS: tuple[Prose, ...] = tuple(reason.prose for reason in Reason)

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
