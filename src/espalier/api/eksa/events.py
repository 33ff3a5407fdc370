"""The Events that the manager records. One table.

An Event whose reason is that of a condition is in `reasons.py`; the table here has the others, and says which of those
become Events. `make pages` writes `docs/reference/events.md` from it, and `tests/conventions` compares them.
"""

from __future__ import annotations

from typing import Literal, NamedTuple


class EventReason(NamedTuple):
    """A reason of Events. `to_do` is empty where nobody has to do anything."""

    name: str
    type: Literal["Normal", "Warning"]
    on: str
    meaning: str
    to_do: str = ""


def _normal(name: str, meaning: str, on: str = "Cluster") -> EventReason:
    return EventReason(name, "Normal", on, meaning)


def _warning(name: str, meaning: str, to_do: str, on: str = "Cluster") -> EventReason:
    return EventReason(name, "Warning", on, meaning, to_do)


_UPGRADES = "ControlPlaneUpgrade, MachineDeploymentUpgrade, NodeUpgrade"

EVENTS: tuple[EventReason, ...] = (
    _normal("ReleaseChosen", "the Cluster named no release and got that of the management cluster"),
    _normal("CredentialsApplied", "objects with new credentials of the provider were written"),
    _normal("ControlPlaneApplied", "the objects of the control plane that the message names were written"),
    _normal("WorkersApplied", "the objects of worker node groups that the message names were written"),
    _normal("WorkersRemoved", "the objects of worker node groups that are no longer asked for were deleted"),
    _normal("EtcdApplied", "external etcd was changed; the control plane follows when it is ready"),
    _normal("HealthChecksApplied", "MachineHealthChecks were written"),
    _normal("ExtraObjectsRemoved", "objects of the provider that are no longer rendered were deleted"),
    _normal("WorkloadObjectsInstalled", "the provider's objects were applied to the workload cluster"),
    _normal(
        "WorkloadObjectsRestored", "objects of the provider that had changed in the workload cluster were restored"
    ),
    _normal("TemplatesRemoved", "templates that nothing uses any more were deleted"),
    _normal("ControlPlaneReady", "condition `ControlPlaneReady` became True"),
    _normal("Ready", "condition `Ready` became True"),
    _normal("CNIInstalled", "the CNI was applied to the workload cluster"),
    _normal("CNIRestored", "what the workload cluster had lost of its CNI was applied again"),
    _normal("DriftCorrected", "the objects and fields that the message names were brought back"),
    _normal("RemediationResumed", "a paused MachineHealthCheck works again, because all machines are healthy"),
    _normal("KubeconfigCopied", "the kubeconfig was copied into the namespace of the Cluster"),
    _normal("DeletionStarted", "the Cluster of Cluster API was deleted"),
    _normal("LeftoversRemoved", "objects that were left after the deletion were deleted"),
    _warning("Drifted", "objects differ from what is rendered", "see condition `Synced`"),
    _warning(
        "RemediationStopped",
        "a MachineHealthCheck was paused, because machines were replaced several times and never got healthy",
        "mend the cause, then do what the message says",
    ),
    _warning(
        "ManagementClusterInvalid",
        "the ConfigMap names no Cluster that can be the management cluster",
        "correct the ConfigMap (`docs/management-cluster.md`)",
        on="ConfigMap management-cluster",
    ),
    _warning(
        "FallbackToRollingUpdate",
        "a change can't be made in place; machines are replaced, as `fallback` asks for",
        "nothing, or take the change back",
        on="KubeadmControlPlane, MachineDeployment",
    ),
    _warning(
        "MarkIgnored",
        "an annotation that asks for an upgrade in place was taken away: the manager does that by runtime hooks",
        "set `upgradeRolloutStrategy.type` of the Cluster",
        on="KubeadmControlPlane, MachineDeployment",
    ),
    _warning(
        "UpgradeBrokenOff",
        "an upgrade in place was given up after kubeadm may have run: the node may have parts of both states",
        "nothing, the next upgrade in place makes it good; or delete the Machine to have it replaced",
        on="Machine",
    ),
    _normal("Upgraded", "the machine, or all machines of the group, are upgraded in place", on=_UPGRADES),
)

BY_NAME = {one.name: one for one in EVENTS}
