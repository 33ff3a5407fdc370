"""Snapshots into a store: what is stored can be restored, and what could not be is not stored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.etcdbackup.snapshots import reading, writing
from espalier.etcdbackup.snapshots.deltas import Event
from espalier.etcdbackup.snapshots.malformed import Malformed
from espalier.etcdbackup.snapshots.names import Compression
from espalier.etcdbackup.snapshots.reading import read_inventory
from espalier.etcdbackup.snapshots.verification import verify
from espalier.etcdbackup.snapshots.writing import DeltaBuilder, store_full
from espalier.etcdbackup.stores.errors import Unavailable
from espalier.etcdbackup.stores.memory import MemoryStore
from espalier.runtime.clock import SystemClock
from tests.support.etcd.backups import EPOCH, chunks, content_of, delta, events, full, full_content
from tests.support.servers.faulty_stores import FaultyStore

WRITTEN = (Compression.GZIP, Compression.ZLIB, Compression.NONE)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(SystemClock(), where="s3://backups/etcd-main")


@pytest.mark.parametrize("compression", WRITTEN)
async def test_etcds_snapshot_stream_is_stored(store: MemoryStore, compression: Compression) -> None:
    stored = await store_full(store, full(10, 0, compression), chunks(full_content(300)))
    assert stored.size == store.objects[stored.key].stored.size
    latest = (await read_inventory(store)).latest
    assert latest is not None
    assert (await verify(store, latest)).problems == []


@pytest.mark.parametrize("end", [0, 10, 512, -512, -1])
async def test_a_stream_that_ends_too_early_is_not_stored(store: MemoryStore, end: int) -> None:
    with pytest.raises(Malformed):
        await store_full(store, full(10, 0), chunks(full_content()[:end]))
    assert store.objects == {}


@pytest.mark.parametrize("compression", WRITTEN)
async def test_delta_grows_and_is_stored_under_its_revisions(store: MemoryStore, compression: Compression) -> None:
    made = events(13, 40)
    with DeltaBuilder(compression) as builder:
        for revision in range(13, 41):
            builder.add([item for item in made if item.revision == revision])
        assert (builder.last, builder.size > 1000) == (40, True)
        stored = await builder.store(store, 11, EPOCH + 60)
    assert stored.snapshot == delta(11, 40, 60, compression)
    assert [item async for batch in reading.events(store, stored) for item in batch] == made


async def test_the_bytes_are_those_of_one_piece(store: MemoryStore) -> None:
    with DeltaBuilder(Compression.NONE) as builder:
        builder.add(events(11, 15))
        builder.add([])
        builder.add(events(16, 20))
        stored = await builder.store(store, 11, EPOCH)
    assert store.objects[stored.key].data == content_of(delta(11, 20, 0, Compression.NONE))


async def test_delta_is_stored_later_when_store_was_away(store: MemoryStore) -> None:
    failures = [Unavailable(store.where, "no answer"), None]
    faulty = FaultyStore(store, {"upload": lambda _key: failures.pop(0)})
    with DeltaBuilder(Compression.GZIP) as builder:
        builder.add(events(11, 20))
        with pytest.raises(Unavailable):
            await builder.store(faulty, 11, EPOCH)
        with pytest.raises(ValueError, match="after the end"):
            builder.add(events(21, 22))
        stored = await builder.store(faulty, 11, EPOCH + 5)
    assert [item async for batch in reading.events(store, stored) for item in batch] == events(11, 20)


async def test_delta_without_new_events_is_not_stored(store: MemoryStore) -> None:
    with DeltaBuilder(Compression.GZIP) as builder, pytest.raises(ValueError, match="found none"):
        await builder.store(store, 1, EPOCH)
    with DeltaBuilder(Compression.GZIP) as builder:
        builder.add(events(11, 12))
        with pytest.raises(ValueError, match="found 12, allowed is 11 or less"):
            await builder.store(store, 12, EPOCH)
    assert store.objects == {}


def test_lzw_is_not_written() -> None:
    with pytest.raises(ValueError, match="lzw is only read"):
        DeltaBuilder(Compression.LZW)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.sampled_from(WRITTEN), st.integers(0, 3000))
async def test_deltas_in_a_row_hold_every_event_once(sizes: list[int], compression: Compression, memory: int) -> None:
    store = MemoryStore(SystemClock())
    await store_full(store, full(10, 0), chunks(full_content()))
    start, read_events = 11, list[Event]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "IN_MEMORY", memory)
        for size in sizes:
            with DeltaBuilder(compression) as builder:
                builder.add(events(start, start + size - 1))
                stored = await builder.store(store, start, EPOCH + start)
            start = stored.snapshot.last + 1
    latest = (await read_inventory(store)).latest
    assert latest is not None
    verdict = await verify(store, latest)
    assert (verdict.problems, verdict.reach) == ([], start - 1)
    for stored in latest.chain:
        read_events += [item async for batch in reading.events(store, stored) for item in batch]
    assert read_events == events(11, start - 1)
