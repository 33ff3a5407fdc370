"""Runs the agent of an epoch: actions of its state machine become effects, and their results become events."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable
from contextlib import suppress
from datetime import timedelta
from typing import NoReturn

import msgspec
import structlog

from espalier.api.conditions import timestamp
from espalier.api.etcd.calls import BackupStatus, CopyOperationStatus, InitiateCopyOperation
from espalier.api.etcd.ownership import FirstStart, Status, Unreadable
from espalier.etcd.errors import EtcdError
from espalier.etcdbackup.agent.backups import Backups
from espalier.etcdbackup.election import actions, agent, events
from espalier.etcdbackup.restore.errors import RestoreError
from espalier.etcdbackup.running.event_queue import EventQueue
from espalier.etcdbackup.running.parts import NotStarted, Parts
from espalier.etcdbackup.running.starting import Starting
from espalier.etcdbackup.running.sync_objects import SyncObjects
from espalier.etcdbackup.snapshots.malformed import Malformed
from espalier.etcdbackup.snapshots.names import Kind
from espalier.etcdbackup.snapshotter.full import take_full
from espalier.etcdbackup.snapshotter.measures import Measures
from espalier.etcdbackup.snapshotter.times import Times
from espalier.etcdbackup.stores.errors import StoreError
from espalier.runtime.clock import Clock

log = structlog.get_logger(__name__)

LOOK_PERIOD = 0.5
"""Seconds between two looks at the other members while an epoch ends."""
_EXPECTED = (NotStarted, EtcdError, StoreError, RestoreError, Malformed, OSError, TimeoutError, ValueError)


class OtherEpoch(Exception):
    """A call is for an agent of another epoch, and so of another migration."""


class AgentRun:
    """The agent of one epoch. `run` does everything; the other methods may be called at any time, even before it."""

    def __init__(
        self,
        settings: agent.Settings,
        parts: Parts,
        clock: Clock,
        rng: random.Random,
        *,
        measures: Measures | None = None,
    ) -> None:
        self.backups: Backups
        """Takes snapshots on demand while this epoch serves."""
        self._settings = settings
        self._parts = parts
        self._clock = clock
        self._queue: EventQueue[events.AgentEvent] = EventQueue(clock)
        self._state: agent.Agent | None = None
        self._ended = asyncio.Event()
        """A CopyOperation was read that is further than `Initial`."""
        self._objects = SyncObjects(
            parts.store, settings.epoch, settings.cluster, clock, rng, seconds=settings.timing.store_timeout
        )
        self._starting = Starting(settings, parts, self._objects)
        self._marker: asyncio.Future[FirstStart] | None = None
        self._trouble = "the agent has just started"
        self._object_problem = ""
        """The problem of the sync objects that were last read, unless this epoch has ended."""
        self._proxy = _ProxyControl(parts, self._queue)
        self._etcd_task: asyncio.Task[None] | None = None
        self._stopping_etcd: asyncio.Task[None] | None = None
        self._backup_task: asyncio.Task[None] | None = None
        self.backups = Backups(
            parts.etcd,
            parts.peers.client_of if parts.peers is not None else lambda _member: parts.etcd,
            parts.store,
            clock,
            parts.backups,
            measures or Measures(),
            may_delete=lambda: self.may_delete_snapshots,
        )

    # --- Status ---------------------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """The answer of the readiness probe: clients are served, and the guard has confirmed it recently."""
        return self._state is not None and self._state.serves and self._clock.monotonic() < self._proxy.opened_until

    @property
    def may_delete_snapshots(self) -> bool:
        """True while retention may delete."""
        return self._state is not None and self._state.may_delete_snapshots

    @property
    def phase(self) -> str:
        """The phase of the state machine, for people."""
        return agent.Phase.STARTING.value if self._state is None else self._state.phase.value

    @property
    def trouble(self) -> str:
        """The reason why it does not serve, as far as known; empty if it does."""
        if self.ready:
            return ""
        return self._objects.trouble or self._object_problem or self._trouble or f"it is {self.phase}"

    @property
    def store_unreadable(self) -> float:
        """Seconds since when the store can't be read; 0 while it can."""
        since = self._objects.unreadable_since
        return 0.0 if since is None else max(0.0, self._clock.monotonic() - since)

    @property
    def deactivates_in(self) -> float:
        """Seconds until clients are cut off if the store is not read again. It counts down while the store is
        unavailable; otherwise each read resets it."""
        return max(0.0, self._proxy.opened_until - self._clock.monotonic()) if self.ready else 0.0

    @property
    def warning(self) -> str:
        """A problem that exists although clients are served; empty if there is none."""
        seconds = self.store_unreadable
        if not self.ready or not seconds:
            return self._backup_trouble if self.ready else ""
        return (
            f"the store can't be read for {seconds:.0f} s ({self._objects.trouble}): in "
            f"{self.deactivates_in:.0f} s etcd stops serving clients until the store is back"
        )

    @property
    def _backup_trouble(self) -> str:
        return f"snapshots fail: {trouble}" if (trouble := self.backups.trouble) else ""

    def backup_status(self) -> BackupStatus:
        """The answer of `backup/status`."""
        latest, unstored, away = self.backups.latest, self.backups.unstored_since, self.store_unreadable
        since = timestamp(self._clock.now() - timedelta(seconds=away)) if away else ""
        return BackupStatus(
            epoch=self._settings.epoch,
            serves=self.ready,
            delta_period=self.backups.delta_period,
            latest_full=timestamp(latest[Kind.FULL]) if Kind.FULL in latest else "",
            latest_delta=timestamp(latest[Kind.DELTA]) if Kind.DELTA in latest else "",
            unstored_since=timestamp(unstored) if unstored is not None else "",
            store_unreadable_since=since,
            deactivates_in=round(self.deactivates_in, 1) if away else None,
            follows=self.backups.follows,
            message=self.warning or self.trouble,
        )

    async def backup_status_of_all(self) -> BackupStatus:
        """The answer of `backup/status` to who reached any of several members: that of the leader's agent."""
        own, peers = self.backup_status(), self._parts.peers
        if not own.follows or peers is None:
            return own
        for name in peers.others:
            with suppress(OSError, ValueError, TimeoutError):
                answer = await peers.backup_status(name)
                if answer.epoch == own.epoch and not answer.follows:
                    return answer
        return own

    def status(self) -> CopyOperationStatus:
        """The answer of `copyop/status`."""
        if self._state is None:
            return CopyOperationStatus(self._settings.epoch, False, None, self.trouble)
        state, now = self._state, self._clock.monotonic()
        return msgspec.structs.replace(
            agent.status(self._settings, state),
            message=self.trouble,
            shut=agent.is_shut(state),
            silent=agent.is_silent(self._settings, state, now),
        )

    async def initiate(self, body: InitiateCopyOperation) -> CopyOperationStatus:
        """The answer of `copyop/initiate`: the status when etcd is handed over, or after `waitSeconds` at the
        latest. Callers ask again. Raises `OtherEpoch`."""
        if body.epoch != self._settings.epoch:
            raise OtherEpoch(f"epoch: found {body.epoch}, allowed is {self._settings.epoch}, the epoch of this agent")
        self._queue.add(events.InitiateCalled(body.api_servers_ended, body.api_servers_ended_for))
        if body.wait_seconds:
            with suppress(TimeoutError):
                async with asyncio.timeout(body.wait_seconds):
                    await self._ended.wait()
        return self.status()

    # --- Events -----------------------------------------------------------------------------------------------------

    async def run(self) -> NoReturn:
        """Run until cancelled; etcd then continues, and its proxy shuts by itself. Raises errors of this program
        only."""
        self._marker = asyncio.get_running_loop().create_future()
        try:
            state = self._state = await self._initial_state()
            self._queue.start_task(self._proxy.run(), "proxy in front of etcd")
            if self._parts.peers is not None:
                self._queue.start_task(self._watch_leader(), "leader of etcd")
                for name in self._settings.others:
                    self._queue.start_task(self._watch_member(name), f"proxy of {name}")
            while True:
                event, at = await self._queue.next(agent.due(self._settings, state))
                before = state
                state, next_actions = agent.step(self._settings, state, event, at)
                self._state = state
                if state.operation is not None and state.operation.status is not Status.INITIAL:
                    self._ended.set()
                if state.phase is not before.phase:
                    log.info("the agent's state changed", epoch=self._settings.epoch, state=state.phase.value)
                self._record_event(event)
                for action in next_actions:
                    self._execute(action)
                self._run_backups(state)
        finally:
            await self._queue.stop()

    async def _initial_state(self) -> agent.Agent:
        """The initial state. A running etcd counts as starting: it may not be verified yet."""
        guard, data = self._parts.guard, self._parts.data
        runs = await guard.is_running()
        if runs:
            self._start_etcd()
        etcd_state = agent.Etcd.STARTING if runs else agent.Etcd.ENDED
        return agent.start(self._settings, etcd_state, await data.is_present(), self._clock.monotonic())

    def _record_event(self, event: events.AgentEvent) -> None:
        if isinstance(event, events.Observed):
            marker = self._marker
            if isinstance(event.marker, FirstStart) and marker is not None and not marker.done():
                marker.set_result(event.marker)
            ended = agent.Phase.HANDING_OVER.value, agent.Phase.HANDED_OVER.value
            problem = "" if self.phase in ended else _ownership_problem(self._settings, event)
            if problem and problem != self._object_problem:
                log.warning("no proof that this epoch is the owner", epoch=self._settings.epoch, error=problem)
            self._object_problem = problem

    def _execute(self, action: actions.AgentAction) -> None:
        queue, objects = self._queue, self._objects
        match action:
            case actions.Observe():
                queue.start_task(self._add_result(objects.observe()), "read of sync objects")
            case actions.PutOperation():
                queue.start_task(self._add_result(objects.put_operation(action)), "put of a CopyOperation")
            case actions.PutMarker(marker=marker):
                queue.start_task(self._add_result(objects.put_marker(marker)), "put of a first-start marker")
            case actions.StartEtcd():
                self._start_etcd()
            case actions.StopEtcd():
                self._stopping_etcd = queue.start_task(self._stop_etcd(self._etcd_task), "end of etcd")
            case actions.OpenProxy(until=until):
                self._proxy.open(until)
            case actions.ShutProxy():
                self._proxy.shut()
            case actions.TakeFinalSnapshot():
                queue.start_task(self._take_final_snapshot(), "final snapshot")

    async def _add_result(self, work: Awaitable[events.AgentEvent]) -> None:
        self._queue.add(await work)

    # --- Other members ----------------------------------------------------------------------------------------------

    async def _watch_leader(self) -> NoReturn:
        """Report whether the own member leads, once that decides which agent acts."""
        leads = False
        while True:
            is_leading = False
            if self.phase == agent.Phase.HANDING_OVER.value:
                with suppress(EtcdError):
                    is_leading = (await self._parts.etcd.status(timeout=LOOK_PERIOD)).leads
            if is_leading is not leads:
                leads = is_leading
                self._queue.add(events.LeaderSeen(leads))
            await asyncio.sleep(LOOK_PERIOD)

    async def _watch_member(self, name: str) -> NoReturn:
        """Have the agent of another member know that the epoch has ended, and whether its proxy is shut."""
        peers, reported = self._parts.peers, (False, False)
        assert peers is not None  # noqa: S101 - `run` has checked
        while True:
            await asyncio.sleep(LOOK_PERIOD)
            state = self._state
            if state is None or state.phase is not agent.Phase.HANDING_OVER or reported == (True, True):
                continue
            ended, now = state.api_servers_ended, self._clock.monotonic()
            ended_for = 0.0 if ended is None else max(0.0, now - ended)
            call = InitiateCopyOperation(
                epoch=self._settings.epoch, api_servers_ended=ended is not None, api_servers_ended_for=ended_for
            )
            try:
                answer = await peers.ask(name, call)
            except (OSError, ValueError, TimeoutError) as error:
                log.debug("another member's agent does not answer", name=name, error=str(error))
                continue
            if answer.epoch == self._settings.epoch and answer.shut and (answer.shut, answer.silent) != reported:
                reported = answer.shut, answer.silent
                self._queue.add(events.MemberClosed(name, answer.silent))

    # --- etcd -------------------------------------------------------------------------------------------------------

    def _start_etcd(self) -> None:
        self._etcd_task = self._queue.start_task(self._run_etcd(self._stopping_etcd), "start of etcd")

    async def _run_etcd(self, stopping: asyncio.Task[None] | None) -> None:
        """Run etcd and wait for its end."""
        guard = self._parts.guard
        try:
            if stopping is not None:
                await asyncio.wait((stopping,))
            assert self._marker is not None  # noqa: S101 - `run` has made it
            self._trouble = "etcd is being started"
            await self._starting.run(await asyncio.shield(self._marker))
        except _EXPECTED as error:
            self._trouble = str(error)
            log.warning("etcd did not start", epoch=self._settings.epoch, error=str(error))
            await guard.stop()
            self._queue.add(events.EtcdEnded())
            return
        self._trouble = ""
        self._queue.add(events.EtcdStarted())
        self._proxy.release()
        await guard.ended()
        self._trouble = "etcd has exited"
        self._proxy.hold()
        self._queue.add(events.EtcdEnded())

    async def _stop_etcd(self, etcd_task: asyncio.Task[None] | None) -> None:
        """End etcd, whatever became of its start."""
        self._proxy.hold()
        has_ended = etcd_task is not None and not etcd_task.cancel()
        if etcd_task is not None:
            await asyncio.wait((etcd_task,))
        await self._parts.guard.stop()
        if not has_ended:
            self._queue.add(events.EtcdEnded())

    # --- Snapshots --------------------------------------------------------------------------------------------------

    def _run_backups(self, state: agent.Agent) -> None:
        """Take backups while this epoch serves, and at no other time."""
        task = self._backup_task
        if state.serves and (task is None or task.done()):
            self._backup_task = self._queue.start_task(self.backups.run(), "backups")
        elif not state.serves and task is not None:
            task.cancel()

    async def _take_final_snapshot(self) -> None:
        """Take the final snapshot, once no other snapshot is being taken."""
        timing = self._settings.timing
        if self._backup_task is not None:
            await asyncio.wait((self._backup_task,))
        stored = 0

        def progressed(size: int) -> None:
            nonlocal stored
            stored += size
            self._queue.add(events.SnapshotProgressed(stored))

        try:
            async with asyncio.timeout(timing.snapshot_timeout):
                complete = await self._starting.has_all_writes()
                final = await take_full(
                    self._parts.etcd,
                    self._parts.store,
                    Times(self._clock),
                    compression=self._parts.backups.compression,
                    is_final=True,
                    progress=progressed,
                )
        except _EXPECTED as error:
            self._trouble = f"the final snapshot failed and will be retried: {error}"
            log.warning("the final snapshot failed", epoch=self._settings.epoch, error=str(error))
            self._queue.add(events.SnapshotFailed())
            return
        log.info("the final snapshot is stored", epoch=self._settings.epoch, name=final.name)
        self._queue.add(events.SnapshotStored(final.name, complete))


