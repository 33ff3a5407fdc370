"""The agent beside an etcd: decides whether it serves, and hands its data over. The source of a migration.

It serves while it reads that its epoch has no CopyOperation. Each such read opens etcd's proxy until `validity` after
the read began; without another read the proxy shuts by itself, even if the agent is dead. Once there is a CopyOperation
the proxy stays shut: the final snapshot is taken behind it, and its name is written with `Ready`.

The machine is a value, `Agent`, and a function, `step`: an event and a time give the next value and a list of actions.
A step has two halves. The first records the event, and changes the phase where a read says so. The second looks at the
state and the time alone, and decides in turn about proxy, etcd, final snapshot, puts and reads. Each decision marks in
the state what it has ordered (`proxy`, `etcd`, `taking`, `putting`, `reading`), so nothing is ordered twice. `due` is
the time of the next step without an event.

Phases:

- Starting -> Owner, Undecided -> Owner: a read has the first-start marker and no CopyOperation, and is recent enough to
  promise time to clients. The proxy is opened until then; etcd is started if it has ended.
- Starting -> Undecided, Owner -> Undecided: the deadline passed without another such read, or an object can't be read.
  The proxy is shut, etcd is stopped. A read without a marker changes nothing, since it may be of another container: the
  deadline decides.
- any -> HandingOver: a read has a CopyOperation with `Initial`, whoever wrote it. The agent writes it itself once
  `copyop/initiate` was called. The proxy is shut. When it is known that nothing passes, the final snapshot is taken;
  when that is stored, etcd ends; when API servers can't answer from their caches any more (`silent_from`), `Ready` is
  put.
- any -> HandedOver: a read has `Ready` or `Done`: the agent's own put, or a destination that gave up waiting.

There is no way back from the last two: a later read without the CopyOperation is ignored. A put counts only once it is
read: after its end nothing more is put (`unread`) until a read has succeeded. Of a new cluster's first epoch, whose
container has no marker, an agent without data puts the marker.

An etcd with several members has an agent beside each. All of them read the same objects, and each opens and shuts its
own proxy. Once the epoch has ended, the agent of the leader acts for all: it takes the final snapshot when the proxies
of all members are shut, and puts `Ready` when no API server of any can answer. It knows that from the other agents; of
one that does not say so, because it is shut by itself by then (`others_silent_from`). If the leader is lost, the agent
of the next one goes on.

Failures are no phases. A read or a put that fails is repeated at the next poll, etcd that ends and a snapshot that
fails after `retry_due`; the deadline of the proxy goes on meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

import msgspec
from msgspec.structs import replace

from espalier.api.etcd.calls import CopyOperationStatus
from espalier.api.etcd.ownership import CopyOperation, FirstStart, Status, Unreadable, Writer
from espalier.api.etcd.timing import Timing
from espalier.etcdbackup.election import events
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


class Phase(Enum):
    """The phase of an agent in its epoch."""

    STARTING = "Starting"
    """Nothing was read yet. A proxy that a previous agent opened stays open until its deadline."""
    UNDECIDED = "Undecided"
    """Nothing known allows it to serve: no store, no marker, or an object that can't be read. The proxy is shut and
    etcd has ended until a read says otherwise."""
    OWNER = "Owner"
    """No CopyOperation: etcd serves while the proxy is open."""
    HANDING_OVER = "HandingOver"
    """The CopyOperation exists: the proxy stays shut, and the final snapshot is being taken."""
    HANDED_OVER = "HandedOver"
    """The CopyOperation is `Ready` or `Done`: etcd has ended."""


class Etcd(Enum):
    """The state of the etcd process, as far as the agent knows."""

    ENDED = "Ended"
    STARTING = "Starting"
    RUNNING = "Running"
    ENDING = "Ending"


class ProxyState(Enum):
    """The last order to the guard."""

    OPEN = "Open"
    """To let clients pass until a time. Also at start: a previous agent may have ordered it."""
    SHUTTING = "Shutting"
    """To let nothing pass; the guard has not confirmed it yet."""
    SHUT = "Shut"


class Settings(msgspec.Struct, frozen=True):
    """The agent's settings, from the Etcd object and from its configuration."""

    epoch: int
    cluster: str
    timing: Timing
    founding: bool = False
    """The epoch is the first of a new cluster: the agent makes the first-start marker if there are no data."""
    others: tuple[str, ...] = ()
    """The names of the other members of this etcd."""


