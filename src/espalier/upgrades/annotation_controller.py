"""The annotation front end: upgrades annotated objects in place; Cluster API resumes once it has nothing to roll out.

A KubeadmControlPlane or MachineDeployment is annotated by a patched Cluster API, people, or our Cluster controller,
which pauses it in the same write. This controller removes that pause, once every machine is what Cluster API would
create. A change that can't be made in place is refused, or left to Cluster API by the fallback.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from espalier.api.capi.machine import Machine
from espalier.api.conditions import is_true
from espalier.api.eksa.upgrades import PAUSED_FOR_UPGRADE, NodeUpgrade, ObjectReference
from espalier.api.eksa.vocabulary.events import Event
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.eksa.vocabulary.upgrade_keys import FALLBACK_ANNOTATION, NODE_IN_WORK, REPLACING
from espalier.api.meta import ObjectMeta, Tree
from espalier.api.resource import Key
from espalier.clusterapi import labels
from espalier.clusterapi.contract import CLUSTER_NAME_LABEL, PAUSED_ANNOTATION
from espalier.kube.objects import Object
from espalier.runtime.caches.mapping import by_controller
from espalier.runtime.controllers import owners
from espalier.runtime.controllers.controller import RESYNC, Controller
from espalier.runtime.controllers.outcome import Continue, Done, Outcome, Wait
from espalier.runtime.controllers.reconciler import Reconciled, Reconciler
from espalier.runtime.controllers.writer import found_by_owner
from espalier.upgrades import expected, names
from espalier.upgrades.group.group import DueMachines, Group
from espalier.upgrades.group.sequence import Member
from espalier.upgrades.node.containers import POD_CREATED
from espalier.upgrades.observed.cluster_view import ClusterAPIObjects
from espalier.upgrades.observed.observe import BY_CLUSTER, cluster_of
from espalier.upgrades.reconciling import UpgradeTools


def controller(
    tools: UpgradeTools,
    group: Group,
    *,
    uses_hooks: bool = False,
    workers: int = 10,
    resync: float = RESYNC,
    rng: random.Random | None = None,
) -> Controller:
    """The controller of the annotations on one kind, with its watches.

    With `uses_hooks`, Cluster API drives upgrades: the controller only finishes those that annotations started before.
    """
    reconciled = Reconciled(
        group.owner_resource,
        lambda key: tools.observer.unless_of_others(tools.observer.owner(group.owner_resource, key.name)),
        lambda owner: AnnotationContext(tools, group, owner, _upgrade_of(tools, group, owner), uses_hooks=uses_hooks),
        lambda _ctx: STEPS,
        lambda _ctx, _outcome: None,
        finalizers=(),
    )
    name = f"{group.owner_resource.kind.lower()}-in-place"
    reconciler = Reconciler(reconciled, tools.writer, tools.recorder)
    controller_ = Controller(name, reconciler.reconcile, workers=workers, resync=resync, rng=rng)
    tools.observer.watch(controller_, group.owner_resource, predicate=_is_annotated)

    def upgraded(upgrade: Object) -> list[Key]:
        """The owner that an upgrade is for, even if somebody else created the upgrade: it blocks the name."""
        return [Key(upgrade.namespace, group.owner_of(upgrade.decode(group.upgrade_type))[0].name)]

    controller_.watch(tools.observer.own[group.resource], upgraded)

    def left_behind(node_upgrade: Object) -> list[Key]:
        """The owners that still have the claim of a deleted NodeUpgrade."""
        owners = tools.observer.owners[group.owner_resource].by_index(BY_CLUSTER, cluster_of(node_upgrade))
        return [
            owner.key for owner in owners if owner.metadata.annotations.get(NODE_IN_WORK) == names.claim(node_upgrade)
        ]

    controller_.watch(tools.observer.own[NodeUpgrade.resource], left_behind, predicate=_is_deletion)
    return controller_


def _is_annotated(old: Object | None, new: Object | None) -> bool:
    existing = [owner for owner in (old, new) if owner is not None]
    return any(names.is_annotated(owner) or _may_have_leftovers(owner.metadata.annotations) for owner in existing)


def _may_have_leftovers(annotations: Mapping[str, str]) -> bool:
    """True if an owner may have annotations of an upgrade left, with or without that which requests it."""
    return NODE_IN_WORK in annotations or annotations.get(PAUSED_ANNOTATION) == PAUSED_FOR_UPGRADE


def _is_deletion(_old: Object | None, new: Object | None) -> bool:
    return new is None


@dataclass
class AnnotationContext:
    """One reconcile of one control plane or worker node group, annotated or not.

    `object` has only metadata until the cluster has been read.
    """

    tools: UpgradeTools
    group: Group
    object: Object
    upgrade: Object | None
    """The upgrade that was created for the annotation."""
    capi_objects: ClusterAPIObjects | None = None
    uses_hooks: bool = False
    """True if Cluster API drives upgrades through runtime hooks."""


def _upgrade_of(tools: UpgradeTools, group: Group, owner: Object) -> Object | None:
    upgrade = tools.observer.upgrade(group.resource, group.name(owner.name))
    if upgrade is not None and owner.metadata.uid not in by_controller(upgrade):
        return None  # created by hand: it needs no annotation, and is not ours
    return upgrade


async def end_without_annotation(ctx: AnnotationContext) -> Outcome:
    """Without the annotation, delete the upgrade, then remove the pause; remove a claim whose holder is gone.

    While the Cluster still asks for the upgrade, wait: unpausing would replace all machines. The Cluster controller
    sets the annotation again.
    """
    annotations = ctx.object.metadata.annotations
    if annotations.get(ctx.group.annotation) == "true":
        return Continue()
    is_paused = annotations.get(PAUSED_ANNOTATION) == PAUSED_FOR_UPGRADE
    stands = ctx.upgrade is not None and not _is_ready(ctx.upgrade)
    if is_paused and stands and ctx.tools.observer.asks_in_place(ctx.object):
        return Wait(Reason.UPGRADING_NODES, f"waiting for annotation {ctx.group.annotation} to be set again")
    if ctx.upgrade is not None:
        await ctx.tools.writer.delete(ctx.group.resource, ctx.upgrade, found_by_owner)
    removals: dict[str, None] = {}
    if NODE_IN_WORK in annotations and not ctx.tools.observer.is_there(annotations[NODE_IN_WORK]):
        removals[NODE_IN_WORK] = None
    if ctx.upgrade is None and is_paused:
        removals[PAUSED_ANNOTATION] = None
    if removals:
        await ctx.tools.writer.merge(ctx.group.owner_resource, ctx.object, {"metadata": {"annotations": removals}})
    return Done()


async def leave_to_hooks(ctx: AnnotationContext) -> Outcome:
    """With hooks, remove an annotation that a person set: two front ends would sequence the same machines."""
    owner, paused = ctx.object, ctx.object.metadata.annotations.get(PAUSED_ANNOTATION)
    if not ctx.uses_hooks or ctx.upgrade is not None or paused == PAUSED_FOR_UPGRADE:
        return Continue()
    finding = (
        f"removing annotation {ctx.group.annotation}: this manager upgrades in place with Cluster API's runtime hooks"
    )
    advice = "set upgradeRolloutStrategy.type of the Cluster to InPlace, or run the manager with --in-place annotations"
    ctx.tools.recorder.event(owner, "Warning", Event.MARK_IGNORED, f"{finding}; {advice}")
    return await _release(ctx)


async def read_cluster(ctx: AnnotationContext) -> Outcome:
    """Wait until the cluster's caches have the annotated owner. A deleted owner is left to Cluster API."""
    owner, group = ctx.object, ctx.group
    if owner.metadata.deletion_timestamp is not None:
        return await _release(ctx)
    if wrong := labels.mislabelled(owner):  # its machines would not be found: none would seem to be left
        return Wait(Reason.LABELS_CHANGED, "; ".join(wrong))
    cluster_view = ctx.tools.observer.view(cluster_of(owner))
    annotated_owner = cluster_view.capi_objects.get(group.owner_resource, owner.name) if cluster_view else None
    if cluster_view is None or annotated_owner is None or annotated_owner.resource_version != owner.resource_version:
        return Wait(Reason.CACHE_NOT_SYNCED, f"reading cluster {cluster_of(owner)}")
    ctx.object, ctx.capi_objects = annotated_owner, cluster_view.capi_objects
    return Continue()


