"""An agent beside its etcd, told event by event. All orders of events are explored in test_exploration.py."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.api.etcd.calls import CopyOperationStatus
from espalier.api.etcd.ownership import CopyOperation, FirstStart, Status, Unreadable, Writer
from espalier.api.etcd.timing import Timing
from espalier.etcdbackup.election import agent, events
from espalier.etcdbackup.election.actions import (
    AgentAction,
    Observe,
    OpenProxy,
    PutMarker,
    PutOperation,
    ShutProxy,
    StartEtcd,
    StopEtcd,
    TakeFinalSnapshot,
)
from espalier.etcdbackup.election.agent import Etcd, Phase, Settings

TIMING = Timing()
SETTINGS = Settings(epoch=3, cluster="shoot--a--b", timing=TIMING)
MARKER = FirstStart(3, "shoot--a--b", TIMING.release, predecessor=2)
INITIAL = CopyOperation(3, Status.INITIAL, Writer.DESTINATION)
READY = CopyOperation(3, Status.READY, Writer.SOURCE, "final")
ABSENT = events.Observed(100, None, MARKER)


def seen(operation: CopyOperation | Unreadable | None, began: float = 100, version: str = "etag") -> events.Observed:
    return events.Observed(began, operation, MARKER, version)


class Told:
    """An agent to which events are told; `did` is what it did about the last one."""

    def __init__(self, settings: Settings = SETTINGS, etcd: Etcd = Etcd.ENDED, has_data: bool = True) -> None:
        self.settings = settings
        self.state = agent.start(settings, etcd, has_data, 100)
        self.did: tuple[AgentAction, ...] = ()

    def __call__(self, event: events.AgentEvent, at: float = 100) -> tuple[AgentAction, ...]:
        self.state, self.did = agent.step(self.settings, self.state, event, at)
        return self.did

    def due(self) -> float | None:
        return agent.due(self.settings, self.state)


def owner() -> Told:
    machine = Told()
    machine(events.Due())
    machine(ABSENT)
    machine(events.EtcdStarted(), 101)
    return machine


def handing_over() -> Told:
    """One that has been asked to end, with its proxy shut and its final snapshot under way."""
    machine = owner()
    machine(seen(INITIAL, 105), 106)
    machine(events.ProxyShut(), 107)
    return machine


def silent(machine: Told) -> float:
    """When this one takes API servers to have ended all that they serve."""
    return agent.silent_from(machine.settings.timing, machine.state)


def test_api_servers_answer_for_a_grace() -> None:
    machine = owner()
    machine(seen(INITIAL, 105), 106)
    assert silent(machine) == float("inf"), "the proxy may be open yet"
    machine(events.ProxyShut(idle_since=103), 107)
    assert silent(machine) == 103 + TIMING.serving_grace


def test_uncertain_guard_counts_from_its_answer() -> None:
    machine = owner()
    machine(seen(INITIAL, 105), 106)
    machine(events.ProxyShut(), 107)
    assert silent(machine) == 107 + TIMING.serving_grace


def test_ended_api_servers_are_not_waited_for() -> None:
    for idle_since, end in ((105.9, 107), (106.5, 106.5 + TIMING.serving_grace)):
        machine = owner()
        machine(events.InitiateCalled(api_servers_ended=True), 106)
        machine(seen(INITIAL, 106), 106.2)
        machine(events.ProxyShut(idle_since), 107)
        assert silent(machine) == end


def test_end_may_be_reported_after_the_shutdown() -> None:
    machine = owner()
    machine(seen(INITIAL, 105), 106)
    machine(events.ProxyShut(106.5), 107)
    machine(events.SnapshotStored("final"), 108)
    machine(events.EtcdEnded(), 108)
    done = machine(events.InitiateCalled(api_servers_ended=True), 109)
    assert any(isinstance(action, PutOperation) and action.operation.status is Status.READY for action in done)


def test_reopened_proxy_forgets_earlier_clients() -> None:
    machine = owner()
    machine(events.Due(), 115)
    machine(events.ProxyShut(101), 116)
    machine(seen(None, 130), 131)
    assert silent(machine) == float("inf")


def test_an_agent_reads_before_it_starts_etcd() -> None:
    machine = Told()
    assert machine.due() == 100
    assert machine(events.Due()) == (Observe(),)
    assert machine(ABSENT, 101) == (OpenProxy(115), StartEtcd())
    assert not machine.state.serves
    machine(events.EtcdStarted(), 102)
    assert machine.state.serves


def test_proxy_opens_from_the_start_of_a_read() -> None:
    machine = owner()
    assert OpenProxy(118) in machine(seen(None, 103), 107)


def test_late_answer_opens_nothing() -> None:
    machine = Told()
    machine(events.Due())
    assert machine(ABSENT, 115) == (ShutProxy(), Observe())
    assert machine.state.phase is Phase.UNDECIDED


def test_agent_without_store_ends_etcd_after_proxy() -> None:
    machine = owner()
    machine(events.Due(), 105)
    machine(events.StoreFailed(), 109)
    assert machine.state.serves
    machine(events.Due(), 110)
    machine(events.StoreFailed(), 114)
    assert machine.due() == 115
    assert machine(events.Due(), 115) == (ShutProxy(), StopEtcd(), Observe())
    assert not machine.state.serves


def test_agent_serves_again_without_a_copy_operation() -> None:
    machine = owner()
    machine(events.Due(), 115)
    machine(events.EtcdEnded(), 116)
    machine(events.ProxyShut(), 116)
    machine(seen(None, 130), 131)
    assert machine.did == (OpenProxy(145), StartEtcd(), Observe())


def test_unanswered_shutdown_keeps_a_proxy_shut() -> None:
    machine = owner()
    machine(events.Due(), 115)
    assert machine.state.proxy is agent.ProxyState.SHUTTING
    assert not any(isinstance(action, OpenProxy) for action in machine(seen(None, 116), 117))


def test_restarted_agent_leaves_an_open_proxy() -> None:
    machine = Told(etcd=Etcd.RUNNING)
    assert machine(events.Due()) == (Observe(),)
    assert machine(events.StoreFailed(), 104) == ()
    assert ShutProxy() in machine(events.Due(), 115)


def test_without_its_marker_absence_means_nothing() -> None:
    machine = Told()
    machine(events.Due())
    assert machine(events.Observed(100, None, None)) == ()
    other = events.Observed(105, None, Unreadable("it is of another cluster"))
    machine(events.Due(), 105)
    assert machine(other, 106) == (ShutProxy(),)


@pytest.mark.demand("G46")
def test_unknown_object_shuts_the_proxy_at_once() -> None:
    machine = owner()
    assert machine(seen(Unreadable("its status is Paused")), 106) == (ShutProxy(), StopEtcd(), Observe())


def test_first_agent_makes_and_reads_the_marker() -> None:
    founding = Settings(1, "shoot--a--b", TIMING, founding=True)
    machine = Told(founding, has_data=False)
    machine(events.Due())
    marker = FirstStart(1, "shoot--a--b", 25)
    assert machine(events.Observed(100, None, None)) == (PutMarker(marker),)
    assert machine(events.PutEnded(), 101) == (Observe(),)
    assert machine(events.Observed(101, None, marker), 102) == (OpenProxy(116), StartEtcd())


def test_existing_data_make_no_marker() -> None:
    for machine in (Told(Settings(1, "x", TIMING, founding=True), has_data=True), Told(has_data=False)):
        machine(events.Due())
        assert machine(events.Observed(100, None, None)) == ()


def test_agent_keeps_the_promise_of_its_marker() -> None:
    longer = Settings(3, "shoot--a--b", Timing(validity=30, progress_timeout=120))
    machine = Told(longer)
    machine(events.Due())
    assert machine(ABSENT)[0] == OpenProxy(115)


def test_handing_over_goes_in_order_of_proposal() -> None:
    machine = owner()
    assert machine(seen(INITIAL, 105), 106) == (ShutProxy(), Observe())
    assert not machine.state.serves
    assert machine(events.ProxyShut(), 107) == (TakeFinalSnapshot(),)
    assert machine(events.SnapshotStored("final"), 110) == (StopEtcd(),)
    machine(events.EtcdEnded(), 111)
    assert machine.due() is not None
    ready = CopyOperation(3, Status.READY, Writer.SOURCE, "final")
    assert PutOperation(ready, "etag") not in machine(events.Due(), 116)
    assert PutOperation(ready, "etag") in machine(events.Due(), 117)  # API servers have forgotten by now
    machine(events.PutEnded(), 118)
    machine(seen(ready, 118), 119)
    assert machine.state.phase is Phase.HANDED_OVER


def test_silent_guard_has_shut_the_proxy_by_then() -> None:
    machine = owner()
    machine(seen(INITIAL, 105), 106)
    assert machine(events.Due(), 114) == ()
    assert TakeFinalSnapshot() in machine(events.Due(), 115)


@pytest.mark.demand("G64")
def test_source_starting_late_takes_final_snapshot() -> None:
    machine = Told()
    machine(events.Due())
    assert machine(seen(INITIAL)) == (ShutProxy(), StartEtcd())
    machine(events.EtcdStarted(), 101)
    assert machine(events.ProxyShut(), 102) == (TakeFinalSnapshot(),)
    assert not machine.state.serves


@pytest.mark.demand("G65")
def test_source_that_starts_ready_starts_nothing() -> None:
    machine = Told()
    machine(events.Due())
    assert machine(seen(READY)) == (ShutProxy(),)
    assert not any(isinstance(action, StartEtcd | OpenProxy) for action in machine(seen(None, 106), 107))


def test_progress_is_written_while_bytes_are_stored() -> None:
    machine = handing_over()
    machine(events.SnapshotProgressed(1000), 110)
    assert machine.due() == 116
    assert machine(events.Due(), 115) == ()
    written = CopyOperation(3, Status.INITIAL, Writer.SOURCE, None, 1000)
    assert PutOperation(written, "etag") in machine(events.Due(), 116)
    machine(events.PutEnded(), 117)
    machine(seen(written, 117, "etag 2"), 118)
    assert not any(isinstance(action, PutOperation) for action in machine(events.Due(), 140))


def test_a_final_snapshot_has_no_timer_until_it_fails() -> None:
    """A timer that is over already would call the agent again and again."""
    machine = owner()
    machine(seen(INITIAL, 105), 106)
    assert machine.due() == 115, "then the proxy is shut in any case"
    machine(events.ProxyShut(), 107)
    assert machine.did == (TakeFinalSnapshot(),)
    assert machine.due() is None
    starting = Told()
    starting(events.Due())
    starting(seen(INITIAL))
    starting(events.Due(), 105)
    starting(events.ProxyShut(), 106)
    assert starting.state.etcd is Etcd.STARTING
    assert starting.due() is None


def test_failed_final_snapshot_is_taken_again() -> None:
    machine = handing_over()
    assert TakeFinalSnapshot() not in machine(events.SnapshotFailed(), 108)
    assert machine.due() == 113, "whether or not a read of the store ends"
    assert TakeFinalSnapshot() in machine(events.Due(), 113)


def test_snapshot_of_restored_data_is_not_final() -> None:
    machine = handing_over()
    machine(events.SnapshotStored("full", complete=False), 108)
    assert PutOperation(CopyOperation(3, Status.READY, Writer.SOURCE), "etag") in machine(events.Due(), 117)


def test_initial_is_written_after_a_fresh_read() -> None:
    machine = owner()
    assert machine(events.InitiateCalled(), 106) == (Observe(),)
    asked = CopyOperation(3, Status.INITIAL, Writer.SOURCE)
    assert PutOperation(asked, "") in machine(seen(None, 106), 107)
    assert machine.state.phase is Phase.OWNER
    assert machine(events.PutEnded(), 108) == (Observe(),)
    assert ShutProxy() in machine(seen(asked, 108), 109)


@pytest.mark.demand("G69")
def test_copy_operation_is_reported_in_every_phase() -> None:
    machine = owner()
    assert agent.status(SETTINGS, machine.state).initiated is False
    machine(seen(INITIAL, 105), 106)
    assert agent.status(SETTINGS, machine.state) == CopyOperationStatus(3, True, INITIAL)
    machine(seen(READY, 110), 111)
    assert agent.status(SETTINGS, machine.state).copy_operation == READY


def test_snapshots_are_deleted_by_an_owner_alone() -> None:
    machine = owner()
    assert machine.state.may_delete_snapshots
    machine(seen(INITIAL, 105), 106)
    assert not machine.state.may_delete_snapshots


@pytest.mark.demand("G46")
def test_overwritten_ready_is_written_again() -> None:
    machine = handing_over()
    machine(events.SnapshotStored("final"), 108)
    machine(seen(READY, 120), 121)
    assert machine.state.phase is Phase.HANDED_OVER
    assert PutOperation(READY, "late") in machine(seen(INITIAL, 125, "late"), 126)


def test_ready_is_put_again_only_once_it_was_not_read() -> None:
    """A put that is under way, or has ended with an error, may have been stored: only a read tells."""
    machine = handing_over()
    machine(events.SnapshotStored("final"), 108)
    at = silent(machine)
    put = PutOperation(READY, "etag")
    assert put in machine(events.Due(), at)
    assert put not in machine(events.Due(), at + 60)
    assert put not in machine(events.PutEnded(), at + 61)
    assert put in machine(seen(INITIAL, at + 62), at + 63)


def test_etcd_that_ended_is_started_again_after_while() -> None:
    machine = owner()
    assert StartEtcd() not in machine(events.EtcdEnded(), 102)
    assert machine.due() == 105
    machine(events.Due(), 106)
    machine(seen(None, 106), 107)
    assert machine.state.etcd is Etcd.STARTING


EVENTS = st.one_of(
    st.builds(
        events.Observed,
        began=st.floats(90, 130),
        operation=st.sampled_from([None, INITIAL, READY, Unreadable("broken")]),
        marker=st.sampled_from([None, MARKER, Unreadable("broken")]),
    ),
    st.sampled_from(
        [
            events.StoreFailed(),
            events.PutEnded(),
            events.Due(),
            events.EtcdStarted(),
            events.EtcdEnded(),
            events.ProxyShut(),
            events.SnapshotProgressed(5),
            events.SnapshotStored("final"),
            events.SnapshotFailed(),
            events.InitiateCalled(),
        ]
    ),
)


@given(st.lists(st.tuples(EVENTS, st.floats(0, 10)), max_size=30))
def test_random_events_end_final_without_past_timers(
    history: list[tuple[events.AgentEvent, float]],
) -> None:
    machine, at, ended = Told(), 100.0, False
    for event, after in history:
        at += after
        machine(event, at)
        machine(events.Due(), at)
        ended = ended or (isinstance(event, events.Observed) and isinstance(event.operation, CopyOperation))
        due = machine.due()
        assert due is None or due > at
        if ended:
            assert machine.state.phase in (Phase.HANDING_OVER, Phase.HANDED_OVER)
            assert not machine.state.serves
