"""Acknowledged writes are there again, whenever the process ends: whole batches, in their order, or not at all."""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings

from espalier.etcd.client import Client
from espalier.etcd.errors import NoSpace, Unavailable
from espalier.runtime.clock import SystemClock
from espalier.simulator.etcd.member import Member
from espalier.simulator.etcd.memory import MemoryTransport
from espalier.simulator.etcd.state.core import Batch
from espalier.simulator.etcd.storage import FILE_NAME, FORMAT, SqliteStorage, Unusable
from tests.support.etcd import calls
from tests.support.etcd.etcd_histories import EVERYTHING, Model, Step, histories, play, without_member


def _member(folder: Path, *, quota: int = 1 << 30) -> Member:
    return Member(SqliteStorage(folder), SystemClock(), random.Random(1), quota=quota)


async def _everything(folder: Path) -> tuple[object, ...]:
    """The answers of a member that starts from a folder."""
    member = _member(folder)
    await member.start()
    async with Client(MemoryTransport(member)) as client:
        content = await _content(client)
    await member.close()
    return content


async def _content(client: Client) -> tuple[object, ...]:
    pairs, hashed = without_member(await client.do(EVERYTHING)), await calls.hash_kv(client)
    return pairs, hashed.hash, hashed.compact_revision, hashed.revision, sorted(await calls.leases(client))


def _copied(folder: Path, to: Path) -> Path:
    """The files as they are at this moment, as after a kill."""
    to.mkdir()
    for name in (FILE_NAME, f"{FILE_NAME}-wal"):
        if (folder / name).exists():
            shutil.copy(folder / name, to / name)
    return to


@pytest.mark.soak
@settings(max_examples=10)
@given(history=histories)
def test_kill_loses_nothing_and_torn_writes_vanish(history: list[Step]) -> None:
    """After a kill all is there; of a log that is cut at any place, a state that was at some time."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        work = folder / "work"
        work.mkdir()

        async def story() -> None:
            await _everything(work)  # makes the file
            member = _member(work)
            await member.start()
            model = Model()
            rng = random.Random(len(history))
            async with Client(MemoryTransport(member)) as client:
                states = [await _content(client)]
                for number, step in enumerate(history):
                    answer = await play(client, step, compacted=model.compacted, revision=model.revision)
                    if isinstance(answer, str):
                        continue
                    model.play(step)
                    states.append(await _content(client))
                    if rng.random() < 0.2:
                        assert await _everything(_copied(work, folder / f"killed-{number}")) == states[-1]
            content = (work / f"{FILE_NAME}-wal").read_bytes()
            for number in range(4):
                torn = _copied(work, folder / f"torn-{number}")
                cut = rng.randrange(len(content) + 1)
                again = content[max(0, cut - 5000) : cut] * (number % 2)  # as if the last write were made twice
                (torn / f"{FILE_NAME}-wal").write_bytes(content[:cut] + again)
                assert await _everything(torn) in states
            await member.close()
            assert await _everything(work) == states[-1]

        asyncio.run(story())


async def test_identity_stays_and_term_grows_with_each_start(tmp_path: Path) -> None:
    seen = []
    for _ in range(3):
        member = _member(tmp_path)
        await member.start()
        async with Client(MemoryTransport(member)) as client:
            seen.append((await client.status()).header)
        await member.close()
    assert len({(header.cluster_id, header.member_id) for header in seen}) == 1
    assert [header.raft_term for header in seen] == [2, 3, 4]


class Counted(SqliteStorage):
    """Counts transactions."""

    commits = 0

    def commit(self, batch: Batch) -> None:
        """Count, and store."""
        self.commits += 1
        super().commit(batch)


async def test_concurrent_requests_share_a_transaction(tmp_path: Path) -> None:
    storage = Counted(tmp_path)
    member = Member(storage, SystemClock(), random.Random(1))
    await member.start()
    async with Client(MemoryTransport(member)) as client:
        await asyncio.gather(*(client.put(b"%d" % number, b"") for number in range(100)))
    await member.close()
    assert 1 <= storage.commits < 10


async def test_member_that_can_not_store_answers_nothing(tmp_path: Path) -> None:
    member = _member(tmp_path)
    await member.start()
    async with Client(MemoryTransport(member)) as client:
        await client.put(b"a", b"stored")
        member._storage.close()
        with pytest.raises(Unavailable, match=r"server stopped: .*is closed"):
            await client.put(b"a", b"not stored")
        assert member.failed.is_set()
        with pytest.raises(Unavailable, match="server stopped"):
            await client.get(b"a")
    await member.close()
    again = _member(tmp_path)
    await again.start()
    async with Client(MemoryTransport(again)) as client:
        pair = await client.get(b"a")
        assert pair is not None
        assert pair.value == b"stored"
    await again.close()


async def test_an_alarm_outlives_a_start(tmp_path: Path) -> None:
    member = _member(tmp_path, quota=100_000)
    await member.start()
    async with Client(MemoryTransport(member)) as client:
        with pytest.raises(NoSpace):
            await client.put(b"a", b"x" * 100_000)
    await member.close()
    again = _member(tmp_path)
    await again.start()
    async with Client(MemoryTransport(again)) as client:
        assert [alarm.type for alarm in await client.alarms()] == ["NOSPACE"]
        with pytest.raises(NoSpace):
            await client.put(b"a", b"")
    await again.close()


async def test_unusable_files_are_named_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    path.write_bytes(b"something else" * 100)
    with pytest.raises(Unusable, match=f"{path} is not a database of this program"):
        await _member(tmp_path).start()
    assert path.read_bytes() == b"something else" * 100


async def test_one_process_at_a_time_has_the_data(tmp_path: Path) -> None:
    member = _member(tmp_path)
    await member.start()
    with pytest.raises(Unusable, match="is open in another process; stop it first"):
        await _member(tmp_path).start()
    await member.close()


async def test_data_of_a_later_release_are_left_alone(tmp_path: Path) -> None:
    storage = SqliteStorage(tmp_path)
    storage.open(random.Random(1))
    assert storage._connection is not None
    storage._connection.execute("UPDATE state SET value = value + 1 WHERE name = 'format'")
    storage.close()
    with pytest.raises(Unusable, match=f"has format {FORMAT + 1}; this release reads up to {FORMAT}"):
        await _member(tmp_path).start()
