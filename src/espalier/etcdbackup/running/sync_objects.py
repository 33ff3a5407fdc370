"""The sync objects of one epoch in a store: read and put within a time limit, with results as events of an election."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog
from msgspec.structs import replace

from espalier.api.etcd.ownership import (
    LARGEST,
    CopyOperation,
    FirstStart,
    Served,
    Unreadable,
    copy_operation_key,
    encoded,
    first_start_key,
    read_copy_operation,
    read_first_start,
    read_served,
    served_key,
)
from espalier.etcdbackup.election.actions import PutOperation
from espalier.etcdbackup.election.events import Observed, OwnMarkerRead, PutEnded, StoreFailed
from espalier.etcdbackup.stores.errors import Corrupt, NotFound, StoreError
from espalier.etcdbackup.stores.store import Content, Store, StoredObject
from espalier.runtime.clock import Clock

log = structlog.get_logger(__name__)

T = TypeVar("T")
Record = TypeVar("Record", CopyOperation, FirstStart, Served)


class SyncObjects:
    """The sync objects of one epoch. `seconds` limits a read or a put, retries of the store included."""

    def __init__(
        self, store: Store, epoch: int, cluster: str, clock: Clock, rng: random.Random, *, seconds: float
    ) -> None:
        self.trouble = ""
        """The reason why the last request failed; empty if it did not."""
        self.unreadable_since: float | None = None
        """The time since which no read has succeeded, by the clock's monotonic time."""
        self._store = store
        self._epoch = epoch
        self._cluster = cluster
        self._clock = clock
        self._rng = rng
        self._seconds = seconds
        self._last_operation: StoredObject | None = None

    async def observe(self) -> Observed | StoreFailed:
        """Read CopyOperation and first-start marker."""
        began = self._clock.monotonic()
        try:
            async with asyncio.timeout(self._seconds):
                operation, marker = await asyncio.gather(
                    self._read(copy_operation_key(self._epoch)), self._read(first_start_key(self._epoch))
                )
        except (StoreError, TimeoutError) as error:
            self._record_failure("read", error)
            self.unreadable_since = began if self.unreadable_since is None else self.unreadable_since
            return StoreFailed()
        self.trouble, self.unreadable_since = "", None
        self._last_operation = operation.stored if isinstance(operation, Content) else None
        version = (
            (self._last_operation.version or self._last_operation.etag) if self._last_operation is not None else ""
        )
        copy_operation = _parse(operation, lambda text: read_copy_operation(text, self._epoch))
        return Observed(began, copy_operation, _parse(marker, self._first_start), version)

    async def own_marker(self) -> OwnMarkerRead | StoreFailed:
        """Read the first-start marker alone."""
        try:
            async with asyncio.timeout(self._seconds):
                marker = await self._read(first_start_key(self._epoch))
        except (StoreError, TimeoutError) as error:
            self._record_failure("read", error)
            return StoreFailed()
        self.trouble = ""
        return OwnMarkerRead(_parse(marker, self._first_start))

    async def served(self) -> Served | None:
        """The served record; None if there is none. Raises `StoreError`, also for a record that can't be parsed."""
        content = await self._read(served_key(self._epoch))
        record = _parse(content, lambda text: read_served(text, self._epoch, self._cluster))
        if isinstance(record, Unreadable):
            where = f"{self._store.where}/{served_key(self._epoch)}"
            raise Corrupt(where, record.why, "etcd stays stopped until it is repaired")
        return record

    async def put_operation(self, action: PutOperation) -> PutEnded:
        """Put the CopyOperation if it is unchanged since it was read, or if there is none."""
        operation = replace(action.operation, nonce=self._nonce())
        last_operation = self._last_operation
        if action.version and (
            last_operation is None or action.version != (last_operation.version or last_operation.etag)
        ):
            return PutEnded()  # another read came in between, and its result decides
        data = encoded(operation)
        if last_operation is None or not action.version:
            return await self._put(lambda: self._store.create(copy_operation_key(self._epoch), data))
        return await self._put(lambda: self._store.replace(last_operation, data))

    async def put_marker(self, marker: FirstStart) -> PutEnded:
        """Put the first-start marker, if there is none."""
        data = encoded(replace(marker, nonce=self._nonce()))
        return await self._put(lambda: self._store.create(first_start_key(self._epoch), data))

    async def put_served(self, revision: int) -> None:
        """Put the served record. Raises `StoreError`: `Conflict` if the store has it already."""
        record = Served(self._epoch, self._cluster, revision, self._nonce())
        await self._store.create(served_key(self._epoch), encoded(record))

    async def _put(self, write: Callable[[], Awaitable[StoredObject]]) -> PutEnded:
        try:
            async with asyncio.timeout(self._seconds):
                await write()
        except (StoreError, TimeoutError) as error:
            self._record_failure("put", error)
        return PutEnded()

    async def _read(self, key: str) -> Content | Unreadable | None:
        try:
            return await self._store.read(key, most=LARGEST)
        except NotFound:
            return None
        except Corrupt as error:
            return Unreadable(str(error))

    def _first_start(self, text: bytes) -> FirstStart | Unreadable:
        return read_first_start(text, self._epoch, self._cluster)

    def _record_failure(self, action: str, error: Exception) -> None:
        self.trouble = str(error) or f"{self._store.where} did not answer within {self._seconds:g} s"
        log.warning("a sync object could not be " + action, epoch=self._epoch, error=self.trouble)

    def _nonce(self) -> str:
        return f"{self._rng.getrandbits(128):032x}"


def _parse(
    content: Content | Unreadable | None, read: Callable[[bytes], Record | Unreadable]
) -> Record | Unreadable | None:
    return read(content.data) if isinstance(content, Content) else content
