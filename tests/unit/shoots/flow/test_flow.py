"""Flows: graphs that are checked when made, run to where the world lets them, and can be read back and drawn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.kube.errors import Unreachable
from espalier.runtime import virtual
from espalier.runtime.controllers.outcome import Continue, Done, Fault, Wait
from espalier.shoots.flow.drawing import draw
from espalier.shoots.flow.graph import Flow, FlowError
from espalier.shoots.flow.runner import run
from espalier.shoots.flow.status import FlowStatus, TaskState, read
from espalier.shoots.flow.task import ACTION_TIMEOUT, Action, Failure, Task, Verdict

NOW = datetime(2026, 1, 1, tzinfo=UTC)
World = dict[str, int]


class Worlds:
    """A world in which a task is done once it was acted on; it may crash before or after a write."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.asked = 0
        self.dies_at: int | None = None

    def add(self, flow: Flow[Worlds], name: str, *after: Task[Worlds]) -> Task[Worlds]:
        async def write() -> Continue:
            self.write(name)
            await asyncio.sleep(1)
            return Continue()

        def evaluate(world: Worlds) -> Verdict:
            return Done() if name in world.made else Action(f"make {name}", write)

        return flow.add(name, evaluate, after=after)

    def write(self, name: str) -> None:
        self.asked += 1
        if self.dies_at == 2 * self.asked - 1:
            raise Died
        self.made.append(name)
        if self.dies_at == 2 * self.asked:
            raise Died


class Died(BaseException):
    """The process is gone."""


def says(flow: Flow[World], name: str, verdict: Verdict, *after: Task[World]) -> Task[World]:
    return flow.add(name, lambda _: verdict, after=after)


def flow_of(evaluate: Callable[[Worlds], Verdict], action_timeout: float = ACTION_TIMEOUT) -> Flow[Worlds]:
    """A flow of one task."""
    flow: Flow[Worlds] = Flow("f")
    flow.add("a", evaluate, action_timeout=action_timeout)
    return flow


def ran(flow: Flow[Worlds], worlds: Worlds) -> tuple[FlowStatus, float]:
    async def main(_: virtual.Simulation) -> tuple[FlowStatus, float]:
        status = await run(flow, lambda: worlds)
        return status, asyncio.get_running_loop().time()

    return virtual.run(main, epoch=NOW, seed=1)


def status_of(flow: Flow[World]) -> FlowStatus:
    return virtual.run(lambda _: run(flow, dict), epoch=NOW, seed=1)


def test_a_task_of_another_flow_is_refused() -> None:
    flow: Flow[World] = Flow("f")
    says(flow, "b", Done())
    for name in ("b", "gone"):
        foreign = says(Flow("other"), name, Done())
        with pytest.raises(FlowError, match=f"flow f: a depends on {name} of another flow"):
            says(flow, "a", Done(), foreign)
    assert flow.names == {"b"}


def test_two_tasks_of_one_name_are_refused() -> None:
    flow: Flow[World] = Flow("f")
    says(flow, "a", Done())
    with pytest.raises(FlowError, match="several tasks are named a"):
        says(flow, "a", Done())


def test_independent_tasks_act_at_the_same_time() -> None:
    worlds = Worlds()
    flow: Flow[Worlds] = Flow("f")
    worlds.add(flow, "c", worlds.add(flow, "a"), worlds.add(flow, "b"))
    status, seconds = ran(flow, worlds)
    assert status.is_done
    assert seconds == 2
    assert worlds.made == ["a", "b", "c"]


def test_failing_task_stops_its_successors_only() -> None:
    worlds = Worlds()

    def fail(_: Worlds) -> Verdict:
        return Failure("no quota", ("ERR_INFRA_QUOTA_EXCEEDED",))

    flow: Flow[Worlds] = Flow("f")
    failing = flow.add("a", fail)
    first = worlds.add(flow, "b")
    worlds.add(flow, "c", failing)
    worlds.add(flow, "d", first)
    status, _ = ran(flow, worlds)
    assert worlds.made == ["b", "d"]
    assert {name: task.state for name, task in status.tasks.items()} == {
        "a": TaskState.FAILED,
        "b": TaskState.DONE,
        "c": TaskState.BLOCKED,
        "d": TaskState.DONE,
    }
    assert [(error.task_id, error.description, error.codes) for error in status.errors] == [
        ("a", "no quota", ("ERR_INFRA_QUOTA_EXCEEDED",))
    ]
    assert status.is_failed
    assert status.outcome == Fault("TaskFailed", "a: no quota", terminal=True)


