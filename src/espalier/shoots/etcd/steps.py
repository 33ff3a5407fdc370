"""The steps of a reconcile over an Etcd, and those of its deletion."""

from __future__ import annotations

from dataclasses import dataclass

from espalier.api.core import PERSISTENT_VOLUME_CLAIM, STATEFUL_SET
from espalier.api.etcd.timing import Timing
from espalier.api.gardener.etcd import Etcd
from espalier.api.gardener.responsibility import is_deletion_confirmed
from espalier.api.gardener.vocabulary.metadata_keys import EPOCH
from espalier.api.gardener.vocabulary.reasons import EtcdReason
from espalier.api.resource import Key
from espalier.kube.errors import Conflict
from espalier.kube.objects import Object
from espalier.runtime.controllers.outcome import Continue, Done, Fault, Outcome, Wait
from espalier.runtime.controllers.steps import Step
from espalier.runtime.controllers.writer import NameTaken, Writer, found_by_owner
from espalier.shoots.etcd import names
from espalier.shoots.etcd.observe import Scope, StatefulSet
from espalier.shoots.etcd.plan import Plan, plan
from espalier.shoots.etcd.rendering import Rendered, epoch_in, selector
from espalier.shoots.etcd.settings import InvalidEtcd, is_copy
from espalier.shoots.etcd.status import deleted_claims


@dataclass
class EtcdContext:
    """One reconcile of one Etcd."""

    scope: Scope
    writer: Writer
    object: Object
    timing: Timing | None = None
    """The timing of elections in this garden."""


async def add_finalizer(ctx: EtcdContext) -> Outcome:
    """Add the finalizer, before anything is created that has to be deleted in order."""
    ctx.object = await ctx.writer.add_finalizer(Etcd.resource, ctx.object, names.FINALIZER)
    return Continue()


async def write_objects(ctx: EtcdContext) -> Outcome:
    """Create missing objects, and update those that differ."""
    if problem := _other_epoch(ctx.scope):
        return Fault(EtcdReason.INVALID_SPEC, problem, terminal=True)
    try:
        due = plan(ctx.scope, ctx.timing)
    except InvalidEtcd as error:
        return Fault(EtcdReason.INVALID_SPEC, str(error), terminal=True)
    if _ends_pods(due) and ctx.scope.lost_claims and ctx.scope.has_lost_quorum and _serves(ctx.scope):
        message = f"StatefulSet {ctx.object.name} is not changed: {deleted_claims(ctx.scope)}"
        return Wait(EtcdReason.CLAIM_DELETING, message)
    for object_ in due.replace:
        await ctx.writer.delete(STATEFUL_SET, object_, ctx.scope.belongs)
    for resource, object_ in due.remove:
        await ctx.writer.delete(resource, object_, ctx.scope.belongs)
    if due.replace:
        return Wait(EtcdReason.STATEFUL_SET_REPLACED, f"StatefulSet {ctx.object.name} is deleted and will be recreated")
    for rendered in due.apply:
        await _apply(ctx, rendered)
    if due.apply:
        return Wait(EtcdReason.PODS_PENDING, f"StatefulSet {ctx.object.name} was written")
    return Continue()


def _ends_pods(due: Plan) -> bool:
    """True if the plan changes the StatefulSet: whatever changes may end its pods."""
    return bool(due.replace) or any(rendered.resource == STATEFUL_SET for rendered in due.apply)


def _serves(scope: Scope) -> bool:
    return scope.stateful_set is not None and scope.stateful_set.status.ready_replicas > 0


def _other_epoch(scope: Scope) -> str:
    """The problem of an Etcd whose epoch was changed; empty if it was not. An etcd that gets another epoch is another
    Etcd: pods that restart with it would ask the bucket for what is not theirs."""
    live, epoch = scope.stateful_set_object, scope.object.metadata.annotations.get(EPOCH, "")
    started = epoch_in(live.tree) if live is not None else None
    if started is None or started == epoch:
        return ""
    return f"annotation {EPOCH}: found {epoch!r}, allowed is {started}, for which its pods run; set it again"


async def _apply(ctx: EtcdContext, rendered: Rendered) -> None:
    """Apply an object. An object without our labels is not in any cache: if it is ours, its labels are restored.

    Raises `NameTaken` for another's.
    """
    try:
        await ctx.writer.apply(rendered.resource, rendered.body, ctx.scope.belongs)
    except Conflict:
        key = Key(ctx.object.namespace, rendered.name)
        live = await ctx.writer.read(rendered.resource, key)
        if live is None:
            raise
        if holder := ctx.scope.belongs(rendered.resource, live):
            raise NameTaken(rendered.resource, key, holder) from None
        await ctx.writer.merge(rendered.resource, live, {"metadata": {"labels": rendered.body["metadata"]["labels"]}})


