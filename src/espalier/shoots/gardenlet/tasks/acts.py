"""Actions that several tasks share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from espalier.api.gardener.responsibility import is_deletion_confirmed
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.gardener.vocabulary.reasons import TaskReason
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.kube.objects import Object
from espalier.runtime.controllers.outcome import Continue, Done, Wait
from espalier.runtime.controllers.writer import OtherOwner, Precondition, found_by_owner
from espalier.shoots.flow.task import Action, Failure, Overdue, Verdict
from espalier.shoots.gardenlet.comparison import is_as_rendered, stamped
from espalier.shoots.gardenlet.context import ShootContext
from espalier.shoots.gardenlet.names import SHOOT_UID

CONFIRMED = {metadata_keys.CONFIRM_DELETION: "true"}
"""The annotation without which nobody deletes what is behind a resource."""
SOON = 5.0
"""Seconds after which something is observed again that normally reports by events."""


def write_action(what: str, *writes: Callable[[], Awaitable[object]]) -> Action:
    """Return the action that awaits these writes one after another. It ends with a wait: the next observation shows
    whether they were enough."""

    async def run() -> Continue | Wait | Failure:
        for write in writes:
            await write()
        return Wait(TaskReason.OBJECT_WRITTEN, f"{what}: done", after=SOON)

    return Action(what, run)


def of_shoot(ctx: ShootContext) -> OtherOwner:
    """Return the check that a write to a namespace or a Cluster makes first: it refuses objects of other shoots."""
    scope = ctx.scope

    def other_owner(_resource: Resource, object_: Object) -> str:
        uid = scope.holder_of(object_)
        if uid == scope.uid:
            return ""
        if uid:
            return f"of the shoot with UID {uid}"
        return f"of no shoot; if it belongs to this one, annotate it with {SHOOT_UID}={scope.uid}"

    return other_owner


def held_by(live: Object) -> str:
    """The finalizers that hold an object, for a message; empty if there are none."""
    finalizers = ", ".join(live.metadata.finalizers)
    return f" (held by finalizers {finalizers})" if finalizers else ""


def apply_object(
    ctx: ShootContext, resource: Resource, live: Object | None, body: Tree, other_owner: OtherOwner = found_by_owner
) -> Verdict:
    """`Done` if the object is as rendered, else the action that applies it."""
    rendered = stamped(body)
    if is_as_rendered(live, rendered):
        return Done()
    name = body["metadata"]["name"]
    if live is not None and live.metadata.deletion_timestamp is not None:
        return Wait(
            TaskReason.DELETING,
            f"{resource.kind} {name} is being deleted{held_by(live)} and will then be recreated",
            after=SOON,
        )
    return write_action(f"apply {resource.kind} {name}", lambda: ctx.tools.seed.apply(resource, rendered, other_owner))


def delete_object(
    ctx: ShootContext, resource: Resource, live: Object | None, other_owner: OtherOwner = found_by_owner
) -> Verdict:
    """`Done` if the object does not exist, else the action that deletes it."""
    if live is None:
        return Done()
    if live.metadata.deletion_timestamp is not None:
        message = f"{resource.kind} {live.name} is being deleted{held_by(live)}"
        return Wait(TaskReason.DELETING, message, after=SOON)
    return write_action(
        f"delete {resource.kind} {live.name}", lambda: ctx.tools.seed.delete(resource, live, other_owner)
    )


def delete_confirmed(ctx: ShootContext, resource: Resource, live: Object | None) -> Verdict:
    """`Done` if the object does not exist, else the action that confirms its deletion, then that which deletes it."""
    if live is None or is_deletion_confirmed(live.metadata):
        return delete_object(ctx, resource, live)
    patch: Tree = {"metadata": {"annotations": CONFIRMED}}
    what = f"confirm the deletion of {live.kind} {live.name}"
    return write_action(what, lambda: ctx.tools.seed.merge(resource, live, patch, Precondition.UID))


def combined(verdicts: Iterable[Verdict]) -> Verdict:
    """Return one verdict for several: an action that runs all actions in order and returns the first failure, else the
    first wait; without actions the first failure, then the first overdue wait, then the first wait; else `Done`."""
    results = list(verdicts)
    actions = [verdict for verdict in results if isinstance(verdict, Action)]
    if actions:
        what = "; ".join(action.what for action in actions)

        async def run() -> Continue | Wait | Failure:
            outcomes = [await action.run() for action in actions]
            unfinished = [outcome for outcome in outcomes if not isinstance(outcome, Continue)]
            failures = (outcome for outcome in unfinished if isinstance(outcome, Failure))
            return next(failures, unfinished[0] if unfinished else Continue())

        return Action(what, run)
    for kind in (Failure, Overdue, Wait):
        of_kind = [verdict for verdict in results if isinstance(verdict, kind)]
        if of_kind:
            return of_kind[0]
    return Done()
