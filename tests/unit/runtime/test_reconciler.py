"""The frame of reconciles: what is done with what was observed, when it is told, and what is forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from espalier.api.core import CONFIG_MAP
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.kube.errors import Conflict, NotFound
from espalier.kube.objects import Object
from espalier.runtime.controllers.outcome import Continue, Done, Fault, Outcome, Wait, fault_of
from espalier.runtime.controllers.reconciler import Event, Reconciled, Reconciler, Report
from espalier.runtime.controllers.steps import Step
from espalier.runtime.controllers.writer import NameTaken, Precondition

KEY = Key("team-a", "garden")
EVENT = Event("Normal", "Ready", "it is ready")


def stored(**metadata: Any) -> Object:
    tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "garden", "namespace": "team-a"} | metadata}
    return Object(msgspec.json.encode(tree))


@dataclass
class Reconcile:
    """One reconcile: the object, and what its step ends with."""

    object: Object
    ends: Outcome | Exception

    async def step(self) -> Outcome:
        if isinstance(self.ends, Exception):
            raise self.ends
        return self.ends


@dataclass
class Environment:
    """A reconciler, what it wrote and recorded, and what it was told to forget."""

    live: Object | None = field(default_factory=stored)
    ends: Outcome | Exception = field(default_factory=Done)
    is_equal: bool = False
    is_gone: bool = False
    readable: bool = True
    says_nothing: bool = False
    precondition: Precondition = Precondition.UID
    again: float | None = None
    statuses: list[Any] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    forgotten: list[tuple[str, Key]] = field(default_factory=list)

    async def status(
        self, resource: Any, current: Object, status: Tree, precondition: Precondition, *, before: Any = None
    ) -> Object:
        assert (resource, precondition) == (CONFIG_MAP, self.precondition)
        if self.is_gone:
            raise NotFound.of("gone")
        self.statuses.append(status)
        return current if self.is_equal else stored(resourceVersion="2")

    def event(self, object_: Object, *event: str) -> None:
        self.events.append(Event(*event))  # type: ignore[arg-type]

    def reconcile(self, **parts: Any) -> Outcome:
        def observe(object_: Object) -> Reconcile:
            if not self.readable:
                raise msgspec.ValidationError("no number")
            return Reconcile(object_, self.ends)

        async def step(ctx: Reconcile) -> Outcome:
            return await ctx.step()

        def steps(ctx: Reconcile) -> Sequence[Step[Reconcile]]:
            return [step]

        def report(ctx: Reconcile, outcome: Outcome) -> Report | None:
            return (
                None
                if self.says_nothing
                else Report({"said": type(outcome).__name__}, [EVENT], precondition=self.precondition, again=self.again)
            )

        kind = Reconciled(CONFIG_MAP, lambda _key: self.live, observe, steps, report, **parts)
        forget = [lambda key: self.forgotten.append(("a", key)), lambda key: self.forgotten.append(("b", key))]
        return asyncio.run(Reconciler(kind, self, self, forget).reconcile(KEY))  # type: ignore[arg-type]


@pytest.mark.parametrize("outcome", [Done(), Continue(), Wait("A", "a"), Fault("B", "b")])
def test_events_follow_the_status_write(outcome: Outcome) -> None:
    env = Environment(ends=outcome)
    ended = env.reconcile()
    assert ended == (Done() if isinstance(outcome, Continue) else outcome)
    assert (env.statuses, env.events) == ([{"said": type(ended).__name__}], [EVENT])
    assert not env.forgotten


@pytest.mark.parametrize(
    ("outcome", "after"),
    [
        (Done(), 30.0),
        (Wait("A", "an event"), 30.0),
        (Wait("A", "soon", after=5.0), 5.0),
        (Wait("A", "later", after=60.0), 30.0),
        (Fault("B", "retried sooner"), None),
    ],
    ids=repr,
)
def test_changing_report_is_made_again_in_time(outcome: Outcome, after: float | None) -> None:
    ended = Environment(ends=outcome, again=30.0).reconcile()
    assert not isinstance(ended, Continue)
    assert (type(ended), ended.after) == (type(outcome), after)


def test_a_repeated_message_is_no_event() -> None:
    env = Environment(is_equal=True)
    env.reconcile()
    assert (len(env.statuses), env.events) == (1, [])


def test_nothing_is_reported_to_an_object_that_is_gone() -> None:
    env = Environment(is_gone=True)
    assert env.reconcile() == Done()
    assert env.events == []


def test_a_reconcile_may_say_nothing() -> None:
    env = Environment(says_nothing=True, ends=Wait("A", "a"))
    assert env.reconcile() == Wait("A", "a")
    assert env.statuses == []


@pytest.mark.parametrize(("outcome", "is_reported"), [(Done(), False), (Wait("Deleting", "waiting"), True)])
def test_deleted_object_is_reported_until_it_is_gone(outcome: Outcome, is_reported: bool) -> None:
    env = Environment(live=stored(deletionTimestamp="2026-01-01T00:00:00Z"), ends=outcome)
    assert env.reconcile() == outcome
    assert bool(env.statuses) is is_reported


def test_everything_for_a_key_goes_with_its_object() -> None:
    env = Environment(live=None)
    assert env.reconcile() == Done()
    assert env.forgotten == [("a", KEY), ("b", KEY)]
    assert env.statuses == []


@pytest.mark.parametrize("error", [Conflict.of("too late"), NameTaken(CONFIG_MAP, KEY, "somebody")])
def test_failed_request_is_a_reported_outcome(error: Exception) -> None:
    env = Environment(ends=error)
    ended = env.reconcile()
    assert ended == fault_of(error)
    assert isinstance(ended, Fault)
    assert "in step step" in ended.message
    assert env.statuses == [{"said": "Fault"}]
    assert Environment(ends=error).reconcile(failed=lambda error: Wait("A", str(error))) == Wait("A", str(error))


def test_a_bug_passes_through() -> None:
    env = Environment(ends=ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        env.reconcile()
    assert env.statuses == []


def test_secret_text_is_in_neither_outcome_nor_report() -> None:
    result = []

    def conceal(ctx: Reconcile, outcome: Outcome) -> Outcome:
        result.append(outcome)
        return Wait("A", "***")

    env = Environment(ends=Wait("A", "secret"))
    assert env.reconcile(conceal=conceal) == Wait("A", "***")
    assert result == [Wait("A", "secret")]


def test_undecodable_object_is_reported_if_possible() -> None:
    env = Environment(readable=False)
    fault = Fault("Invalid", "no number", terminal=True)
    assert env.reconcile(unreadable=lambda object_, error: (fault, Report({"said": str(error)}))) == fault
    assert env.statuses == [{"said": "no number"}]
    with pytest.raises(msgspec.ValidationError):
        Environment(readable=False).reconcile()


def test_a_kind_may_expect_further_errors() -> None:
    def failed(error: Exception) -> Outcome:
        return Wait("Unreadable", str(error))

    env = Environment(ends=OSError("no answer"))
    assert env.reconcile(errors=(OSError,), failed=failed) == Wait("Unreadable", "no answer")
    with pytest.raises(OSError, match="no answer"):
        Environment(ends=OSError("no answer")).reconcile(failed=failed)


def test_a_report_may_be_on_the_observed_version_alone() -> None:
    env = Environment(precondition=Precondition.VERSION)
    env.reconcile()
    assert len(env.statuses) == 1
