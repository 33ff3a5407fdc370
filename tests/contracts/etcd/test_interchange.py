"""Backups that we took and etcdbrctl restores, copies, compacts and goes on with, and the other way round.

etcdbrctl is built by `make real-assets REAL=etcdbrctl`. It has an etcd 3.4 inside, and panics at databases of etcd 3.6,
its own snapshots too: of that etcd only we restore.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from espalier.assets.component import Component
from espalier.assets.recipes import ETCD, ETCD_3_5
from espalier.etcd.results import KeyValue
from espalier.etcdbackup.restore.restorer import Options, restore
from espalier.etcdbackup.snapshots.reading import read_inventory
from espalier.etcdbackup.snapshots.verification import verify
from espalier.etcdbackup.stores.store import Store
from tests.support.etcd.agents import AgentProcess, running_agent
from tests.support.etcd.etcd_load import Load
from tests.support.etcd.peer_agent import (
    PROGRAM,
    START_SECONDS,
    PeerServer,
    SharedStore,
    compacted_by_peer,
    peer,
    peer_server,
    restored_by_peer,
)
from tests.support.etcd.real_etcd import RealEtcd, programs_of, real_etcd
from tests.support.etcd.restored_etcd import OF_TESTS, everything
from tests.support.sampling import sampled
from tests.support.servers.azure import azure_files, azure_server
from tests.support.servers.buckets import BUCKET, s3_files, s3_server
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.envtest,
    pytest.mark.skipif(PROGRAM is None, reason="etcdbrctl was not built: run make real-assets REAL=etcdbrctl"),
]
FLAGS = ("--delta-snapshot-period", "10m", "--garbage-collection-period", "10m")
PEER_FLAGS = ("--delta-snapshot-period=10m", "--garbage-collection-period=2s")


class Story:
    """An etcd with writes of all kinds, and a store."""

    def __init__(self, folder: Path, etcd: RealEtcd, load: Load) -> None:
        self.folder, self.etcd, self.load = folder, etcd, load
        self.store = SharedStore.local(folder / "store")

    async def write(self, count: int = 40) -> None:
        for _ in range(count):
            await self.load.write()

    async def is_larger_than_a_part(self) -> None:
        """Of an upload: both take parts of 5 MiB at least."""
        for number in range(12):
            value = self.load.rng.randbytes(1 << 20)
            self.load.acknowledged = await self.load.client.put(b"/large/%d" % number, value)

    @property
    def snapshots(self) -> Store:
        return self.store.open()

    def ours(self, *flags: str) -> contextlib.AbstractAsyncContextManager[AgentProcess]:
        log, environment = self.folder / "agent.log", self.store.environment
        return running_agent(self.store.url, self.etcd.endpoint, log, *FLAGS, *flags, environment=environment)

    def theirs(self, compression: str = "gzip", *flags: str) -> contextlib.AbstractAsyncContextManager[PeerServer]:
        packing = "--compress-snapshots=false" if compression == "none" else f"--compression-policy={compression}"
        return peer_server(self.folder, self.store, self.etcd.endpoint, packing, *PEER_FLAGS, *flags)

    async def is_backed_up_by_us(self) -> None:
        """A full snapshot and a delta.

        Meanwhile nothing is compacted: an agent that sees it late takes another full snapshot, and etcdbrctl fails at a
        delta with nothing beyond its full snapshot (docs/etcd-backup.md).
        """
        async with self.ours() as agent:
            await self.write()
            await agent.ask("/snapshot/full", until_taken=True)
            self.load.compacts = False
            await self.write()
            await agent.ask("/snapshot/delta")

    async def has_a_delta_of(self, server: PeerServer) -> None:
        """Up to the newest revision. etcdbrctl may take one before it has the last events of its watch."""
        newest = await self.load.seen_all()
        async with asyncio.timeout(START_SECONDS):
            while True:
                await server.ask("/snapshot/delta")
                latest = (await read_inventory(self.snapshots)).latest
                if latest is not None and latest.reach >= newest:
                    return

    async def is_restored_by_us(self, store: SharedStore | None = None, *, leases: bool = True) -> None:
        """All that etcd has is in the store, and verified."""
        chosen = (store or self.store).open()
        latest = (await read_inventory(chosen)).latest
        assert latest is not None
        verdict = await verify(chosen, latest)
        assert not verdict.problems
        await restore(chosen, self._target("ours") / "data", Options(members=OF_TESTS, bump=0))
        await self._serves_all(self.folder / "ours", leases=leases)

    async def is_restored_by_peer(self, store: SharedStore | None = None) -> None:
        """The same by etcdbrctl, which puts the keys of deltas without their leases."""
        await restored_by_peer(self.folder, store or self.store, self._target("theirs") / "data")
        await self._serves_all(self.folder / "theirs", leases=False)

    def _target(self, name: str) -> Path:
        (self.folder / name).mkdir()
        return self.folder / name

    async def _serves_all(self, folder: Path, *, leases: bool) -> None:
        expected = self.load.at(await self.load.seen_all())
        async with real_etcd(self.etcd.programs, folder) as etcd, etcd.client() as client:
            result = await everything(client)
        assert [_told(item, leases=leases) for item in result] == [_told(item, leases=leases) for item in expected]


def _told(item: KeyValue, *, leases: bool) -> tuple[object, ...]:
    numbers = item.create_revision, item.mod_revision, item.version
    return item.key, item.value, *numbers, item.lease if leases else 0


@contextlib.asynccontextmanager
async def told(component: Component, folder: Path) -> AsyncIterator[Story]:
    (folder / "source").mkdir()
    async with real_etcd(programs_of(component), folder / "source") as etcd, etcd.client() as client:
        load = Load(client, random.Random(7))
        watching = asyncio.create_task(load.watched())
        try:
            yield Story(folder, etcd, load)
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching


@pytest.mark.parametrize("compression", sampled(["none", "gzip", "zlib"], 1))
async def test_it_restores_what_we_stored(compression: str, tmp_path: Path) -> None:
    async with told(ETCD_3_5, tmp_path) as story:
        async with story.ours("--compression-policy", compression) as agent:
            await story.write()
            await agent.ask("/snapshot/delta", until_taken=True)
            await story.write()
            await agent.ask("/snapshot/delta")
            await agent.ask("/snapshot/full?final=true")  # in the second of the delta with the same last revision
            await story.write()
            await agent.ask("/snapshot/delta")
            await story.write()
            await agent.ask("/snapshot/delta")
        await story.is_restored_by_peer()


@pytest.mark.parametrize("compression", sampled(["none", "gzip", "zlib", "lzw"], 1))
async def test_we_restore_what_it_stored(compression: str, tmp_path: Path) -> None:
    async with told(ETCD_3_5, tmp_path) as story:
        async with story.theirs(compression) as server:
            await story.write()
            await server.ask("/snapshot/full")
            for _ in range(3):
                await story.write()
                await story.has_a_delta_of(server)
        await story.is_restored_by_us()


async def test_we_restore_what_it_stored_of_the_newer_etcd(tmp_path: Path) -> None:
    async with told(ETCD, tmp_path) as story:
        async with story.theirs() as server:
            await story.write()
            await server.ask("/snapshot/full")
            await story.write()
            await story.has_a_delta_of(server)
        await story.is_restored_by_us()


async def test_either_goes_on_where_the_other_one_ended(tmp_path: Path) -> None:
    async with told(ETCD_3_5, tmp_path) as story:
        for _ in range(2):
            async with story.ours() as agent:
                await story.write()
                await agent.ask("/snapshot/delta", until_taken=True)
            async with story.theirs() as server:
                await story.write()
                await story.has_a_delta_of(server)
        await story.is_restored_by_us()
        await story.is_restored_by_peer()


@pytest.mark.demand(G45="they are no snapshots")
async def test_etcdbrctl_copies_our_backups_without_owners(tmp_path: Path) -> None:
    async with told(ETCD_3_5, tmp_path) as story:
        await story.is_backed_up_by_us()
        await story.snapshots.put("ownership/00000001-first-start.json", b"{}")
        target = SharedStore.local(tmp_path / "target")
        await peer(tmp_path, "copy", *story.store.flags("source-"), *target.flags())
        assert {path.parent.name for path in (tmp_path / "target").rglob("*") if path.is_file()} == {"v2"}
        await story.is_restored_by_us(target)
        await story.is_restored_by_peer()
        assert (await story.snapshots.head("ownership/00000001-first-start.json")).size == 2


async def test_we_restore_what_it_compacted_of_ours(tmp_path: Path) -> None:
    async with told(ETCD_3_5, tmp_path) as story:
        await story.is_backed_up_by_us()
        await compacted_by_peer(story.folder, story.store)
        latest = (await read_inventory(story.snapshots)).latest
        assert latest is not None
        assert not latest.deltas
        await story.is_restored_by_us(leases=False)  # as its `restore`


async def test_etcdbrctl_collects_our_garbage_without_owners(tmp_path: Path) -> None:
    async with told(ETCD_3_5, tmp_path) as story:
        async with story.ours() as agent:
            for _ in range(4):
                await story.write(10)
                await agent.ask("/snapshot/full", until_taken=True)
        await story.snapshots.put("ownership/00000001-first-start.json", b"{}")
        async with story.theirs("gzip", "--garbage-collection-policy=LimitBased", "--max-backups=2") as server:
            await story.has_a_delta_of(server)
            await eventually(lambda: read_inventory(story.snapshots), lambda inventory: len(inventory.sets) <= 2)
            await story.write()
            await story.has_a_delta_of(server)
        assert (await story.snapshots.head("ownership/00000001-first-start.json")).size == 2
        await story.is_restored_by_us()


@contextlib.asynccontextmanager
async def bucket(provider: str, folder: Path) -> AsyncIterator[SharedStore]:
    """An empty one, with credentials that both read."""
    if provider == "S3":
        with s3_server() as address:
            environment = {"AWS_APPLICATION_CREDENTIALS": str(s3_files(folder, address))}
            yield SharedStore("s3", "S3", BUCKET, environment)
        return
    async with azure_server() as server:
        environment = {"AZURE_APPLICATION_CREDENTIALS": str(azure_files(folder, server))}
        yield SharedStore("az", "ABS", BUCKET, environment)


@pytest.mark.soak
@pytest.mark.parametrize("provider", ["S3", "ABS"])
async def test_either_program_continues_multipart_buckets(provider: str, tmp_path: Path) -> None:
    async with told(ETCD_3_5, tmp_path) as story, bucket(provider, tmp_path / "credentials") as story.store:
        for _ in range(2):
            async with story.ours("--compression-policy", "none") as agent:
                await story.is_larger_than_a_part()
                await agent.ask("/snapshot/full", until_taken=True)
                await story.write()
                await agent.ask("/snapshot/delta")
            # A delta of its own in the second of a full snapshot, with the same last revision, breaks its restore.
            async with story.theirs("none", "--delta-snapshot-memory-limit=1000000000") as server:
                await story.has_a_delta_of(server)
                await story.is_larger_than_a_part()
                await server.ask("/snapshot/full")
                await story.write()
                await story.has_a_delta_of(server)
        await story.is_restored_by_us()
        await story.is_restored_by_peer()
