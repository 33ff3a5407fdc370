"""Machines that Cluster API upgrades in place by our runtime hooks: what it is told. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from espalier.api import conditions as condition_list
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment
from espalier.api.capi.runtime import DISCOVERED, ExtensionConfig
from espalier.api.eksa.upgrades import IN_PLACE_HOOKS, RUNTIME_EXTENSION, FrontEnd
from espalier.clusterapi.contract import desired_replicas
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
