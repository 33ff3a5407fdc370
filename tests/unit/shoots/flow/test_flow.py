"""Flows: graphs that are checked when made, run to where the world lets them, and can be read back and drawn."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.kube.errors import Unreachable
from espalier.runtime import virtual
from espalier.runtime.outcome import Continue, Done, Fault, Wait
from espalier.shoots.flow.drawing import draw
from espalier.shoots.flow.graph import Flow, FlowError
from espalier.shoots.flow.runner import run
from espalier.shoots.flow.status import FlowStatus, TaskState, read
from espalier.shoots.flow.task import Action, Failure, Task, Verdict

NOW = datetime(2026, 1, 1, tzinfo=UTC)
World = dict[str, int]


class Worlds:
    """A world in which a task is done once it was acted on; it may crash before or after a write."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.asked = 0
        self.dies_at: int | None = None

    def task(self, name: str, *after: str, then: Continue | Wait | Failure | None = None) -> Task[Worlds]:
        async def write() -> Continue | Wait | Failure:
            self.write(name)
            await asyncio.sleep(1)
            return then or Continue()

        return Task(name, lambda world: Done() if name in world.made else Action(f"make {name}", write), after)

    def write(self, name: str) -> None:
        self.asked += 1
        if self.dies_at == 2 * self.asked - 1:
            raise Died
        self.made.append(name)
        if self.dies_at == 2 * self.asked:
            raise Died


class Died(BaseException):
    """The process is gone."""


def says(name: str, verdict: Verdict, *after: str) -> Task[World]:
    return Task(name, lambda _: verdict, after)


def ran(flow: Flow[Worlds], worlds: Worlds) -> tuple[FlowStatus, float]:
    async def main(_: virtual.Simulation) -> tuple[FlowStatus, float]:
        status = await run(flow, lambda: worlds)
        return status, asyncio.get_running_loop().time()

    return virtual.run(main, epoch=NOW, seed=1)


def status_of(flow: Flow[World]) -> FlowStatus:
    return virtual.run(lambda _: run(flow, dict), epoch=NOW, seed=1)


def test_a_circle_is_refused_with_its_tasks() -> None:
    with pytest.raises(FlowError, match=r"flow f: tasks depend on each other in a cycle: a -> b -> a|b -> a -> b"):
        Flow("f", [says("a", Done(), "b"), says("b", Done(), "a"), says("c", Done())])


def test_an_unknown_dependency_is_refused_with_its_name() -> None:
    with pytest.raises(FlowError, match="flow f: a depends on gone, which does not exist"):
        Flow("f", [says("a", Done(), "gone")])


def test_two_tasks_of_one_name_are_refused() -> None:
    with pytest.raises(FlowError, match="several tasks are named a"):
        Flow("f", [says("a", Done()), says("a", Done())])


def test_tasks_that_do_not_wait_for_each_other_act_at_the_same_time() -> None:
    worlds = Worlds()
    flow = Flow("f", [worlds.task("a"), worlds.task("b"), worlds.task("c", "a", "b")])
    status, seconds = ran(flow, worlds)
    assert status.is_done
    assert seconds == 2
    assert worlds.made == ["a", "b", "c"]


def test_a_failing_task_stops_those_behind_it_and_no_others() -> None:
    worlds = Worlds()

    def fail(_: Worlds) -> Verdict:
        return Failure("no quota", ("ERR_INFRA_QUOTA_EXCEEDED",))

    flow = Flow("f", [Task("a", fail), worlds.task("b"), worlds.task("c", "a"), worlds.task("d", "b")])
    status, _ = ran(flow, worlds)
    assert worlds.made == ["b", "d"]
    assert {name: task.state for name, task in status.tasks.items()} == {
        "a": TaskState.FAILED,
        "b": TaskState.DONE,
        "c": TaskState.BLOCKED,
        "d": TaskState.DONE,
    }
    assert [(one.task_id, one.description, one.codes) for one in status.errors] == [
        ("a", "no quota", ("ERR_INFRA_QUOTA_EXCEEDED",))
    ]
    assert status.is_failed
    assert status.outcome == Fault("TaskFailed", "a: no quota", terminal=True)