class Agent(msgspec.Struct, frozen=True):
    """The state of an agent. Times are seconds of `CLOCK_BOOTTIME`."""

    read_due: float
    proxy_until: float
    """Nothing passes after this time. At start: the latest time that a previous agent may have told the guard."""
    etcd: Etcd
    may_found: bool
    phase: Phase = Phase.STARTING
    reading: bool = False
    putting: bool = False
    unread: bool = False
    """A put has ended, and no read has succeeded since."""
    proxy: ProxyState = ProxyState.OPEN
    shut_since: float | None = None
    """The time since which it is known that nothing passes."""
    idle_since: float | None = None
    """The time since which no API server is connected to etcd. It may be earlier than `shut_since`."""
    api_servers_ended: float | None = None
    """The time by which all API servers had ended, as the source's gardenlet reports."""
    operation: CopyOperation | None = None
    version: str = ""
    initiating: bool = False
    taking: bool = False
    stored: int = 0
    ready: CopyOperation | None = None
    """The object to put once the final snapshot is stored."""
    retry_due: float = 0
    """After a failure, etcd is not started again, nor the final snapshot taken again, before this time."""
    progress_due: float = 0
    leads: bool = True
    """The own member leads the etcd."""
    ended_at: float | None = None
    """The time at which the CopyOperation was read first."""
    others_release: float = 0
    """How long other members may still serve after that, caches of API servers included."""
    others_shut: frozenset[str] = frozenset()
    """The other members whose proxies are known to be shut."""
    others_silent: frozenset[str] = frozenset()
    """Those of them of which no API server can answer from its cache."""

    @property
    def serves(self) -> bool:
        """The answer of the readiness probe."""
        return self.phase is Phase.OWNER and self.etcd is Etcd.RUNNING

    @property
    def may_delete_snapshots(self) -> bool:
        """True while retention may delete. False once the epoch has ended, because a copy may have listed the
        objects."""
        return self.phase is Phase.OWNER


def status(settings: Settings, agent: Agent) -> CopyOperationStatus:
    """The answer of `copyop/initiate` and `copyop/status`."""
    return CopyOperationStatus(settings.epoch, agent.operation is not None, agent.operation)


AgentStep = tuple[Agent, tuple[AgentAction, ...]]


def start(settings: Settings, etcd: Etcd, has_data: bool, at: float) -> Agent:
    """An agent that has just started and knows only the state of etcd, and whether there is a data directory.

    Its first read waits until the store must return all that an earlier agent may have read, whatever the clock drift.
    """
    return Agent(
        read_due=at + settings.timing.store_staleness * (1 + settings.timing.clock_drift),
        proxy_until=at + settings.timing.validity,
        etcd=etcd,
        may_found=settings.founding and not has_data,
        leads=not settings.others,
    )


def is_shut(agent: Agent) -> bool:
    """True if the own proxy lets nothing pass and never will again, as this epoch has ended."""
    return agent.phase in (Phase.HANDING_OVER, Phase.HANDED_OVER) and agent.shut_since is not None


def is_silent(settings: Settings, agent: Agent, at: float) -> bool:
    """True if, besides, no API server that was connected to the own proxy answers from its cache."""
    return is_shut(agent) and at >= silent_from(settings.timing, agent)


def due(settings: Settings, agent: Agent) -> float | None:
    """The time at which the agent wants a `Due`; None while it waits for another event."""
    return min(_due_times(settings, agent), default=None)


def step(settings: Settings, agent: Agent, event: events.AgentEvent, at: float) -> AgentStep:
    """Return the agent after an event, and the actions in order."""
    agent, applied = _apply_event(settings, agent, event, at)
    agent, decided = _decide(settings, agent, at)
    return agent, (*applied, *decided)


def _apply_event(settings: Settings, agent: Agent, event: events.AgentEvent, at: float) -> AgentStep:
    """Return the agent with the event recorded."""
    retry = at + settings.timing.poll_period
    match event:
        case events.Observed():
            return _apply_read(settings, replace(agent, reading=False, unread=False), event, at)
        case events.StoreFailed():
            return replace(agent, reading=False), ()
        case events.PutEnded():
            return replace(agent, putting=False, unread=True, read_due=at), ()
        case events.EtcdStarted():
            return replace(agent, etcd=Etcd.RUNNING), ()
        case events.EtcdEnded():
            return replace(agent, etcd=Etcd.ENDED, retry_due=retry), ()
        case events.ProxyShut():
            return _record_shut(replace(agent, proxy=ProxyState.SHUT), at, event.idle_since), ()
        case events.SnapshotProgressed(stored=stored):
            return replace(agent, stored=stored), ()
        case events.SnapshotStored(name=name, complete=complete):
            final = name if complete else None
            ready = CopyOperation(settings.epoch, Status.READY, Writer.SOURCE, final, agent.stored)
            return replace(agent, taking=False, ready=ready), ()
        case events.SnapshotFailed():
            return replace(agent, taking=False, stored=0, retry_due=retry), ()
        case events.LeaderSeen(leads=leads):
            return replace(agent, leads=leads), ()
        case events.MemberClosed(name=name, silent=silent):
            shut = agent.others_shut | {name}
            return replace(
                agent, others_shut=shut, others_silent=agent.others_silent | ({name} if silent else set())
            ), ()
        case events.InitiateCalled(api_servers_ended=ended, ended_for=ended_for):
            known = at - ended_for if ended and agent.api_servers_ended is None else agent.api_servers_ended
            return replace(agent, initiating=True, read_due=at, api_servers_ended=known), ()
        case events.Due():
            return agent, ()