def test_lost_connection_fails_task_and_is_retried() -> None:
    async def lost() -> Continue:
        raise Unreachable("no route")

    status, _ = ran(flow_of(lambda _: Action("ask", lost)), Worlds())
    assert status.outcome == Fault("TaskFailed", "a: no route", terminal=False)


def test_an_action_that_hangs_is_ended() -> None:
    async def hang() -> Continue:
        await asyncio.sleep(10_000)
        return Continue()

    status, seconds = ran(flow_of(lambda _: Action("ask", hang), action_timeout=5), Worlds())
    assert seconds == 5
    assert status.errors[0].description == "ask: no answer within 5 seconds"


def test_task_acts_once_in_a_reconcile() -> None:
    calls = []

    async def act() -> Wait:
        calls.append(1)
        return Wait("NotShown", "the cache is behind", after=1)

    status, _ = ran(flow_of(lambda _: Action("write", act)), Worlds())
    assert calls == [1]
    assert status.outcome == Wait("NotShown", "a: the cache is behind", after=1)


def test_guard_is_asked_before_each_action() -> None:
    worlds = Worlds()
    flow: Flow[Worlds] = Flow("f")
    worlds.add(flow, "a")
    worlds.add(flow, "b")

    async def guard() -> Wait:
        return Wait("NotOurs", "the shoot is another's", after=None)

    async def main(_: virtual.Simulation) -> FlowStatus:
        return await run(flow, lambda: worlds, guard)

    status = virtual.run(main, epoch=NOW, seed=1)
    assert worlds.made == []
    assert status.outcome == Wait("NotOurs", "a: the shoot is another's")


def test_a_skipped_task_counts_as_over_and_says_why() -> None:
    flow: Flow[World] = Flow("f")
    says(flow, "b", Done(), flow.add("a", lambda _: Done(), skip=lambda _: "hibernated"))
    status = status_of(flow)
    assert status.is_done
    assert status.progress == 100
    assert "[-] a: hibernated" in draw(flow, status)


def test_the_drawing_shows_what_stands_where() -> None:
    flow: Flow[World] = Flow("Migrate")
    stop = says(flow, "Stop API server", Done())
    hand_over = says(flow, "Hand over etcd", Wait("NotReady", "the copy operation is Initial"), stop)
    says(flow, "Delete namespace", Done(), hand_over)
    assert draw(flow, status_of(flow)) == (
        "Migrate: 33 % of 3 tasks\n"
        "[x] Stop API server\n"
        "  [~] Hand over etcd: NotReady: the copy operation is Initial\n"
        "    [ ] Delete namespace  after Hand over etcd"
    )


def verdicts() -> st.SearchStrategy[Verdict]:
    async def nothing() -> Continue:
        return Continue()

    return st.sampled_from(
        [Done(), Wait("NotReady", "it is not ready"), Failure("it failed"), Action("do it", nothing)]
    )


@st.composite
def flows(draw: st.DrawFn) -> Flow[World]:
    flow: Flow[World] = Flow("f")
    for number in range(draw(st.integers(1, 9))):
        tasks = list(flow.tasks.values())
        after = draw(st.lists(st.sampled_from(tasks), unique=True, max_size=3)) if tasks else []
        says(flow, f"task {number}", draw(verdicts()), *after)
    return flow


@given(flows())
def test_description_of_flow_restores_its_progress(flow: Flow[World]) -> None:
    status = status_of(flow)
    failed = {error.task_id: error.description for error in status.errors}
    again = read(flow, status.description, failed)
    assert {name: task.is_over for name, task in again.tasks.items()} == {
        name: task.is_over for name, task in status.tasks.items()
    }
    assert again.progress == status.progress
    assert {name for name, task in again.tasks.items() if task.state is TaskState.BLOCKED} == {
        name for name, task in status.tasks.items() if task.state is TaskState.BLOCKED
    }


SHAPE = {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c"), "e": ()}


@pytest.mark.parametrize("dies_at", range(1, 11))
def test_whenever_it_dies_it_goes_on_where_world_is(dies_at: int) -> None:
    worlds = Worlds()
    worlds.dies_at = dies_at
    flow: Flow[Worlds] = Flow("f")
    for name, after in SHAPE.items():
        worlds.add(flow, name, *(flow.tasks[before] for before in after))
    with pytest.raises(Died):
        ran(flow, worlds)
    worlds.dies_at = None
    status, _ = ran(flow, worlds)
    assert status.is_done
    assert sorted(worlds.made) == sorted(SHAPE)
    assert all(worlds.made.index(before) < worlds.made.index(name) for name, after in SHAPE.items() for before in after)
