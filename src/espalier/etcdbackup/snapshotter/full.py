"""A full snapshot, from etcd into a store."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from espalier.etcd.client import Client
from espalier.etcd.requests import Range
from espalier.etcdbackup.snapshots.names import Compression, Kind, Snapshot
from espalier.etcdbackup.snapshots.reading import Progress, read_inventory, silent
from espalier.etcdbackup.snapshots.sets import StoredSnapshot
from espalier.etcdbackup.snapshots.writing import store_full
from espalier.etcdbackup.snapshotter.times import Times
from espalier.etcdbackup.stores.store import Store

ALL_KEYS = (b"\0", b"\0")


async def newest_revision(etcd: Client) -> int:
    """The revision of the newest write that etcd has acknowledged. Raises `EtcdError`."""
    return (await etcd.do(Range(*ALL_KEYS, limit=1, keys_only=True))).header.revision


async def take_full(
    etcd: Client,
    store: Store,
    times: Times,
    *,
    compression: Compression = Compression.GZIP,
    is_final: bool = False,
    progress: Progress = silent,
) -> StoredSnapshot:
    """Take a full snapshot and store it, verified in transit.

    As in etcd-backup-restore, its name has the revision from before it began; its content may have more. Raises
    `EtcdError`, `StoreError`, and `Malformed` if etcd sent something else than a database; then nothing was stored.
    """
    revision = await newest_revision(etcd)
    inventory = await read_inventory(store)
    snapshot = Snapshot(Kind.FULL, 0, revision, times.of_full(revision, inventory.snapshots), compression, is_final)
    async with aclosing(_content(etcd, progress)) as content:
        return await store_full(store, snapshot, content)


async def _content(etcd: Client, progress: Callable[[int], None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(etcd.snapshot()) as chunks:
        async for chunk in chunks:
            progress(len(chunk.data))
            yield chunk.data
