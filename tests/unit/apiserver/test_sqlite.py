"""Acknowledged writes are there after any end of the process; a write that can't be stored is never acknowledged."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest

from espalier.api.core import CONFIG_MAP
from espalier.apiserver.server import Server
from espalier.apiserver.storage.sqlite import SqliteStore, UnknownFormat, Unusable
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import Expired, NotFound, ServerFailure
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.retry import Retry
from tests.support.sampling import sampled

WRITER = """
import asyncio, random, sys
from datetime import UTC, datetime
from pathlib import Path
from espalier.api.core import CONFIG_MAP
from espalier.apiserver.server import Server
from espalier.apiserver.storage.sqlite import SqliteStore
from espalier.kube.client import Client
from espalier.kube.transports.inprocess import InProcessTransport

async def write(client, lane):
    for index in range(100_000):
        name = f"c{lane}-{index}"
        await client.create(CONFIG_MAP, {"metadata": {"name": name, "namespace": "default"}})
        print(name, flush=True)

async def main():
    server = Server(SqliteStore(Path(sys.argv[1])), now=lambda: datetime.now(UTC), random=random.Random(1))
    await server.start()
    client = Client(InProcessTransport(server))
    await asyncio.gather(*(write(client, lane) for lane in range(4)))

asyncio.run(main())
"""


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[tuple[Client, SqliteStore]]:
    store = SqliteStore(path)
    server = Server(store, now=lambda: datetime.now(UTC), random=random.Random(1))
    await server.start()
    try:
        yield Client(InProcessTransport(server), retry=Retry(attempts=1)), store
    finally:
        await server.close()


def body(name: str, **data: str) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": "default"}, "data": data}


async def test_everything_is_there_again(tmp_path: Path) -> None:
    path = tmp_path / "objects.db"
    async with opened(path) as (client, _):
        await client.create(CONFIG_MAP, body("a", x="1"))
        start = (await client.list(CONFIG_MAP)).resource_version
        changed = await client.patch(CONFIG_MAP, "a", "default", patch={"data": {"x": "2"}}, type=PatchType.MERGE)
        await client.create(CONFIG_MAP, body("b"))
        await client.delete(CONFIG_MAP, "b", "default")
    async with opened(path) as (client, _):
        assert (await client.get(CONFIG_MAP, "a", "default")).raw == changed.raw
        with pytest.raises(NotFound):
            await client.get(CONFIG_MAP, "b", "default")
        seen = []
        async for event in client.watch(CONFIG_MAP, resource_version=start):
            seen.append((event.type, event.object.name))
            if event.type == "DELETED":
                break
        assert seen == [("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "b")], "watches go on over a restart"
        created = await client.create(CONFIG_MAP, body("c"))
        assert int(created.resource_version) > int(start) + 3, "revisions never come twice"


@pytest.mark.soak
async def test_kill_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "objects.db"
    writer = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WRITER, str(path), stdout=asyncio.subprocess.PIPE
    )
    assert writer.stdout is not None
    acknowledged: list[str] = []
    async with asyncio.timeout(60):
        while len(acknowledged) < 200:
            acknowledged.append((await writer.stdout.readline()).decode().strip())
        writer.send_signal(signal.SIGKILL)
        acknowledged += (await writer.stdout.read()).decode().split("\n")[:-1]
        await writer.wait()
    async with opened(path) as (client, _):
        there = {item.name for item in (await client.list(CONFIG_MAP, "default")).items}
    assert set(acknowledged) <= there


@pytest.mark.soak
async def test_full_disk_makes_server_read_only_and_honest(tmp_path: Path) -> None:
    path = tmp_path / "objects.db"
    async with opened(path) as (client, store):
        stored = await client.create(CONFIG_MAP, body("kept"))
        connection = store._connection
        assert connection is not None
        pages = connection.execute("PRAGMA page_count").get
        connection.execute(f"PRAGMA max_page_count={pages}")
        watch = client.watch(CONFIG_MAP, "default", resource_version=stored.resource_version, timeout_seconds=1)
        with pytest.raises(ServerFailure, match=r"can't be written \(.*full\); it serves only reads") as refused:
            await client.create(CONFIG_MAP, body("lost", x="y" * 1_000_000))
        assert refused.value.status.code == 507
        with pytest.raises(ServerFailure):
            await client.delete(CONFIG_MAP, "kept", "default")
        assert [item.name for item in (await client.list(CONFIG_MAP, "default")).items] == ["kept"]
        assert [event.type async for event in watch] == ["BOOKMARK"]
    async with opened(path) as (client, _):
        await client.create(CONFIG_MAP, body("lost"))


async def test_only_what_somebody_may_need_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "objects.db"
    async with opened(path) as (client, store):
        for index in range(20):
            await client.apply(CONFIG_MAP, body("a", x=str(index)))
        store.compact(store.revision)
        await client.create(CONFIG_MAP, body("b"))
    connection = apsw.Connection(str(path))
    rows = connection.execute("SELECT count(*) FROM log WHERE \"table\" = 'configmaps'").get
    connection.close()
    assert rows == 2
    async with opened(path) as (client, _):
        assert (await client.get(CONFIG_MAP, "a", "default")).tree["data"] == {"x": "19"}
        with pytest.raises(Expired):
            async for _ in client.watch(CONFIG_MAP, resource_version="2"):
                pass


async def test_a_file_of_a_later_release_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "objects.db"
    async with opened(path):
        pass
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE state SET value = 99 WHERE name = 'format'")
    connection.close()
    with pytest.raises(UnknownFormat, match="use a later release"):
        await SqliteStore(path).start()


async def written(path: Path) -> bytes:
    """The content of a store in which something is."""
    async with opened(path) as (client, _):
        for number in range(40):
            await client.create(CONFIG_MAP, body(f"a{number}", x="y" * 1000))
    return path.read_bytes()


@pytest.mark.parametrize(
    ("spoil", "says"),
    sampled(
        [
            (lambda database: b"", "is empty, although it was written before"),
            (lambda database: b"garbage " * 1000, "is not a database of this program"),
            (lambda database: database[: len(database) // 8192 * 4096], "is damaged"),
            (lambda database: database[:4096] + b"\xff" * 8192 + database[12288:], "is damaged"),
        ],
        3,
    ),
    ids=["empty", "garbage", "half", "damaged"],
)
async def test_a_broken_file_is_named_and_left_as_it_is(
    tmp_path: Path, spoil: Callable[[bytes], bytes], says: str
) -> None:
    path = tmp_path / "objects.db"
    content = await written(path)
    path.write_bytes(spoil(content))
    for _ in range(2):
        with pytest.raises(Unusable, match=f"{path} {says}"):
            await SqliteStore(path).start()
        assert path.read_bytes() == spoil(content)
    path.write_bytes(content)
    async with opened(path) as (client, _):
        assert len((await client.list(CONFIG_MAP, "default")).items) == 40


async def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "songs.db"
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE state (title TEXT); CREATE TABLE log (title TEXT)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(Unusable, match="is a database of another program"):
        await SqliteStore(path).start()
    assert path.read_bytes() == before


async def test_truncated_file_is_damaged_even_where_empty(tmp_path: Path) -> None:
    path = tmp_path / "objects.db"
    await written(path)
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE gone (x); INSERT INTO gone VALUES (zeroblob(100000)); DROP TABLE gone")
    connection.close()
    path.write_bytes(path.read_bytes()[:-8192])
    with pytest.raises(Unusable, match="is damaged"):
        await SqliteStore(path).start()


async def test_files_beside_broken_database_are_kept_as_well(tmp_path: Path) -> None:
    """After a crash, what was written last is in the log beside it: somebody may put the two together again."""
    path, crashed = tmp_path / "objects.db", tmp_path / "crashed.db"
    await written(path)
    async with opened(path) as (client, _):
        await client.create(CONFIG_MAP, body("last"))
        for suffix in ("", "-wal"):
            crashed.with_name(crashed.name + suffix).write_bytes(path.with_name(path.name + suffix).read_bytes())
    content = crashed.read_bytes()
    crashed.write_bytes(content[:4096] + b"\xff" * 8192 + content[12288:])
    log = tmp_path / "crashed.db-wal"
    before = crashed.read_bytes(), log.read_bytes()
    assert before[1]
    with pytest.raises(Unusable, match="is damaged"):
        await SqliteStore(crashed).start()
    assert (crashed.read_bytes(), log.read_bytes()) == before
