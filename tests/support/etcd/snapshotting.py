"""An etcd on virtual time, its store, and what is in it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

from prometheus_client.parser import text_string_to_metric_families

from espalier.etcd.client import Client
from espalier.etcd.errors import Unavailable
from espalier.etcdbackup.snapshots.reading import read_inventory
from espalier.etcdbackup.snapshots.sets import Inventory
from espalier.etcdbackup.snapshots.verification import verify
from espalier.etcdbackup.snapshotter.measures import Measures
from espalier.etcdbackup.snapshotter.schedule import Schedule
from espalier.etcdbackup.snapshotter.snapshotter import Snapshotter
from espalier.etcdbackup.stores.memory import MemoryStore
from espalier.runtime.virtual import Simulation, run
from espalier.simulator.etcd.member import Member
from espalier.simulator.etcd.memory import MemoryTransport
from espalier.simulator.etcd.storage import MemoryStorage
from tests.support.servers.faulty_stores import FaultyStore

T = TypeVar("T")
MORNING = datetime(2026, 3, 1, 8, 30, tzinfo=UTC)
MINUTE, HOUR = 60.0, 3600.0


@dataclass
class Setting:
    """An etcd, its store and its snapshotter, on virtual time."""

    simulation: Simulation
    member: Member
    transport: MemoryTransport
    client: Client
    bucket: MemoryStore
    store: FaultyStore
    measures: Measures = field(default_factory=Measures)
    schedule: Schedule = field(default_factory=Schedule)
    _written: int = 0

    def snapshotter(self) -> Snapshotter:
        clock = self.simulation.clock
        return Snapshotter(self.client, self.store, clock, self.schedule, self.measures)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Snapshotter]:
        """One that runs, and whose errors are the test's."""
        snapshotter = self.snapshotter()
        task = asyncio.create_task(snapshotter.run())
        try:
            yield snapshotter
        finally:
            is_over = task.done()
            task.cancel()
            if is_over:
                await task
            await asyncio.gather(task, return_exceptions=True)

    async def write(self, count: int = 1) -> int:
        """So many puts; the last revision."""
        revision = 0
        for _ in range(count):
            self._written += 1
            revision = await self.client.put(b"/registry/%d" % (self._written % 50), b"value %d" % self._written)
        return revision

    def cut_streams(self) -> None:
        """End the watches, as a connection that breaks does."""
        for stream in vars(self.transport)["_streams"]:
            vars(stream)["_responses"].put_nowait(Unavailable("the connection broke"))

    async def lose_all_data(self) -> None:
        """Another etcd is in its place at once, without data and with the same name."""
        lost, self.member = self.member, Member(MemoryStorage(), self.simulation.clock, self.simulation.random)
        await self.member.start()
        vars(self.transport)["_member"] = self.member
        await lost.close()

    async def inventory(self) -> Inventory:
        return await read_inventory(self.bucket)

    async def names(self) -> list[str]:
        """Kinds and revisions of all that is stored."""
        return [
            f"{snapshot.snapshot.kind}-{snapshot.snapshot.start}-{snapshot.snapshot.last}"
            for snapshot in (await self.inventory()).snapshots
        ]

    async def reach(self) -> int | None:
        """The revision that can be restored, read from the bytes."""
        latest = (await self.inventory()).latest
        assert latest is not None
        verdict = await verify(self.bucket, latest)
        assert not verdict.problems
        return verdict.reach

    def measured(self, name: str, kind: str) -> float:
        for family in text_string_to_metric_families(self.measures.exposition().decode()):
            for sample in family.samples:
                if sample.name == name and sample.labels.get("kind") == kind:
                    return float(sample.value)
        raise AssertionError(f"no {name} of {kind}")


def simulated(story: Callable[[Setting], Awaitable[T]], schedule: Schedule | None = None) -> T:
    async def told(simulation: Simulation) -> T:
        member = Member(MemoryStorage(), simulation.clock, simulation.random)
        await member.start()
        bucket = MemoryStore(simulation.clock, where="s3://backups/etcd-main")
        transport = MemoryTransport(member)
        client = Client(transport, rng=random.Random(1))
        setting = Setting(
            simulation, member, transport, client, bucket, FaultyStore(bucket), schedule=schedule or Schedule()
        )
        try:
            return await story(setting)
        finally:
            await setting.member.close()

    return run(told, epoch=MORNING, seed=1)