async def advance(ctx: AnnotationContext) -> Outcome:
    """Create the upgrade; delete it once it is done, or once another upgrade is asked for."""
    if ctx.capi_objects is None:
        raise AssertionError("the step `read_cluster` must set `capi_objects`")
    group, writer, owner, upgrade = ctx.group, ctx.tools.writer, ctx.object, ctx.upgrade
    due = group.due(ctx.capi_objects, owner)
    falls_back = bool(due.refused) and owner.metadata.annotations.get(FALLBACK_ANNOTATION) == "RollingUpdate"
    if upgrade is None:
        if falls_back:
            message = f"{', '.join(due.refused)} can't be changed in place: falling back to a rolling update"
            ctx.tools.recorder.event(owner, "Warning", Event.FALLBACK_TO_ROLLING_UPDATE, message)
        if falls_back or not due.is_due:
            return await _release(ctx)
        await writer.create(group.resource, group.upgrade(_metadata(ctx), owner, _references(due)))
        return Wait(Reason.UPGRADE_CREATED, f"{group.resource.kind} {group.name(owner.name)} was created")
    is_ready = _is_ready(upgrade) and not _running(ctx, ctx.capi_objects, upgrade)
    is_other = _data_of(group, upgrade) != expected.encoded(group.asked_for(owner))
    if is_other and not falls_back and (node := _under_way(ctx, ctx.capi_objects, upgrade)):
        return Wait(
            Reason.NODE_UPGRADE_IN_PROGRESS, f"waiting for {node}: its result is recorded before another upgrade starts"
        )
    if falls_back or is_ready or is_other:
        await writer.delete(group.resource, upgrade, found_by_owner)
        return Wait(Reason.UPGRADE_DELETING, f"waiting for {group.resource.kind} {upgrade.name} to be deleted")
    return Continue()


