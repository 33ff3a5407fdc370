"""The reconciler of a kind with a status: observe, act in steps, report."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from espalier.api.meta import Tree
from espalier.api.moves import DELETE_FOR_MOVE
from espalier.api.resource import Key, Resource
from espalier.kube.errors import Conflict, KubeError, NotFound
from espalier.kube.objects import Object
from espalier.runtime.controllers import steps
from espalier.runtime.controllers.events import EventType, Recorder
from espalier.runtime.controllers.outcome import Done, Outcome, Wait, fault_of, outdated
from espalier.runtime.controllers.steps import Step
from espalier.runtime.controllers.writer import NameTaken, Precondition, Writer


class ReconcileContext(Protocol):
    """One reconcile of one object."""

    @property
    def object(self) -> Object:
        """The object as observed, or as written by a step."""
        ...


C = TypeVar("C", bound=ReconcileContext)


class Event(NamedTuple):
    """An event to record."""

    type: EventType
    reason: str
    message: str


@dataclass(frozen=True)
class Report:
    """The report of a reconcile on its object."""

    status: msgspec.Struct | Tree
    events: Sequence[Event] = ()
    """Recorded only if the status was written, so that an unchanged status repeats no event."""
    before: msgspec.Struct | Tree | None = None
    """The status before, as far as it is ours; other fields in it stay. None if the whole status is ours."""
    precondition: Precondition = Precondition.UID
    """By version where others write parts of the same lists. Raises `Conflict` then; see `replanned`."""
    again: float | None = None
    """Seconds until the report changes though nothing else does, by when the next reconcile comes; None if it stays."""


@dataclass(frozen=True)
class Reconciled(Generic[C]):
    """The functions in which reconciled kinds differ."""

    resource: Resource
    find: Callable[[Key], Object | None]
    observe: Callable[[Object], C | None]
    """Reads everything; None if the object is gone. Raises `msgspec.ValidationError` for an invalid object."""
    steps: Callable[[C], Sequence[Step[C]]]
    """The steps to run, given what was observed."""
    report: Callable[[C, Outcome], Report | None]
    """The report after a reconcile; None for none. Not called once the finalizer of a deleted object is removed."""
    unreadable: Callable[[Object, msgspec.ValidationError], tuple[Outcome, Report]] | None = None
    """The outcome and report for an object that can't be decoded; without it the error is raised."""
    errors: tuple[type[Exception], ...] = (KubeError, NameTaken)
    """The exceptions that end a step with an outcome: those of writes and reads, and others of this kind. Any other is
    a bug."""
    failed: Callable[[Any], Outcome] = fault_of
    """The outcome of one of them."""
    conceal: Callable[[C, Outcome], Outcome] = lambda _, outcome: outcome
    """Removes secrets from an outcome."""
    finalizers: Sequence[str] | None = None
    """Our finalizers on objects of this kind, if it can be moved to another management cluster. Objects with annotation
    `DELETE_FOR_MOVE` lose them when they are deleted, and nothing else is done for them. None: the annotation has no
    meaning."""


class Reconciler(Generic[C]):
    """Reconciles one object at a time and reports its status. `forget` is called with keys of deleted objects, and of
    those that are not observed.

    Without `recorder` no events are recorded.
    """

    def __init__(
        self,
        reconciled: Reconciled[C],
        writer: Writer,
        recorder: Recorder | None = None,
        forget: Sequence[Callable[[Key], object]] = (),
    ) -> None:
        self._reconciled = reconciled
        self._writer = writer
        self._recorder = recorder
        self._forget = forget

    async def reconcile(self, key: Key) -> Outcome:
        """Do whatever can be done now, and update the status."""
        reconciled = self._reconciled
        object_ = reconciled.find(key)
        if object_ is not None and reconciled.finalizers is not None and is_moved_away(object_):
            return await self._let_go(object_, reconciled.finalizers)
        try:
            ctx = reconciled.observe(object_) if object_ is not None else None
        except msgspec.ValidationError as error:
            if reconciled.unreadable is None or object_ is None:
                raise
            outcome, fault_report = reconciled.unreadable(object_, error)
            await self._write_report(object_, fault_report)
            return outcome
        if ctx is None:
            for forget in self._forget:
                forget(key)
            return Done()
        outcome = reconciled.conceal(ctx, await self._act(ctx))
        if ctx.object.metadata.deletion_timestamp is not None and isinstance(outcome, Done):
            return outcome
        report = reconciled.report(ctx, outcome)
        if report is None:
            return outcome
        await self._write_report(ctx.object, report)
        return _not_later(outcome, report.again)

    async def _let_go(self, object_: Object, finalizers: Sequence[str]) -> Outcome:
        if object_.metadata.deletion_timestamp is None:
            return Done()
        try:
            await self._writer.remove_finalizer(self._reconciled.resource, object_, *finalizers)
        except KubeError as error:
            return fault_of(error)
        return Done()

    async def _act(self, ctx: C) -> Outcome:
        try:
            return await steps.run(self._reconciled.steps(ctx), ctx)
        except self._reconciled.errors as error:
            return self._reconciled.failed(error)

    async def _write_report(self, object_: Object, report: Report) -> None:
        await write_report(self._reconciled.resource, object_, report, self._writer, self._recorder)


def is_moved_away(object_: Object) -> bool:
    """True if an object is deleted, or about to be, because another management cluster has it now."""
    return DELETE_FOR_MOVE in object_.metadata.annotations


def _not_later(outcome: Outcome, again: float | None) -> Outcome:
    """The outcome, with a reconcile after so many seconds at the latest. Faults are retried much sooner."""
    if again is None or not isinstance(outcome, Wait | Done):
        return outcome
    return replace(outcome, after=again if outcome.after is None else min(again, outcome.after))


async def write_report(
    resource: Resource, object_: Object, report: Report, writer: Writer, recorder: Recorder | None
) -> None:
    """Write the status if it differs, and then record the events. An object that is gone gets neither."""
    try:
        written = await writer.status(resource, object_, report.status, report.precondition, before=report.before)
    except NotFound:
        return
    if written is not object_ and recorder is not None:
        for event in report.events:
            recorder.event(object_, *event)


def replanned(reconcile: Callable[[Key], Awaitable[Outcome]]) -> Callable[[Key], Awaitable[Outcome]]:
    """The reconcile, with a wait instead of a failure if its plan was made from an outdated state."""

    async def attempt(key: Key) -> Outcome:
        try:
            return await reconcile(key)
        except (Conflict, NotFound) as stale:
            return outdated(stale)

    return attempt
