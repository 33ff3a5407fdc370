"""Breadth-first search through all states of a system: the first that breaks an invariant has the shortest trace."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

S = TypeVar("S", bound=Hashable)

Successors = Callable[[S], Iterable[tuple[str, S]]]
"""All that may happen in a state: a sentence for each, and the state after it."""
Invariant = Callable[[S], bool]


class TooManyStates(Exception):
    """The system has more states than were allowed for."""


@dataclass(frozen=True)
class Violation(Generic[S]):
    """A state that must not be, and how it came about: sentences and the states after them, from the first state on."""

    invariant: str
    trace: tuple[tuple[str, S], ...]


@dataclass
class Exploration(Generic[S]):
    """The states that a search has seen."""

    states: int = 0
    transitions: int = 0
    depth: int = 0
    """The longest of all shortest ways to a state."""
    violation: Violation[S] | None = None
    happened: Counter[str] = field(default_factory=Counter)
    """How often each sentence was said: one that never was is an event that the system can't make."""
    goals: int = 0
    stuck: tuple[tuple[str, S], ...] | None = None
    """The shortest way to a state from which no goal can be reached any more; None if there is none, or no goal."""


def explore(
    first: S,
    successors: Successors[S],
    invariants: Mapping[str, Invariant[S]],
    *,
    most: int,
    goal: Invariant[S] | None = None,
) -> Exploration[S]:
    """Go through all states that can be reached.

    Ends at the first violation. With a `goal`, looks also for states from which it can't be reached. Raises
    `TooManyStates` beyond `most`.
    """
    number: dict[S, int] = {first: 0}
    states: list[S] = [first]
    came: list[tuple[int, str]] = [(-1, "")]
    edges: list[array[int]] = []
    result: Exploration[S] = Exploration()

    def trace(at: int) -> tuple[tuple[str, S], ...]:
        way = []
        while at >= 0:
            before, event = came[at]
            way.append((event, states[at]))
            at = before
        return tuple(reversed(way))

    def judged(at: int) -> bool:
        """True if the search is over."""
        broken = next((name for name, holds in invariants.items() if not holds(states[at])), None)
        if broken is not None:
            result.violation = Violation(broken, trace(at))
        return broken is not None

    ended = judged(0)
    at, level_ends = 0, 1
    while at < len(states) and not ended:
        if at == level_ends:
            result.depth, level_ends = result.depth + 1, len(states)
        leads = array("l")
        for event, after in successors(states[at]):
            result.transitions += 1
            result.happened[event] += 1
            known = number.get(after)
            if known is None:
                known = number[after] = len(states)
                states.append(after)
                came.append((at, event))
                if judged(known):
                    ended = True
                    break
                if known >= most:
                    raise TooManyStates(f"more than {most}, at depth {result.depth}")
            if goal is not None:
                leads.append(known)
        edges.append(leads)
        at += 1
    result.states = len(states)
    if goal is not None and not ended:
        reached = _leading_to([at for at, state in enumerate(states) if goal(state)], edges)
        result.goals = sum(map(goal, states))
        lost = reached.find(b"\0")
        result.stuck = trace(lost) if lost >= 0 else None
    return result


def _leading_to(goals: list[int], edges: list[array[int]]) -> bytearray:
    """A byte for each state: 1 if a goal can be reached from it."""
    back: list[list[int]] = [[] for _ in edges]
    for at, leads in enumerate(edges):
        for to in leads:
            back[to].append(at)
    reached = bytearray(len(edges))
    todo = list(goals)
    for at in todo:
        reached[at] = 1
    while todo:
        for before in back[todo.pop()]:
            if not reached[before]:
                reached[before] = 1
                todo.append(before)
    return reached
