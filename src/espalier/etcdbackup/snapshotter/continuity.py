"""Whether what an etcd writes now follows what a store has of it."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from espalier.etcd.client import Client
from espalier.etcd.errors import Compacted
from espalier.etcdbackup.snapshots import reading
from espalier.etcdbackup.snapshots.deltas import DELETE
from espalier.etcdbackup.snapshots.sets import SnapshotSet, StoredSnapshot
from espalier.etcdbackup.snapshotter.full import ALL_KEYS
from espalier.etcdbackup.stores.errors import Corrupt, NotFound
from espalier.etcdbackup.stores.store import Store

PATIENCE = 10.0
"""Seconds for a revision that etcd has; one that was compacted just now may have left nothing."""

_Write = tuple[bool, bytes, bytes]
"""Whether it is a deletion, the key, the value."""


async def other_history(etcd: Client, store: Store, latest: SnapshotSet) -> str | None:
    """Why deltas must not go on after a set that etcd's revision has reached; None if nothing speaks against it.

    An etcd that lost its data and was written to since has the revisions of its backups as well, with other writes. The
    last revision of the last delta is compared. A set without deltas is not, nor is a revision that was compacted: then
    the deltas that would follow are gone, too. Raises `EtcdError`, `StoreError`.
    """
    if not latest.chain:
        return None
    last = latest.chain[-1]
    try:
        stored = await _stored(store, last, latest.reach)
    except (Corrupt, NotFound) as error:
        return f"the last delta can't be read: {error}"
    try:
        async with asyncio.timeout(PATIENCE):
            found = await _found(etcd, latest.reach)
    except (Compacted, TimeoutError):
        return None
    if found == stored:
        return None
    return f"etcd has other writes at revision {latest.reach} than {last.name}: it is another etcd, or lost its data"


async def _stored(store: Store, delta: StoredSnapshot, revision: int) -> set[_Write]:
    """The writes of a revision that a delta has."""
    writes: set[_Write] = set()
    async with aclosing(reading.events(store, delta)) as batches:
        async for batch in batches:
            for one in batch:
                kept = one.etcd_event.kv
                if kept is not None and kept.mod_revision == revision:
                    writes.add((one.etcd_event.type == DELETE, kept.key, kept.value))
    return writes


async def _found(etcd: Client, revision: int) -> set[_Write]:
    """The writes of a revision that etcd has. Raises `EtcdError`, such as `Compacted`."""
    async with etcd.watch(*ALL_KEYS, start_revision=revision, patience=PATIENCE) as watch:
        async for changes in watch:
            if changes.events:
                return {
                    (one.type == "DELETE", one.item.key, one.item.value)
                    for one in changes.events
                    if one.item.mod_revision == revision
                }
    return set()
