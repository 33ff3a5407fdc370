"""The end of an epoch whose etcd has several members, in all orders of events: real agents, one for each member.

Guards, stores, elections of a leader and the destination are those of this file. Times are ticks from now. A state is a
tuple of numbers. Members differ in nothing but their names: of the states that are the same with other names, one is
explored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import NamedTuple, cast

from msgspec.structs import force_setattr, replace

from espalier.api.etcd.ownership import CopyOperation, FirstStart, Status, Writer
from espalier.etcdbackup.election import actions, agent, events
from espalier.etcdbackup.election.agent import Agent, Etcd, Phase, is_shut, others_shut_from, others_silent_from
from tests.support.etcd.election.explorer import Exploration, explore
from tests.support.etcd.election.scenario import Scenario
from tests.support.etcd.election.world import Interned

EPOCH, CLUSTER = 2, "shoot"
ENDING = (Phase.HANDING_OVER, Phase.HANDED_OVER)
NOBODY = -1

LATE = "M1 nothing answers once the destination has begun"
LOSSLESS = "M2 Ready names a final snapshot only if that has every acknowledged write"
SERVING = "M3 once the source has written Ready, no member and no cache answers"


@dataclass(frozen=True, kw_only=True)
class Sets:
    """Bounds of an exploration."""

    size: int = 3
    writes: int = 1
    """How many writes are acknowledged at most."""
    validity: int = 1
    grace: int = 1
    crashes: int = 0
    """How many times an agent dies. Guard and etcd live on."""
    losses: int = 0
    """How many members are killed with all that they are; they start again with their data."""
    disks: int = 0
    """How many members lose their data with it."""
    elections: int = 0
    """How many times another member is elected although the leader runs."""
    slow: bool = False
    """Every party may take any time over everything. Without, only calls between agents do."""
    store_fails: bool = False
    undecided: int = 0
    """How many members had no proof that they may serve, and are reading it."""
    gives_up: bool = True
    """The destination goes on without the source's `Ready` as soon as it may."""

    @property
    def release(self) -> int:
        """How long a member may serve after its last read, caches included."""
        return self.validity + self.grace


class Read(NamedTuple):
    """A read that has begun."""

    began: int
    operation: int


class Put(NamedTuple):
    """A put that is on its way."""

    operation: int
    version: int


class Member(NamedTuple):
    """A member: its agent, its guard, and API servers that were connected to it."""

    agent: int = 0
    """0 while it does not run."""
    etcd: bool = False
    data: bool = True
    proxy: int = 0
    """Ticks for which clients pass."""
    cache: int = 0
    """Ticks for which an API server answers, connected or from memory."""
    order: bool = False
    """The guard has yet to shut the proxy."""
    read: Read | None = None
    put: Put | None = None
    final: int = NOBODY
    """The revision of the final snapshot that is being stored."""


class Shared(NamedTuple):
    """The state that members share, and the destination."""

    operation: int = 0
    acked: int = 0
    leader: int = 0
    waits: int = NOBODY
    """Ticks for which the destination waits for the source, since it has read the CopyOperation."""
    begun: bool = False
    """The destination serves."""
    crashes: int = 0
    losses: int = 0
    disks: int = 0
    elections: int = 0


State = tuple[int, ...]
Next = Iterator[tuple[str, State]]


