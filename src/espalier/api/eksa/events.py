"""The Events that the manager records. One table.

The table also has the reasons of conditions (`reasons.py`) that become Events. `make pages` writes
`docs/reference/events.md` from it, and `tests/conventions` compares them.
"""

from __future__ import annotations

from espalier.api.reference import EventReason


def _normal(name: str, meaning: str, on: str = "Cluster") -> EventReason:
    return EventReason(name, "Normal", on, meaning)


def _warning(name: str, meaning: str, to_do: str, on: str = "Cluster") -> EventReason:
    return EventReason(name, "Warning", on, meaning, to_do)


_UPGRADES = "ControlPlaneUpgrade, MachineDeploymentUpgrade, NodeUpgrade"

EVENTS: tuple[EventReason, ...] = (
    _normal("ReleaseChosen", "the Cluster inherited the release of the management cluster"),
    _normal("CredentialsApplied", "objects with new provider credentials were applied"),
    _normal("ControlPlaneApplied", "the control plane objects in the message were applied"),
    _normal("WorkersApplied", "the objects of worker node groups in the message were applied"),
    _normal("WorkersRemoved", "the objects of worker node groups that are no longer in the spec were deleted"),
    _normal("EtcdApplied", "external etcd was changed; the control plane follows once etcd is ready"),
    _normal("HealthChecksApplied", "MachineHealthChecks were applied"),
    _normal("ExtraObjectsRemoved", "objects of the provider that are no longer rendered were deleted"),
    _normal("WorkloadObjectsInstalled", "the provider's objects were applied to the workload cluster"),
    _normal(
        "WorkloadObjectsRestored", "objects of the provider that had changed in the workload cluster were restored"
    ),
    _normal("TemplatesRemoved", "unused templates were deleted"),
    _normal("ControlPlaneReady", "condition `ControlPlaneReady` became True"),
    _normal("Ready", "condition `Ready` became True"),
    _normal("CNIInstalled", "the CNI was applied to the workload cluster"),
    _normal("CNIRestored", "missing objects of the CNI were applied to the workload cluster again"),
    _normal("DriftCorrected", "the objects and fields in the message were restored"),
    _normal("RemediationResumed", "a paused MachineHealthCheck was resumed, because all machines are healthy"),
    _normal("KubeconfigCopied", "the kubeconfig was copied into the namespace of the Cluster"),
    _normal("DeletionStarted", "the Cluster of Cluster API was deleted"),
    _normal("LeftoversRemoved", "objects left over after the deletion were deleted"),
    _warning("Drifted", "objects differ from what is rendered", "see condition `Synced`"),
    _warning(
        "RemediationStopped",
        "a MachineHealthCheck was paused, because machines were replaced several times without becoming healthy",
        "fix the cause, then do what the message says",
    ),
    _warning(
        "ManagementClusterInvalid",
        "the ConfigMap does not name a Cluster that can be the management cluster",
        "correct the ConfigMap (`docs/management-cluster.md`)",
        on="ConfigMap management-cluster",
    ),
    _warning(
        "FallbackToRollingUpdate",
        "a change can't be made in place, so machines are replaced, as `fallback` allows",
        "nothing, or revert the change",
        on="KubeadmControlPlane, MachineDeployment",
    ),
    _warning(
        "MarkIgnored",
        "an annotation that requests an in-place upgrade was removed, because the manager uses runtime hooks",
        "set `upgradeRolloutStrategy.type` of the Cluster",
        on="KubeadmControlPlane, MachineDeployment",
    ),
    _warning(
        "UpgradeBrokenOff",
        "an in-place upgrade was aborted after kubeadm may have run: the node may be partly upgraded",
        "nothing, the next in-place upgrade completes it; or delete the Machine to replace it",
        on="Machine",
    ),
    _normal("Upgraded", "the in-place upgrade of the machine, or of all machines of the group, is done", on=_UPGRADES),
)
