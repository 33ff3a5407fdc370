"""A copy at the destination, told event by event. All orders of events are explored in test_exploration.py."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.api.etcd.ownership import CopyOperation, FirstStart, Status, Unreadable, Writer
from espalier.api.etcd.timing import Timing
from espalier.etcdbackup.election import copier, events
from espalier.etcdbackup.election.actions import CopierAction, Copy, Observe, PutMarker, PutOperation, ReadOwnMarker
from espalier.etcdbackup.election.copier import Phase, Settings

TIMING = Timing()
SETTINGS = Settings(epoch=3, predecessor=2, cluster="shoot--a--b", timing=TIMING)
SOURCE = FirstStart(2, "shoot--a--b", 25, predecessor=1)
OWN = FirstStart(3, "shoot--a--b", 25, 2, ("full", "delta"))
INITIAL = CopyOperation(2, Status.INITIAL, Writer.DESTINATION)
READY = CopyOperation(2, Status.READY, Writer.SOURCE, "full.final")
GIVEN_UP = CopyOperation(2, Status.READY, Writer.DESTINATION)


def seen(operation: CopyOperation | Unreadable | None, version: str = "etag") -> events.Observed:
    return events.Observed(100, operation, SOURCE, version)


class Told:
    """A copy to which events are told; `did` is what it did about the last one."""

    def __init__(self, settings: Settings = SETTINGS) -> None:
        self.settings = settings
        self.state = copier.start(settings, 100)
        self.did: tuple[CopierAction, ...] = ()

    def __call__(self, event: events.CopierEvent, at: float = 100) -> tuple[CopierAction, ...]:
        self.state, self.did = copier.step(self.settings, self.state, event, at)
        return self.did

    def due(self) -> float | None:
        return copier.due(self.settings, self.state)


def waiting() -> Told:
    """One that has read its own `Initial` at 100."""
    machine = Told()
    machine(events.Due())
    machine(events.OwnMarkerRead(None))
    machine(seen(INITIAL))
    return machine


@pytest.mark.demand("G51")
def test_copy_asks_the_source_and_believes_the_read() -> None:
    machine = Told()
    assert machine(events.Due()) == (ReadOwnMarker(),)
    assert machine(events.OwnMarkerRead(None)) == (Observe(),)
    assert machine(seen(None, "")) == (PutOperation(INITIAL, ""),)
    assert machine.state.seen_since is None
    assert machine(events.PutEnded(), 101) == (Observe(),)
    machine(seen(INITIAL), 102)
    assert machine.state.seen_since == 102


@pytest.mark.demand("G51")
def test_an_object_that_is_there_is_left_as_it_is() -> None:
    machine = waiting()
    assert not any(isinstance(action, PutOperation) for action in machine.did)


def test_an_object_that_was_seen_is_not_put_again() -> None:
    """It exists: whoever removed it, or a store that returns less for a while, starts no second handover."""
    machine = waiting()
    assert not any(isinstance(action, PutOperation) for action in machine(seen(None, ""), 110))


def test_a_copy_that_has_ended_asks_nobody_to_end() -> None:
    """The source's objects may be deleted by then."""
    machine = Told()
    machine(events.Due())
    machine(events.OwnMarkerRead(OWN))
    assert PutOperation(INITIAL, "") not in machine(seen(None, ""), 110)


@pytest.mark.demand("G71")
def test_a_final_snapshot_that_waits_is_copied_at_once() -> None:
    machine = Told()
    machine(events.Due())
    machine(events.OwnMarkerRead(None))
    assert machine(seen(READY)) == (Copy("full.final"),)


@pytest.mark.demand("G58")
def test_a_copy_ends_with_its_marker_and_says_done() -> None:
    machine = Told()
    machine(events.Due())
    machine(events.OwnMarkerRead(None))
    machine(seen(READY))
    marker = FirstStart(3, "shoot--a--b", 25, 2, ("full",), lossless=True)
    assert machine(events.Copied(("full",)), 110) == (PutMarker(marker),)
    assert not machine.state.ready
    assert machine(events.PutEnded(), 111) == (ReadOwnMarker(),)
    assert machine(events.OwnMarkerRead(marker), 112) == (Observe(),)
    assert machine.state.ready
    done = CopyOperation(2, Status.DONE, Writer.DESTINATION, "full.final")
    assert machine(seen(READY), 113) == (PutOperation(done, "etag"),)
    machine(events.PutEnded(), 114)
    machine(seen(done), 115)
    assert machine.due() is None