class System:
    """All that may happen to a set."""

    def __init__(self, bounds: Sets) -> None:
        self.bounds = bounds
        scenario = Scenario(validity=bounds.validity, grace=bounds.grace)
        self._timing = scenario.agent_timing
        force_setattr(self._timing, "clock_drift", 0)  # so that no wait is longer than needed
        names = [f"m{at}" for at in range(bounds.size)]
        self._settings = [
            agent.Settings(EPOCH, CLUSTER, self._timing, others=tuple(other for other in names if other != name))
            for name in names
        ]
        self._names = names
        self._marker = FirstStart(EPOCH, CLUSTER, bounds.release, EPOCH - 1)
        self._values = Interned()
        self._parts = Interned()
        self._steps: dict[Hashable, tuple[int, tuple[actions.AgentAction, ...]]] = {}
        self._later: dict[int, int] = {}
        self._due: dict[tuple[int, int], bool] = {}
        self._slow: dict[tuple[int, int], bool] = {}
        self._seen: dict[tuple[int, int], int] = {}
        self._older_members: dict[int, int] = {}
        self._changes: dict[Hashable, tuple[tuple[str, int, int], ...]] = {}
        self._orders = list(permutations(range(bounds.size)))
        """Each has for every place the member that comes there."""
        self._renamed: list[dict[int, int]] = [{} for _ in self._orders]
        self._renamed_shared: list[dict[int, int]] = [{} for _ in self._orders]
        self._places = {name: at for at, name in enumerate(names)}

    def first(self) -> State:
        """The destination has just ended the epoch. All members serve; they have read, and read once more, before."""
        members = []
        for at in range(self.bounds.size):
            state = agent.start(self._settings[at], Etcd.RUNNING, True, 0)
            for event in (events.Due(), events.Observed(0, None, self._marker)):
                state, _ = agent.step(self._settings[at], state, event, 0)
            number = self._values.number(replace(state, reading=True))
            member = Member(number, True, True, self.bounds.validity, self.bounds.release, read=Read(0, operation=0))
            if at >= self.bounds.size - self.bounds.undecided:
                member = self._undecided(member, state)
            members.append(member)
        initial = self._values.number(CopyOperation(EPOCH, Status.INITIAL, Writer.DESTINATION))
        return self._packed(members, Shared(initial))

    def _undecided(self, member: Member, serving: Agent) -> Member:
        shut = agent.ProxyState.SHUT
        state = replace(serving, phase=Phase.UNDECIDED, proxy=shut, shut_since=0, idle_since=0, reading=True)
        return member._replace(agent=self._values.number(_plain(state)), proxy=0, cache=self.bounds.grace)

    # --- States -----------------------------------------------------------------------------------------------------

    def members(self, state: State) -> list[Member]:
        """The members of a state."""
        return [cast(Member, self._parts[number]) for number in state[:-1]]

    def shared(self, state: State) -> Shared:
        """The part that they share."""
        return cast(Shared, self._parts[state[-1]])

    def operation(self, shared: Shared) -> CopyOperation | None:
        """The CopyOperation in the store."""
        return cast("CopyOperation | None", self._values[shared.operation])

    def answers(self, number: int) -> bool:
        """True if a member, or an API server that was connected to it, answers."""
        member = cast(Member, self._parts[number])
        return bool(member.cache or (member.proxy and member.etcd))

    def _packed(self, members: list[Member], shared: Shared) -> State:
        return (*(self._parts.number(self._member(member)) for member in members), self._parts.number(shared))

    def _member(self, member: Member) -> Member:
        """The member without what no longer matters: how old its read is once it knows that the epoch has ended."""
        if not member.agent:
            return member
        state = self._agent(member)
        if state.phase not in ENDING:
            return member
        is_over = state.phase is Phase.HANDED_OVER and state.etcd is Etcd.ENDED and state.shut_since is not None
        return member._replace(read=None if is_over else Read(0, NOBODY))

    def _agent(self, member: Member) -> Agent:
        return cast(Agent, self._values[member.agent])

    def _has_quorum(self, members: list[Member]) -> bool:
        return sum(member.etcd and member.data for member in members) > len(members) // 2

    def canonical(self, state: State) -> State:
        """The first of all states that are the same as this one with other names of members."""
        *numbers, common = state
        best: State | None = None
        for order, renamed, shared in zip(self._orders, self._renamed, self._renamed_shared, strict=True):
            here = []
            for at in order:
                number = numbers[at]
                known = renamed.get(number)
                if known is None:
                    known = renamed[number] = self._renamed_member(number, order)
                here.append(known)
            last = shared.get(common)
            if last is None:
                last = shared[common] = self._renamed_common(common, order)
            other = (*here, last)
            if best is None or other < best:
                best = other
        assert best is not None
        return best

    def _renamed_member(self, number: int, order: tuple[int, ...]) -> int:
        member = cast(Member, self._parts[number])
        if not member.agent:
            return number
        state = self._agent(member)
        shut, silent = (
            frozenset(self._names[order.index(self._places[name])] for name in names)
            for names in (state.others_shut, state.others_silent)
        )
        if (shut, silent) == (state.others_shut, state.others_silent):
            return number
        renamed = replace(state, others_shut=shut, others_silent=silent)
        return self._parts.number(member._replace(agent=self._values.number(renamed)))

    def _renamed_common(self, number: int, order: tuple[int, ...]) -> int:
        shared = cast(Shared, self._parts[number])
        leader = shared.leader if shared.leader == NOBODY else order.index(shared.leader)
        return self._parts.number(shared._replace(leader=leader))

    # --- Events -----------------------------------------------------------------------------------------------------

    def successors(self, state: State) -> Next:
        """All that may happen next."""
        *numbers, common = state
        seen = [self._seen_by_others(at, number) for at, number in enumerate(numbers)]
        for at, number in enumerate(numbers):
            key = (at, number, common, *seen[:at], *seen[at + 1 :])
            changes = self._changes.get(key)
            if changes is None:
                members, shared = self.members(state), self.shared(state)
                changes = tuple(
                    (event_name, to[at], to[-1])
                    for event_name, to in self._changes_of_member(members, shared, at, members[at])
                )
                self._changes[key] = changes
            for event_name, member, after in changes:
                yield event_name, (*numbers[:at], member, *numbers[at + 1 :], after)
        for event_name, moved in self._of_destination(self.shared(state)):
            yield event_name, (*numbers, self._parts.number(moved))
        if self.bounds.slow or not any(self._is_slow(at, number) for at, number in enumerate(numbers)):
            yield "a tick passes", self._ticked(state)

    def _seen_by_others(self, at: int, number: int) -> Hashable:
        """The part of a member that others can see."""
        known = self._seen.get((at, number))
        if known is None:
            member = cast(Member, self._parts[number])
            told = (False, False)
            if member.agent:
                state = self._agent(member)
                told = agent.is_shut(state), agent.is_silent(self._settings[at], state, 0)
            seen = (member.etcd, member.data, member.proxy > 0, *told)
            known = self._seen[at, number] = self._parts.number(seen)
        return known

    def _changes_of_member(self, members: list[Member], shared: Shared, at: int, member: Member) -> Next:
        yield from self._of_member(members, shared, at, member)
        yield from self._of_clients(members, shared, at, member)

    def _is_slow(self, at: int, number: int) -> bool:
        """True if a member would be slower than times allow, should a tick pass now."""
        known = self._slow.get((at, number))
        if known is None:
            known = self._slow[at, number] = self._is_late(at, cast(Member, self._parts[number]))
        return known

    def _is_late(self, at: int, member: Member) -> bool:
        if not member.agent or member.order or member.put is not None or member.final != NOBODY:
            return True
        return self._is_due(at, member.agent) or (member.read is not None and member.read.began < 0)

    def _of_member(self, members: list[Member], shared: Shared, at: int, member: Member) -> Next:
        name, bounds = self._names[at], self.bounds
        if not member.agent:
            running = Etcd.RUNNING if member.etcd else Etcd.ENDED
            started = self._values.number(agent.start(self._settings[at], running, member.data, 0))
            yield f"the agent of {name} starts", self._told(members, shared, at, started, events.Due())
            return
        if self._is_due(at, member.agent):
            yield f"{name} sees that a time has come", self._event(members, shared, at, events.Due())
        if member.read is not None:
            done = with_member(members, at, member._replace(read=None))
            known, before = self._agent(member), member.read.operation
            for number in dict.fromkeys((shared.operation, shared.operation if before == NOBODY else before)):
                if known.phase in ENDING and not known.unread and str(number) == known.version:
                    continue  # it is no news
                operation = cast("CopyOperation | None", self._values[number])
                seen = events.Observed(member.read.began, operation, self._marker, str(number) if number else "")
                told = operation.status.value if operation is not None else "nothing"
                yield f"{name} reads {told}", self._event(done, shared, at, seen)
            if bounds.store_fails:
                yield f"{name} gets no answer to its read", self._event(done, shared, at, events.StoreFailed())
        if member.put is not None:
            done = with_member(members, at, member._replace(put=None))
            landed = shared
            if member.put.version == shared.operation:
                landed = shared._replace(operation=member.put.operation)
            yield f"the put of {name} is answered", self._event(done, landed, at, events.PutEnded())
            if bounds.store_fails:
                yield f"the put of {name} is lost", self._event(done, shared, at, events.PutEnded())
        if member.order:
            cut = with_member(members, at, member._replace(order=False, proxy=0, cache=min(member.cache, bounds.grace)))
            since = 0 if member.proxy else None
            yield f"the guard of {name} shuts the proxy", self._event(cut, shared, at, events.ProxyShut(since))
        yield from self._of_leader(members, shared, at, member)
        yield from self._of_calls(members, shared, at, member)
        if shared.crashes < bounds.crashes:
            dead = member._replace(agent=0, read=None, put=None, order=False, final=NOBODY)
            after = shared._replace(crashes=shared.crashes + 1)
            yield f"the agent of {name} crashes", self._packed(with_member(members, at, dead), after)

    def _of_leader(self, members: list[Member], shared: Shared, at: int, member: Member) -> Next:
        state, name = self._agent(member), self._names[at]
        if state.phase is Phase.HANDING_OVER and state.leads is not (shared.leader == at):
            seen = events.LeaderSeen(shared.leader == at)
            yield (
                f"{name} sees {'that it leads' if seen.leads else 'another leader'}",
                self._event(members, shared, at, seen),
            )
        if member.etcd and member.data and shared.leader != at and self._has_quorum(members):
            is_needed = shared.leader == NOBODY or not members[shared.leader].etcd
            if is_needed or shared.elections < self.bounds.elections:
                more = shared.elections + (0 if is_needed else 1)
                yield f"{name} is elected", self._packed(members, shared._replace(leader=at, elections=more))
        if member.final != NOBODY:
            done = with_member(members, at, member._replace(final=NOBODY))
            stored = events.SnapshotStored(f"{member.final}")
            yield f"{name} has stored the final snapshot", self._event(done, shared, at, stored)
            if self.bounds.store_fails:
                yield f"{name} can't store it", self._event(done, shared, at, events.SnapshotFailed())

    def _of_calls(self, members: list[Member], shared: Shared, at: int, member: Member) -> Next:
        """Agents ask each other once they know that the epoch has ended."""
        state = self._agent(member)
        if state.phase is not Phase.HANDING_OVER:
            return
        for other, asked in enumerate(members):
            name = self._names[other]
            if other == at or not asked.agent or name in state.others_silent:
                continue
            shut = agent.is_shut(self._agent(asked))
            silent = agent.is_silent(self._settings[other], self._agent(asked), 0)
            if shut and (silent or name not in state.others_shut):
                answer = events.MemberClosed(name, silent)
                yield f"{name} answers {self._names[at]}", self._event(members, shared, at, answer)

    def _of_clients(self, members: list[Member], shared: Shared, at: int, member: Member) -> Next:
        """Clients write, and members are lost."""
        bounds, name = self.bounds, self._names[at]
        if member.proxy and member.etcd and shared.acked < bounds.writes and self._has_quorum(members):
            yield f"{name} acknowledges a write", self._packed(members, shared._replace(acked=shared.acked + 1))
        gone = Member(cache=min(member.cache, bounds.grace), data=member.data)
        leader = NOBODY if shared.leader == at else shared.leader
        if shared.losses < bounds.losses and member.etcd:
            after = shared._replace(losses=shared.losses + 1, leader=leader)
            yield f"{name} is killed", self._packed(with_member(members, at, gone), after)
        if shared.disks < bounds.disks and member.data:
            after = shared._replace(disks=shared.disks + 1, leader=leader)
            lost = with_member(members, at, gone._replace(data=False))
            yield f"{name} is lost with its data", self._packed(lost, after)

    def _of_destination(self, shared: Shared) -> Iterator[tuple[str, Shared]]:
        operation = self.operation(shared)
        assert operation is not None
        if shared.begun:
            return
        if operation.status is not Status.INITIAL:
            yield "the destination serves", shared._replace(begun=True, waits=NOBODY)
        elif self.bounds.gives_up and shared.waits == NOBODY:
            fence = math.ceil(self._timing.fence(self.bounds.release))
            yield "the destination reads Initial", shared._replace(waits=fence)
        elif shared.waits == 0:
            ready = self._values.number(CopyOperation(EPOCH, Status.READY, Writer.DESTINATION))
            yield "the destination goes on without the source", shared._replace(operation=ready)

    def _ticked(self, state: State) -> State:
        shared = self.shared(state)
        waits = max(shared.waits - 1, min(shared.waits, 0))
        return (*map(self._older_member, state[:-1]), self._parts.number(shared._replace(waits=waits)))

    def _older_member(self, number: int) -> int:
        known = self._older_members.get(number)
        if known is None:
            member = cast(Member, self._parts[number])
            read = member.read and member.read._replace(began=max(member.read.began - 1, -self.bounds.validity))
            older = member._replace(
                agent=self._aged(member.agent),
                proxy=max(member.proxy - 1, 0),
                cache=max(member.cache - 1, 0),
                read=read,
            )
            known = self._older_members[number] = self._parts.number(self._member(older))
        return known

    # --- Agents -----------------------------------------------------------------------------------------------------

    def _event(self, members: list[Member], shared: Shared, at: int, event: events.AgentEvent) -> State:
        return self._told(members, shared, at, members[at].agent, event)

    def _told(self, members: list[Member], shared: Shared, at: int, number: int, event: events.AgentEvent) -> State:
        """The state after an event at an agent, with all that it does about it."""
        member = members[at]
        todo: list[events.AgentEvent] = [event]
        while todo:
            number, wanted = self._step(at, number, todo.pop(0))
            for action in wanted:
                member, more = self._acts(members, shared, at, member, action)
                todo += more
            if not todo and self._is_due(at, number):
                todo.append(events.Due())
        return self._packed(with_member(members, at, member._replace(agent=number)), shared)

    def _acts(
        self, members: list[Member], shared: Shared, at: int, member: Member, action: actions.AgentAction
    ) -> tuple[Member, list[events.AgentEvent]]:
        bounds = self.bounds
        match action:
            case actions.Observe():
                return member._replace(read=Read(0, shared.operation)), []
            case actions.PutOperation(operation=operation, version=version):
                return member._replace(put=Put(self._values.number(operation), int(version or 0))), []
            case actions.StartEtcd():
                return self._starts(members, at, member)
            case actions.StopEtcd():
                return member._replace(etcd=False, proxy=0, cache=min(member.cache, bounds.grace)), [events.EtcdEnded()]
            case actions.OpenProxy(until=until) if member.etcd:
                ticks = max(math.ceil(until), 0)
                return member._replace(proxy=ticks, cache=max(member.cache, ticks + bounds.grace)), []
            case actions.ShutProxy():
                return member._replace(order=True), []
            case actions.TakeFinalSnapshot():
                if not self._has_quorum(members):
                    return member, [events.SnapshotFailed()]
                return member._replace(final=shared.acked), []
            case _:
                return member, []

    def _starts(self, members: list[Member], at: int, member: Member) -> tuple[Member, list[events.AgentEvent]]:
        """etcd starts with its data; without, it joins a quorum of others that clients reach."""
        others = [other for other in with_member(members, at, member._replace(etcd=False)) if other.etcd and other.data]
        can_join = len(others) > len(members) // 2 and any(other.proxy for other in others)
        if not member.data and not can_join:
            return member, [events.EtcdEnded()]
        return member._replace(etcd=True, data=True), [events.EtcdStarted()]

    def _step(self, at: int, number: int, event: events.AgentEvent) -> tuple[int, tuple[actions.AgentAction, ...]]:
        key = (at, number, event)
        known = self._steps.get(key)
        if known is None:
            after, wanted = agent.step(self._settings[at], cast(Agent, self._values[number]), event, 0)
            known = self._steps[key] = (self._values.number(_plain(after)), wanted)
        return known

    def _is_due(self, at: int, number: int) -> bool:
        known = self._due.get((at, number))
        if known is None:
            due = agent.due(self._settings[at], cast(Agent, self._values[number]))
            known = self._due[at, number] = due is not None and due <= 0
        return known

    def _aged(self, number: int) -> int:
        if not number:
            return 0
        known = self._later.get(number)
        if known is None:
            known = self._later[number] = self._values.number(_plain(self._older(cast(Agent, self._values[number]))))
        return known

    def _older(self, old: Agent) -> Agent:
        longest = -math.ceil(self._timing.fence(self.bounds.release))

        def earlier(time: float | None) -> float | None:
            return None if time is None else max(time - 1, longest)

        return replace(
            old,
            read_due=max(old.read_due - 1, 0),
            proxy_until=max(old.proxy_until - 1, 0),
            idle_since=None if old.idle_since is None else max(old.idle_since - 1, -self.bounds.grace),
            ended_at=earlier(old.ended_at),
            retry_due=max(old.retry_due - 1, 0),
            progress_due=max(old.progress_due - 1, 0),
        )


