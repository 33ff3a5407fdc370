"""In-place upgrades of a cluster's machines: how their replacement is prevented. Pure.

Each change of a KubeadmControlPlane or MachineDeployment is classified before it is written. A refused change is not
written at all; one that falls back to a rolling update is written like any other. Changes that can be made in place use
one of two front ends:

Annotations: the write of the new spec also pauses the annotated object: Cluster API never sees one without the other.
Component `upgrades` upgrades the machines, and removes both when no machine is left to roll out.

Hooks: Cluster API continues, asks component `upgrades` first, and creates no machine beyond the count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import msgspec

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment
from espalier.api.eksa.parts.rollouts import ControlPlaneUpgradeRolloutStrategy, WorkerNodesUpgradeRolloutStrategy
from espalier.api.eksa.upgrades import PAUSED_FOR_UPGRADE, FrontEnd
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.eksa.vocabulary.upgrade_keys import FALLBACK_ANNOTATION, REPLACING
from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.clusterapi.changes import in_place_fields
from espalier.clusterapi.changes.classification import (
    BOOTSTRAP_TEMPLATE,
    Classification,
    MachineEffect,
    UpdateStrategy,
    classify,
)
from espalier.clusterapi.changes.machine_change import MachineParts, of_control_plane, of_machine_template
from espalier.clusterapi.contract import PAUSED_ANNOTATION, desired_replicas
from espalier.clusterapi.infrastructures.infrastructure import Infrastructures
from espalier.clusters.design import names
from espalier.clusters.design.cluster_objects import runtime_hooks
from espalier.clusters.design.cluster_objects.object_names import is_template
from espalier.clusters.design.cluster_objects.runtime_hooks import Owner
from espalier.clusters.design.drift import ownership
from espalier.clusters.design.provider import RenderInput
from espalier.clusters.design.render_input import group_name
from espalier.clusters.design.rendered import annotated
from espalier.clusters.observe.machines.in_place_progress import is_upgrading, progress, upgrade_annotation
from espalier.clusters.observe.scope import ClusterAPIObjects
from espalier.kube.objects import Object
from espalier.runtime.controllers.outcome import Wait

UpgradeRolloutStrategy = ControlPlaneUpgradeRolloutStrategy | WorkerNodesUpgradeRolloutStrategy


@dataclass(frozen=True)
class OwnerChange:
    """A pending write of the control plane or a worker node group whose machines are upgraded in place."""

    wanted: Owner
    live: Owner | None
    strategy: UpgradeRolloutStrategy
    compare: Callable[[], Classification]
    group: str = ""
    """The worker node group; empty for the control plane."""

    @cached_property
    def classified(self) -> Classification:
        """The effect on machines as in `live`.

        Computed on demand: most reconciles never need it for owners whose upgrade is in progress.
        """
        return self.compare()

    @property
    def refusal(self) -> str:
        """The reason why the change is not written, and the remedy; empty when it is."""
        if self.classified.effect is not MachineEffect.REFUSED:
            return ""
        what = f"worker node group {self.group}" if self.group else "the control plane"
        return in_place_fields.sentence(self.classified.refused, what)


def owner_changes(
    wanted: Iterable[KubeObject], render_input: RenderInput, capi_objects: ClusterAPIObjects
) -> list[OwnerChange]:
    """The changes of owners whose machines are upgraded in place, among the objects to write.

    `wanted` includes new templates that they reference.
    """
    wanted = list(wanted)
    new = {
        (template.resource.kind, template.metadata.name): template
        for template in wanted
        if is_template(template.resource)
    }
    changes = []
    for owner in wanted:
        if not isinstance(owner, KubeadmControlPlane | MachineDeployment):
            continue
        group, strategy = _strategy(owner, render_input)
        if strategy is not None and strategy.type == "InPlace":
            changes.append(_owner_change(owner, group, strategy, new, render_input, capi_objects))
    return changes


def is_asked_for(render_input: RenderInput) -> bool:
    """True if the machines of the control plane or of a group are upgraded in place."""
    strategies = [
        render_input.control_plane.upgrade_rollout_strategy,
        *(group.upgrade_rollout_strategy for group in render_input.groups),
    ]
    return any(strategy is not None and strategy.type == "InPlace" for strategy in strategies)


def _strategy(owner: Owner, render_input: RenderInput) -> tuple[str, UpgradeRolloutStrategy | None]:
    """The worker node group of an owner (empty for the control plane), and its upgrade strategy."""
    if isinstance(owner, KubeadmControlPlane):
        return "", render_input.control_plane.upgrade_rollout_strategy
    for group in render_input.groups:
        if names.machine_deployment(render_input.name, group_name(group)) == owner.metadata.name:
            return render_input.undivided_group(group_name(group)), group.upgrade_rollout_strategy
    return "", None


def _owner_change(
    wanted: Owner,
    group: str,
    strategy: UpgradeRolloutStrategy,
    new: Mapping[tuple[str, str], KubeObject],
    render_input: RenderInput,
    capi_objects: ClusterAPIObjects,
) -> OwnerChange:
    object_ = capi_objects.of(wanted.resource).get(wanted.metadata.name)
    if object_ is None:
        return OwnerChange(wanted, None, strategy, Classification, group)
    live = object_.decode(type(wanted))

    def compare() -> Classification:
        return _compared(wanted, object_, live, strategy, new, render_input, capi_objects)

    return OwnerChange(wanted, live, strategy, compare, group)


def _compared(
    wanted: Owner,
    object_: Object,
    live: Owner,
    strategy: UpgradeRolloutStrategy,
    new: Mapping[tuple[str, str], KubeObject],
    render_input: RenderInput,
    capi_objects: ClusterAPIObjects,
) -> Classification:
    body = msgspec.to_builtins(wanted)
    # What others have set or the API server has filled in stays, so it is no difference. Machines that are held have
    # not followed an edit by others: bringing it back changes none.
    applied = ownership.as_applied(object_, body) if is_upgrading(live) else object_.tree
    before = _parts(msgspec.convert(applied, type(wanted)))
    after = _parts(msgspec.convert(ownership.after_apply(object_, body), type(wanted)))

    def template(kind: str, name: str) -> Tree | None:
        there = capi_objects.template(kind, name)
        if there is not None:
            return _spec(there.tree)
        made = new.get((kind, name))
        if made is None:
            return None
        body = msgspec.to_builtins(made)
        replaced = capi_objects.template(kind, _named(before, kind))
        return _spec(body if replaced is None else ownership.after_apply(replaced, body))

    known = Infrastructures([render_input.provider.infrastructure])
    classified = classify(before, after, UpdateStrategy.of(strategy.type, strategy.fallback), known, template)
    upgrade = progress(live, capi_objects.upgrades)
    if (
        classified.effect is MachineEffect.REFUSED
        and upgrade is not None
        and upgrade.reason == Reason.IN_PLACE_UPGRADE_REFUSED
    ):
        # Machines are not as it has them: what an earlier manager or a person wrote was refused. Component `upgrades`
        # compares what is written now with the machines themselves, and nothing is done to them until then.
        return Classification(MachineEffect.IN_PLACE, classified.fields)
    return classified


def _named(parts: MachineParts, kind: str) -> str:
    """Name of the template of a kind."""
    if kind == BOOTSTRAP_TEMPLATE:
        return parts.bootstrap_template
    return parts.infrastructure.name if parts.infrastructure else ""


def _spec(tree: Tree) -> Tree:
    spec: Tree = tree.get("spec") or {}
    return spec


def refused(changes: Iterable[OwnerChange]) -> Wait | None:
    """Wait while any change can't be made in place: then nothing of the cluster is written. None if all can.

    The message lists all refusals.
    """
    refusals = [change.refusal for change in changes if change.refusal]
    return Wait(Reason.IN_PLACE_UPGRADE_REFUSED, "; ".join(refusals)) if refusals else None


def with_upgrade_requested(change: OwnerChange, front_end: FrontEnd) -> Owner:
    """The object to write, annotated for an in-place upgrade of its machines.

    An upgrade by annotations in progress also ends by annotations.
    """
    wanted, live, strategy = change.wanted, change.live, change.strategy
    if front_end is FrontEnd.HOOKS and not (live and is_upgrading(live)):
        return runtime_hooks.left_to(wanted, strategy.fallback or "Fail")
    if live is None or not (
        is_upgrading(live) or change.classified.effect in (MachineEffect.IN_PLACE, MachineEffect.REFUSED)
    ):
        return wanted
    annotations = {upgrade_annotation(wanted): "true"}
    present = live.metadata.annotations
    goes_on = REPLACING in present and PAUSED_ANNOTATION not in present  # Cluster API replaces a lost machine
    if not goes_on and present.get(PAUSED_ANNOTATION, PAUSED_FOR_UPGRADE) == PAUSED_FOR_UPGRADE:  # or a person's own
        annotations[PAUSED_ANNOTATION] = PAUSED_FOR_UPGRADE
    if strategy.fallback == "RollingUpdate":
        annotations[FALLBACK_ANNOTATION] = "RollingUpdate"
    return annotated(wanted, annotations)


def obstacle(change: OwnerChange, front_end: FrontEnd, extension: Object | None) -> Wait | None:
    """The reason why an object may not be written yet: Cluster API would replace machines instead of upgrading them in
    place.
    """
    wanted, live, strategy = change.wanted, change.live, change.strategy
    if front_end is not FrontEnd.HOOKS or live is None or is_upgrading(live) or not change.classified.is_outdated:
        return None
    if runtime_hooks.is_too_small(wanted):
        return (
            Wait(Reason.TOO_FEW_MACHINES_FOR_HOOKS, runtime_hooks.too_small(wanted))
            if strategy.fallback != "RollingUpdate"
            else None
        )
    waiting = runtime_hooks.undiscovered(extension)
    return Wait(Reason.RUNTIME_HOOKS_NOT_DISCOVERED, waiting, ends_by_itself=True) if waiting else None


def lacking(live: KubeadmControlPlane | None, has_cni: bool) -> str:
    """The condition that a control plane must reach before an in-place upgrade; empty when it is reached.

    Nodes only become ready with the CNI, which is installed once the API server is reported to answer; and until all
    machines exist, none of them can be spared.
    """
    if live is None:
        return ""
    if not has_cni:
        return "the CNI is installed"
    desired, there = desired_replicas(live), live.status.replicas or 0
    return f"all of its {desired} machines exist (now {there})" if there < desired else ""


def postponed(change: OwnerChange, has_cni: bool) -> str:
    """The message while a control plane is still being created and may not be changed yet; empty when it may."""
    wanted, live = change.wanted, change.live
    if not isinstance(wanted, KubeadmControlPlane) or not isinstance(live, KubeadmControlPlane) or is_upgrading(live):
        return ""
    lacks = lacking(live, has_cni)
    if not lacks or not change.classified.is_outdated:
        return ""
    is_version = wanted.spec.version != live.spec.version
    what = f"Kubernetes {wanted.spec.version}" if is_version else "the later change"
    return (
        f"the control plane is still being created as first specified; {what} follows once {lacks}; to avoid "
        "the wait, revert the change, or set its upgradeRolloutStrategy.type to RollingUpdate"
    )


def _parts(owner: Owner) -> MachineParts:
    if isinstance(owner, KubeadmControlPlane):
        return of_control_plane(owner)
    return of_machine_template(owner.spec.template)
