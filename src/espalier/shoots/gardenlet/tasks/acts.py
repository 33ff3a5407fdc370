"""Actions that several tasks share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.kube.objects import Object
from espalier.runtime.outcome import Continue, Done, Wait
from espalier.runtime.writer import Belongs, found_by_owner
from espalier.shoots.flow.task import Act, Failure, Overdue, Verdict
from espalier.shoots.gardenlet.comparing import is_as_rendered, stamped
from espalier.shoots.gardenlet.context import Context
from espalier.shoots.gardenlet.names import SHOOT_UID

SOON = 5.0
"""Seconds after which something is observed again that normally reports by events."""


def act(what: str, *writes: Callable[[], Awaitable[object]]) -> Act:
    """Do these one after another. The next observation shows whether that was enough."""

    async def run() -> Continue | Wait | Failure:
        for write in writes:
            await write()
        return Wait("ObjectWritten", f"{what}: done", after=SOON)

    return Act(what, run)


def of_shoot(ctx: Context) -> Belongs:
    """Reports the owner of a namespace or a Cluster whose mark has another UID than the shoot's."""
    scope = ctx.scope

    def belongs(_resource: Resource, found: Object) -> str:
        theirs = scope.holder_of(found)
        if theirs == scope.uid:
            return ""
        if theirs:
            return f"of the shoot with UID {theirs}"
        return f"of no shoot; if it belongs to this one, annotate it with {SHOOT_UID}={scope.uid}"

    return belongs


def applied(
    ctx: Context, resource: Resource, live: Object | None, body: Tree, belongs: Belongs = found_by_owner
) -> Verdict:
    """`Done` if the object is as rendered, else the action that applies it."""
    stamp = stamped(body)
    if is_as_rendered(live, stamp):
        return Done()
    name = body["metadata"]["name"]
    if live is not None and live.metadata.deletion_timestamp is not None:
        return Wait("BeingDeleted", f"{resource.kind} {name} is being deleted and will then be recreated", after=SOON)
    return act(f"apply {resource.kind} {name}", lambda: ctx.tools.seed.apply(resource, stamp, belongs))


def gone(ctx: Context, resource: Resource, live: Object | None, belongs: Belongs = found_by_owner) -> Verdict:
    """`Done` if the object does not exist, else the action that deletes it."""
    if live is None:
        return Done()
    if live.metadata.deletion_timestamp is not None:
        held = ", ".join(live.metadata.finalizers)
        by = f", held by finalizers {held}" if held else ""
        return Wait("BeingDeleted", f"{resource.kind} {live.name} is being deleted{by}", after=SOON)
    return act(f"delete {resource.kind} {live.name}", lambda: ctx.tools.seed.delete(resource, live, belongs))


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """One verdict of several: all actions are done at once; then a failure is reported, then the longest
    wait."""
    found = list(verdicts)
    acts = [verdict for verdict in found if isinstance(verdict, Act)]
    if acts:
        what = "; ".join(one.what for one in acts)

        async def run() -> Continue | Wait | Failure:
            outcomes = [await one.run() for one in acts]
            worse = [outcome for outcome in outcomes if not isinstance(outcome, Continue)]
            return next((one for one in worse if isinstance(one, Failure)), worse[0] if worse else Continue())

        return Act(what, run)
    for kind in (Failure, Overdue, Wait):
        same = [verdict for verdict in found if isinstance(verdict, kind)]
        if same:
            return same[0]
    return Done()
