"""Machines that Cluster API upgrades in place by our runtime hooks: what it is told, and what is told of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from espalier.api import conditions as condition_list
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment
from espalier.api.capi.runtime import DISCOVERED, ExtensionConfig
from espalier.api.conditions import is_false
from espalier.api.eksa.upgrades import IN_PLACE_HOOKS, PROGRESSING, RUNTIME_EXTENSION, FrontEnd, NodeUpgrade, refused
from espalier.clusterapi.contract import DEPLOYMENT_NAME_LABEL, desired_replicas, is_observed
from espalier.kube.objects import Object

FEWEST = 3
"""Machines of a control plane that Cluster API rolls without one more than asked for."""

Owner = KubeadmControlPlane | MachineDeployment


def chosen(objects: Iterable[Object]) -> FrontEnd:
    """How the manager that made these objects has machines upgraded in place, as far as they tell."""
    by_hooks = any(IN_PLACE_HOOKS in one.metadata.annotations or _is_extension(one) for one in objects)
    return FrontEnd.HOOKS if by_hooks else FrontEnd.ANNOTATIONS


def _is_extension(one: Object) -> bool:
    return (one.kind, one.name) == (ExtensionConfig.resource.kind, RUNTIME_EXTENSION)


class Told(NamedTuple):
    """What is said of a group of machines: whether a change was refused, or has failed, and a sentence."""

    is_refused: bool
    message: str
    has_failed: bool = False


def leave_to(wanted: Owner, fallback: str) -> None:
    """Have Cluster API ask, and make no machine beyond the count: that it would do before it asks."""
    strategy = wanted.spec.rollout.strategy if wanted.spec.rollout else None
    limits = strategy.rolling_update if strategy else None
    if limits is None or is_too_small(wanted):
        return
    limits.max_surge = 0
    if isinstance(wanted, MachineDeployment):
        limits.max_unavailable = limits.max_unavailable or 1
    wanted.metadata.annotations = {**wanted.metadata.annotations, IN_PLACE_HOOKS: fallback}


def is_too_small(owner: Owner) -> bool:
    """Whether Cluster API adds a machine before it asks, whatever is said of surge."""
    return isinstance(owner, KubeadmControlPlane) and desired_replicas(owner) < FEWEST


def too_small(owner: Owner) -> str:
    """Why nothing is done, and what helps."""
    return (
        f"a control plane of {desired_replicas(owner)} can't be upgraded in place by runtime hooks: of fewer than "
        f"{FEWEST} machines Cluster API always makes another one first; run the manager with --in-place annotations, "
        "or set upgradeRolloutStrategy.fallback to RollingUpdate to have the machines replaced"
    )


def undiscovered(extension: Object | None) -> str:
    """What is waited for while Cluster API would not ask; empty when it would."""
    if extension is not None and condition_list.is_true(
        extension.decode(ExtensionConfig).status.conditions, DISCOVERED
    ):
        return ""
    return (
        f"waiting for Cluster API to discover ExtensionConfig {RUNTIME_EXTENSION}: before that it replaces machines; "
        "its managers need --feature-gates=RuntimeSDK=true,InPlaceUpdates=true"
    )


def story(live: Owner, upgrades: tuple[Object, ...]) -> Told | None:
    """By what the hooks have said of the present spec, what Cluster API counts, and NodeUpgrades.

    None when there is nothing to tell: all machines are up to date, or they are replaced, as the fallback has it.
    """
    up_to_date, replicas = live.status.up_to_date_replicas or 0, live.status.replicas or 0
    fallback = live.metadata.annotations.get(IN_PLACE_HOOKS)
    if fallback is None or (is_observed(live) and up_to_date >= replicas):
        return None
    sentence = refused(live.metadata)
    if sentence:  # Cluster API does not say that it observed what it could not begin with
        return None if fallback == "RollingUpdate" else Told(is_refused=True, message=sentence)
    if not is_observed(live):
        return None
    message = f"machines of {live.kind} {live.metadata.name} are upgraded in place: {up_to_date} of {replicas} are"
    told = sorted(_told(found.decode(NodeUpgrade)) for found in upgrades if _concerns(found, live))
    has_failed = any(text and not goes_on for goes_on, text in told)
    return Told(
        is_refused=False, message="; ".join([message, *(text for _, text in told if text)]), has_failed=has_failed
    )


def _told(upgrade: NodeUpgrade) -> tuple[bool, str]:
    """What a NodeUpgrade says; those that failed come first."""
    ready = condition_list.get(upgrade.status.conditions, "Ready")
    if upgrade.status.completed or ready is None:
        return True, ""
    return not is_false(upgrade.status.conditions, PROGRESSING), f"Machine {upgrade.spec.machine.name}: {ready.message}"


def _concerns(found: Object, owner: Owner) -> bool:
    if found.kind != NodeUpgrade.resource.kind:
        return False
    deployment = found.metadata.labels.get(DEPLOYMENT_NAME_LABEL, "")
    return deployment == ("" if isinstance(owner, KubeadmControlPlane) else owner.metadata.name)
