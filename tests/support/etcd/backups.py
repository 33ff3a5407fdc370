"""Backups for tests: full snapshots that look like etcd's (whole sectors and their hash), real deltas, whole sets."""

from __future__ import annotations

import hashlib
import random
import zlib
from collections.abc import AsyncGenerator, Sequence

from espalier.etcdbackup.snapshots.deltas import DeltaWriter, Event, KeyValue, event
from espalier.etcdbackup.snapshots.names import Compression, Kind, Snapshot
from espalier.etcdbackup.snapshots.sets import StoredSnapshot
from espalier.etcdbackup.stores.store import Store

EPOCH = 1_700_000_000
"""2023-11-14T22:13:20Z, when these backups begin."""
_WINDOW_BITS = {Compression.GZIP: 31, Compression.ZLIB: 15}


def packed(content: bytes, compression: Compression) -> bytes:
    """As a store has it."""
    if compression is Compression.NONE:
        return content
    stream = zlib.compressobj(6, zlib.DEFLATED, _WINDOW_BITS[compression])
    return stream.compress(content) + stream.flush()


def full_content(sectors: int = 8, seed: int = 0) -> bytes:
    """Bytes with the size and the hash of a snapshot of etcd; half of them zero, as in a database."""
    rng = random.Random(seed)
    data = b"".join(rng.randbytes(256) + bytes(256) for _ in range(sectors))
    return data + hashlib.sha256(data).digest()


def events(start: int, last: int) -> list[Event]:
    """A put at each revision; at each fifth, a transaction of a put and a deletion."""
    made = []
    for revision in range(start, last + 1):
        at = (EPOCH + revision) * 10**9 + revision
        key = b"/registry/pods/%d" % (revision % 7)
        made.append(event(KeyValue(key, revision, revision, 1, b"value %d" % revision), at))
        if revision % 5 == 0:
            made.append(event(KeyValue(b"/registry/leases/%d" % revision, mod_revision=revision), at, is_deletion=True))
    return made


def delta_content(made: Sequence[Event]) -> bytes:
    """The content of a delta with these events."""
    writer = DeltaWriter()
    return writer.write(made) + writer.finish()


def full(last: int, created: int, compression: Compression = Compression.GZIP, *, final: bool = False) -> Snapshot:
    """Taken so many seconds after the epoch."""
    return Snapshot(Kind.FULL, 0, last, EPOCH + created, compression, final)


def delta(start: int, last: int, created: int, compression: Compression = Compression.GZIP) -> Snapshot:
    """Taken so many seconds after the epoch."""
    return Snapshot(Kind.DELTA, start, last, EPOCH + created, compression)


def content_of(snapshot: Snapshot) -> bytes:
    """A content that the name of a snapshot fits; another one for each name."""
    if snapshot.kind is Kind.FULL:
        return packed(full_content(seed=snapshot.last), snapshot.compression)
    return packed(delta_content(events(snapshot.start, snapshot.last)), snapshot.compression)


async def put(store: Store, *snapshots: Snapshot) -> list[StoredSnapshot]:
    """Store these snapshots."""
    made = []
    for snapshot in snapshots:
        data = content_of(snapshot)
        await store.put(snapshot.key, data)
        made.append(StoredSnapshot(snapshot, snapshot.key, len(data)))
    return made


async def chunks(data: bytes, size: int = 1000) -> AsyncGenerator[bytes, None]:
    """The same bytes, in pieces."""
    for at in range(0, len(data), size):
        yield data[at : at + size]
