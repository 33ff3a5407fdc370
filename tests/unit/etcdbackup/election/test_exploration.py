"""The election in all orders of events up to bounds: as built nothing breaks, without any closure something does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.etcd.election import leases
from tests.support.etcd.election.closures import ALL, Closure
from tests.support.etcd.election.explorations import EXPLORED, Bounds
from tests.support.etcd.election.explorer import explore
from tests.support.etcd.election.holes import CLOSURES, OF_THE_PROPOSAL, Hole
from tests.support.etcd.election.packed import explored
from tests.support.etcd.election.page import LEASES, PAGE, hole_row, lease_row, row
from tests.support.etcd.election.scenario import Scenario
from tests.support.etcd.election.system import System
from tests.support.sampling import sampled

TEXT = PAGE.read_text()
AGAIN = "write the tables again: make election"
SLOW_TO_FIND = (
    Closure.EPOCH_KEYS,
    Closure.GARDEN_CAS,
    Closure.EPOCH_PREFIX,
    Closure.START_WAIT,
    Closure.PROXY_ANSWER,
    Closure.DEADLINE,
    Closure.NO_COLLECTION,
    Closure.FROM_START,
    Closure.PROGRESS,
)
"""Closures without which it takes ten to a hundred thousand states to find what breaks."""


@pytest.mark.demand(G44="all orders of events up to the stated bounds")
@pytest.mark.parametrize("bounds", sampled(EXPLORED, 0, 3))
def test_event_orders_break_no_invariant(bounds: Bounds) -> None:
    exploration = explored(bounds.scenario, most=5_000_000)
    print(f"{bounds.name}: {exploration.states} states, {exploration.transitions} transitions")
    assert exploration.violation is None
    assert exploration.goals > 0
    assert exploration.stuck is None, [event for event, _ in exploration.stuck]
    assert row(bounds, exploration) in TEXT, AGAIN


@pytest.mark.parametrize(
    "closure", sampled(CLOSURES, *(at for at, hole in enumerate(CLOSURES) if hole not in SLOW_TO_FIND))
)
def test_without_a_closure_an_invariant_breaks(closure: Closure) -> None:
    hole = CLOSURES[closure]
    assert hole.scenario.closures == ALL - {closure}
    _assert_documented_break(hole)


@pytest.mark.parametrize("hole", sampled(OF_THE_PROPOSAL, 0, 3, 5, 6, 9))
def test_the_proposal_without_closures_has_this_hole(hole: Hole) -> None:
    _assert_documented_break(hole)


@pytest.mark.soak
@pytest.mark.parametrize("hole", [*CLOSURES.values(), *OF_THE_PROPOSAL], ids=lambda hole: hole.name)
def test_scenario_with_all_closures_breaks_nothing(hole: Hole) -> None:
    assert explored(hole.closed, most=5_000_000, ends=False).violation is None


SMALL = Scenario(writes=0, validity=1, grace=0)


@pytest.mark.soak
@pytest.mark.parametrize(
    "scenario", sampled((SMALL, replace(SMALL, crashes=True), replace(SMALL, store_fails=True)), 0)
)
def test_packed_states_are_those_of_the_system(scenario: Scenario) -> None:
    """Results computed once for parts of a state hold in the whole of it."""
    system = System(scenario)
    unpacked = explore(system.first(), system.successors, {}, most=100_000)
    packed = explored(scenario)
    assert (unpacked.states, unpacked.transitions, unpacked.happened) == (
        packed.states,
        packed.transitions,
        packed.happened,
    )


def test_every_closure_is_left_out_by_a_test() -> None:
    assert set(CLOSURES) == set(Closure)


@pytest.mark.soak
@pytest.mark.parametrize(
    "bounds",
    sampled(
        [
            {},
            {"grace": 0},
            {"grace": 0, "drift": 1},
            {"grace": 0, "staleness": 1},
        ],
        1,
    ),
    ids=str,
)
def test_wait_below_the_fence_breaks_an_invariant(
    bounds: dict[str, int],
) -> None:
    short = Scenario(writes=0, slow=True, shortfall=1, **bounds)  # type: ignore[arg-type]
    exploration = explored(short, only="I1", ends=False)
    assert exploration.violation is not None


@pytest.mark.demand("G52")
def test_too_little_patience_loses_a_write() -> None:
    exploration = explored(Scenario(patience=4), ends=False)
    assert exploration.violation is not None
    assert exploration.violation.invariant.startswith("I4 where nothing fails")


@pytest.mark.demand("G62")
@pytest.mark.parametrize("name", LEASES)
def test_leases_separate_extensions_by_all_their_rules(name: str) -> None:
    holds = name == "all rules"
    assert (leases.explored(LEASES[name]).violation is None) is holds
    assert lease_row(name, LEASES[name]) in TEXT, AGAIN


@pytest.mark.soak
def test_misfortunes_of_all_kinds_are_explored() -> None:
    """An event that never happens would prove nothing."""
    happened = " ".join(
        event
        for scenario in (
            Scenario(patience=6),
            Scenario(writes=0, crashes=True, validity=1, grace=0),
            Scenario(writes=0, store_fails=True, late_puts=1, validity=1, grace=0),
            Scenario(writes=0, astray=True, initiates=True, validity=1, grace=0),
        )
        for event in explored(scenario, ends=False).happened
    )
    for words in (
        "gets no answer to its read",
        "in an empty container",
        "does not understand",
        "which is under way",
        "which is repeated",
        "a late put comes",
        "copyop/initiate is called",
        "can't store the final snapshot",
        "comes to the store late",
        "crashes",
        "acknowledges a write",
        "stores a delta snapshot",
        "shuts the proxy",
        "epoch 2 starts",
    ):
        assert words in happened


def _assert_documented_break(hole: Hole) -> None:
    exploration = explored(hole.scenario, only=hole.breaks, ends=False)
    assert exploration.violation is not None
    assert hole_row(hole, exploration.violation) in TEXT, AGAIN