def with_member(members: list[Member], at: int, member: Member) -> list[Member]:
    """The members with another state of one."""
    return [*members[:at], member, *members[at + 1 :]]


def _plain(state: Agent) -> Agent:
    """The state without what no longer matters to it."""
    if state.phase is Phase.HANDED_OVER:
        state = replace(state, others_shut=frozenset(), others_silent=frozenset(), ended_at=0, ready=None, leads=False)
        if state.shut_since is not None:
            state = replace(state, idle_since=0, retry_due=0)
    shut = None if state.shut_since is None else 0
    until = state.proxy_until if shut is None else 0
    state = replace(state, progress_due=0, stored=0, shut_since=shut, proxy_until=until)
    # Who knows that the epoch has ended is always reading: what it reads counts only if it is new.
    return replace(state, reading=True, read_due=0) if state.phase in ENDING else state


def invariants(system: System) -> Mapping[str, Callable[[State], bool]]:
    """The conditions that hold in every state."""

    def answers(state: State) -> bool:
        return any(map(system.answers, state[:-1]))

    def is_lossless(state: State) -> bool:
        shared = system.shared(state)
        operation = system.operation(shared)
        if operation is None or operation.final_snapshot is None:
            return True
        return int(operation.final_snapshot) >= shared.acked

    def is_served_by_nobody(state: State) -> bool:
        operation = system.operation(system.shared(state))
        is_over = operation is not None and operation.status is Status.READY
        return not (is_over and operation is not None and operation.written_by is Writer.SOURCE and answers(state))

    return {
        LATE: lambda state: not (system.shared(state).begun and answers(state)),
        LOSSLESS: is_lossless,
        SERVING: is_served_by_nobody,
    }


