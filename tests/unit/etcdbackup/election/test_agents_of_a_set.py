"""Agents of an etcd with three members, told event by event: one acts for all, when all proxies are shut."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from espalier.api.etcd.ownership import CopyOperation, FirstStart, Status, Writer
from espalier.api.etcd.timing import Timing
from espalier.etcdbackup.election import agent, events
from espalier.etcdbackup.election.actions import AgentAction, PutOperation, StartEtcd, StopEtcd, TakeFinalSnapshot
from espalier.etcdbackup.election.agent import Etcd, Settings

TIMING = Timing(store_staleness=1)
SETTINGS = Settings(epoch=3, cluster="shoot--a--b", timing=TIMING, others=("etcd-main-1", "etcd-main-2"))
MARKER = FirstStart(3, "shoot--a--b", TIMING.release, predecessor=2)
INITIAL = CopyOperation(3, Status.INITIAL, Writer.DESTINATION)
READY = CopyOperation(3, Status.READY, Writer.SOURCE, "final")
ENDED = 106.0
"""When it reads the CopyOperation."""
SHUT = ENDED + TIMING.fence(TIMING.validity)
SILENT = ENDED + TIMING.fence(TIMING.release)


@dataclass
class Member:
    """The agent of one member."""

    state: agent.Agent
    settings: Settings = SETTINGS

    def told(self, event: events.AgentEvent, at: float) -> tuple[AgentAction, ...]:
        self.state, did = agent.step(self.settings, self.state, event, at)
        return did

    def due(self) -> float | None:
        return agent.due(self.settings, self.state)


def ending(settings: Settings = SETTINGS, *, marker: FirstStart = MARKER) -> Member:
    """One whose epoch has ended, whose proxy is shut, and which is not known to lead."""
    member = Member(agent.start(settings, Etcd.ENDED, True, 100), settings)
    member.told(events.Due(), 102)
    member.told(events.Observed(102, None, marker), 102)
    member.told(events.EtcdStarted(), 103)
    member.told(events.Observed(105, INITIAL, marker, "etag"), ENDED)
    member.told(events.ProxyShut(idle_since=104), ENDED)
    return member


def takes(did: tuple[AgentAction, ...]) -> bool:
    return TakeFinalSnapshot() in did


def test_leader_takes_snapshot_when_others_are_shut() -> None:
    member = ending()
    assert not takes(member.told(events.LeaderSeen(True), 107))
    assert not takes(member.told(events.MemberClosed("etcd-main-1"), 107))
    assert takes(member.told(events.MemberClosed("etcd-main-2"), 107))


def test_who_does_not_lead_takes_no_snapshot() -> None:
    member = ending()
    for name in SETTINGS.others:
        assert not takes(member.told(events.MemberClosed(name, silent=True), 107))
    assert not takes(member.told(events.Due(), SILENT + 100))
    assert takes(member.told(events.LeaderSeen(True), SILENT + 100)), "the leader before was lost"


def test_lost_member_is_waited_for_until_its_deadline() -> None:
    member = ending()
    member.told(events.LeaderSeen(True), 107)
    member.told(events.MemberClosed("etcd-main-1"), 107)
    member.told(events.Observed(SHUT - 1, INITIAL, MARKER, "etag"), SHUT - 0.5)
    assert not takes(member.told(events.Due(), SHUT - 0.01))
    assert takes(member.told(events.Due(), SHUT))


def test_deadline_is_that_of_marker_if_it_is_longer() -> None:
    longer = FirstStart(3, "shoot--a--b", TIMING.release + 30, predecessor=2)
    member = ending(marker=longer)
    member.told(events.LeaderSeen(True), 107)
    assert not takes(member.told(events.Due(), SHUT + 29))
    assert takes(member.told(events.Due(), SHUT + 31))


@pytest.mark.parametrize("silent", [True, False])
def test_ready_waits_for_api_servers_of_all_members(silent: bool) -> None:
    member = ending()
    member.told(events.LeaderSeen(True), 107)
    for name in SETTINGS.others:
        member.told(events.MemberClosed(name), 107)
    own = 104 + TIMING.serving_grace
    did = member.told(events.SnapshotStored("final"), own + 1)
    assert not [action for action in did if isinstance(action, PutOperation)]
    if silent:
        at = own + 2
        for name in SETTINGS.others:
            did = member.told(events.MemberClosed(name, silent=True), at)
    else:
        member.told(events.Observed(SILENT - 1, INITIAL, MARKER, "etag"), SILENT - 0.5)
        assert member.due() == SILENT
        did = member.told(events.Due(), SILENT)
    [put] = [action for action in did if isinstance(action, PutOperation)]
    assert put.operation.status is Status.READY
    assert put.operation.final_snapshot == "final"


def test_etcd_runs_until_ready_is_read() -> None:
    """If the leader is lost before, the others are the quorum with which the next one takes the snapshot."""
    member = ending()
    member.told(events.LeaderSeen(True), 107)
    for name in SETTINGS.others:
        member.told(events.MemberClosed(name), 107)
    assert StopEtcd() not in member.told(events.SnapshotStored("final"), 108)
    member.told(events.EtcdEnded(), 109)
    assert StartEtcd() in member.told(events.Due(), 109 + TIMING.poll_period)
    member.told(events.EtcdStarted(), 116)
    assert StopEtcd() in member.told(events.Observed(117, READY, MARKER, "etag2"), 118)


def test_member_is_shut_only_when_its_epoch_has_ended() -> None:
    member = Member(agent.start(SETTINGS, Etcd.ENDED, True, 100))
    member.told(events.Due(), 100 + TIMING.validity + 1)
    assert not agent.is_shut(member.state), "it may read the marker, and open again"
    ended = ending()
    assert agent.is_shut(ended.state)
    assert not agent.is_silent(SETTINGS, ended.state, 104 + TIMING.serving_grace - 1)
    assert agent.is_silent(SETTINGS, ended.state, 104 + TIMING.serving_grace)


def test_agents_wake_when_there_is_something_to_do() -> None:
    """One that woke for nothing would do so again at once, and never rest."""
    follower, leader = ending(), ending()
    for member in (follower, leader):
        member.told(events.Due(), 107)  # it reads, and gets no answer yet
        member.state = replace(member.state, reading=True)
    leader.told(events.LeaderSeen(True), 108)
    assert leader.due() == SHUT
    assert follower.due() is None
    assert takes(leader.told(events.Due(), SHUT))
    leader.told(events.SnapshotStored("final"), SHUT + 1)
    assert leader.due() == SILENT
    leader.told(events.EtcdEnded(), SHUT + 2)
    assert leader.due() == SHUT + 2 + TIMING.poll_period, "others may need it as their quorum"
