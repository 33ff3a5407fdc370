"""Seeds with an etcd each, and moves between them, on virtual time: agents, copies, guards and etcds in memory.

Two writers and two readers at each seed are witnesses: what is acknowledged, read or told by a watch is noted with its
time. `Witnesses.check` finds a moment at which two epochs served.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

from espalier.api.etcd.calls import InitiateCopyOperation
from espalier.api.etcd.timing import Timing
from espalier.etcd.client import Client
from espalier.etcd.database.backend import Record, State
from espalier.etcd.errors import EtcdError
from espalier.etcdbackup.agent.backups import Settings as BackupSettings
from espalier.etcdbackup.election import agent, copier
from espalier.etcdbackup.running.agent import AgentRun
from espalier.etcdbackup.running.copier import CopierRun, CopyParts
from espalier.etcdbackup.running.data.memory import MemoryData
from espalier.etcdbackup.running.parts import NotStarted, Parts
from espalier.etcdbackup.snapshotter.collection import Retention
from espalier.etcdbackup.snapshotter.schedule import Schedule
from espalier.etcdbackup.stores.errors import Unavailable
from espalier.etcdbackup.stores.memory import MemoryStore
from espalier.runtime.virtual import Simulation, run
from espalier.simulator.etcd.guarded import MemoryGuard
from tests.support.servers.faulty_stores import FaultyStore
from tests.support.waiting import eventually

T = TypeVar("T")


class SickGuard(MemoryGuard):
    """One whose etcd does not start, as tests say."""

    start_fails = ""
    """Why etcd ends before it answers."""
    heals_with_other_data = False
    """True if it was the data."""

    async def start(self) -> None:
        if self.start_fails:
            raise NotStarted(f"etcd ended: {self.start_fails}")
        await super().start()

    def load(self, records: Iterable[Record], state: State) -> None:
        super().load(records, state)
        if self.heals_with_other_data:
            self.start_fails = ""


CLUSTER = "shoot--team--garden/3f1c"
MORNING = datetime(2026, 3, 1, 8, 30, tzinfo=UTC)
PATIENCE = 4000.0
"""Virtual seconds after which something that is waited for is given up: a copy waits 1200 for its source."""
OPERATIONS = ("list", "head", "read", "stream", "put", "create", "replace", "upload", "delete")


@dataclass
class Witnesses:
    """The observations of clients, with epoch and time."""

    clock: Callable[[], float]
    acknowledged: dict[bytes, int] = field(default_factory=dict)
    """Key -> the epoch that acknowledged it."""
    served: list[tuple[float, float, int, str]] = field(default_factory=list)
    """Begin and end of each answer, its epoch, and what it was."""

    def saw(self, began: float, epoch: int, what: str) -> None:
        self.served.append((began, self.clock(), epoch, what))

    def check(self) -> None:
        """No answer of an epoch came after one of a later epoch was asked for."""
        first: dict[int, float] = {}
        for _began, ended, epoch, _what in self.served:
            first[epoch] = min(first.get(epoch, ended), ended)
        for began, ended, epoch, what in self.served:
            for later, at in first.items():
                assert later <= epoch or ended <= at, (
                    f"{what} of epoch {epoch} at {began}-{ended}: {later} served at {at}"
                )

    def last(self, epoch: int) -> float:
        """When the epoch answered last."""
        return max((ended for _, ended, of, _ in self.served if of == epoch), default=0.0)

    def first(self, epoch: int) -> float:
        """When the epoch answered first."""
        return min((ended for _, ended, of, _ in self.served if of == epoch), default=float("inf"))


class Seat:
    """The etcd of one epoch at one seed, with its agent and the store of the epoch."""

    def __init__(self, moves: Moves, epoch: int, *, founding: bool, guard: SickGuard, data: MemoryData) -> None:
        self.epoch = epoch
        self.bucket = MemoryStore(moves.clock, where=f"s3://backups/{epoch}")
        self.store = FaultyStore(self.bucket)
        self.guard, self.data = guard, data
        self.run: AgentRun | None = None
        self._moves = moves
        self._founding = founding
        self._task: asyncio.Task[None] | None = None
        self._clients: list[asyncio.Task[None]] = []

    def start_agent(self) -> AgentRun:
        """Start the agent, which knows nothing of the one before."""
        settings = agent.Settings(self.epoch, CLUSTER, self._moves.timing, self._founding)
        etcd = Client(self.guard.inside(), timeout=5, rng=self._moves.rng)
        backups = BackupSettings(self._moves.schedule, Retention())
        parts = Parts(self.store, self.guard, self.data, etcd, backups)
        self.run = AgentRun(settings, parts, self._moves.clock, self._moves.rng)
        self._task = asyncio.create_task(self.run.run(), name=f"agent {self.epoch}")
        return self.run

    async def kill_agent(self) -> None:
        """SIGKILL of the agent alone."""
        task, self._task, self.run = self._task, None, None
        if task is not None:
            was_done = task.done()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert not was_done, f"the agent ended by itself: {task.exception()!r}"

    def witness(self) -> None:
        """Two writers, two readers and a watcher, until the end."""
        work = [self._write(name) for name in ("one", "two")] + [self._read(), self._read(), self._watch()]
        self._clients += [asyncio.create_task(item, name=f"client of {self.epoch}") for item in work]

    async def leave(self) -> None:
        """The shoot's namespace is deleted at this seed; its volume stays."""
        await self.kill_agent()
        await self.without_clients()

    async def without_clients(self) -> None:
        """Its API servers have ended."""
        for client in self._clients:
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

    async def close(self) -> None:
        await self.leave()
        self.guard.kill()

    def data_is_there(self) -> bool:
        return self.guard.has_data

    def cut(self) -> None:
        """Nobody here reaches the store."""

        def gone(key: str) -> Exception:
            return Unavailable(f"{self.store.where}/{key}", "no route to host")

        self.store.before = dict.fromkeys(OPERATIONS, gone)

    def heal(self) -> None:
        self.store.before = {}

    async def _write(self, name: str) -> None:
        moves = self._moves
        async with Client(self.guard.transport(), timeout=2, rng=moves.rng) as client:
            for number in itertools.count():
                key, began = b"/registry/%d/%s/%d" % (self.epoch, name.encode(), number), moves.clock.monotonic()
                with suppress(EtcdError):
                    await client.put(key, b"%d" % number)
                    moves.witnesses.acknowledged[key] = self.epoch
                    moves.witnesses.saw(began, self.epoch, "a write")
                await asyncio.sleep(0.5)

    async def _read(self) -> None:
        moves = self._moves
        async with Client(self.guard.transport(), timeout=2, rng=moves.rng) as client:
            while True:
                began = moves.clock.monotonic()
                with suppress(EtcdError):
                    await client.get(b"/registry/anything")
                    moves.witnesses.saw(began, self.epoch, "a read")
                await asyncio.sleep(0.7)

    async def _watch(self) -> None:
        moves = self._moves
        async with Client(self.guard.transport(), timeout=2, rng=moves.rng) as client:
            while True:
                with suppress(EtcdError):
                    async with client.watch(b"\0", b"\0") as watch:
                        began = moves.clock.monotonic()
                        async for changes in watch:
                            if changes.events:
                                moves.witnesses.saw(began, self.epoch, "a change")
                await asyncio.sleep(1)