def _apply_read(settings: Settings, agent: Agent, seen: events.Observed, at: float) -> AgentStep:
    """Apply a read of both objects. Once the epoch's end was read, a read without it is ignored."""
    if isinstance(seen.operation, CopyOperation):
        ends = agent.phase not in (Phase.HANDING_OVER, Phase.HANDED_OVER)
        agent = replace(agent, operation=seen.operation, version=seen.version, initiating=False)
        if agent.ended_at is None:
            promised = seen.marker.release_seconds if isinstance(seen.marker, FirstStart) else 0
            agent = replace(agent, ended_at=at, others_release=max(settings.timing.release, promised))
        phase = Phase.HANDING_OVER if seen.operation.status is Status.INITIAL else Phase.HANDED_OVER
        if ends and phase is Phase.HANDING_OVER:
            agent = replace(agent, progress_due=at + settings.timing.progress_period)
        return replace(agent, phase=phase), ()
    if agent.phase in (Phase.HANDING_OVER, Phase.HANDED_OVER):
        return agent, ()
    if isinstance(seen.operation, Unreadable) or isinstance(seen.marker, Unreadable):
        return replace(agent, phase=Phase.UNDECIDED), ()
    if seen.marker is None:
        if agent.may_found and not agent.putting:
            marker = FirstStart(settings.epoch, settings.cluster, settings.timing.release)
            return replace(agent, putting=True), (PutMarker(marker),)
        return agent, ()  # perhaps another container: the earlier read stays valid until its deadline
    return _admit_clients(settings, agent, seen.began, seen.marker, at)


def _admit_clients(settings: Settings, agent: Agent, began: float, marker: FirstStart, at: float) -> AgentStep:
    """There is no CopyOperation: let clients pass, for no longer than the marker has promised to destinations."""
    promised = marker.release_seconds - settings.timing.serving_grace
    until = began + min(settings.timing.validity, promised)
    if (
        until <= at or agent.proxy is ProxyState.SHUTTING
    ):  # an answer that is under way must not be taken for a later answer
        return agent, ()
    agent = replace(
        agent,
        phase=Phase.OWNER,
        proxy_until=max(until, agent.proxy_until),
        proxy=ProxyState.OPEN,
        shut_since=None,
        idle_since=None,
        may_found=False,
    )
    actions: tuple[AgentAction, ...] = (OpenProxy(until),)
    if agent.initiating and not agent.putting and not agent.unread:
        initial = CopyOperation(settings.epoch, Status.INITIAL, Writer.SOURCE)
        agent, actions = replace(agent, putting=True), (*actions, PutOperation(initial, ""))
    return agent, actions


def _decide(settings: Settings, agent: Agent, at: float) -> AgentStep:
    """Decide the actions by the agent's state and the time."""
    if agent.phase in (Phase.STARTING, Phase.OWNER) and at >= agent.proxy_until:
        agent = replace(agent, phase=Phase.UNDECIDED)
    if agent.shut_since is None and at >= agent.proxy_until:
        agent = _record_shut(agent, at, None)
    actions: list[AgentAction] = []
    for part in (_decide_proxy, _decide_etcd, _decide_final_snapshot, _decide_puts, _decide_reads):
        agent, more = part(settings, agent, at)
        actions += more
    return agent, tuple(actions)


def _record_shut(agent: Agent, at: float, idle_since: float | None) -> Agent:
    """Return the agent with the proxy known to be shut, and the earliest reported time since when nobody is
    connected."""
    idle = min(since for since in (at, idle_since, agent.idle_since) if since is not None)
    return replace(agent, shut_since=at if agent.shut_since is None else agent.shut_since, idle_since=idle)


def silent_from(timing: Timing, agent: Agent) -> float:
    """The time from which API servers answer nothing, not even from their caches; infinity while they may be connected.

    An API server without a connection continues for `servingGrace`. An API server that has ended does not; the
    gardenlet reports that from the objects in the seed, so it holds only if the proxy has seen no API server since.
    """
    if agent.shut_since is None or agent.idle_since is None:
        return float("inf")
    if agent.api_servers_ended is not None and agent.idle_since < agent.api_servers_ended:
        return max(agent.shut_since, agent.api_servers_ended)
    return agent.idle_since + timing.serving_grace


