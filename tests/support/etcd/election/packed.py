"""The system with states of a few numbers each: what happens at one site is worked out once, not in every whole state.

A packed state is `(flags, puts, site 1.., store 1.., move 1..)`, each the number of a part.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import partial
from typing import cast

from tests.support.etcd.election.closures import Closure
from tests.support.etcd.election.explorer import Exploration, Violation, explore
from tests.support.etcd.election.invariants import invariants
from tests.support.etcd.election.machines import TICK, Next
from tests.support.etcd.election.scenario import Scenario
from tests.support.etcd.election.system import System
from tests.support.etcd.election.world import Interned, Move, Put, Site, Store, World

State = tuple[int, ...]
Flags = tuple[int, bool, int, bool, bool]
Changes = tuple[tuple[str, tuple[tuple[int, int], ...]], ...]
"""For each thing that may happen: the sentence, and the places of the state with their new numbers."""

FLAGS, PUTS, PARTS = 0, 1, 2


class Packed:
    """A system of packed states."""

    def __init__(self, scenario: Scenario) -> None:
        self.system = System(scenario)
        self._epochs = scenario.epochs
        self._parts = Interned()
        self._changes: dict[Hashable, Changes] = {}
        self._later: dict[tuple[int, int, bool], tuple[int, bool]] = {}
        self._sees_all = Closure.NO_COLLECTION not in scenario.closures
        first = self.system.first()
        self._blank = first._replace(sites=(Site(),) * self._epochs, moves=(Move(),) * self._epochs)
        self._last: tuple[State, World] = (), first
        self.first = self.pack(first)

    def pack(self, world: World) -> State:
        """The numbers of a world."""
        number = self._parts.number
        flags: Flags = (world.garden, world.disturbed, world.drifted, world.went_back, world.broken_copy)
        parts = (*world.sites, *world.stores, *world.moves)
        return (number(("flags", *flags)), number(("puts", *world.puts)), *map(number, parts))

    def world(self, state: State) -> World:
        """The world of its numbers. Asked again for the same, as invariants do, it is at hand."""
        if self._last[0] != state:
            self._last = state, self._world(state)
        return self._last[1]

    def _world(self, state: State) -> World:
        parts, epochs = self._parts, self._epochs
        garden, disturbed, drifted, went_back, broken = cast("tuple[str, int, bool, int, bool, bool]", parts[state[0]])[
            1:
        ]
        sites = tuple(cast(Site, parts[number]) for number in state[PARTS : PARTS + epochs])
        stores = tuple(cast(Store, parts[number]) for number in state[PARTS + epochs : PARTS + 2 * epochs])
        moves = tuple(cast(Move, parts[number]) for number in state[PARTS + 2 * epochs :])
        puts = cast("tuple[Put, ...]", cast("tuple[object, ...]", parts[state[1]])[1:])
        return World(garden, sites, stores, moves, puts, disturbed, drifted, went_back, broken)

    def is_over(self, state: State) -> bool:
        """True if the last epoch has begun."""
        return cast(Site, self._parts[state[PARTS + self._epochs - 1]]).begun

    def successors(self, state: State) -> Iterator[tuple[str, State]]:
        """All that may happen next."""
        epochs = self._epochs
        common = (state[FLAGS], state[PUTS], state[PARTS + epochs : PARTS + 2 * epochs])
        for at in range(epochs):
            site, move = state[PARTS + at], state[PARTS + 2 * epochs + at]
            key: Hashable = state if self._sees_all else ("site", at, site, common)
            yield from self._merged(state, key, partial(self.system.of_site, at=at), [at], [])
            if cast(Move, self._parts[move]).predecessor:
                key, seen = ("move", at, site, move, common), [at]
            else:
                key, seen = ("move", at, state), list(range(epochs))
            yield from self._merged(state, key, partial(self.system.of_move, at=at), seen, [at])
        yield from self._merged(state, ("puts", common), self.system.of_puts, [], [])
        yield from self._ticked(state)

    def _merged(
        self,
        state: State,
        key: Hashable,
        happens: Callable[[World], Next],
        sites: list[int],
        moves: list[int],
    ) -> Iterator[tuple[str, State]]:
        changes = self._changes.get(key)
        if changes is None:
            changes = self._changes[key] = self._worked_out(state, happens, sites, moves)
        for event, places in changes:
            after = list(state)
            for place, number in places:
                after[place] = number
            yield event, tuple(after)

    def _worked_out(
        self, state: State, happens: Callable[[World], Next], sites: list[int], moves: list[int]
    ) -> Changes:
        """The changes, in a world that has only what plays a part: so they hold in every world that has the same."""
        world = self.world(state)
        if not self._sees_all:
            blank = self._blank
            world = world._replace(
                sites=tuple(site if at in sites else blank.sites[at] for at, site in enumerate(world.sites)),
                moves=tuple(move if at in moves else blank.moves[at] for at, move in enumerate(world.moves)),
            )
        before = self.pack(world)
        return tuple(
            (
                event,
                tuple(
                    (place, new)
                    for place, (old, new) in enumerate(zip(before, self.pack(after), strict=True))
                    if old != new
                ),
            )
            for event, after in happens(world)
        )

    def _ticked(self, state: State) -> Iterator[tuple[str, State]]:
        epochs = self._epochs
        flags = cast(Flags, cast("tuple[object, ...]", self._parts[state[FLAGS]])[1:])
        disturbed = flags[1]
        overdue = len(cast("tuple[object, ...]", self._parts[state[PUTS]])) > 1
        after = list(state)
        for place in range(PARTS, PARTS + 3 * epochs):
            key = (place, state[place], disturbed)
            value = self._later.get(key)
            if value is None:
                value = self._later[key] = self._part_later(place - PARTS, state[place], disturbed)
            after[place] = value[0]
            overdue = overdue or value[1]
        if overdue and not self.system.scenario.slow:
            return
        if overdue and not disturbed:
            after[FLAGS] = self._parts.number(("flags", flags[0], True, *flags[2:]))
        yield TICK, tuple(after)

    def _part_later(self, place: int, number: int, disturbed: bool) -> tuple[int, bool]:
        part, system, at = self._parts[number], self.system, place % self._epochs
        if isinstance(part, Site):
            return self._parts.number(system.later_site(part, at, disturbed)), system.site_overdue(part, at)
        if isinstance(part, Store):
            return self._parts.number(system.later_store(part)), False
        move = cast(Move, part)
        return self._parts.number(system.later_move(move, disturbed)), system.move_overdue(move)


def explored(scenario: Scenario, *, only: str = "", most: int = 3_000_000, ends: bool = True) -> Exploration[World]:
    """Explore a scenario for its invariants, or those whose names begin with `only`, up to the first violation.

    With `ends` also for states in which the last epoch can no longer start.
    """
    packed = Packed(scenario)
    judged: Mapping[str, Callable[[State], bool]] = {
        name: _of_packed(packed, holds) for name, holds in invariants(packed.system).items() if name.startswith(only)
    }
    outcome = explore(
        packed.first,
        packed.successors,
        judged,
        most=most,
        goal=packed.is_over if ends else None,
    )
    result: Exploration[World] = Exploration(
        outcome.states, outcome.transitions, outcome.depth, happened=outcome.happened, goals=outcome.goals
    )
    if outcome.violation is not None:
        result.violation = Violation(outcome.violation.invariant, _worlds(packed, outcome.violation.trace))
    result.stuck = None if outcome.stuck is None else _worlds(packed, outcome.stuck)
    return result


def _of_packed(packed: Packed, holds: Callable[[World], bool]) -> Callable[[State], bool]:
    return lambda state: holds(packed.world(state))


def _worlds(packed: Packed, trace: tuple[tuple[str, State], ...]) -> tuple[tuple[str, World], ...]:
    return tuple((event, packed.world(state)) for event, state in trace)
