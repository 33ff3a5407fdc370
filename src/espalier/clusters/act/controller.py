"""The Cluster controller: observes, acts and reports in each reconcile of a Cluster."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import datetime

import msgspec

from espalier.api import conditions
from espalier.api.eksa.cluster import ClusterStatus
from espalier.api.eksa.vocabulary import events as recorded
from espalier.api.eksa.vocabulary.group import (
    ALLOW_DELETE_WHEN_PAUSED_ANNOTATION,
    CLUSTER_FINALIZER,
    MOVE_ANNOTATION,
    PAUSED_ANNOTATION,
)
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.identity import ClusterIdentity
from espalier.api.meta import Condition
from espalier.api.moves import DELETE_FOR_MOVE
from espalier.api.text import redaction
from espalier.clusters.act.context import ClusterContext, ClusterTools
from espalier.clusters.act.deletion_steps import guard, wait_for_managed_clusters
from espalier.clusters.act.step import CLUSTER, ClusterStep
from espalier.clusters.act.steps import DELETION, await_adoption, steps_of
from espalier.clusters.design import names
from espalier.clusters.observe.rules import messages
from espalier.clusters.observe.scope import Scope
from espalier.clusters.observe.watches import Watches
from espalier.clusters.report.status import reported, reported_after, unreadable
from espalier.kube.errors import BadRequest, Forbidden, Invalid, KubeError
from espalier.kube.objects import Object
from espalier.runtime.controllers.controller import RESYNC, Controller
from espalier.runtime.controllers.outcome import Continue, Done, Fault, Outcome, Wait, fault_of
from espalier.runtime.controllers.reconciler import Event, Reconciled, Reconciler, Report, is_moved_away
from espalier.runtime.controllers.writer import NameTaken

NAME = "cluster"

SPACING = 0.1
"""Seconds from the end of a reconcile of a Cluster to the next: each write begins a burst of changes, which causes one.
"""

_REFUSALS = (Invalid, Forbidden, BadRequest)
"""Errors with which an API server refuses a write for good: retrying does not help."""

_RECORDED = (names.CONTROL_PLANE_READY, names.READY)
"""Conditions for which an event is recorded when they become True; the steps in between have events of their own."""
_REASONED = (names.KUBECONFIG_COPIED, names.CERTIFICATES_VALID)
"""Conditions that are there only when something is wrong."""


def controller(
    tools: ClusterTools, *, workers: int = 10, resync: float = RESYNC, rng: random.Random | None = None
) -> Controller:
    """The controller of Clusters, with its watches."""
    observer = tools.observer

    def observe(object_: Object) -> ClusterContext | None:
        if MOVE_ANNOTATION in object_.metadata.annotations:
            return None
        scope = observer.scope(object_.key)
        if scope is None or (scope.is_of_eks_anywhere and scope.other_controller):
            return None  # its own controller reports on it
        settling = tools.settling.judge(scope, tools.clock.monotonic())
        return ClusterContext(tools, msgspec.structs.replace(scope, settling=settling))

    clusters = Reconciled(
        CLUSTER,
        observer.clusters.get,
        observe,
        due,
        report,
        unreadable=lambda object_, error: not_a_cluster(object_, error, tools.clock.now()),
        failed=outcome_of_failure,
        conceal=lambda ctx, outcome: ctx.scope.without_secrets(outcome),
        finalizers=tuple(sorted(names.FINALIZERS)),
    )
    forget = (
        lambda key: tools.remotes.drop(ClusterIdentity.of(key)),
        tools.remote_tasks.forget,
        tools.rate_limits.forget,
        tools.settling.forget,
        observer.forget,
        *([tools.copies.forget] if tools.copies else []),
    )
    reconciler = Reconciler(clusters, tools.writer, tools.recorder, forget)
    controller_ = Controller(NAME, reconciler.reconcile, workers=workers, spacing=SPACING, resync=resync, rng=rng)
    Watches(observer).begin(controller_)
    for source in (tools.remote_tasks.done, tools.rate_limits, tools.copies):
        if source is not None:
            source.subscribe(controller_.enqueue)
    return controller_


def due(ctx: ClusterContext) -> Sequence[Callable[[ClusterContext], Awaitable[Outcome]]]:
    """The steps of this reconcile."""
    if is_leaving(ctx.scope):
        return (ClusterStep(await_departure),)
    if ctx.scope.is_deleted and ctx.scope.is_of_eks_anywhere:  # its objects have no labels of ours: they would stay
        return (ClusterStep(await_adoption),)
    if ctx.scope.is_deleted:
        return (guard, ClusterStep(wait_for_managed_clusters), ClusterStep(deletion_obstacle), *DELETION)
    return (guard, *steps_of(ctx.scope))


def is_leaving(scope: Scope) -> bool:
    """True if the objects of the cluster are being deleted here, because another management cluster has them now."""
    cluster = scope.capi_objects.cluster_object
    return cluster is not None and is_moved_away(cluster)


def await_departure(scope: Scope) -> Outcome:
    """Wait until whoever moves the cluster has deleted its Cluster, too."""
    name = scope.cluster_identity.capi
    message = (
        f"Cluster.cluster.x-k8s.io {name} is being moved: it has annotation {DELETE_FOR_MOVE}; remove it to resume"
    )
    return Wait(Reason.PAUSED, message)


def outcome_of_failure(error: KubeError | NameTaken) -> Outcome:
    """The outcome of a reconcile whose request failed."""
    if isinstance(error, NameTaken):  # since the scope was read
        return Wait(Reason.CLUSTER_NAME_TAKEN, messages.name_taken([error]), after=1.0)
    fault = fault_of(error)
    return Fault(Reason.OBJECT_REFUSED, fault.message) if isinstance(error, _REFUSALS) else fault


def not_a_cluster(object_: Object, error: Exception, now: datetime) -> tuple[Outcome, Report]:
    """The fault for a stored Cluster that can't be decoded: it passed a schema that is not ours."""
    fault = Fault(Reason.CLUSTER_INVALID, f"stored Cluster is invalid: {error}", terminal=True)
    return fault, Report(unreadable(object_, fault, now), before=reported(object_))


