"""Damage to any byte of any object of a set: it is named before anything is used, and nothing is left of a download."""

from __future__ import annotations

import hashlib
import random
import zlib
from collections.abc import Callable, Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from espalier.etcdbackup.snapshots import reading
from espalier.etcdbackup.snapshots.deltas import Event
from espalier.etcdbackup.snapshots.names import Compression, Snapshot
from espalier.etcdbackup.snapshots.reading import download, read_inventory
from espalier.etcdbackup.snapshots.sets import SnapshotSet, StoredSnapshot
from espalier.etcdbackup.snapshots.verification import check, verify
from espalier.etcdbackup.stores.errors import Corrupt, Unavailable
from espalier.etcdbackup.stores.memory import MemoryStore
from espalier.runtime.clock import SystemClock
from tests.support.etcd.backups import content_of, delta, full, full_content, packed, put
from tests.support.sampling import sampled
from tests.support.servers.faulty_stores import FaultyStore

BASE = full(10, 0)
SET = (BASE, delta(11, 20, 60), delta(21, 30, 120, Compression.NONE), delta(31, 40, 180, Compression.ZLIB))
PLAIN = full(10, 0, Compression.NONE)
OBJECTS = (*SET, PLAIN)


def without_content(snapshot: Snapshot, size: int) -> set[int]:
    """Bytes of a stored object in which some bits are no part of the content: flags, time and system in the header of
    gzip, and what fills the last byte of the deflated data, before the checksums.
    """
    match snapshot.compression:
        case Compression.GZIP:
            return {*range(3, 10), size - 9}
        case Compression.ZLIB:
            return {size - 5}
    return set()


@pytest.fixture
async def store() -> MemoryStore:
    memory_store = MemoryStore(SystemClock(), where="s3://backups/etcd-main")
    await put(memory_store, *SET)
    return memory_store


async def latest(store: MemoryStore) -> SnapshotSet:
    latest_set = (await read_inventory(store)).latest
    assert latest_set is not None
    return latest_set


async def bytes_of(store: MemoryStore, stored: StoredSnapshot) -> bytes:
    async with aclosing(reading.content(store, stored)) as pieces:
        return b"".join([piece async for piece in pieces])


async def test_a_whole_set_is_verified(store: MemoryStore) -> None:
    verdict = await verify(store, await latest(store))
    assert verdict.problems == []
    assert (verdict.reach, sum(checked.events for checked in verdict.checked)) == (40, 30 + 6)


def unpacked(snapshot: Snapshot, data: bytes) -> bytes:
    return data if snapshot.compression is Compression.NONE else zlib.decompress(data, 47)


async def damaged(snapshot: Snapshot, data: bytes) -> str:
    """The error about an object with these bytes; empty if it is taken for whole."""
    store = MemoryStore(SystemClock(), where="s3://backups/etcd-main")
    await store.put(snapshot.key, data)
    return (await check(store, StoredSnapshot(snapshot, snapshot.key, len(data)))).problem


@pytest.mark.parametrize("mask", sampled([1 << bit for bit in range(8)] + [0xFF], 0, 7))
@pytest.mark.parametrize("snapshot", OBJECTS, ids=str)
async def test_every_flipped_byte_is_found(snapshot: Snapshot, mask: int) -> None:
    content = content_of(snapshot)
    assert await damaged(snapshot, content) == ""
    for at in range(len(content)):
        flipped = bytearray(content)
        flipped[at] ^= mask
        problem = await damaged(snapshot, bytes(flipped))
        if problem:
            assert problem.startswith(f"s3://backups/etcd-main/{snapshot.key}: ")
        else:
            assert at in without_content(snapshot, len(content))
            assert unpacked(snapshot, bytes(flipped)) == unpacked(snapshot, content)


@pytest.mark.parametrize("snapshot", OBJECTS, ids=str)
async def test_every_truncation_is_found(snapshot: Snapshot) -> None:
    content = content_of(snapshot)
    for end in range(len(content)):
        assert snapshot.key in await damaged(snapshot, content[:end])


@pytest.mark.parametrize("snapshot", OBJECTS, ids=str)
async def test_appended_bytes_are_found(snapshot: Snapshot) -> None:
    content = content_of(snapshot)
    for more in (b"\0", bytes(512), content):
        assert snapshot.key in await damaged(snapshot, content + more)


@pytest.mark.parametrize("snapshot", OBJECTS, ids=str)
async def test_regions_that_changed_places_are_found(snapshot: Snapshot) -> None:
    content, rng = content_of(snapshot), random.Random(0)
    for _ in range(60):
        first, second = sorted(rng.sample(range(10, len(content) - 8), 2))
        swapped = (
            content[:first]
            + content[second : second + 8]
            + content[first + 8 : second]
            + content[first : first + 8]
            + content[second + 8 :]
        )
        if swapped != content and second - first >= 8:
            assert snapshot.key in await damaged(snapshot, swapped)


