"""Progress of in-place upgrades, from Cluster API objects and upgrade objects. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from espalier.api import conditions as condition_list
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.conditions import is_false, is_true
from espalier.api.eksa.upgrades import (
    ACCEPTED,
    LAST_BEFORE_KUBEADM,
    PAUSED_FOR_UPGRADE,
    PROGRESSING,
    ControlPlaneUpgrade,
    ControlPlaneUpgradeSpec,
    MachineDeploymentUpgrade,
    NodeUpgrade,
)
from espalier.api.eksa.upgrades import (
    refused as refused_by_hooks,
)
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.eksa.vocabulary.upgrade_keys import IN_PLACE_CONTROL_PLANE, IN_PLACE_DEPLOYMENT, IN_PLACE_HOOKS
from espalier.api.meta import Condition
from espalier.clusterapi.contract import DEPLOYMENT_NAME_LABEL, PAUSED_ANNOTATION, is_observed, up_to_date_replicas
from espalier.clusters.design.cluster_objects.runtime_hooks import Owner
from espalier.kube.objects import Object
from espalier.runtime.controllers.outcome import Wait


def is_upgrading(live: Owner) -> bool:
    """True if the machines of a control plane or a worker node group are being upgraded in place.

    Also if somebody removed the annotation but not our pause: it is restored while an in-place upgrade is requested.
    """
    annotations = live.metadata.annotations
    return (
        annotations.get(upgrade_annotation(live)) == "true" or annotations.get(PAUSED_ANNOTATION) == PAUSED_FOR_UPGRADE
    )


def is_untouched(upgrades: Sequence[Object], node_upgrades: Sequence[Object]) -> bool:
    """True if no control plane node to upgrade in place has run kubeadm yet, or is about to.

    An upgrader pod that is running may have started kubeadm by the time this is read.
    """
    ours = [
        upgrade.decode(ControlPlaneUpgrade) for upgrade in upgrades if upgrade.kind == ControlPlaneUpgrade.resource.kind
    ]
    decoded = [upgrade.decode(NodeUpgrade) for upgrade in node_upgrades]
    nodes = [node for node in decoded if not node.spec.certificates_only]
    return not any(upgrade.status.upgraded for upgrade in ours) and not any(
        node.is_completed or is_true(conditions, LAST_BEFORE_KUBEADM) or _works(conditions)
        for node in nodes
        if node.spec.node_type == "ControlPlane" and (conditions := node.status.conditions) is not None
    )


def _works(conditions: Sequence[Condition]) -> bool:
    return is_true(conditions, "UpgraderPodCreated") and not is_false(conditions, PROGRESSING)


def progress(live: Owner, upgrades: tuple[Object, ...]) -> Wait | None:
    """The progress of the upgrade of these machines; None when there is none."""
    if not is_upgrading(live):
        return _by_hooks(live, upgrades)
    kind: type[ControlPlaneUpgrade] | type[MachineDeploymentUpgrade] = (
        ControlPlaneUpgrade if isinstance(live, KubeadmControlPlane) else MachineDeploymentUpgrade
    )
    of_others = None
    for upgrade in upgrades:
        if upgrade.kind != kind.resource.kind or _owner_named(upgrade.decode(kind)) != live.metadata.name:
            continue
        conditions = upgrade.decode(kind).status.conditions
        ready = condition_list.get(conditions, "Ready")
        if ready is None:
            continue
        if live.metadata.uid in {owner.uid for owner in upgrade.metadata.owner_references}:
            return Wait(_reason_of(conditions), ready.message)
        if ready.status != "True":
            advice = f"delete {upgrade.kind} {upgrade.name} to have the manager create its own"
            message = f"{upgrade.kind} {upgrade.key}, which this manager did not create: {ready.message} ({advice})"
            of_others = Wait(_reason_of(conditions), message)
    if of_others is not None:
        return of_others
    # Both before the upgrade is made and after it was taken away, until Cluster API continues.
    name = f"{live.kind} {live.metadata.name}"
    return Wait(
        Reason.IN_PLACE_UPGRADE_IN_PROGRESS,
        f"machines of {name} are reserved for an in-place upgrade, which begins or has just ended",
    )


def _owner_named(upgrade: ControlPlaneUpgrade | MachineDeploymentUpgrade) -> str:
    """Name of the control plane or worker node group of an upgrade."""
    spec = upgrade.spec
    return spec.control_plane.name if isinstance(spec, ControlPlaneUpgradeSpec) else spec.machine_deployment.name


def _by_hooks(live: Owner, upgrades: tuple[Object, ...]) -> Wait | None:
    """The progress by the hooks' answers for the present spec, Cluster API's counters, and NodeUpgrades.

    None when there is nothing to report: all machines are up to date, or they are replaced by the fallback.
    """
    up_to_date, replicas = up_to_date_replicas(live), live.status.replicas or 0
    fallback = live.metadata.annotations.get(IN_PLACE_HOOKS)
    if fallback is None or (is_observed(live) and up_to_date >= replicas):
        return None
    sentence = refused_by_hooks(live.metadata)
    if sentence:  # Cluster API does not say that it observed what it could not begin with
        return None if fallback == "RollingUpdate" else Wait(Reason.IN_PLACE_UPGRADE_REFUSED, sentence)
    if not is_observed(live):
        return None
    name, done = f"{live.kind} {live.metadata.name}", f"{up_to_date} of {replicas} are done"
    message = f"machines of {name} are being upgraded in place: {done}"
    nodes = sorted(_node_progress(upgrade.decode(NodeUpgrade)) for upgrade in upgrades if _concerns(upgrade, live))
    has_failed = any(text and not goes_on for goes_on, text in nodes)
    return Wait(
        Reason.IN_PLACE_UPGRADE_FAILED if has_failed else Reason.IN_PLACE_UPGRADE_IN_PROGRESS,
        "; ".join([message, *(text for _, text in nodes if text)]),
    )


def _node_progress(upgrade: NodeUpgrade) -> tuple[bool, str]:
    """A sort key and the message of a NodeUpgrade; failed ones come first."""
    ready = condition_list.get(upgrade.status.conditions, "Ready")
    if upgrade.is_completed or ready is None:
        return True, ""
    return not is_false(upgrade.status.conditions, PROGRESSING), f"Machine {upgrade.spec.machine.name}: {ready.message}"


def _concerns(upgrade: Object, owner: Owner) -> bool:
    if upgrade.kind != NodeUpgrade.resource.kind:
        return False
    if upgrade.decode(NodeUpgrade).spec.certificates_only:
        return False
    deployment = upgrade.metadata.labels.get(DEPLOYMENT_NAME_LABEL, "")
    return deployment == ("" if isinstance(owner, KubeadmControlPlane) else owner.metadata.name)


def _reason_of(conditions: Sequence[Condition]) -> str:
    if is_false(conditions, ACCEPTED):
        return Reason.IN_PLACE_UPGRADE_REFUSED
    return Reason.IN_PLACE_UPGRADE_FAILED if is_false(conditions, PROGRESSING) else Reason.IN_PLACE_UPGRADE_IN_PROGRESS


def upgrade_annotation(owner: Owner) -> str:
    """The annotation with which an in-place upgrade of these machines is requested."""
    return IN_PLACE_CONTROL_PLANE if isinstance(owner, KubeadmControlPlane) else IN_PLACE_DEPLOYMENT