class _ProxyControl:
    """Send the guard its orders in sequence; the proxy is opened only for a verified etcd."""

    def __init__(self, parts: Parts, queue: EventQueue[events.AgentEvent]) -> None:
        self._guard = parts.guard
        self._queue = queue
        self.opened_until = float("-inf")
        """The latest time until which the guard may let clients pass."""
        self._until: float | None = None
        self._is_shutting = False
        self._is_held = True
        self._changed = asyncio.Event()

    def open(self, until: float) -> None:
        """Let clients pass until this time, as soon as etcd may serve."""
        self._until = until
        self._changed.set()

    def shut(self) -> None:
        """Let nothing pass: `ProxyShut` once that is confirmed."""
        self.opened_until = float("-inf")
        self._until, self._is_shutting = None, True
        self._changed.set()

    def release(self) -> None:
        """etcd may serve."""
        self._is_held = False
        self._changed.set()

    def hold(self) -> None:
        """etcd may not serve until it was verified again."""
        self._is_held, self.opened_until = True, float("-inf")

    async def run(self) -> NoReturn:
        """Send the guard its newest order. An unreachable guard does not block `shut`."""
        opening: asyncio.Task[None] | None = None
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._is_shutting:
                if opening is not None:
                    opening.cancel()
                    await asyncio.gather(opening, return_exceptions=True)
                    opening = None
                idle_since = await self._guard.shut()
                self._is_shutting = False
                self._queue.add(events.ProxyShut(idle_since))
            elif self._until is not None and not self._is_held and (opening is None or opening.done()):
                opening = self._queue.start_task(self._open(), "admitting clients to etcd")

    async def _open(self) -> None:
        """Send the newest time, until there is no newer time."""
        sent = None
        while self._until is not None and self._until != sent and not self._is_held:
            sent = self._until
            await self._guard.open(sent)
            if not self._is_held and self._until is not None:
                self.opened_until = sent


def _ownership_problem(settings: agent.Settings, observed: events.Observed) -> str:
    """The reason why this epoch is not known to be the owner; empty if it is."""
    epoch = settings.epoch
    if observed.marker is None:
        return f"there is no first-start marker of epoch {epoch}: this is the wrong store, or nothing was copied"
    if isinstance(observed.marker, Unreadable):
        return f"the first-start marker of epoch {epoch} is unreadable: {observed.marker.why}"
    if isinstance(observed.operation, Unreadable):
        return f"the CopyOperation of epoch {epoch} is unreadable: {observed.operation.why}"
    return ""