def test_a_lost_connection_fails_the_task_and_is_retried() -> None:
    async def lost() -> Continue:
        raise Unreachable("no route")

    flow: Flow[Worlds] = Flow("f", [Task("a", lambda _: Action("ask", lost))])
    status, _ = ran(flow, Worlds())
    assert status.outcome == Fault("TaskFailed", "a: no route", terminal=False)


def test_an_action_that_hangs_is_ended() -> None:
    async def hang() -> Continue:
        await asyncio.sleep(10_000)
        return Continue()

    flow: Flow[Worlds] = Flow("f", [Task("a", lambda _: Action("ask", hang), action_timeout=5)])
    status, seconds = ran(flow, Worlds())
    assert seconds == 5
    assert status.errors[0].description == "ask: no answer within 5 seconds"


def test_a_task_acts_once_in_a_reconcile_even_if_the_world_does_not_show_it() -> None:
    calls = []

    async def act() -> Wait:
        calls.append(1)
        return Wait("NotShown", "the cache is behind", after=1)

    flow: Flow[Worlds] = Flow("f", [Task("a", lambda _: Action("write", act))])
    status, _ = ran(flow, Worlds())
    assert calls == [1]
    assert status.outcome == Wait("NotShown", "a: the cache is behind", after=1)


def test_a_guard_is_asked_before_each_action_and_can_hold_it() -> None:
    worlds = Worlds()
    flow = Flow("f", [worlds.task("a"), worlds.task("b")])

    async def guard() -> Wait:
        return Wait("NotOurs", "the shoot is another's", after=None)

    async def main(_: virtual.Simulation) -> FlowStatus:
        return await run(flow, lambda: worlds, guard)

    status = virtual.run(main, epoch=NOW, seed=1)
    assert worlds.made == []
    assert status.outcome == Wait("NotOurs", "a: the shoot is another's")


def test_a_skipped_task_counts_as_over_and_says_why() -> None:
    flow: Flow[World] = Flow("f", [Task("a", lambda _: Done(), skip=lambda _: "hibernated"), says("b", Done(), "a")])
    status = status_of(flow)
    assert status.is_done
    assert status.progress == 100
    assert "[-] a: hibernated" in draw(flow, status)


def test_the_drawing_shows_what_stands_where() -> None:
    flow: Flow[World] = Flow(
        "Migrate",
        [
            says("Stop API server", Done()),
            says("Hand over etcd", Wait("NotReady", "the copy operation is Initial"), "Stop API server"),
            says("Delete namespace", Done(), "Hand over etcd"),
        ],
    )
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
    names = [f"task {number}" for number in range(draw(st.integers(1, 9)))]
    tasks: list[Task[World]] = []
    for at, name in enumerate(names):
        after = draw(st.lists(st.sampled_from(names[:at]), unique=True, max_size=3)) if at else []
        tasks.append(says(name, draw(verdicts()), *after))
    return Flow("f", draw(st.permutations(tasks)))


@given(flows())
def test_the_description_of_a_flow_restores_its_progress(flow: Flow[World]) -> None:
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
def test_whenever_it_dies_it_goes_on_where_the_world_is(dies_at: int) -> None:
    worlds = Worlds()
    worlds.dies_at = dies_at
    flow = Flow("f", [worlds.task(name, *after) for name, after in SHAPE.items()])
    with pytest.raises(Died):
        ran(flow, worlds)
    worlds.dies_at = None
    status, _ = ran(flow, worlds)
    assert status.is_done
    assert sorted(worlds.made) == sorted(SHAPE)
    assert all(worlds.made.index(before) < worlds.made.index(name) for name, after in SHAPE.items() for before in after)
