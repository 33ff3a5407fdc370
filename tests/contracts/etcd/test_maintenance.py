"""Requests of operators and backups to a member: status, snapshots, hashes, defragmentation, alarms."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import aclosing
from pathlib import Path

import pytest

from espalier.etcd.client import Client
from espalier.etcd.errors import Compacted, FutureRevision, NoSpace
from espalier.etcd.requests import Put, Range, Txn
from espalier.etcd.snapshot import HASH_SIZE
from tests.support.etcd import calls
from tests.support.etcd.etcds import Clients, Implementation, Limits
from tests.support.tasks import left_over

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def snapshot_bytes(client: Client) -> bytes:
    async with aclosing(client.snapshot()) as chunks:
        return b"".join([chunk.data async for chunk in chunks])


async def fill(client: Client, prefix: bytes) -> None:
    for number in range(500):  # the size is taken when etcd commits to the file: every 100 ms
        await client.put(prefix + str(number % 3).encode(), b"x" * 200_000)


async def test_a_member_alone_leads_and_says_how_it_is(client: Client, prefix: bytes) -> None:
    last = await client.put(prefix + b"a", b"x" * 10_000)
    status = await client.status()
    assert status.header.revision == last
    assert status.leads
    assert status.version.startswith("3.")
    assert status.db_size >= status.db_size_in_use > 0
    assert status.raft_applied_index <= status.raft_index
    assert status.errors == ()
    assert not status.is_learner


async def test_the_cluster_has_one_member(client: Client) -> None:
    (member,) = await client.members()
    status = await client.status()
    assert member.id == status.header.member_id == status.leader
    assert not member.is_learner
    assert await client.members(linearizable=False) == (member,)


async def test_a_snapshot_is_a_database_with_its_hash(client: Client, prefix: bytes) -> None:
    needle = b"a value that is easily found"
    await client.put(prefix + b"a", needle)
    snapshot = await snapshot_bytes(client)
    database, digest = snapshot[:-HASH_SIZE], snapshot[-HASH_SIZE:]
    assert len(database) % 512 == 0
    assert hashlib.sha256(database).digest() == digest
    assert needle in database
    assert database[16:20] == (0xED0CDAED).to_bytes(4, "little")  # bbolt's magic number in the first meta page


async def test_the_remaining_bytes_of_a_snapshot_count_down(client: Client, prefix: bytes) -> None:
    for number in range(10):
        await client.put(prefix + str(number).encode(), b"x" * 50_000)
    async with aclosing(client.snapshot()) as chunks:
        parts = [chunk async for chunk in chunks]
    remaining = [part.remaining for part in parts]
    assert remaining == sorted(remaining, reverse=True)
    assert remaining[-1] == 0
    assert len(parts) > 2


async def test_aborted_snapshot_leaves_nothing(clients: Clients, prefix: bytes) -> None:
    before = asyncio.all_tasks()
    async with clients() as client:
        await client.put(prefix + b"a", b"x" * 1_000_000)
        async with aclosing(client.snapshot()) as chunks:
            await anext(chunks)
    assert not await left_over(before)


async def test_hash_of_revision_stays_while_later_ones_come(client: Client, prefix: bytes) -> None:
    revision = await client.put(prefix + b"a", b"1")
    newest = await calls.hash_kv(client)
    assert newest.header.revision == revision
    await client.put(prefix + b"a", b"2")
    then = await calls.hash_kv(client, revision)
    assert (then.hash, then.compact_revision, then.revision) == (newest.hash, newest.compact_revision, revision)
    assert (await calls.hash_kv(client)).hash != newest.hash


async def test_hashes_are_of_revisions_that_can_be_read(client: Client, prefix: bytes) -> None:
    first = await client.put(prefix + b"a", b"1")
    last = await client.put(prefix + b"a", b"2")
    await client.compact(last, physical=True)
    with pytest.raises(Compacted):
        await calls.hash_kv(client, first)
    with pytest.raises(FutureRevision):
        await calls.hash_kv(client, last + 1)
    later = await client.put(prefix + b"a", b"3")
    assert (await calls.hash_kv(client, later)).compact_revision == last


async def test_the_database_has_a_hash(client: Client) -> None:
    assert await calls.database_hash(client) == await calls.database_hash(client)


async def test_defragmentation_changes_no_key(client: Client, prefix: bytes) -> None:
    for number in range(50):
        await client.put(prefix + b"a", str(number).encode() * 1000)
    last = await client.put(prefix + b"a", b"last")
    await client.compact(last, physical=True)
    before, hash_before = await client.do(Range.of_prefix(prefix)), await calls.hash_kv(client)
    await client.defragment()
    assert (await client.do(Range.of_prefix(prefix))).items == before.items
    assert (await calls.hash_kv(client)).hash == hash_before.hash


async def test_there_is_no_alarm_usually(client: Client) -> None:
    assert await client.alarms() == ()


async def test_full_quota_allows_reads_and_deletions_only(
    implementation: Implementation, tmp_path: Path, prefix: bytes
) -> None:
    async with implementation.run(tmp_path, Limits(quota=2 * 1024 * 1024)) as clients, clients() as client:
        with pytest.raises(NoSpace, match="etcdserver: mvcc: database space exceeded"):
            await fill(client, prefix)
        (alarm,) = await client.alarms()
        status = await client.status()
        assert (alarm.type, alarm.member_id) == ("NOSPACE", status.header.member_id)
        assert status.errors
        with pytest.raises(NoSpace):
            await client.put(prefix + b"small", b"")
        with pytest.raises(NoSpace):
            await client.do(Txn((), (Put(prefix + b"small"),)))
        assert (await client.do(Range.of_prefix(prefix))).count == 3
        await client.delete(prefix + b"0")
        await client.compact((await client.status()).header.revision, physical=True)
        await client.defragment()
        await calls.disarm(client, alarm)
        assert await client.alarms() == ()
        await client.put(prefix + b"small", b"")
