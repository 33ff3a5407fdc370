"""The reconciler of a kind with a status: observe, act in steps, report."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.kube.errors import Conflict, KubeError, NotFound
from espalier.kube.objects import Object
from espalier.runtime import steps
from espalier.runtime.events import EventType, Recorder
from espalier.runtime.outcome import Done, Outcome, Wait, fault_of
from espalier.runtime.steps import Step
from espalier.runtime.writer import NameTaken, Precondition, Writer


class Context(Protocol):
    """One reconcile of one object."""

    @property
    def object(self) -> Object:
        """The object, as it was observed or as a step wrote it."""
        ...


C = TypeVar("C", bound=Context)


class Event(NamedTuple):
    """Something that became so."""

    type: EventType
    reason: str
    message: str


@dataclass(frozen=True)
class Report:
    """The report of a reconcile on its object."""

    status: msgspec.Struct | Tree
    events: Sequence[Event] = ()
    """Recorded when the status was written: what it says no longer is no event again."""
    before: msgspec.Struct | None = None
    """The status as it was understood; what else is in it stays. None where all of it is ours."""


@dataclass(frozen=True)
class Reconciled(Generic[C]):
    """A kind that is reconciled: the functions in which kinds differ."""

    resource: Resource
    find: Callable[[Key], Object | None]
    observe: Callable[[Object], C | None]
    """All that is read; None when the object is gone meanwhile. Raises `msgspec.ValidationError` for none of its kind.
    """
    steps: Callable[[C], Sequence[Step[C]]]
    """The steps to run, given what was observed."""
    report: Callable[[C, Outcome], Report | None]
    """The report after a reconcile; None for none. Not called once the finalizer of a deleted object is removed."""
    unreadable: Callable[[Object, msgspec.ValidationError], tuple[Outcome, Report]] | None = None
    """The outcome and report for an object that can't be decoded; without it the error is raised."""
    failed: Callable[[KubeError | NameTaken], Outcome] = fault_of
    """The outcome of a failed write or read."""
    conceal: Callable[[C, Outcome], Outcome] = lambda _, outcome: outcome
    """An outcome without what nobody may read."""


class Reconciler(Generic[C]):
    """Brings one object a step further at a time, and says where it is. `forget` is told of keys that are gone."""

    def __init__(
        self,
        reconciled: Reconciled[C],
        writer: Writer,
        recorder: Recorder,
        forget: Sequence[Callable[[Key], object]] = (),
    ) -> None:
        self._reconciled = reconciled
        self._writer = writer
        self._recorder = recorder
        self._forget = forget

    async def reconcile(self, key: Key) -> Outcome:
        """Whatever can be done now is done, and the status is true afterwards."""
        reconciled = self._reconciled
        found = reconciled.find(key)
        try:
            ctx = reconciled.observe(found) if found is not None else None
        except msgspec.ValidationError as error:
            if reconciled.unreadable is None or found is None:
                raise
            outcome, report = reconciled.unreadable(found, error)
            await self._write_report(found, report)
            return outcome
        if ctx is None:
            for forget in self._forget:
                forget(key)
            return Done()
        outcome = reconciled.conceal(ctx, await self._act(ctx))
        if ctx.object.metadata.deletion_timestamp is not None and isinstance(outcome, Done):
            return outcome
        said = reconciled.report(ctx, outcome)
        if said is not None:
            await self._write_report(ctx.object, said)
        return outcome

    async def _act(self, ctx: C) -> Outcome:
        try:
            return await steps.run(self._reconciled.steps(ctx), ctx)
        except (KubeError, NameTaken) as error:
            return self._reconciled.failed(error)

    async def _write_report(self, found: Object, report: Report) -> None:
        """Write the status where it differs, and record what is new."""
        try:
            written = await self._writer.status(
                self._reconciled.resource, found, report.status, Precondition.UID, before=report.before
            )
        except NotFound:
            return
        if written is not found:
            for event in report.events:
                self._recorder.event(found, *event)


def replanned(reconcile: Callable[[Key], Awaitable[Outcome]]) -> Callable[[Key], Awaitable[Outcome]]:
    """A reconcile whose plan turned out to be older than the world waits for the newer state instead of failing."""

    async def attempt(key: Key) -> Outcome:
        try:
            return await reconcile(key)
        except (Conflict, NotFound) as stale:
            return Wait("PlanOutdated", f"the world changed while this was planned: {stale}", after=1.0)

    return attempt
