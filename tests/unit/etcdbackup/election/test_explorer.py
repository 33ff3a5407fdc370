"""The search itself, on systems that are small enough to be counted by hand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.etcd.election.explorer import TooManyStates, explore


def counter(at: int) -> Iterator[tuple[str, int]]:
    if at < 9:
        yield "one more", at + 1
    if at < 5:
        yield "twice", at * 2
    yield "back", 0


def test_every_state_is_seen_once() -> None:
    exploration = explore(0, counter, {}, most=100)
    assert (exploration.states, exploration.transitions, exploration.violation) == (10, 24, None)


def test_a_violation_has_the_shortest_trace() -> None:
    exploration = explore(0, counter, {"never eight": lambda at: at != 8}, most=100)
    assert exploration.violation is not None
    assert [step for step, _ in exploration.violation.trace] == ["", "one more", "one more", "twice", "twice"]


def test_first_state_that_is_wrong_is_trace_of_its_own() -> None:
    exploration = explore(0, counter, {"positive": lambda at: at > 0}, most=100)
    assert exploration.violation is not None
    assert exploration.violation.trace == (("", 0),)


def test_unreachable_goal_is_reported() -> None:
    trap = {"a": [("on", "b"), ("aside", "c")], "b": [("done", "goal")], "c": [("round", "c")], "goal": []}
    exploration = explore("a", lambda at: trap[at], {}, most=10, goal=lambda at: at == "goal")
    assert exploration.stuck == (("", "a"), ("aside", "c"))
    assert explore("b", lambda at: trap[at], {}, most=10, goal=lambda at: at == "goal").stuck is None


def test_exceeded_number_of_states_is_an_error() -> None:
    with pytest.raises(TooManyStates):
        explore(0, counter, {}, most=5)