async def test_deltas_that_changed_names_are_found(store: MemoryStore) -> None:
    first, second = SET[1].key, SET[2].key
    store.objects[first], store.objects[second] = store.objects[second], store.objects[first]
    verdict = await verify(store, await latest(store))
    assert [key for key in (first, second) if any(key in problem for problem in verdict.problems)] == [first, second]
    assert verdict.reach == 10


async def test_delta_with_a_wrong_compression_is_detected(store: MemoryStore) -> None:
    renamed = replace(SET[1], compression=Compression.NONE)
    await store.put(renamed.key, content_of(SET[1]))
    await store.delete(SET[1].key)
    (problem,) = (await verify(store, await latest(store))).problems
    assert renamed.key in problem


async def test_missing_last_event_of_a_delta_is_detected() -> None:
    snapshot = SET[1]
    shorter = packed(full_content(), Compression.GZIP)
    assert snapshot.key in await damaged(snapshot, shorter)
    assert "its name says 21" in await damaged(replace(snapshot, last=21), content_of(snapshot))


async def test_full_snapshot_of_another_format_is_detected() -> None:
    for data in (b"", b"rose" * 200):
        stored = data + hashlib.sha256(data).digest()
        assert "is not a snapshot of etcd" in await damaged(PLAIN, stored)


@pytest.mark.parametrize("removed", [1, 2])
async def test_a_removed_delta_is_a_gap(store: MemoryStore, removed: int) -> None:
    await store.delete(SET[removed].key)
    verdict = await verify(store, await latest(store))
    assert verdict.reach == SET[removed].start - 1
    (problem,) = verdict.problems
    assert f"revisions {SET[removed].start} to {SET[removed].last} are missing" in problem


async def test_a_removed_full_snapshot_leaves_no_set(store: MemoryStore) -> None:
    await store.delete(BASE.key)
    inventory = await read_inventory(store)
    assert (inventory.latest, len(inventory.stray)) == (None, 3)


async def test_removed_full_snapshot_leaves_a_gap(store: MemoryStore) -> None:
    await store.delete(BASE.key)
    await put(store, full(5, -100))
    verdict = await verify(store, await latest(store))
    assert verdict.reach == 5
    assert "revisions 6 to 10 are missing" in verdict.problems[0]


async def test_foreign_objects_change_nothing(store: MemoryStore) -> None:
    for key in ("sync.json", "v2/readme", "v2/Full-00000000-00000099-1.gz.tmp", "v3/Full-00000000-00000099-1"):
        await store.put(key, b"rose")
    inventory = await read_inventory(store)
    assert len(inventory.foreign) == 4
    assert (await verify(store, await latest(store))).problems == []


async def test_object_that_goes_during_a_check_is_a_problem(store: MemoryStore) -> None:
    latest_set = await latest(store)
    await store.delete(SET[1].key)
    (problem,) = (await verify(store, latest_set)).problems
    assert f"{SET[1].key}: it was listed but no longer exists" in problem


async def test_a_store_that_is_away_says_nothing_about_a_set(store: MemoryStore) -> None:
    latest_set = await latest(store)
    faulty = FaultyStore(store, {"stream": lambda _key: Unavailable(store.where, "no answer")})
    with pytest.raises(Unavailable, match="no answer"):
        await verify(faulty, latest_set)


def changes() -> Iterator[Callable[[bytes], bytes]]:
    yield lambda data: data[:-1]
    yield lambda data: data[:500] + b"!" + data[501:]
    yield lambda data: b""


@pytest.mark.parametrize("change", list(changes()))
async def test_nothing_is_left_of_download_that_is_not_whole(
    store: MemoryStore, tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    (stored,) = await put(store, PLAIN)
    path = tmp_path / "db"
    assert await download(store, stored, path) == len(content_of(PLAIN)) - 32
    assert path.read_bytes() == content_of(PLAIN)[:-32]
    path.unlink()
    await store.put(stored.key, change(content_of(PLAIN)))
    with pytest.raises(Corrupt, match=r"Full-00000000-00000010-1700000000: .*nothing of it was used"):
        await download(store, stored, path)
    assert list(tmp_path.iterdir()) == []


async def test_events_are_given_out_after_their_hash(store: MemoryStore) -> None:
    (stored,) = await put(store, SET[2])
    content = content_of(SET[2])
    await store.put(stored.key, content[:-1] + bytes((content[-1] ^ 1,)))
    came: list[Event] = []
    with pytest.raises(Corrupt, match="SHA-256"):
        came += [item async for batch in reading.events(store, stored) for item in batch]
    assert came == []


async def test_a_content_larger_than_any_is_not_unpacked(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LARGEST_FULL", 1000)
    with pytest.raises(Corrupt, match="more than the allowed 1000 bytes"):
        await bytes_of(store, (await latest(store)).full)
