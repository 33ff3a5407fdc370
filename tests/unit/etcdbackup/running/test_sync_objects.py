"""Sync objects in a store: a put is of what was read, or it is not made."""

from __future__ import annotations

import random

import pytest

from espalier.api.etcd.ownership import CopyOperation, Status, Writer, copy_operation_key, encoded, served_key
from espalier.etcdbackup.election.actions import PutOperation
from espalier.etcdbackup.election.events import Observed
from espalier.etcdbackup.running.sync_objects import SyncObjects
from espalier.etcdbackup.stores.errors import Corrupt
from espalier.etcdbackup.stores.memory import MemoryStore
from espalier.runtime.clock import SystemClock

KEY = copy_operation_key(1)


async def test_put_decided_by_an_older_read_is_not_made() -> None:
    store = MemoryStore(SystemClock())
    objects = SyncObjects(store, 1, "shoot--a--b/1", SystemClock(), random.Random(1), seconds=5)
    await store.put(KEY, encoded(CopyOperation(1, Status.INITIAL, Writer.DESTINATION)))
    first = await objects.observe()
    assert isinstance(first, Observed)
    ready = encoded(CopyOperation(1, Status.READY, Writer.SOURCE))
    await store.put(KEY, ready)
    await objects.observe()
    await objects.put_operation(PutOperation(CopyOperation(1, Status.INITIAL, Writer.SOURCE), first.version))
    assert (await store.read(KEY, most=9999)).data == ready


async def test_unknown_served_record_is_not_missing() -> None:
    """Without one, an etcd may start empty."""
    store = MemoryStore(SystemClock())
    objects = SyncObjects(store, 1, "shoot--a--b/1", SystemClock(), random.Random(1), seconds=5)
    assert await objects.served() is None
    await store.put(served_key(1), b"{")
    with pytest.raises(Corrupt, match="etcd stays stopped until it is repaired"):
        await objects.served()
