"""Random histories on virtual time, each held against a simple model: keys at all revisions, watches, snapshots."""

from __future__ import annotations

import random
from contextlib import aclosing

import pytest
from hypothesis import given
from msgspec.structs import replace

from espalier.etcd.bbolt.checking import check
from espalier.etcd.bbolt.reading import Database
from espalier.etcd.client import Client
from espalier.etcd.database.backend import NEVER_COMPACTED, read_state
from espalier.etcd.requests import FROM_KEY
from espalier.etcd.results import Event, RangeResult
from espalier.etcd.snapshot import HASH_SIZE
from espalier.etcd.watch import Watch
from espalier.runtime.clock import SystemClock
from espalier.simulator.etcd.member import Member
from espalier.simulator.etcd.memory import MemoryTransport
from espalier.simulator.etcd.storage import MemoryStorage, restore
from tests.support.etcd import calls
from tests.support.etcd.etcd_histories import EVERYTHING, Compact, Model, Step, histories, play
from tests.support.etcd.simulated_etcd import told


async def _played(client: Client, history: list[Step], model: Model) -> None:
    """Play a history; what etcd refused is left out of the model."""
    for step in history:
        answer = await play(client, step, compacted=model.compacted, revision=model.revision)
        if not isinstance(answer, str):
            model.play(step)


@given(histories)
def test_keys_are_as_the_model_says_at_every_revision(history: list[Step]) -> None:
    async def story(member: Member, client: Client) -> None:
        model = Model()
        await _played(client, history, model)
        for revision in range(max(1, model.compacted), model.revision + 1):
            result = await client.do(replace(EVERYTHING, revision=revision))
            assert isinstance(result, RangeResult)
            assert {item.key: item for item in result.items} == model.states[revision]
            assert [item.key for item in result.items] == sorted(model.states[revision])
            assert (result.header.revision, result.count) == (model.revision, len(result.items))
        assert set(await calls.leases(client)) == model.leases
        for lease in model.leases:
            with_it = {key for key, item in model.now.items() if item.lease == lease}
            assert set((await calls.time_to_live(client, lease, keys=True)).keys) == with_it

    told(story)


@pytest.mark.soak
@given(histories, histories.map(lambda steps: [step for step in steps if not isinstance(step, Compact)]))
def test_watches_tell_all_that_happened_since(history: list[Step], more: list[Step]) -> None:
    """From the past, from now, and over what comes while they are open."""

    async def story(member: Member, client: Client) -> None:
        model = Model()
        await _played(client, history, model)
        then = model.revision
        start = max(model.compacted + 1, then - 3)
        async with (
            client.watch(FROM_KEY, FROM_KEY, start_revision=start) as past,
            client.watch(FROM_KEY, FROM_KEY) as now,
            client.watch(b"b", FROM_KEY, filters=("NOPUT",)) as deletions,
        ):
            await _played(client, more, model)
            streams = [await _told_until(watch, model.revision) for watch in (past, now, deletions)]
        assert streams[0] == [event for event in model.events if event.item.mod_revision >= start]
        since = [event for event in model.events if event.item.mod_revision > then]
        assert streams[1] == since
        assert streams[2] == [event for event in since if event.type == "DELETE" and event.item.key >= b"b"]

    told(story)


async def _told_until(watch: Watch, revision: int) -> list[Event]:
    await watch.request_progress()
    events: list[Event] = []
    while watch.revision < revision:
        events += (await anext(watch)).events
    return events


@pytest.mark.soak
@given(histories)
def test_snapshot_is_complete_and_startable(history: list[Step]) -> None:
    async def story(member: Member, client: Client) -> None:
        model = Model()
        await _played(client, history, model)
        async with aclosing(client.snapshot()) as chunks:
            snapshot = b"".join([chunk.data async for chunk in chunks])
        database = Database.of(snapshot[:-HASH_SIZE])
        check(database)
        state = read_state(database)
        assert (state.revision, set(state.leases)) == (model.revision, model.leases)
        assert state.compacted == (model.compacted or NEVER_COMPACTED)
        storage = MemoryStorage()
        restore(storage, database, random.Random(2))
        again = Member(storage, SystemClock(), random.Random(3))
        await again.start()
        async with Client(MemoryTransport(again)) as other:
            for revision in range(max(1, model.compacted), model.revision + 1):
                result = await other.do(replace(EVERYTHING, revision=revision))
                assert {item.key: item for item in result.items} == model.states[revision]
            hashes = [await calls.hash_kv(member_client) for member_client in (client, other)]
            assert hashes[0].hash == hashes[1].hash
        await again.close()

    told(story)