async def replace_lost(ctx: AnnotationContext) -> Outcome:
    """Unpause Cluster API while it replaces a lost machine and no node is being upgraded.

    It creates the new machine from the current spec, and waits for it before it does anything else; by then it is
    paused again.
    """
    if ctx.capi_objects is None or ctx.upgrade is None:
        raise AssertionError("the steps before must set `capi_objects` and `upgrade`")
    lost, annotations = (
        ctx.group.lost(ctx.capi_objects, ctx.object, _named(ctx.group, ctx.upgrade)),
        ctx.object.metadata.annotations,
    )
    is_free = not _under_way(ctx, ctx.capi_objects, ctx.upgrade)
    changed: dict[str, str | None] = {}
    if lost and is_free and annotations.get(PAUSED_ANNOTATION) == PAUSED_FOR_UPGRADE:
        changed = {PAUSED_ANNOTATION: None, REPLACING: lost}
    elif not lost and REPLACING in annotations:
        changed = {REPLACING: None}
        if PAUSED_ANNOTATION not in annotations:  # else a person has paused it meanwhile
            changed[PAUSED_ANNOTATION] = PAUSED_FOR_UPGRADE
    if changed:
        await ctx.tools.writer.merge(ctx.group.owner_resource, ctx.object, {"metadata": {"annotations": changed}})
    if changed or lost:
        return Wait(Reason.REPLACING_MACHINE, lost or "a lost machine was replaced")
    return Wait(Reason.UPGRADING_NODES, f"waiting for {ctx.group.resource.kind} {ctx.upgrade.name} to complete")


