"""Deltas that share revisions: their content says whether one etcd wrote them, or two."""

from __future__ import annotations

import msgspec
import pytest

from espalier.etcdbackup.restore.plan import path
from espalier.etcdbackup.snapshots.deltas import Event, event
from espalier.etcdbackup.snapshots.names import Snapshot
from espalier.etcdbackup.snapshots.reading import read_inventory
from espalier.etcdbackup.snapshots.verification import Verdict, verify
from espalier.etcdbackup.stores.memory import MemoryStore
from espalier.runtime.clock import SystemClock
from tests.support.etcd.backups import delta, delta_content, events, full, packed, put

BASE = full(10, 0)
NESTED = (delta(11, 50, 60), delta(15, 20, 500))
STAGGERED = (delta(11, 30, 60), delta(21, 50, 500))


async def verdict_of(*deltas: tuple[Snapshot, list[Event]]) -> Verdict:
    """Of a set with these deltas, whose restore leads as far as the verdict says."""
    store = MemoryStore(SystemClock(), where="s3://backups/etcd-main")
    await put(store, BASE)
    for snapshot, made in deltas:
        await store.put(snapshot.key, packed(delta_content(made), snapshot.compression))
    inventory = await read_inventory(store)
    assert inventory.latest is not None
    verdict = await verify(store, inventory.latest)
    restored = path(inventory.latest.full, BASE.last, inventory)
    assert verdict.reach == inventory.latest.reach == restored.deltas[-1].snapshot.last
    return verdict


def changed(made: list[Event], revision: int) -> list[Event]:
    """The same events, but for a value at this revision."""
    return [
        msgspec.structs.replace(item, etcd_event=event(msgspec.structs.replace(kv, value=b"other"), 0).etcd_event)
        if (kv := item.etcd_event.kv) is not None and item.revision == revision and kv.version
        else item
        for item in made
    ]


@pytest.mark.parametrize("pair", [NESTED, STAGGERED])
async def test_the_same_events_are_no_conflict(pair: tuple[Snapshot, Snapshot]) -> None:
    before, after = pair
    later = [msgspec.structs.replace(item, time="2026-01-01T00:00:00Z") for item in events(after.start, after.last)]
    verdict = await verdict_of((before, events(before.start, before.last)), (after, later))
    assert verdict.problems == []


@pytest.mark.parametrize("pair", [NESTED, STAGGERED])
async def test_other_events_are_a_conflict(pair: tuple[Snapshot, Snapshot]) -> None:
    before, after = pair
    last = min(before.last, after.last)
    for revision in (after.start, last):
        made = changed(events(after.start, after.last), revision)
        (problem,) = (await verdict_of((before, events(before.start, before.last)), (after, made))).problems
        assert problem.startswith(f"{before} and {after} differ between revisions {after.start} and {last}: two etcds")
    if after.last > before.last:
        made = changed(events(after.start, after.last), last + 1)  # which only one of them has
        assert (await verdict_of((before, events(before.start, before.last)), (after, made))).problems == []
