"""Reasons of the Events that the manager records: constants, with their prose.

Reasons of conditions (`reasons.py`) become Events as well, some under the same name. `make pages` writes
`docs/reference/events.md` from the prose, and `tests/conventions` compares it with the code.
"""

from __future__ import annotations

from espalier.api.definitions.reference import EventProse, EventReason


def _normal(name: str, meaning: str, on: str = "Cluster") -> EventProse:
    return EventProse(name, "Normal", on, meaning)


def _warning(name: str, meaning: str, to_do: str, on: str = "Cluster") -> EventProse:
    return EventProse(name, "Warning", on, meaning, to_do)


_UPGRADES = "ControlPlaneUpgrade, MachineDeploymentUpgrade, NodeUpgrade"


class Event(EventReason):
    """Of the manager."""

    RELEASE_CHOSEN = _normal("ReleaseChosen", "the Cluster inherited the release of the management cluster")
    CREDENTIALS_APPLIED = _normal("CredentialsApplied", "objects with new provider credentials were applied")
    CONTROL_PLANE_APPLIED = _normal("ControlPlaneApplied", "the control plane objects in the message were applied")
    WORKERS_APPLIED = _normal("WorkersApplied", "the objects of worker node groups in the message were applied")
    WORKERS_REMOVED = _normal(
        "WorkersRemoved", "the objects of worker node groups that are no longer in the spec were deleted"
    )
    ETCD_APPLIED = _normal("EtcdApplied", "external etcd was changed; the control plane follows once etcd is ready")
    HEALTH_CHECKS_APPLIED = _normal("HealthChecksApplied", "MachineHealthChecks were applied")
    EXTRA_OBJECTS_REMOVED = _normal(
        "ExtraObjectsRemoved", "objects of the provider that are no longer rendered were deleted"
    )
    WORKLOAD_OBJECTS_INSTALLED = _normal(
        "WorkloadObjectsInstalled", "the provider's objects were applied to the workload cluster"
    )
    WORKLOAD_OBJECTS_RESTORED = _normal(
        "WorkloadObjectsRestored", "objects of the provider that had changed in the workload cluster were restored"
    )
    TEMPLATES_REMOVED = _normal("TemplatesRemoved", "unused templates were deleted")
    CONTROL_PLANE_READY = _normal("ControlPlaneReady", "condition `ControlPlaneReady` became True")
    READY = _normal("Ready", "condition `Ready` became True")
    CNI_INSTALLED = _normal("CNIInstalled", "the CNI was applied to the workload cluster")
    CNI_RESTORED = _normal("CNIRestored", "missing objects of the CNI were applied to the workload cluster again")
    DRIFT_CORRECTED = _normal("DriftCorrected", "the objects and fields in the message were restored")
    REMEDIATION_RESUMED = _normal(
        "RemediationResumed", "a paused MachineHealthCheck was resumed, because all machines are healthy"
    )
    KUBECONFIG_COPIED = _normal("KubeconfigCopied", "the kubeconfig was copied into the namespace of the Cluster")
    DELETION_STARTED = _normal("DeletionStarted", "the Cluster of Cluster API was deleted")
    LEFTOVERS_REMOVED = _normal("LeftoversRemoved", "objects left over after the deletion were deleted")
    STATUS_UNREADABLE = _warning(
        "StatusUnreadable",
        "fields of the status, which the message names, can't be read, and are written anew",
        "if a manager of another release writes it, too, run one of them",
    )
    DRIFTED = _warning("Drifted", "objects differ from what is rendered", "see condition `Synced`")
    REMEDIATION_STOPPED = _warning(
        "RemediationStopped",
        "a MachineHealthCheck was paused, because machines were replaced several times without becoming healthy",
        "fix the cause, then do what the message says",
    )
    MANAGEMENT_CLUSTER_INVALID = _warning(
        "ManagementClusterInvalid",
        "the ConfigMap does not name a Cluster that can be the management cluster",
        "correct the ConfigMap (`docs/management-cluster.md`)",
        on="ConfigMap management-cluster",
    )
    FALLBACK_TO_ROLLING_UPDATE = _warning(
        "FallbackToRollingUpdate",
        "a change can't be made in place, so machines are replaced, as `fallback` allows",
        "nothing, or revert the change",
        on="KubeadmControlPlane, MachineDeployment",
    )
    MARK_IGNORED = _warning(
        "MarkIgnored",
        "an annotation that requests an in-place upgrade was removed, because the manager uses runtime hooks",
        "set `upgradeRolloutStrategy.type` of the Cluster",
        on="KubeadmControlPlane, MachineDeployment",
    )
    UPGRADE_BROKEN_OFF = _warning(
        "UpgradeBrokenOff",
        "an in-place upgrade was aborted after kubeadm may have run: the node may be partly upgraded",
        "nothing, the next in-place upgrade completes it; or delete the Machine to replace it",
        on="Machine",
    )
    UPGRADED = _normal(
        "Upgraded", "the in-place upgrade of the machine, or of all machines of the group, is done", on=_UPGRADES
    )


EVENTS: tuple[EventProse, ...] = tuple(event.prose for event in Event)
