"""Checks that the writes of an etcd continue those in a store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import dataclass

from espalier.etcd.client import Client
from espalier.etcd.errors import Compacted
from espalier.etcd.results import Event
from espalier.etcdbackup.snapshots import reading
from espalier.etcdbackup.snapshots.deltas import DELETE
from espalier.etcdbackup.snapshots.sets import SnapshotSet
from espalier.etcdbackup.snapshotter.full import ALL_KEYS, newest_revision
from espalier.etcdbackup.stores.errors import Corrupt, NotFound
from espalier.etcdbackup.stores.store import Store

PATIENCE = 10.0
"""Seconds to wait for a revision that etcd has; a revision that was just compacted may not arrive at all."""

NO_WRITES = 1
"""Revision of an etcd that was never written to: its history is complete, whichever etcd writes it."""

Write = tuple[bool, bytes, bytes]
"""Deletion or not, key, value."""


class Incomparable(Exception):
    """There is no proof that etcd is still the etcd whose writes were stored."""


class OtherHistory(Incomparable):
    """etcd lost its data, or is another etcd."""


@dataclass(frozen=True, slots=True)
class LastWrites:
    """The writes of the last known revision. An etcd that has them has everything before."""

    revision: int
    writes: frozenset[Write]

    @staticmethod
    def of_events(events: Iterable[Event]) -> LastWrites | None:
        """From the events of a watch; None if there are none."""
        changes = tuple(events)
        if not changes:
            return None
        return LastWrites(changes[-1].item.mod_revision, _writes(changes, changes[-1].item.mod_revision))


async def last_written(etcd: Client) -> LastWrites | None:
    """The newest writes of an etcd; None if they can't be determined. Raises `EtcdError`."""
    revision = await newest_revision(etcd)
    if revision <= NO_WRITES:
        return LastWrites(revision, frozenset())
    try:
        async with asyncio.timeout(PATIENCE):
            return LastWrites(revision, await _writes_at(etcd, revision))
    except (Compacted, TimeoutError):
        return None


async def last_stored(store: Store, latest: SnapshotSet) -> LastWrites:
    """The last writes of a set. Raises `StoreError`, and `Incomparable` if its last delta can't be read or it has none:
    the content of a full snapshot would have to be read completely."""
    if not latest.chain:
        raise Incomparable(f"{latest.full.name} has no delta after it to compare etcd with")
    last, revision = latest.chain[-1], latest.reach
    writes: set[Write] = set()
    try:
        async with aclosing(reading.events(store, last)) as batches:
            async for batch in batches:
                for event in batch:
                    key_value = event.etcd_event.kv
                    if key_value is not None and key_value.mod_revision == revision:
                        writes.add((event.etcd_event.type == DELETE, key_value.key, key_value.value))
    except (Corrupt, NotFound) as error:
        raise Incomparable(f"the last delta can't be read: {error}") from None
    return LastWrites(revision, frozenset(writes))


async def compare(etcd: Client, known: LastWrites) -> None:
    """Return if etcd has these writes at their revision. Raises `Incomparable`, `OtherHistory`, `EtcdError`."""
    revision = await newest_revision(etcd)
    if revision < known.revision:
        raise OtherHistory(f"etcd has revision {revision}, but had {known.revision}")
    if known.revision <= NO_WRITES:
        return
    try:
        async with asyncio.timeout(PATIENCE):
            writes = await _writes_at(etcd, known.revision)
    except (Compacted, TimeoutError):
        raise Incomparable(f"revision {known.revision} was compacted and can't be compared") from None
    if writes != known.writes:
        raise OtherHistory(
            f"the writes of revision {known.revision} differ from the backup: this is another etcd, or it lost its data"
        )


async def _writes_at(etcd: Client, revision: int) -> frozenset[Write]:
    """The writes of a revision that etcd has. Raises `EtcdError`, such as `Compacted`."""
    async with etcd.watch(*ALL_KEYS, start_revision=revision, patience=PATIENCE) as watch:
        async for changes in watch:
            if changes.events:
                return _writes(changes.events, revision)
    return frozenset()


def _writes(events: Iterable[Event], revision: int) -> frozenset[Write]:
    return frozenset(
        (event.type == "DELETE", event.item.key, event.item.value)
        for event in events
        if event.item.mod_revision == revision
    )