def explored(bounds: Sets, *, most: int, only: str = "") -> Exploration[State]:
    """Explore. The goal is the end of the epoch: `Ready`, whoever has written it. With `only`, no other invariant is
    judged, and no goal."""
    system = System(bounds)

    def is_over(state: State) -> bool:
        operation = system.operation(system.shared(state))
        return operation is not None and operation.status is not Status.INITIAL

    judged = {name: holds for name, holds in invariants(system).items() if only in ("", name)}

    def successors(state: State) -> Next:
        return ((event_name, system.canonical(after)) for event_name, after in system.successors(state))

    first = system.canonical(system.first())
    return explore(first, successors, judged, most=most, goal=None if only else is_over)


@dataclass(frozen=True)
class Explored:
    """Bounds by a name; the large ones are explored by `make soak` alone. The largest takes 3.3 GB of memory."""

    name: str
    bounds: Sets
    large: bool = False


MOST = 6_000_000
"""The number of states of the largest, rounded up."""
EXPLORED: tuple[Explored, ...] = (
    Explored("two members", Sets(size=2)),
    Explored("two members, one of which had no proof that it may serve", Sets(size=2, undecided=1)),
    Explored("two members, requests fail", Sets(size=2, store_fails=True)),
    Explored("two members, one is killed; the destination waits", Sets(size=2, losses=1, gives_up=False, writes=0)),
    Explored("three members; the destination waits", Sets(writes=0, grace=0, gives_up=False)),
    Explored("three members, and a write; the destination waits", Sets(grace=0, gives_up=False), large=True),
    Explored("three members, API servers answer from caches", Sets(writes=0, gives_up=False), large=True),
    Explored("three members, a write, API servers answer from caches", Sets(), large=True),
    Explored("two members, both are slow or frozen at any time", Sets(size=2, slow=True, writes=0), large=True),
    Explored("two members, another one is elected, agents crash", Sets(size=2, elections=1, crashes=1), large=True),
)


