"""Settings of Cluster API objects whose machines are upgraded in place by our runtime hooks. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from espalier.api import conditions as condition_list
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment
from espalier.api.capi.runtime import DISCOVERED, ExtensionConfig
from espalier.api.eksa.upgrades import RUNTIME_EXTENSION, FrontEnd
from espalier.api.eksa.vocabulary.upgrade_keys import IN_PLACE_HOOKS
from espalier.clusterapi.contract import desired_replicas
from espalier.clusters.design.rendered import annotated
from espalier.kube.objects import Object

FEWEST = 3
"""The smallest control plane that Cluster API rolls out without surge."""

Owner = KubeadmControlPlane | MachineDeployment


def chosen(objects: Iterable[Object]) -> FrontEnd:
    """The front end for in-place upgrades of the manager that wrote these objects."""
    uses_hooks = any(IN_PLACE_HOOKS in object_.metadata.annotations or _is_extension(object_) for object_ in objects)
    return FrontEnd.HOOKS if uses_hooks else FrontEnd.ANNOTATIONS


def _is_extension(object_: Object) -> bool:
    return (object_.kind, object_.name) == (ExtensionConfig.resource.kind, RUNTIME_EXTENSION)


def left_to(wanted: Owner, fallback: str) -> Owner:
    """The object with which Cluster API calls the hooks. Surge is 0: it would create surge machines before it calls
    them.
    """
    rollout = wanted.spec.rollout
    strategy = rollout.strategy if rollout else None
    limits = strategy.rolling_update if strategy else None
    if rollout is None or strategy is None or limits is None or is_too_small(wanted):
        return wanted
    limits = replace(limits, max_surge=0)
    if isinstance(wanted, MachineDeployment):
        limits = replace(limits, max_unavailable=limits.max_unavailable or 1)
    rollout = replace(rollout, strategy=replace(strategy, rolling_update=limits))
    return annotated(replace(wanted, spec=replace(wanted.spec, rollout=rollout)), {IN_PLACE_HOOKS: fallback})


def is_too_small(owner: Owner) -> bool:
    """True if Cluster API adds a machine before it calls the hooks, whatever the surge."""
    return isinstance(owner, KubeadmControlPlane) and desired_replicas(owner) < FEWEST


def too_small(owner: Owner) -> str:
    """The message for such a control plane, with what to do."""
    return (
        f"a control plane of {desired_replicas(owner)} can't be upgraded in place by runtime hooks: with fewer "
        f"than {FEWEST} machines, Cluster API always creates another one first; run the manager with --in-place "
        "annotations, or set upgradeRolloutStrategy.fallback to RollingUpdate to replace the machines"
    )


def undiscovered(extension: Object | None) -> str:
    """The message while Cluster API would not call the hooks; empty when it would."""
    if extension is not None and condition_list.is_true(
        extension.decode(ExtensionConfig).status.conditions, DISCOVERED
    ):
        return ""
    return (
        f"waiting for Cluster API to discover ExtensionConfig {RUNTIME_EXTENSION}: until then it replaces machines; "
        "its managers need --feature-gates=RuntimeSDK=true,InPlaceUpdates=true"
    )
