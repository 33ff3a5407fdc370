"""The Cluster controller: observe, act in steps, report."""

from __future__ import annotations

import random
from contextlib import suppress

import msgspec

from espalier.api import conditions
from espalier.api.eksa.group import ALLOW_DELETE_WHEN_PAUSED_ANNOTATION, CLUSTER_FINALIZER
from espalier.api.identity import ClusterIdentity
from espalier.api.meta import Condition
from espalier.api.resource import Key
from espalier.clusters import names, synced
from espalier.clusters.context import Context, Tools
from espalier.clusters.guarded import NameTaken
from espalier.clusters.recording import guard, held
from espalier.clusters.rules import messages
from espalier.clusters.status import reported, status_of, unreadable
from espalier.clusters.steps import DELETION, steps_of
from espalier.kube.errors import BadRequest, Forbidden, Invalid, KubeError, NotFound
from espalier.runtime import steps
from espalier.runtime.controller import RESYNC, Controller
from espalier.runtime.outcome import Done, Fault, Outcome, Wait, fault_of

NAME = "cluster"

_REFUSALS = (Invalid, Forbidden, BadRequest)
"""What an API server says to a write that will not become right by being repeated."""

_TOLD = (names.CONTROL_PLANE_READY, names.READY)
"""Conditions whose becoming true is an event; the steps in between have events of their own."""


def controller(
    tools: Tools, *, workers: int = 10, resync: float = RESYNC, rng: random.Random | None = None
) -> Controller:
    """The controller of Clusters, with its watches."""
    reconciler = Reconciler(tools)
    made = Controller(NAME, reconciler.reconcile, workers=workers, resync=resync, rng=rng)
    tools.observer.watched_by(made)
    tools.remote_tasks.when_done = made.enqueue
    tools.rate_limits.when_over = made.enqueue
    tools.copies.when_due = made.enqueue
    return made


class Reconciler:
    """Brings one Cluster a step further at a time, and says where it is."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    async def reconcile(self, key: Key) -> Outcome:
        """One pass: whatever can be done now is done, and the status is true afterwards."""
        try:
            scope = self._tools.observer.scope(key)
        except msgspec.ValidationError as error:
            return await self._unreadable(key, error)
        if scope is None:
            self._tools.remotes.drop(ClusterIdentity.of(key))
            self._tools.remote_tasks.forget(key)
            self._tools.rate_limits.answered(key)
            self._tools.observer.linked.forget(key)
            self._tools.copies.forget(key)
            return Done()
        ctx = Context(self._tools, scope)
        outcome = scope.told(await self._act(ctx))
        if not (scope.is_deleted and isinstance(outcome, Done)):
            await self._report(ctx, outcome)
        return outcome

    async def _unreadable(self, key: Key, error: Exception) -> Outcome:
        """Say of a Cluster that nothing can be made of what is stored: a schema that let it pass is not ours."""
        fault = Fault(names.CLUSTER_INVALID, f"the Cluster that is stored is none: {error}", terminal=True)
        found = self._tools.observer.clusters.get(key)
        if found is not None:
            status = unreadable(found, fault, self._tools.clock.now())
            with suppress(NotFound):
                await self._tools.writer.report(found, reported(found), status)
        return fault

    async def _act(self, ctx: Context) -> Outcome:
        scope = ctx.scope
        try:
            await guard(ctx)
            if scope.is_deleted:
                return held(scope) or deletion_obstacle(ctx) or await steps.run(DELETION, ctx)
            return await steps.run(steps_of(scope), ctx)
        except NameTaken as found:  # since the scope was read
            return Wait(names.CLUSTER_NAME_TAKEN, messages.name_taken([found]), after=1.0)
        except _REFUSALS as refusal:
            return Fault(names.OBJECT_REFUSED, fault_of(refusal).message)
        except KubeError as error:
            return fault_of(error)

    async def _report(self, ctx: Context, outcome: Outcome) -> None:
        """Write the status where it differs, and tell what became true or failed."""
        old = ctx.scope.status
        new = status_of(ctx.scope, outcome, self._tools.clock.now(), ctx.synced, ctx.copied)
        try:
            written = await self._tools.writer.report(ctx.scope.object, old, new)
        except NotFound:
            return
        if not written:
            return
        for condition in new.conditions:
            before = conditions.get(old.conditions, condition.type)
            if condition.type in _TOLD and _became_true(before, condition):
                ctx.event("Normal", condition.type, condition.message)
            elif condition.type == names.KUBECONFIG_COPIED and (before is None or before.reason != condition.reason):
                ctx.event("Warning", condition.reason, condition.message)
            elif condition.reason == synced.DRIFTED and (before is None or before.message != condition.message):
                ctx.event("Warning", synced.DRIFTED, condition.message)
        if new.failure_reason and new.failure_reason != old.failure_reason:
            ctx.event("Warning", new.failure_reason, new.failure_message or "")


def deletion_obstacle(ctx: Context) -> Outcome | None:
    """Why a Cluster that is deleted is not torn down: it is paused, and no annotation allows it, or nothing is left.

    Without our finalizer and with something left, somebody took the finalizer away: of a paused Cluster, to leave what
    was made for it as it is.
    """
    metadata = ctx.scope.cluster.metadata
    is_gone = not any(ctx.scope.capi_objects.objects.values())
    is_kept = ctx.scope.is_paused and ALLOW_DELETE_WHEN_PAUSED_ANNOTATION not in metadata.annotations
    if CLUSTER_FINALIZER not in metadata.finalizers and (is_gone or is_kept or not metadata.finalizers):
        others = ", ".join(one for one in metadata.finalizers if one not in names.FINALIZERS)
        if not others:
            return Done()
        left = "is gone" if is_gone else "stays as it is"
        held = f"finalizers of others hold it until they remove them: {others}"
        return Wait("Deleting", f"all that was made for the cluster {left}; {held}")
    if not is_kept:
        return None
    message = (
        f"the cluster is paused; remove the annotation, or add {ALLOW_DELETE_WHEN_PAUSED_ANNOTATION}, to delete it"
    )
    return Wait("Paused", message)


def _became_true(before: Condition | None, now: Condition) -> bool:
    return now.status == "True" and (before is None or before.status != "True")
