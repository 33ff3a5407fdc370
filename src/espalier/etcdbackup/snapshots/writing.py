"""Writes snapshots to a store, verified in transit, so that nothing is stored that could not be restored.

Errors are those of stores, and `Malformed` if the source is not a snapshot: then nothing was stored.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from functools import partial
from types import TracebackType
from typing import Self

from espalier.etcdbackup.snapshots.codecs import compress, compressor, in_thread
from espalier.etcdbackup.snapshots.content import Trailer
from espalier.etcdbackup.snapshots.deltas import DeltaWriter, Event
from espalier.etcdbackup.snapshots.names import Compression, Kind, Snapshot
from espalier.etcdbackup.snapshots.sets import StoredSnapshot
from espalier.etcdbackup.stores.store import CHUNK, Store

IN_MEMORY = 16 << 20
"""Bytes of a delta, compressed, that are kept in memory until it is stored; larger deltas go to a temporary file."""


async def store_full(store: Store, snapshot: Snapshot, chunks: AsyncIterable[bytes]) -> StoredSnapshot:
    """Store the stream of etcd's `Maintenance.Snapshot`, including the hash at its end.

    Raises `Malformed` if its size or hash is wrong, such as after a connection that ended too early.
    """
    trailer = Trailer(Kind.FULL)

    async def verified() -> AsyncGenerator[bytes, None]:
        async for chunk in chunks:
            await in_thread(partial(trailer.read, chunk), len(chunk))
            yield chunk
        trailer.finish()

    stored = await store.upload(snapshot.key, compress(verified(), snapshot.compression))
    return StoredSnapshot(snapshot, stored.key, stored.size)


class DeltaBuilder:
    """A delta that grows with the events of a watch, and is stored when it is large or old enough.

    A context manager, because of its temporary file. It has no name before it is stored: the name has its last
    revision.
    """

    def __init__(self, compression: Compression) -> None:
        self.size = 0
        """Bytes of JSON so far."""
        self._compression = compression
        self._writer = DeltaWriter()
        self._packer = compressor(compression)
        self._spool = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115  this is its context

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._spool.close()

    @property
    def last(self) -> int:
        """Revision of the last event; 0 before the first event."""
        return self._writer.last

    def add(self, events: Sequence[Event]) -> None:
        """Add all events of one or more revisions. Raises `ValueError` as `DeltaWriter.write`."""
        self._append(self._writer.write(events))

    async def store(self, store: Store, start: int, created: int) -> StoredSnapshot:
        """End it, and store it as the delta from `start` on, taken at `created` (seconds since 1970).

        May be called again if the store failed, also with another time. Raises `ValueError` if there are no events, or
        if an event is before `start`.
        """
        if not self._writer.is_finished:
            self._append(self._writer.finish())
            if self._packer is not None:
                self._spool.write(self._packer.flush())
        if self._writer.first < start:
            raise ValueError(f"start of a delta: found {start}, allowed is {self._writer.first} or less")
        snapshot = Snapshot(Kind.DELTA, start, self._writer.last, created, self._compression)
        stored = await store.upload(snapshot.key, self._chunks())
        return StoredSnapshot(snapshot, stored.key, stored.size)

    def _append(self, content: bytes) -> None:
        self.size += len(content)
        self._spool.write(content if self._packer is None else self._packer.compress(content))

    async def _chunks(self) -> AsyncGenerator[bytes, None]:
        self._spool.seek(0)
        while chunk := await in_thread(partial(self._spool.read, CHUNK), self.size):
            yield chunk