def test_restarted_copy_after_its_end_copies_nothing() -> None:
    machine = Told()
    machine(events.Due())
    machine(events.OwnMarkerRead(OWN))
    assert machine.state.ready


def test_lack_of_progress_makes_nothing_final() -> None:
    machine = waiting()
    assert not any(isinstance(action, PutOperation) for action in machine(seen(INITIAL), 159))
    assert PutOperation(GIVEN_UP, "etag") in machine(seen(INITIAL), 160)
    machine(events.PutEnded(), 161)
    assert machine(seen(GIVEN_UP), 162) == (Copy(None),)
    (put,) = machine(events.Copied(("full", "delta")), 170)
    assert isinstance(put, PutMarker)
    assert put.marker.lossless is False


@pytest.mark.demand("G52")
def test_progress_delays_the_destination_for_a_while() -> None:
    machine, at = waiting(), 100.0
    while at < 1270:
        at += 30
        machine(seen(CopyOperation(2, Status.INITIAL, Writer.SOURCE, None, int(at))), at)
        assert machine.did == (Observe(),)
    assert any(isinstance(action, PutOperation) for action in machine(seen(INITIAL), 1300))


def test_late_ready_of_a_source_counts() -> None:
    machine = waiting()
    machine(seen(INITIAL), 160)
    machine(events.PutEnded(), 161)  # refused: the source was faster
    assert machine(seen(READY), 162) == (Copy("full.final"),)


def test_promise_of_the_marker_counts() -> None:
    machine = Told()
    machine(events.Due())
    machine(events.OwnMarkerRead(None))
    slow = FirstStart(2, "shoot--a--b", 1000)
    machine(events.Observed(100, INITIAL, slow, "etag"))
    assert copier.gives_up_at(TIMING, machine.state) == pytest.approx(1110)


@pytest.mark.parametrize("marker", [None, Unreadable("it is of another cluster")], ids=str)
def test_missing_marker_of_the_source_counts_nothing(
    marker: Unreadable | None,
) -> None:
    machine = Told()
    machine(events.Due())
    machine(events.OwnMarkerRead(None))
    assert machine(events.Observed(100, None, marker)) == ()
    assert machine(events.Observed(100, READY, marker)) == ()
    assert machine.state.seen_since is None


@pytest.mark.demand("G46")
def test_unknown_object_is_neither_absent_nor_ready() -> None:
    machine = Told()
    machine(events.Due())
    machine(events.OwnMarkerRead(None))
    assert machine(seen(Unreadable("its status is Paused"))) == ()


def test_unreadable_own_marker_is_not_a_missing_one() -> None:
    machine = Told()
    machine(events.Due())
    machine(events.OwnMarkerRead(Unreadable("it is of another cluster")))
    assert machine.state.phase is Phase.CHECKING
    assert machine(events.Due(), 105) == (ReadOwnMarker(),)


def test_a_copy_that_failed_begins_again_after_a_while() -> None:
    machine = Told()
    machine(events.Due())
    machine(events.OwnMarkerRead(None))
    machine(seen(READY))
    assert machine(events.CopyFailed(), 110) == ()
    assert machine.due() == 115
    assert machine(events.Due(), 115) == (Copy("full.final"),)


def test_epoch_takes_over_from_earlier_ones_only() -> None:
    with pytest.raises(ValueError, match="epoch 3 can't take over from epoch 3"):
        Settings(3, 3, "shoot--a--b", TIMING)


EVENTS = st.one_of(
    st.builds(
        events.Observed,
        began=st.just(100.0),
        operation=st.sampled_from([None, INITIAL, READY, GIVEN_UP, Unreadable("broken")]),
        marker=st.sampled_from([None, SOURCE, Unreadable("broken")]),
    ),
    st.sampled_from(
        [
            events.StoreFailed(),
            events.PutEnded(),
            events.Due(),
            events.OwnMarkerRead(None),
            events.OwnMarkerRead(OWN),
            events.Copied(("full",)),
            events.CopyFailed(),
        ]
    ),
)


@given(st.lists(st.tuples(EVENTS, st.floats(0, 30)), max_size=30))
def test_random_events_leave_no_timer_early_or_past(
    history: list[tuple[events.CopierEvent, float]],
) -> None:
    machine, at = Told(), 100.0
    for event, after in history:
        at += after
        did = machine(event, at)
        gave_up = any(isinstance(action, PutOperation) and action.operation == GIVEN_UP for action in did)
        assert not gave_up or (
            machine.state.seen_since is not None and at >= machine.state.seen_since + TIMING.fence(25)
        )
        machine(events.Due(), at)
        due = machine.due()
        assert due is None or due > at
