"""Shared by the reconciles of all upgrades, of one node or of several machines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, Literal, Protocol, TypeVar

import msgspec

from espalier.api import conditions as condition_list
from espalier.api.definitions.reference import UNCHANGED, Remedy
from espalier.api.eksa.upgrades import (
    ACCEPTED,
    PROGRESSING,
    ControlPlaneUpgrade,
    MachineDeploymentUpgrade,
    NodeUpgrade,
)
from espalier.api.eksa.vocabulary.condition_types import Satisfied
from espalier.api.eksa.vocabulary.reasons import Reason, limit_of, remedy_of
from espalier.api.manifests.schema import preserved_fields
from espalier.api.meta import Condition, Observed, Tree
from espalier.api.resource import Resource
from espalier.api.text.listing import first
from espalier.kube.objects import Object
from espalier.runtime.clock import Clock
from espalier.runtime.controllers import reconciler
from espalier.runtime.controllers.events import Recorder
from espalier.runtime.controllers.outcome import Continue, Done, Outcome, Wait
from espalier.runtime.controllers.reconciler import Event, Reconciled, Reconciler
from espalier.runtime.controllers.steps import Step
from espalier.runtime.controllers.writer import Writer
from espalier.upgrades import names
from espalier.upgrades.observed.observe import UpgradeObserver

_TYPES = {kind.resource: kind for kind in (NodeUpgrade, ControlPlaneUpgrade, MachineDeploymentUpgrade)}


@dataclass(frozen=True)
class UpgradeTools:
    """Shared by all reconciles."""

    observer: UpgradeObserver
    writer: Writer
    recorder: Recorder
    clock: Clock


def conditions_of(outcome: Outcome, message: str, under_way: frozenset[str]) -> list[Condition]:
    """The conditions Ready, Progressing and Accepted for an outcome; `message` is that of a finished upgrade.

    `under_way` are the reasons of an upgrade in progress.
    """
    if isinstance(outcome, Done | Continue):
        return [Condition(type_, "True", Satisfied.UPGRADED, message) for type_ in (names.READY, PROGRESSING, ACCEPTED)]
    reason, remedy = outcome.reason, remedy_of(outcome.reason)
    is_stopped = remedy in (Remedy.PERSON, Remedy.CHANGE) and reason != Reason.PAUSED
    goes_on: Literal["True", "False", "Unknown"] = "True" if reason in under_way else "Unknown"
    return [
        Condition(names.READY, "False", outcome.reason, outcome.message),
        Condition(PROGRESSING, "False" if is_stopped else goes_on, outcome.reason),
        Condition(ACCEPTED, "False" if remedy is Remedy.CHANGE else "True", outcome.reason),
    ]


class UpgradeContext(reconciler.ReconcileContext, Protocol):
    """One reconcile of one upgrade."""

    @property
    def is_deleted(self) -> bool:
        """True if deletion was asked for."""
        ...

    @property
    def is_done(self) -> bool:
        """True if an earlier reconcile completed it."""
        ...


P = TypeVar("P", bound=UpgradeContext)


@dataclass(frozen=True)
class UpgradeReport:
    """The report of a reconcile of an upgrade."""

    before: Sequence[Condition]
    """The conditions before the reconcile."""
    now: Sequence[Condition]
    """The conditions that the reconcile sets; all other conditions stay."""
    status: Callable[[list[Condition]], tuple[Observed, Tree]]
    """The status with its conditions, and fields that are written even if they have their defaults."""
    quiet: frozenset[str] = frozenset()
    """Reasons of Ready that get no event."""
    progress: Sequence[str] = ()
    """Times of progress, beside those of the conditions."""


@dataclass(frozen=True)
class Kind(Generic[P]):
    """The differences between the kinds of upgrades."""

    resource: Resource
    observe: Callable[[Object], P]
    life: Sequence[Step[P]]
    deletion: Sequence[Step[P]]
    report: Callable[[P, Outcome], UpgradeReport]
    finalizer: str
    afterwards: Sequence[Step[P]] = ()
    """The steps after completion; they are not reported."""
    transient: frozenset[str] = frozenset()
    """Reasons that are not reported: they wait for a write of this reconcile, so that the next one follows at once."""


def reconciler_of(tools: UpgradeTools, kind: Kind[P]) -> Reconciler[P]:
    """The reconciler of a kind of upgrades."""

    async def check_fields(ctx: P) -> Outcome:
        if lacking := tools.observer.definitions.lacking():
            return _of_outdated(lacking)
        return _of_unknown_fields(kind.resource, ctx.object)

    life = (check_fields, *kind.life)

    def due(ctx: P) -> Sequence[Step[P]]:
        return kind.deletion if ctx.is_deleted else kind.afterwards if ctx.is_done else life

    def report(ctx: P, outcome: Outcome) -> reconciler.Report | None:
        is_transient = isinstance(outcome, Wait) and outcome.reason in kind.transient
        is_over = ctx.is_done and not ctx.is_deleted
        return None if is_over or is_transient else _reported(tools, ctx.object, kind.report(ctx, outcome))

    upgrades = Reconciled(
        kind.resource,
        lambda key: tools.observer.unless_of_others(tools.observer.upgrade(kind.resource, key.name)),
        kind.observe,
        due,
        report,
        finalizers=(kind.finalizer,),
    )
    return Reconciler(upgrades, tools.writer, tools.recorder)


def _of_outdated(lacking: Mapping[str, Sequence[str]]) -> Outcome:
    """Nothing is touched while definitions lack fields: an upgrade may have lost what it asks for, or would."""
    texts = [f"{name} lacks {first(fields, 3)}" for name, fields in lacking.items()]
    return Wait(
        Reason.DEFINITION_OUTDATED,
        f"CustomResourceDefinition {'; '.join(texts)}, as in an earlier release: install the definitions of this one "
        "with `espalier upgrade management-components`, or as the manager was installed; then delete upgrades that "
        "were made meanwhile and lack a field, and make them anew",
    )


def _of_unknown_fields(resource: Resource, object_: Object) -> Outcome:
    """Nothing is touched if the spec has fields of a later release, which may ask for less than an upgrade.

    An API server keeps them if its definitions are of that release.
    """
    unknown = preserved_fields(_TYPES[resource], object_.tree["spec"])
    if not unknown:
        return Continue()
    message = f"this manager does not know {first(list(unknown), 3)}: run the manager of the release that has the field"
    return Wait(Reason.FIELDS_UNKNOWN, message)


def _reported(tools: UpgradeTools, object_: Object, report: UpgradeReport) -> reconciler.Report:
    """The whole status, and an event if the reason of Ready changed."""
    conditions = list(report.before)
    again = _complete(object_, report, tools.clock.now())
    for condition in report.now:
        condition.observed_generation = object_.metadata.generation
        conditions = condition_list.set(conditions, condition, tools.clock.now())
    status, always = report.status(conditions)
    before = condition_list.get(report.before, names.READY)
    now = condition_list.get(conditions, names.READY)
    is_news = now is not None and now.reason not in report.quiet and (before is None or before.reason != now.reason)
    events = []
    if now is not None and is_news:
        is_stopped = condition_list.is_false(conditions, PROGRESSING)
        events.append(Event("Warning" if is_stopped else "Normal", now.reason, now.message))
    return reconciler.Report(always | msgspec.to_builtins(status), events, again=again)


def _complete(object_: Object, report: UpgradeReport, now: datetime) -> float | None:
    """Add the advice to the message of Ready if its reason outlasts its limit; returns the seconds until it does.

    The last progress is the last transition of any condition, such as those of a node's steps.
    """
    ready = condition_list.get(report.now, names.READY)
    limit = limit_of(ready.reason) if ready is not None and ready.status != "True" else None
    if ready is None or limit is None or UNCHANGED in ready.message:  # a node says it already
        return None
    texts = [object_.metadata.creation_timestamp or "", object_.metadata.deletion_timestamp or "", *report.progress]
    texts += [condition.last_transition_time for condition in report.before]
    since = max(filter(None, map(condition_list.parse_timestamp, texts)), default=None)
    if since is None:
        return None
    remaining = limit.seconds - (now - since).total_seconds()
    if remaining > 0:
        return min(remaining, limit.seconds)
    ready.message = f"{ready.message}; {limit.overdue(condition_list.timestamp(since), object_.key)}"
    return None