@dataclass(frozen=True)
class Rule:
    """A rule without which something breaks: the function of the machine that has it, and that function without."""

    name: str
    function: str
    without: Callable[..., object]
    bounds: Sets
    breaks: str


def _now(*_: object) -> float:
    return float("-inf")


RULES: tuple[Rule, ...] = (
    Rule(
        "The final snapshot waits until the proxies of all members are shut",
        "others_shut_from", _now, Sets(size=2), LOSSLESS,
    ),
    Rule(
        "A member that does not say that it is shut may serve for as long as its last read allows",
        "others_shut_from", lambda *of: others_shut_from(*of) - 1, Sets(size=2), LOSSLESS,
    ),
    Rule(
        "Ready waits until no API server answers that was connected to any member",
        "others_silent_from", _now, Sets(size=2, writes=0), SERVING,
    ),
    Rule(
        "Of a member that does not say so, its API servers may answer for as long as the marker promises",
        "others_silent_from", lambda *of: others_silent_from(*of) - 1, Sets(size=2, writes=0), SERVING,
    ),
    Rule(
        "A member is shut when its guard has said so, or its deadline has passed",
        "is_shut", lambda state: state.phase in ENDING, Sets(size=2), LOSSLESS,
    ),
    Rule(
        "A proxy that was shut before its agent knew of the end may be opened again",
        "is_shut", lambda state: state.shut_since is not None, Sets(size=2, undecided=1), LOSSLESS,
    ),
    Rule(
        "That a member is shut does not say that its API servers are silent",
        "is_silent", lambda _settings, state, _at: is_shut(state), Sets(size=2, writes=0), SERVING,
    ),
)  # fmt: skip
"""Rules of the agents of a set."""


def without(rule: Rule) -> Exploration[State]:
    """Explore without a rule, up to the first state in which its invariant does not hold."""
    before = getattr(agent, rule.function)
    setattr(agent, rule.function, rule.without)
    try:
        return explored(rule.bounds, most=1_000_000, only=rule.breaks)
    finally:
        setattr(agent, rule.function, before)


def row(of: Explored, exploration: Exploration[State]) -> str:
    """The row of an exploration."""
    where = "soak" if of.large else "test"
    return f"| {of.name} | {exploration.states:,} | {exploration.transitions:,} | {where} |"


def rule_row(rule: Rule, exploration: Exploration[State]) -> str:
    """The row of a rule: what breaks without it, and after how many steps."""
    assert exploration.violation is not None, rule.name
    return f"| {rule.name} | {rule.breaks.split()[0]} | {len(exploration.violation.trace) - 1} |"
