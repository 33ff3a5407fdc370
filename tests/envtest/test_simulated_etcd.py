"""The local environment's etcd beside a real one: same answers and hashes, and each takes the other's data."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from espalier.assets.recipes import ETCD, ETCDUTL
from espalier.etcd.bbolt.checking import check
from espalier.etcd.bbolt.reading import Database
from espalier.etcd.bbolt.updating import updating
from espalier.etcd.client import Client
from espalier.etcd.database.backend import (
    KEY,
    LEASE,
    META,
    SCHEDULED_COMPACTION,
    read_records,
    revision_key,
    stored_lease,
)
from espalier.etcd.database.hashing import hash_database, hash_kv
from espalier.etcd.errors import Compacted
from espalier.etcd.requests import FROM_KEY, DeleteRange, Put
from espalier.etcd.results import Event, HashResult, RangeResult
from espalier.etcd.snapshot import HASH_SIZE
from espalier.runtime.clock import SystemClock
from espalier.simulator.etcd.member import Member
from espalier.simulator.etcd.memory import MemoryTransport
from espalier.simulator.etcd.storage import MemoryStorage, restore
from tests.support.etcd import calls
from tests.support.etcd.etcd_histories import EVERYTHING, Compact, Step, histories, play, without_member
from tests.support.etcd.real_etcd import built, real_etcd

pytestmark = pytest.mark.envtest


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="etcd") as name:  # a socket's path has at most 107 bytes
        yield Path(name)


@pytest.fixture(scope="module")
def programs() -> Path:
    home = built(ETCD)
    if home is None:
        pytest.skip("etcd was not built: run make real-assets")
    return home


@pytest.fixture(scope="module")
def etcdutl() -> Path:
    home = built(ETCDUTL)
    if home is None:
        pytest.skip("etcdutl was not built: run make real-assets")
    return home / "etcdutl"


@contextlib.asynccontextmanager
async def ours(storage: MemoryStorage | None = None) -> AsyncIterator[Client]:
    """A client of ours."""
    member = Member(storage or MemoryStorage(), SystemClock(), random.Random(1))
    await member.start()
    async with Client(MemoryTransport(member)) as client:
        yield client
    await member.close()


def restored(database: Database) -> MemoryStorage:
    storage = MemoryStorage()
    restore(storage, database, random.Random(2))
    return storage


async def snapshot(client: Client) -> bytes:
    async with aclosing(client.snapshot()) as chunks:
        return b"".join([chunk.data async for chunk in chunks])


async def content_of(client: Client) -> tuple[RangeResult, HashResult, list[int]]:
    """All keys with all their numbers, the hash of their history, and leases."""
    result, hashed = without_member(await client.do(EVERYTHING)), await calls.hash_kv(client)
    assert isinstance(result, RangeResult)
    return result, replace(hashed, header=result.header), sorted(await calls.leases(client))


async def told(client: Client, start: int, end: int) -> list[Event]:
    """The events of a watch of revisions. A real etcd gives no sign of progress to a watch that is catching up."""
    results: list[Event] = []
    async with client.watch(FROM_KEY, FROM_KEY, start_revision=start, prev_kv=True) as watch:
        while watch.revision < end:
            try:
                async with asyncio.timeout(0.15):
                    results += (await anext(watch)).events
            except TimeoutError:
                await watch.request_progress()
    return results


def test_same_history_has_same_answers_and_hashes(programs: Path, folder: Path) -> None:
    """One history after the other on both, each going on where the one before ended."""
    state = {"revision": 1, "compacted": 0}

    async def same(real: Client, simulated: Client, history: list[Step]) -> None:
        for step in history:
            theirs = await play(real, step, **state)
            assert await play(simulated, step, **state) == theirs, step
            if isinstance(step, Compact) and isinstance(theirs, int):
                state["compacted"] = step.revision(**state)
            items = await real.do(EVERYTHING)
            assert without_member(await simulated.do(EVERYTHING)) == without_member(items), step
            state["revision"] = items.header.revision
        theirs_said = await content_of(real)
        assert await content_of(simulated) == theirs_said
        start = max(1, state["compacted"])
        assert await told(simulated, start, state["revision"]) == await told(real, start, state["revision"])

    async def started(stack: contextlib.AsyncExitStack) -> tuple[Client, Client]:
        etcd = await stack.enter_async_context(real_etcd(programs, folder))
        return await stack.enter_async_context(etcd.client()), await stack.enter_async_context(ours())

    with asyncio.Runner() as runner:
        stack = contextlib.AsyncExitStack()
        try:
            real, simulated = runner.run(started(stack))

            @settings(max_examples=settings().max_examples // 2)
            @given(histories)
            def histories_are_the_same(history: list[Step]) -> None:
                runner.run(same(real, simulated, history))

            histories_are_the_same()
        finally:
            runner.run(stack.aclose())


async def _filled(client: Client) -> None:
    """Keys with long histories, deletions, leases, large values, and a compaction in the middle."""
    await calls.grant(client, 600, lease=11)
    for number in range(300):
        key = f"/registry/things/{number % 40:04}".encode()
        await client.do(Put(key, b"x" * (number * 37 % 3000), 11 if number % 7 == 0 else 0))
        if number % 11 == 0:
            await client.do(DeleteRange(key))
        if number == 150:
            await client.compact((await client.status()).header.revision - 20, physical=True)
    await client.put(b"large", b"y" * 400_000)


def _restored(etcdutl: Path, file: Path, to: Path, *flags: str) -> None:
    arguments: list[str | Path] = [
        etcdutl,
        "snapshot",
        "restore",
        file,
        "--data-dir",
        to,
        "--initial-cluster",
        "default=unix://peer:0",
    ]
    arguments += ["--initial-advertise-peer-urls", "unix://peer:0", *flags]
    subprocess.run(arguments, check=True, capture_output=True)


def _status(etcdutl: Path, file: Path) -> dict[str, object]:
    done = subprocess.run([etcdutl, "snapshot", "status", file, "-w", "json"], check=True, capture_output=True)
    document: dict[str, object] = json.loads(done.stdout)
    return document


async def test_real_etcd_starts_from_our_snapshot(programs: Path, etcdutl: Path, folder: Path) -> None:
    file = folder / "snapshot"
    async with ours() as client:
        await _filled(client)
        expected = await content_of(client)
        file.write_bytes(await snapshot(client))
    status = _status(etcdutl, file)
    result, hashed, _ = expected
    assert (status["revision"], status["totalKey"], status["version"]) == (hashed.revision, result.count, "3.6.0")
    _restored(etcdutl, file, folder / "data")
    async with real_etcd(programs, folder) as etcd, etcd.client() as client:
        assert await content_of(client) == expected
        await client.put(b"/registry/things/0001", b"goes on")
        assert (await client.do(EVERYTHING)).header.revision == hashed.revision + 1


async def test_simulated_etcd_starts_from_a_real_one(programs: Path, folder: Path) -> None:
    async with real_etcd(programs, folder) as etcd, etcd.client() as client:
        await _filled(client)
        expected = await content_of(client)
        content = (await snapshot(client))[:-HASH_SIZE]
        database_hash = await calls.database_hash(client)
        await etcd.stop()
        with Database.open(etcd.data / "member" / "snap" / "db") as database:
            check(database)
            records = list(read_records(database))
    database = Database.of(content)
    check(database)
    assert list(read_records(database)) == records
    assert hash_database(database) == database_hash
    bucket = database.bucket(KEY)
    assert bucket is not None
    assert hash_kv(bucket.items, expected[1].revision, expected[1].compact_revision) == expected[1].hash
    async with ours(restored(database)) as client:
        assert await content_of(client) == expected


@pytest.mark.parametrize("split", [1, 150, 299])
async def test_real_etcd_starts_from_a_file_with_appendices(
    programs: Path, etcdutl: Path, folder: Path, split: int
) -> None:
    """As a restore does with deltas: the records from some revision on go into the restored file."""
    async with real_etcd(programs, folder) as etcd, etcd.client() as client:
        await calls.grant(client, 600, lease=11)
        for number in range(split):
            await client.put(b"%d" % (number % 30), b"x" * number)
        first = await snapshot(client)
        for number in range(300):
            await client.do(Put(b"%d" % (number % 50), b"y" * number, 11 * (number % 2)))
            if number % 9 == 0:
                await client.delete(b"%d" % (number % 30), b"")
        expected, last = await content_of(client), await snapshot(client)
        await etcd.stop()
        (folder / "first").write_bytes(first)
        (folder / "data").rename(folder / "before")
        _restored(etcdutl, folder / "first", folder / "data")
        file = folder / "data" / "member" / "snap" / "db"
        records = read_records(Database.of(last[:-HASH_SIZE]), split + 2)
        with updating(file) as update:
            update.append(KEY, (record.encode() for record in records))
        with Database.open(file) as database:
            check(database)
        _status(etcdutl, file)  # bbolt's own check is part of it
        await etcd.start()
        assert await content_of(client) == expected
        await client.compact(expected[1].revision - 10, physical=True)
        await client.defragment()
        assert (await content_of(client))[0] == expected[0]


async def test_real_etcd_takes_bumped_revisions_and_leases(programs: Path, folder: Path) -> None:
    """A restore that may have lost something: later revisions, all before compacted; and lost leases back."""
    async with real_etcd(programs, folder) as etcd:
        async with etcd.client() as client:
            for number in range(20):
                await client.put(b"%d" % (number % 5), b"")
            last = (await client.status()).header.revision
            await etcd.stop()
        file = etcd.data / "member" / "snap" / "db"
        bumped = last + 10**9
        with Database.open(file) as database:
            meta = database.bucket(META)
            assert meta is not None
            entries = {**dict(meta.items()), SCHEDULED_COMPACTION: revision_key(bumped)}
        with updating(file) as update:
            update.append(KEY, [(revision_key(bumped), b"")])
            update.replace(META, sorted(entries.items()))
            update.replace(LEASE, [stored_lease(77, 600)])
        await etcd.start()
        async with etcd.client() as client:
            result = await client.do(EVERYTHING)
            assert (result.header.revision, result.count) == (bumped, 5)
            assert await calls.leases(client) == (77,)
            with pytest.raises(Compacted):
                async with client.watch(b"0", start_revision=last + 1) as watch:
                    await anext(watch)
            assert await client.put(b"0", b"", lease=77) == bumped + 1