def others_shut_from(settings: Settings, agent: Agent) -> float:
    """The time from which the proxies of all other members are shut; infinity before the epoch has ended.

    A proxy of which that is not known shuts by itself: reads that begin once the CopyOperation can be read find it.
    """
    if agent.others_shut.issuperset(settings.others):
        return float("-inf")
    if agent.ended_at is None:
        return float("inf")
    return agent.ended_at + settings.timing.fence(agent.others_release - settings.timing.serving_grace)


def others_silent_from(settings: Settings, agent: Agent) -> float:
    """The time from which API servers answer nothing that they have from other members; infinity before the epoch has
    ended."""
    if agent.others_silent.issuperset(settings.others):
        return float("-inf")
    if agent.ended_at is None:
        return float("inf")
    return agent.ended_at + settings.timing.fence(agent.others_release)


def _decide_proxy(settings: Settings, agent: Agent, at: float) -> AgentStep:
    del settings, at
    if agent.phase in (Phase.STARTING, Phase.OWNER) or agent.proxy is not ProxyState.OPEN:
        return agent, ()
    return replace(agent, proxy=ProxyState.SHUTTING), (ShutProxy(),)


def _decide_etcd(settings: Settings, agent: Agent, at: float) -> AgentStep:
    # With several members, another one may have to take the final snapshot, for which it needs this one.
    is_needed = agent.ready is None or bool(settings.others)
    wanted = agent.phase is Phase.OWNER or (agent.phase is Phase.HANDING_OVER and is_needed)
    if wanted and agent.etcd is Etcd.ENDED and at >= agent.retry_due:
        return replace(agent, etcd=Etcd.STARTING), (StartEtcd(),)
    leave = wanted or agent.taking or agent.phase is Phase.STARTING
    if not leave and agent.etcd in (Etcd.STARTING, Etcd.RUNNING):
        return replace(agent, etcd=Etcd.ENDING), (StopEtcd(),)
    return agent, ()


def _decide_final_snapshot(settings: Settings, agent: Agent, at: float) -> AgentStep:
    """Take the final snapshot once nothing passes any proxy: no write is acknowledged after that."""
    closed = agent.phase is Phase.HANDING_OVER and agent.shut_since is not None and agent.etcd is Etcd.RUNNING
    closed = closed and agent.leads and at >= others_shut_from(settings, agent)
    if closed and agent.ready is None and not agent.taking and at >= agent.retry_due:
        return replace(agent, taking=True, stored=0), (TakeFinalSnapshot(),)
    return agent, ()


def _decide_puts(settings: Settings, agent: Agent, at: float) -> AgentStep:
    """Write `Ready` once nothing is served any more, including from caches of API servers; until then, progress."""
    if agent.putting or agent.unread or agent.phase is not Phase.HANDING_OVER or agent.operation is None:
        return agent, ()
    if agent.ready is not None:
        if at < max(silent_from(settings.timing, agent), others_silent_from(settings, agent)):
            return agent, ()
        return replace(agent, putting=True), (PutOperation(agent.ready, agent.version),)
    if agent.stored > agent.operation.progress and at >= agent.progress_due:
        written = CopyOperation(settings.epoch, Status.INITIAL, Writer.SOURCE, None, agent.stored)
        agent = replace(agent, putting=True, progress_due=at + settings.timing.progress_period)
        return agent, (PutOperation(written, agent.version),)
    return agent, ()


def _decide_reads(settings: Settings, agent: Agent, at: float) -> AgentStep:
    if agent.reading or at < agent.read_due:
        return agent, ()
    return replace(agent, reading=True, read_due=at + settings.timing.poll_period), (Observe(),)


def _due_times(settings: Settings, agent: Agent) -> Iterator[float]:
    timing = settings.timing
    if not agent.reading:
        yield agent.read_due
    if agent.shut_since is None:
        yield agent.proxy_until
    if agent.phase is not Phase.OWNER and agent.phase is not Phase.HANDING_OVER:
        return
    if agent.etcd is Etcd.ENDED and (agent.ready is None or settings.others):
        yield agent.retry_due
    if agent.phase is not Phase.HANDING_OVER or agent.putting or agent.unread:
        return
    if agent.ready is not None and agent.shut_since is not None:
        yield max(silent_from(timing, agent), others_silent_from(settings, agent))
    elif agent.taking and agent.operation is not None and agent.stored > agent.operation.progress:
        yield agent.progress_due
    elif agent.etcd is Etcd.RUNNING and not agent.taking and agent.shut_since is not None and agent.leads:
        yield max(agent.retry_due, others_shut_from(settings, agent))
