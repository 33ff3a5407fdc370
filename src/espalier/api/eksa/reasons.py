"""Reasons of conditions that are not True, of clusters and upgrades in place. One table.

A row says which kinds give a reason, whether time helps, and what it means. `status.failureReason` follows from it,
and when a command stops waiting. `make pages` writes `docs/reference/conditions.md`.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

CLUSTER = "Cluster"
GROUP = "ControlPlaneUpgrade, MachineDeploymentUpgrade"
NODE = "NodeUpgrade"


class Helps(Enum):
    """The condition for progress."""

    TIME = "time"
    PERSON = "somebody acts"
    CHANGE = "something else is asked for"


class Reason(NamedTuple):
    """A reason, as it stands in conditions, and what is known of it."""

    name: str
    helps: Helps
    meaning: str
    kinds: tuple[str, ...] = (CLUSTER,)


def _person(name: str, meaning: str, *kinds: str) -> Reason:
    return Reason(name, Helps.PERSON, meaning, kinds or (CLUSTER,))


def _change(name: str, meaning: str, *kinds: str) -> Reason:
    return Reason(name, Helps.CHANGE, meaning, kinds)


def _time(name: str, meaning: str, *kinds: str) -> Reason:
    return Reason(name, Helps.TIME, meaning, kinds or (CLUSTER,))


STEPS = {
    "CopyingComponents": "the components are copied to the node",
    "UpgradingContainerd": "containerd is upgraded",
    "UpgradingCNIPlugins": "the CNI plugins are upgraded",
    "UpgradingKubeadm": "kubeadm is upgraded, and runs on the node",
    "DrainingNode": "the node is drained",
    "UpgradingKubelet": "kubelet and kubectl are upgraded",
    "UncordoningNode": "the node is uncordoned",
    "CleaningUp": "the node is cleaned up",
}
"""The steps by which a node is upgraded in place. A failed one has `Failed` appended."""

REASONS: tuple[Reason, ...] = (
    # What is asked for can't be made.
    _person("ClusterInvalid", "the spec is invalid; the message names field, value and what is allowed"),
    _person(
        "CredentialsNotPermitted", "a Secret with credentials is missing, or its annotations do not permit the use"
    ),
    _person("MissingDependentObjects", "an object that the spec names does not exist; create it"),
    _person("DatacenterConfigInvalid", "the provider lacks what the datacenter config names; its status says what"),
    _person("MachineConfigInvalid", "the provider lacks what a machine config names; its status says what"),
    _person(
        "ControlPlaneAddressTaken",
        "another cluster, or a machine that is not the cluster's, has the address of its control plane",
    ),
    _person(
        "MachineAddressesTaken", "machines of another cluster get some of the addresses that machines of this one would"
    ),
    _person("NotEnoughHardware", "machine configs select less free Hardware than the machines that are asked for need"),
    _time("LinkedObjectsNotChecked", "the provider has not checked the linked objects yet"),
    _time(
        "ValuesNotResolved",
        "the provider has not found out yet what an object that the spec names stands for; its status says why",
    ),
    _person("ManagementClusterRefInvalid", "spec.managementCluster does not name the management cluster"),
    _person("EksaVersionInvalid", "spec.eksaVersion is missing or unknown; the message lists the known releases"),
    _person(
        "BundleNotFoundForCluster", "the Bundles of the release do not exist; apply them, or choose another release"
    ),
    _person("EksdReleaseInvalid", "the EKS Distro Release that the Bundles reference is missing or invalid"),
    _person(
        "ReleaseReplaced",
        "an object of the release has other content now; restore the original, or choose another release",
    ),
    _person("ManagesClusters", "the management cluster can't be deleted while it manages clusters; delete those first"),
    _person(
        "ClusterNameTaken",
        "the name, or an object of that name, belongs to another cluster; choose another name, or remove the object",
    ),
    _person("ObjectRefused", "the API server rejected an object; the message has its answer"),
    # The copy of the kubeconfig: condition KubeconfigCopied. Nothing else waits for it.
    _person(
        "KubeconfigSecretTaken",
        "the Secret for the kubeconfig exists and belongs to somebody else; remove or rename it",
    ),
    _person(
        "KubeconfigCopyNotAllowed", "the manager may not write Secrets in the namespace; the message says what to apply"
    ),
    _person(
        "KubeconfigNotOfThisCluster",
        "the Secret with the kubeconfig was not created for this cluster, and is not copied",
    ),
    _person(
        "ClusterAPIObjectsMissing",
        "the Cluster API objects of an existing cluster are gone; restore them, or let the cluster be created again",
    ),
    _person(
        "ClusterAPIObjectDeleted",
        "a Cluster API object that the control plane needs was deleted; the message says what to do",
    ),
    _person(
        "ControlPlaneLost",
        "the KubeadmControlPlane was deleted, and etcd with it; delete the Cluster and create it again",
    ),
    _person(
        "ClusterCertificatesMissing",
        "a Secret with a certificate authority or key of the cluster is gone; the message says which, and what helps",
    ),
    _person(
        "ControlPlaneBroken",
        "the API server can't be run, for what it stored is gone or damaged (local environment); the message says "
        "which file or Secret, and what helps",
    ),
    # The CNI.
    _time("DefaultCNIInstallationInProgress", "the CNI is being installed, or installed again"),
    _time("DefaultCNIUpgradeInProgress", "the CNI is being upgraded in the workload cluster"),
    _time("SkipUpgradesForDefaultCNIConfigured", "the CNI was installed and is not upgraded (skipUpgrade)"),
    _person("DefaultCNIMissing", "the CNI was deleted from the workload cluster; the message says how to restore it"),
    _person("DefaultCNIRefused", "the workload cluster rejected the CNI; the message has its answer"),
    _time("WorkloadClusterUnreachable", "the API server of the workload cluster does not answer", CLUSTER, GROUP, NODE),
    _time("WaitingForKubeconfig", "Cluster API has not created the kubeconfig yet"),
    # What the provider has in the workload cluster.
    _time("WorkloadObjectsInstallationInProgress", "objects of the provider are being installed or compared there"),
    _person("WorkloadObjectsRefused", "the workload cluster refuses an object of the provider; the message says why"),
    # Machines.
    _time("ControlPlaneInitializationInProgress", "the first control plane machine is not available yet"),
    _time("ControlPlaneNotInitialized", "workers join once the control plane is available"),
    _time("ControlPlaneNotReady", "the control plane is not available yet"),
    _time("ControlPlaneComponentsUnhealthy", "a component of the control plane is not healthy"),
    _time("OutdatedInformation", "Cluster API has not observed the last change yet"),
    _time("RollingUpgradeInProgress", "machines are being replaced"),
    _time("ScalingUp", "machines are being added"),
    _time("ScalingDown", "machines are being removed"),
    _time("NodesNotReady", "nodes are not ready"),
    _time("ExternalEtcdNotAvailable", "etcd on machines of its own is not ready yet"),
    _person(
        "RequiresEKSAnywhereClusterAPI",
        "the Cluster asks for what EKS Anywhere's build of Cluster API alone does; stock Cluster API is installed",
    ),
    _time(
        "AutoscalerConstraintNotMet",
        "a group has fewer or more machines than its autoscalingConfiguration allows, until the autoscaler changes it",
    ),
    _person("ClusterAPIPaused", "a Cluster API object that has to change is paused; the message says which"),
    _person(
        "ReplicasChanged",
        "somebody scaled a Cluster API object; the drift annotation restores the number of machines",
    ),
    _person(
        "RemediationStopped",
        "machines were replaced several times without becoming healthy; the message says how to resume",
    ),
    # Upgrades in place, as the Cluster tells of them.
    _time("InPlaceUpgradeInProgress", "machines are upgraded in place"),
    _person("InPlaceUpgradeRefused", "the change can't be made in place; the message says what to do"),
    _person("InPlaceUpgradeFailed", "an upgrade in place failed; the message names the machine, and what to do"),
    _person(
        "TooFewMachinesForHooks",
        "Cluster API would add a machine before it calls the hooks; use another front end or fallback",
    ),
    _time("RuntimeHooksNotDiscovered", "Cluster API has not discovered the runtime hooks yet"),
    # What passes by itself.
    _time("ReleaseChosen", "the Cluster got the release of the management cluster"),
    _time("WaitingForGateKey", "the key for digests of credentials is being created"),
    _time("DriftNotCorrected", "some drift could not be corrected and is retried; condition Synced says why"),
    _time("Deleting", "the objects of the cluster or upgrade are being deleted", CLUSTER, GROUP),
    _person("Paused", "paused by an annotation; remove it to go on", CLUSTER, GROUP),
    _person(
        "TooManyWrites",
        "another writer reverts an object again and again; its managedFields say who",
        CLUSTER,
        GROUP,
        NODE,
    ),
    # Synced.
    _person(
        "Drifted",
        "objects differ from what is rendered; the message names the fields, and the annotation that corrects them",
    ),
    _time("BeingChanged", "the last change is in progress"),
    _time("NotYetCompared", "the workload cluster has not been compared yet"),
    _person("NotComparable", "the cluster can't be rendered; the message says what is missing"),
    _time("NotManagedHere", "the machines of the management cluster are managed elsewhere"),
    # Upgrades in place of a group of machines.
    _time("Reading", "the caches of the cluster are being filled", GROUP, NODE),
    _person("OwnerNotFound", "the referenced KubeadmControlPlane or MachineDeployment does not exist", GROUP),
    _time("OwnerDeleted", "the KubeadmControlPlane or MachineDeployment is being deleted", GROUP),
    _person("OwnerNotPaused", "the owner is not paused, so Cluster API would replace the machines; pause it", GROUP),
    _person("MachineOfOthers", "a referenced machine belongs to another owner", GROUP),
    _person("NodeUpgradeTaken", "a NodeUpgrade of that name exists and belongs to somebody else; remove it", GROUP),
    _person("SpecDataInvalid", "the spec that the upgrade carries can't be read", GROUP, NODE),
    _person("KubeadmConfigInvalid", "kubeadm's ConfigMap in the workload cluster is missing or can't be read", NODE),
    _person("SpecDataDiffers", "the spec that the upgrade carries is not the owner's; create another", GROUP),
    _person("VersionDiffers", "the owner has another version; machines would be replaced afterwards", GROUP),
    _change("VersionRefused", "kubeadm does not support an upgrade between these versions", GROUP, NODE),
    _change("ExternalEtcd", "control planes with external etcd are not upgraded in place", GROUP, NODE),
    _change(
        "RolloutUnderWay",
        "a rollout of the group is in progress, and can't finish while the group is paused",
        GROUP,
        NODE,
    ),
    _change("Refused", "fields differ that can't be changed in place", GROUP),
    _change("WouldRoll", "machines would be replaced afterwards, because of the fields that the message names", GROUP),
    _time("ControlPlaneUnhealthy", "no control plane member can be taken down now", GROUP, NODE),
    _time("ControlPlaneFirst", "workers wait for the control plane", GROUP),
    _time("NodesMissing", "as many nodes are unavailable as maxUnavailable allows", GROUP),
    _time("ReplacingMachine", "Cluster API replaces a lost control plane machine, then the upgrade goes on", GROUP),
    _person("KubeadmConfigMissing", "the KubeadmConfig of a machine was deleted; restore it, or the machine", GROUP),
    _person("OwnerPaused", "a machine is lost, and Cluster API replaces none while its owner is paused", GROUP),
    _time("OwnerEdited", "the owner was edited; the next upgrade is for what it asks for now", GROUP),
    _time("Upgrading", "nodes are upgraded, one after the other", GROUP),
    _time("UpgradingNodes", "nodes are upgraded, one after the other", GROUP),
    _time("UpgradeCreated", "an upgrade in place was created", GROUP),
    _time("NodeUnderWay", "a node is being upgraded; its result is recorded before the next change", GROUP),
    _person("KubeconfigMissing", "the Secret with the kubeconfig was deleted; restore it from its copy", GROUP, NODE),
    _person(
        "NodeUpgradeNotCompleted", "a NodeUpgrade says completed, but its node has another version; delete it", GROUP
    ),
    _time("UpgradeEnds", "the finished upgrade in place is being deleted", GROUP),
    # Upgrades in place of a node.
    _time("NodeUpgradePending", "the NodeUpgrade was not reconciled yet", GROUP, NODE),
    _person("MachineNotFound", "the referenced machine does not exist, or is another one", GROUP, NODE),
    _time("ControlPlaneTaken", "another node of the control plane is being upgraded", NODE),
    _time("MachineDeleted", "the machine is being deleted", NODE),
    _change("WrongNodeType", "nodeType does not match: the machine is, or is not, a control plane member", NODE),
    _person("NodeMissing", "the machine has no node, or the node is gone", NODE),
    _time("NodeTaken", "another NodeUpgrade is working on the node", NODE),
    _time("NodeNotReady", "the node is not ready", NODE),
    _time("NodeOutdated", "the kubelet has not reported its new version yet", NODE),
    _time("NodeCordoned", "the node is not reported as uncordoned yet", NODE),
    _person(
        "UpgraderImageInvalid",
        "the value for the version in ConfigMap in-place-upgrade is not an image reference",
        NODE,
    ),
    _person("UpgraderImageMissing", "ConfigMap in-place-upgrade has no image for the version", NODE),
    _time("PodCreated", "the upgrader pod was created", NODE),
    _time("Waiting", "the upgrader pod does not exist yet", NODE),
    _time("Retrying", "the upgrader pod is created again", NODE),
    _time("StepRuns", "deletion waits for the upgrader pod to end", NODE),
    _person("PodRefused", "Pod Security of the workload cluster refuses the upgrader pod; label its namespace", NODE),
    _person("PodCanNotBegin", "the upgrader pod can't start, mostly because of its image", NODE),
    _person("PodFailed", "the upgrader pod failed; remove the cause and retry", NODE),
    *(_time(name, meaning, NODE) for name, meaning in STEPS.items()),
    *(
        _person(f"{name}Failed", f"failed: {meaning}; remove the cause and retry", NODE)
        for name, meaning in STEPS.items()
    ),
)

BY_NAME = {one.name: one for one in REASONS}


def waiting_for_people(kind: str) -> frozenset[str]:
    """Reasons of a kind that do not pass by themselves."""
    return frozenset(one.name for one in REASONS if one.helps is not Helps.TIME and kind in one.kinds)


def what_helps(reason: str) -> Helps:
    """The remedy for a reason; time for those of others, like API servers."""
    found = BY_NAME.get(reason)
    return found.helps if found else Helps.TIME