STEPS = (end_without_annotation, leave_to_hooks, read_cluster, advance, replace_lost)
"""From an annotation to machines that Cluster API does not replace."""


def _under_way(ctx: AnnotationContext, capi_objects: ClusterAPIObjects, upgrade: Object) -> str:
    """A NodeUpgrade that is running, or whose result is not recorded on its Machine yet; empty if there is none."""
    wanted = _wanted(ctx.group, upgrade)
    for node_upgrade, member, decoded in _members(ctx, capi_objects, upgrade):
        version, machine = decoded.spec.kubernetes_version, member.machine
        is_noted = machine is None or wanted is None or ctx.group.is_expected(capi_objects, wanted, version, machine)
        if (member.is_done and not is_noted) or _has_begun(member, decoded):
            return f"NodeUpgrade {node_upgrade.name}"
    return ""


def _running(ctx: AnnotationContext, capi_objects: ClusterAPIObjects, upgrade: Object) -> bool:
    """True if a NodeUpgrade is running, whatever the status of the upgrade says."""
    return any(_has_begun(member, decoded) for _, member, decoded in _members(ctx, capi_objects, upgrade))


def _has_begun(member: Member, upgrade: NodeUpgrade) -> bool:
    return member.is_active and is_true(upgrade.status.conditions, POD_CREATED) and not member.has_failed


def _members(
    ctx: AnnotationContext, capi_objects: ClusterAPIObjects, upgrade: Object
) -> Iterator[tuple[Object, Member, NodeUpgrade]]:
    """The NodeUpgrades of an upgrade whose machines are there."""
    for node_upgrade in ctx.tools.observer.node_upgrades(upgrade):
        decoded = node_upgrade.decode(NodeUpgrade)
        name = decoded.spec.machine.name
        member = Member(name, capi_objects.machine(name), node_upgrade, decoded)
        if not member.is_gone and node_upgrade.metadata.deletion_timestamp is None:
            yield node_upgrade, member, decoded


def _is_ready(upgrade: Object) -> bool:
    return bool((upgrade.tree.get("status") or {}).get("ready"))


def _data_of(group: Group, upgrade: Object) -> str:
    """The spec that an upgrade carries, encoded."""
    return group.owner_of(upgrade.decode(group.upgrade_type))[1]


def _named(group: Group, upgrade: Object) -> list[str]:
    """The machines of an upgrade."""
    return [machine.name for machine in upgrade.decode(group.upgrade_type).spec.machines_require_upgrade]


def _wanted(group: Group, upgrade: Object) -> Tree | None:
    """The spec that an upgrade carries; None if it is invalid."""
    try:
        return expected.decoded(_data_of(group, upgrade))
    except ValueError:
        return None


async def _release(ctx: AnnotationContext) -> Outcome:
    """Remove the annotation, and the pause that came with it: Cluster API resumes."""
    owner = ctx.object
    removed: dict[str, None] = {
        ctx.group.annotation: None,
        FALLBACK_ANNOTATION: None,
        REPLACING: None,
        NODE_IN_WORK: None,
    }
    if owner.metadata.annotations.get(PAUSED_ANNOTATION) == PAUSED_FOR_UPGRADE:
        removed[PAUSED_ANNOTATION] = None
    patch: Tree = {"metadata": {"annotations": removed}}
    await ctx.tools.writer.merge(ctx.group.owner_resource, owner, patch)
    return Done()


def _metadata(ctx: AnnotationContext) -> ObjectMeta:
    owner = ctx.object
    return ObjectMeta(
        name=ctx.group.name(owner.name),
        namespace=owner.namespace,
        labels={CLUSTER_NAME_LABEL: cluster_of(owner)},
        owner_references=[owners.owner_reference(owner)],
    )


def _references(due: DueMachines) -> list[ObjectReference]:
    return [names.reference(Machine.resource, view.object) for view in due.machines]
