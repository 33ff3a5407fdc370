"""A step of a reconcile: a decision over the scope and its action.

A decision that depends only on the scope is a pure function: `ClusterStep` acts on it, and previews call it too. Plain
coroutines among the steps only act: their results are not known in advance.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeAlias

from espalier.api.eksa import cluster as eksa
from espalier.clusters.act.context import ClusterContext
from espalier.clusters.design.provider import RenderInput
from espalier.clusters.observe.scope import Scope
from espalier.clusters.plan import decisions
from espalier.clusters.plan.decisions import Decisions
from espalier.clusters.plan.plan import Change, Removal
from espalier.runtime.controllers.outcome import Continue, Outcome, Wait

CLUSTER = eksa.Cluster.resource


class Write(NamedTuple):
    """Cluster API objects to write and to delete, in order; an event with this reason is recorded for each."""

    what: Sequence[Change | Removal]
    reason: str
    until: Wait | None = None
    """The wait before any of it is written."""
    later: Write | None = None
    """The write when the waits that end by themselves are over; None if it is no other."""


class Waits(NamedTuple):
    """All that a step waits for. The first is reported."""

    of: tuple[Wait, ...]


Decision: TypeAlias = Outcome | Write | Waits


async def write(ctx: ClusterContext, decision: Decision) -> Outcome:
    """Act on a decision: wait, or write and delete and continue with the next step."""
    if isinstance(decision, Waits):
        return decision.of[0]
    if not isinstance(decision, Write):
        return decision
    if decision.until is not None:
        return decision.until
    await ctx.write(decision.what, decision.reason)
    return Continue()


def foreseen(decision: Decision) -> Decision:
    """The decision when all waits that end by themselves are over: what a preview shows."""
    match decision:
        case Write():
            last = decision.later or decision
            if last.until is not None and not last.until.ends_by_itself:
                return last.until
            return last._replace(until=None)
        case Waits():
            lasting = (wait for wait in decision.of if not wait.ends_by_itself)
            return next(lasting, Continue())
        case Wait(ends_by_itself=True):
            return Continue()
    return decision


class ClusterStep:
    """A decision over the scope and its action, named in logs after the decision."""

    def __init__(
        self,
        decide: Callable[[Scope], Decision],
        act: Callable[[ClusterContext, Decision], Awaitable[Outcome]] = write,
        *,
        awaits: bool = False,
    ) -> None:
        self.decide = decide
        self.awaits = awaits
        """True if the step waits for other controllers to report on the written objects."""
        self.__name__ = decide.__name__
        self._act = act

    async def __call__(self, ctx: ClusterContext) -> Outcome:
        """Decide and act."""
        return await self._act(ctx, self.decide(ctx.scope))


def decisions_of(scope: Scope) -> Decisions:
    """The decisions of the plan, which every Cluster has after step `check`."""
    planned = decisions.of(scope)
    if planned is None:
        raise AssertionError("step `check` passes no Cluster without a render input")
    return planned


def render_input_of(scope: Scope) -> RenderInput:
    """The render input, which every Cluster has after step `check`."""
    return decisions_of(scope).render_input
