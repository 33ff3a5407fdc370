"""The frame of every reconcile over an upgrade, of one node or of several: observe, act in steps, report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import msgspec

from espalier.api import conditions as condition_list
from espalier.api.meta import Condition, Observed, Tree
from espalier.api.resource import Key, Resource
from espalier.kube.errors import KubeError, NotFound
from espalier.kube.objects import Object
from espalier.runtime import steps
from espalier.runtime.outcome import Done, Outcome, Wait, fault_of
from espalier.runtime.steps import Step
from espalier.runtime.writer import Precondition
from espalier.upgrades import names
from espalier.upgrades.context import Tools


class Context(Protocol):
    """One reconcile of one upgrade."""

    @property
    def object(self) -> Object:
        """The upgrade."""
        ...

    @property
    def is_deleted(self) -> bool:
        """Whether deletion was asked for."""
        ...

    @property
    def is_done(self) -> bool:
        """Whether it was completed, by an earlier reconcile."""
        ...


P = TypeVar("P", bound=Context)


@dataclass(frozen=True)
class Report:
    """What a reconcile says of an upgrade."""

    before: Sequence[Condition]
    """Its conditions as they were."""
    now: Sequence[Condition]
    """Those that the reconcile knows; others stay."""
    status: Callable[[list[Condition]], tuple[Observed, Tree]]
    """The status with its conditions, and fields that are written also where they have their defaults."""
    quiet: frozenset[str] = frozenset()
    """Reasons of Ready that are no event."""


@dataclass(frozen=True)
class Kind(Generic[P]):
    """What differs between the kinds of upgrades."""

    resource: Resource
    observe: Callable[[Tools, Object], P]
    life: Sequence[Step[P]]
    deletion: Sequence[Step[P]]
    report: Callable[[P, Outcome], Report]
    afterwards: Sequence[Step[P]] = ()
    """What is left to be done once it was completed; nothing is told of it."""
    passing: frozenset[str] = frozenset()
    """Reasons of waiting for what this very reconcile has written: the next one comes at once, and tells of both."""


class Reconciler(Generic[P]):
    """Brings one upgrade a step further at a time, and says where it is."""

    def __init__(self, tools: Tools, kind: Kind[P]) -> None:
        self._tools = tools
        self._kind = kind

    async def reconcile(self, key: Key) -> Outcome:
        """One pass: whatever can be done now is done, and the status is true afterwards."""
        kind = self._kind
        found = self._tools.observer.upgrade(kind.resource, key.name)
        if found is None:
            return Done()
        ctx = kind.observe(self._tools, found)
        is_over = ctx.is_done and not ctx.is_deleted
        due = kind.deletion if ctx.is_deleted else kind.afterwards if is_over else kind.life
        try:
            outcome = await steps.run(due, ctx)
        except KubeError as error:
            outcome = fault_of(error)
        is_passing = isinstance(outcome, Wait) and outcome.reason in kind.passing
        if not (is_over or is_passing or (ctx.is_deleted and isinstance(outcome, Done))):
            await self._report(ctx.object, kind.report(ctx, outcome))
        return outcome

    async def _report(self, found: Object, report: Report) -> None:
        """Write the status where it differs, and tell of what is new."""
        conditions = list(report.before)
        for condition in report.now:
            condition.observed_generation = found.metadata.generation
            conditions = condition_list.set(conditions, condition, self._tools.clock.now())
        status, always = report.status(conditions)
        try:
            wanted = always | msgspec.to_builtins(status)
            written = await self._tools.writer.status(self._kind.resource, found, wanted, Precondition.UID)
        except NotFound:
            return
        before = condition_list.get(report.before, names.READY)
        now = condition_list.get(conditions, names.READY)
        if written is found or now is None or now.reason in report.quiet or (before and before.reason == now.reason):
            return
        is_bad = now.reason.endswith("Failed")
        self._tools.recorder.event(found, "Warning" if is_bad else "Normal", now.reason, now.message)
