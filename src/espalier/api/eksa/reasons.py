"""The reasons that conditions give while a cluster, or an upgrade in place, is not as it was asked for. One table.

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
    """What has to happen until it goes on."""

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
    _person("ClusterInvalid", "the spec can't be made; the message names field, value and what is allowed"),
    _person("MissingDependentObjects", "an object that the spec names does not exist; create it"),
    _person("ManagementClusterRefInvalid", "spec.managementCluster names no cluster that manages others"),
    _person(
        "EksaVersionInvalid", "there is no such release, or none was named; the message lists those that are there"
    ),
    _person("BundleNotFoundForCluster", "the Bundles of the release are not there; apply them, or name others"),
    _person("EksdReleaseInvalid", "the EKS Distro release that the Bundles name is missing or unusable"),
    _person(
        "ReleaseReplaced",
        "an object of the release came again with other content; bring the original back, or choose another release",
    ),
    _person("ManagesClusters", "the record of the management cluster stays while it manages clusters; delete those"),
    _person(
        "ClusterNameTaken", "the name, or an object of that name, is another cluster's; choose another, or remove it"
    ),
    _person("ObjectRefused", "the API server refused an object; the message is its answer"),
    # The copy of the kubeconfig: condition KubeconfigCopied. Nothing else waits for it.
    _person(
        "KubeconfigSecretTaken", "the Secret for the kubeconfig exists and is somebody else's; remove or rename it"
    ),
    _person(
        "KubeconfigCopyNotAllowed", "the manager may not write Secrets in the namespace; the message says what to apply"
    ),
    _person("KubeconfigNotOfThisCluster", "the Secret with the kubeconfig was not made for this cluster; it stays"),
    _person(
        "ClusterAPIObjectsMissing",
        "the cluster was made before, and its objects of Cluster API are gone; restore them, or have it made anew",
    ),
    _person(
        "ClusterAPIObjectDeleted",
        "an object of Cluster API that the control plane can't do without was deleted; the message says what helps",
    ),
    _person(
        "ControlPlaneLost",
        "the KubeadmControlPlane was deleted, and etcd goes with it; delete the Cluster and create it again",
    ),
    # The CNI.
    _time("DefaultCNIInstallationInProgress", "the CNI is being installed, or installed again"),
    _time("DefaultCNIUpgradeInProgress", "the CNI is being changed in the workload cluster"),
    _time("SkipUpgradesForDefaultCNIConfigured", "the CNI was installed once and is left alone (skipUpgrade)"),
    _person("DefaultCNIMissing", "the workload cluster has lost its CNI; the message says how to have it back"),
    _person("DefaultCNIRefused", "the workload cluster refuses the CNI; the message is its answer"),
    _time("WorkloadClusterUnreachable", "the API server of the workload cluster gives no answer", CLUSTER, GROUP, NODE),
    _time("WaitingForKubeconfig", "Cluster API has not made the kubeconfig yet"),
    # Machines.
    _time("ControlPlaneInitializationInProgress", "the first control plane machine is not available yet"),
    _time("ControlPlaneNotInitialized", "workers join once the control plane is available"),
    _time("ControlPlaneNotReady", "the control plane is not available yet"),
    _time("ControlPlaneComponentsUnhealthy", "a component of the control plane is not healthy"),
    _time("OutdatedInformation", "Cluster API has not reported since it was last written to"),
    _time("RollingUpgradeInProgress", "machines are being replaced"),
    _time("ScalingUp", "machines are being added"),
    _time("ScalingDown", "machines are being removed"),
    _time("NodesNotReady", "nodes are not ready"),
    _person(
        "ClusterAPIPaused", "somebody paused an object of Cluster API that is to be changed; the message says which"
    ),
    _person(
        "ReplicasChanged",
        "somebody changed the number of machines in an object of Cluster API; the drift annotation brings it back",
    ),
    _person(
        "RemediationStopped",
        "machines were replaced several times and never got healthy; mend the cause, the message says how to go on",
    ),
    # Upgrades in place, as the Cluster tells of them.
    _time("InPlaceUpgradeInProgress", "machines are upgraded in place"),
    _person("InPlaceUpgradeRefused", "the change can't be made in place; the message says what helps"),
    _person(
        "InPlaceUpgradeFailed", "an upgrade in place has failed; the message says of which machine, and what helps"
    ),
    _person("TooFewMachinesForHooks", "Cluster API would add a machine before it asks; use another way or fallback"),
    _time("RuntimeHooksNotDiscovered", "Cluster API does not ask yet whether machines can be upgraded in place"),
    # What passes by itself.
    _time("ReleaseChosen", "the release was taken from the management cluster"),
    _time("WaitingForGateKey", "the key to digests of credentials is being made"),
    _time("DriftNotCorrected", "some of the drift could not be brought back; it is tried again, Synced says why"),
    _time("Deleting", "what was made is being deleted", CLUSTER, GROUP),
    _person("Paused", "an annotation pauses it; remove that", CLUSTER, GROUP),
    _person(
        "TooManyWrites",
        "somebody else changes back what is written, again and again; the object's managedFields say who",
        CLUSTER,
        GROUP,
        NODE,
    ),
    # Synced.
    _person("Drifted", "objects differ from what is rendered; the message names fields, and the annotation that helps"),
    _time("BeingChanged", "what was asked for last is being made"),
    _time("NotYetCompared", "the workload cluster has not been compared yet"),
    _person("NotComparable", "what the cluster should be can't be rendered; the message says what is missing"),
    _time("NotManagedHere", "the machines of the management cluster are not known here"),
    # Upgrades in place of a group of machines.
    _time("Reading", "the objects of the cluster are being read", GROUP, NODE),
    _person("OwnerNotFound", "the control plane or MachineDeployment that is named does not exist", GROUP),
    _time("OwnerDeleted", "the control plane or MachineDeployment is being deleted", GROUP),
    _person("OwnerNotPaused", "Cluster API would replace the machines meanwhile; pause the owner", GROUP),
    _person("MachineOfOthers", "a machine that is named belongs to another owner", GROUP),
    _person("NodeUpgradeTaken", "a NodeUpgrade of the name is there and somebody else's; remove it", GROUP),
    _person("SpecDataInvalid", "the spec that the upgrade carries can't be read", GROUP),
    _person("VersionDiffers", "the owner asks for another version; machines would be replaced afterwards", GROUP),
    _change("VersionRefused", "kubeadm does not upgrade from the one version to the other", GROUP, NODE),
    _change("ExternalEtcd", "control planes with etcd on machines of its own are not upgraded in place", GROUP),
    _change("RolloutUnderWay", "the group is being rolled out, and that does not go on while it is held", GROUP),
    _change("Refused", "fields differ that can't be changed in place", GROUP),
    _change("WouldRoll", "machines would be replaced afterwards, for the fields that the message names", GROUP),
    _time("ControlPlaneUnhealthy", "the control plane can't spare a member now", GROUP),
    _time("ControlPlaneFirst", "workers wait for the control plane", GROUP),
    _time("NodesMissing", "as many nodes are missing as may be", GROUP),
    _time("Upgrading", "nodes are upgraded, one after the other", GROUP),
    _time("UpgradingNodes", "nodes are upgraded, one after the other", GROUP),
    _time("UpgradeCreated", "an upgrade in place was created", GROUP),
    _time("NodeUnderWay", "a node is being upgraded; what it reaches is noted before anything else begins", GROUP),
    _time("UpgradeEnds", "the upgrade in place is being taken away", GROUP),
    # Upgrades in place of a node.
    _time("NodeUpgradePending", "the NodeUpgrade was not reconciled yet", GROUP, NODE),
    _person("MachineNotFound", "the machine that is named does not exist", NODE),
    _time("MachineDeleted", "the machine is being deleted", NODE),
    _change("WrongNodeType", "the machine is no member of the control plane, or is one", NODE),
    _person("NodeMissing", "the machine has no node, or the node is gone", NODE),
    _time("NodeTaken", "another NodeUpgrade is at work on the node", NODE),
    _time("NodeNotReady", "the node is not ready", NODE),
    _time("NodeOutdated", "the kubelet has not reported its new version yet", NODE),
    _time("NodeCordoned", "the node has not been seen to be uncordoned yet", NODE),
    _person("UpgraderImageInvalid", "what ConfigMap in-place-upgrade has for the version is no image", NODE),
    _person("UpgraderImageMissing", "ConfigMap in-place-upgrade names no image for the version", NODE),
    _time("PodCreated", "the upgrader pod was made", NODE),
    _time("Waiting", "the upgrader pod is not there yet", NODE),
    _time("Retrying", "the upgrader pod is made anew", NODE),
    _time("StepRuns", "deletion waits for the upgrader pod to end", NODE),
    _person("PodCanNotBegin", "the upgrader pod can't begin, mostly for its image", NODE),
    _person("PodFailed", "the upgrader pod failed; remove the cause and retry", NODE),
    *(_time(name, meaning, NODE) for name, meaning in STEPS.items()),
    *(
        _person(f"{name}Failed", f"failed: {meaning}; remove the cause and retry", NODE)
        for name, meaning in STEPS.items()
    ),
)

BY_NAME = {one.name: one for one in REASONS}


def waiting_for_people(kind: str) -> frozenset[str]:
    """The reasons of a kind that no time heals."""
    return frozenset(one.name for one in REASONS if one.helps is not Helps.TIME and kind in one.kinds)


def what_helps(reason: str) -> Helps:
    """What has to happen after this reason; time, where it is none of ours: those of API servers pass."""
    found = BY_NAME.get(reason)
    return found.helps if found else Helps.TIME