def report(ctx: ClusterContext, outcome: Outcome) -> Report:
    """The status, with events for conditions that became True and for faults."""
    old, now = ctx.scope.status, ctx.tools.clock.now()
    result = reported_after(ctx.scope, outcome, now, ctx.synced, ctx.copied)
    new = result.status
    events = (
        Event(type_, reason, redaction.concealed(message, ctx.scope.secrets))
        for type_, reason, message in _events(old, new)
    )
    if not (faults := ctx.scope.unreadable_status):
        return Report(new, tuple(events), before=old, again=result.again)
    told = [name for name in faults if name != "conditions"]  # those of EKS Anywhere are of another format
    message = f"fields of the status can't be read, and are written anew: {', '.join(told)}"
    warning = [Event("Warning", recorded.Event.STATUS_UNREADABLE, message)] if told else []
    before = {**msgspec.to_builtins(old), **faults}
    return Report(new, (*warning, *events), before=before, again=result.again)


def _events(old: ClusterStatus, new: ClusterStatus) -> Iterator[Event]:
    for condition in new.conditions:
        before = conditions.get(old.conditions, condition.type)
        if condition.type in _RECORDED and _became_true(before, condition):
            yield Event("Normal", condition.type, condition.message)
        elif condition.type in _REASONED and (before is None or before.reason != condition.reason):
            yield Event("Warning", condition.reason, condition.message)
        elif condition.reason == Reason.DRIFTED and (before is None or before.message != condition.message):
            yield Event("Warning", Reason.DRIFTED, condition.message)
    if new.failure_reason and new.failure_reason != old.failure_reason:
        yield Event("Warning", new.failure_reason, new.failure_message or "")


def deletion_obstacle(scope: Scope) -> Outcome:
    """The reason why a deleted Cluster is not torn down: it is paused without permission to delete it, or nothing is
    left.

    If our finalizer is gone and objects are left, somebody removed it; for a paused Cluster this keeps its objects.
    """
    metadata = scope.cluster.metadata
    is_gone = not any(scope.capi_objects.objects.values())
    keeps_objects = scope.is_paused and ALLOW_DELETE_WHEN_PAUSED_ANNOTATION not in metadata.annotations
    if CLUSTER_FINALIZER not in metadata.finalizers and (is_gone or keeps_objects or not metadata.finalizers):
        others = ", ".join(finalizer for finalizer in metadata.finalizers if finalizer not in names.FINALIZERS)
        if not others:
            return Done()
        left = "are gone" if is_gone else "are kept"
        message = f"waiting for other controllers to remove their finalizers: {others}"
        return Wait(Reason.DELETING, f"the objects of the cluster {left}; {message}")
    if scope.is_management and scope.capi_objects.cluster_object is not None:
        return Wait(Reason.PAUSED, messages.runs_on_itself(scope.key.name))
    if not keeps_objects:
        return Continue()
    message = (
        f"the cluster is paused; remove annotation {PAUSED_ANNOTATION}, or add annotation "
        f"{ALLOW_DELETE_WHEN_PAUSED_ANNOTATION}, to delete it"
    )
    return Wait(Reason.PAUSED, message)


def _became_true(before: Condition | None, now: Condition) -> bool:
    return now.status == "True" and (before is None or before.status != "True")