class Moves:
    """A cluster, its garden and its seeds."""

    def __init__(self, simulation: Simulation, timing: Timing, schedule: Schedule) -> None:
        self.clock, self.rng = simulation.clock, simulation.random
        self.timing, self.schedule = timing, schedule
        self.witnesses = Witnesses(self.clock.monotonic)
        self.seats: list[Seat] = []
        self._copies: list[asyncio.Task[None]] = []

    def seat(self, *, at: Seat | None = None) -> Seat:
        """The etcd of the next epoch: on a new seed, or on that of an earlier one, with its volume."""
        guard = at.guard if at is not None else SickGuard(self.clock, random.Random(self.rng.random()))
        data = at.data if at is not None else MemoryData(guard)
        seat = Seat(self, len(self.seats) + 1, founding=not self.seats, guard=guard, data=data)
        self.seats.append(seat)
        return seat

    async def founded(self) -> Seat:
        """The first epoch, which serves witnesses."""
        seat = self.seat()
        run = seat.start_agent()
        await self.until(lambda: run.ready)
        seat.witness()
        return seat

    def copy(self, to: Seat, source: Seat | None = None) -> CopierRun:
        """Start the copy for an epoch."""
        of = source or self.seats[to.epoch - 2]
        settings = copier.Settings(to.epoch, of.epoch, CLUSTER, self.timing)
        run = CopierRun(settings, CopyParts(of.bucket, to.bucket), self.clock, self.rng)
        self._copies.append(asyncio.create_task(run.run(), name=f"copy to {to.epoch}"))
        return run

    async def end_copies(self) -> None:
        """The copies' pods are deleted."""
        copies, self._copies = self._copies, []
        for task in copies:
            assert not task.done(), f"a copy ended by itself: {task.exception()!r}"
            task.cancel()
        await asyncio.gather(*copies, return_exceptions=True)

    async def taken_over(self, to: Seat) -> None:
        """Copy, then have the destination serve."""
        copy = self.copy(to)
        await self.until(lambda: copy.ready)
        run = to.start_agent()
        await self.until(lambda: run.ready)
        to.witness()
        await self.end_copies()

    async def until(self, is_so: Callable[[], bool], *, seconds: float = PATIENCE) -> None:
        """Wait for something."""
        await eventually(is_so, within=seconds, every=0.25)

    async def initiated(self, source: Seat) -> None:
        """Act as the gardenlet of a source: stop the API server (here: nobody), call copyop/initiate until `Ready`."""
        assert source.run is not None
        while True:
            answer = await source.run.initiate(InitiateCopyOperation(epoch=source.epoch))
            if answer.copy_operation is not None and answer.copy_operation.status != "Initial":
                return
            await asyncio.sleep(1)

    async def missing(self, at: Seat) -> list[bytes]:
        """Keys that were acknowledged before this epoch and are not there."""
        async with Client(at.guard.inside(), timeout=5, rng=self.rng) as client:
            keys = [key for key, epoch in self.witnesses.acknowledged.items() if epoch < at.epoch]
            return [key for key in keys if await client.get(key) is None]

    async def close(self) -> None:
        await self.end_copies()
        for seat in self.seats:
            await seat.close()


def moving(
    story: Callable[[Moves], Awaitable[T]],
    *,
    seed: int = 1,
    timing: Timing | None = None,
    schedule: Schedule | None = None,
) -> T:
    """Tell a story, and let its witnesses testify."""

    async def told(simulation: Simulation) -> T:
        moves = Moves(simulation, timing or Timing(), schedule or Schedule())
        try:
            result = await story(moves)
        finally:
            await moves.close()
        moves.witnesses.check()
        return result

    return run(told, epoch=MORNING, seed=seed)