async def wait_for_pods(ctx: EtcdContext) -> Outcome:
    """Wait until all pods are of the newest template and ready, or until none are left."""
    wanted, stateful_set = ctx.scope.etcd.spec.replicas, ctx.scope.stateful_set
    if stateful_set is None or not _is_observed(ctx.scope, stateful_set):
        return Wait(EtcdReason.PODS_PENDING, "the StatefulSet's controller has not seen its newest version")
    counts = stateful_set.status
    if wanted == 0:
        if counts.replicas:
            return Wait(EtcdReason.PODS_STOPPING, f"{counts.replicas} pods still run")
        return Done()
    if counts.updated_replicas < wanted or counts.replicas > wanted:
        return Wait(EtcdReason.PODS_PENDING, f"{counts.updated_replicas} of {wanted} pods have the newest template")
    if counts.ready_replicas < wanted:
        what = "the copy is not done" if is_copy(ctx.scope.etcd) else "etcd is not serving"
        return Wait(EtcdReason.PODS_NOT_READY, f"{what}: {counts.ready_replicas} of {wanted} pods are ready")
    return Done()


async def stop_pods(ctx: EtcdContext) -> Outcome:
    """Remove the pods: their programs must end before anything else is deleted."""
    live, stateful_set = ctx.scope.stateful_set_object, ctx.scope.stateful_set
    if live is None or stateful_set is None:
        hidden = await ctx.writer.read(STATEFUL_SET, ctx.object.key)
        if hidden is None or not ctx.scope.owns(hidden):
            return Continue()
        await ctx.writer.merge(STATEFUL_SET, hidden, {"metadata": {"labels": selector(ctx.scope.etcd)}})
        return Wait(EtcdReason.PODS_STOPPING, f"StatefulSet {hidden.name} had lost the labels it is watched by")
    if live.metadata.deletion_timestamp is None and stateful_set.spec.replicas:
        await ctx.writer.merge(STATEFUL_SET, live, {"spec": {"replicas": 0}})
        return Wait(EtcdReason.PODS_STOPPING, "the pods are terminating")
    if stateful_set.status.replicas or not _is_observed(ctx.scope, stateful_set):
        return Wait(EtcdReason.PODS_STOPPING, f"{stateful_set.status.replicas} pods still run")
    return Continue()


async def delete_objects(ctx: EtcdContext) -> Outcome:
    """Delete its objects. A later Etcd of the same name creates its own."""
    owned = [(resource, object_) for (resource, _), object_ in ctx.scope.live.items() if ctx.scope.owns(object_)]
    for resource, object_ in owned:
        await ctx.writer.delete(resource, object_, ctx.scope.belongs)
    if owned:
        return Wait(
            EtcdReason.DELETING,
            f"waiting for {', '.join(f'{resource.kind} {object_.name}' for resource, object_ in owned)}",
        )
    return Continue()


async def delete_claims(ctx: EtcdContext) -> Outcome:
    """Delete the data. An Etcd that only copies has none; that of one that was deleted without confirmation stay: it is
    recreated, and its pods get them again."""
    if is_copy(ctx.scope.etcd) or not is_deletion_confirmed(ctx.object.metadata):
        return Continue()
    for claim in ctx.scope.claims:
        await ctx.writer.delete(PERSISTENT_VOLUME_CLAIM, claim, found_by_owner)
    if ctx.scope.claims:
        waiting = ", ".join(claim.name for claim in ctx.scope.claims)
        return Wait(EtcdReason.DELETING, f"waiting for PersistentVolumeClaim {waiting}")
    return Continue()


async def release(ctx: EtcdContext) -> Outcome:
    """Remove the finalizer."""
    await ctx.writer.remove_finalizer(Etcd.resource, ctx.object, names.FINALIZER)
    return Done()


STEPS: tuple[Step[EtcdContext], ...] = (add_finalizer, write_objects, wait_for_pods)
DELETION_STEPS: tuple[Step[EtcdContext], ...] = (stop_pods, delete_objects, delete_claims, release)


def steps_of(ctx: EtcdContext) -> tuple[Step[EtcdContext], ...]:
    """The steps to run. An Etcd without our finalizer has no objects of ours."""
    if not ctx.scope.is_deleted:
        return STEPS
    return DELETION_STEPS if names.FINALIZER in ctx.object.metadata.finalizers else ()


def _is_observed(scope: Scope, stateful_set: StatefulSet) -> bool:
    live = scope.stateful_set_object
    return live is not None and stateful_set.status.observed_generation >= live.metadata.generation
