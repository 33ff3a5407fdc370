"""A store in memory, for virtual time and for tests. It has no faults; `tests/support` adds them."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, AsyncIterable
from dataclasses import replace

from espalier.etcdbackup.stores import keys
from espalier.etcdbackup.stores.errors import Conflict, Corrupt, NotFound, Refused
from espalier.etcdbackup.stores.retries import Retries
from espalier.etcdbackup.stores.store import CHUNK, MOST_LISTED, Content, StoredObject
from espalier.runtime.clock import Clock


class MemoryStore:
    """Objects in this process. As in S3, ETags are MD5 of contents: equal for equal contents."""

    def __init__(self, clock: Clock, *, where: str = "memory://", retries: Retries | None = None) -> None:
        self.where = where
        self.retries = retries or Retries()
        self.objects: dict[str, Content] = {}
        self._clock = clock

    async def list(self, folder: str = "", *, most: int = MOST_LISTED) -> AsyncGenerator[StoredObject, None]:
        """See `Store`."""
        start = f"{folder}/" if folder else ""
        objects = [content.stored for key, content in self.objects.items() if key.startswith(start)]
        for count, stored in enumerate(objects):
            if count == most:
                raise Refused(self.where, f"more than {most} objects below {folder or 'it'}", "use a prefix of its own")
            yield stored

    async def head(self, key: str) -> StoredObject:
        """See `Store`."""
        return self._get(key).stored

    async def read(self, key: str, *, most: int) -> Content:
        """See `Store`."""
        content = self._get(key)
        if len(content.data) > most:
            raise Corrupt(self._url(key), f"{len(content.data)} bytes, at most {most} are expected")
        return content

    async def stream(self, key: str, *, start: int = 0, end: int | None = None) -> AsyncGenerator[bytes, None]:
        """See `Store`."""
        data = self._get(key).data[start:end]
        for at in range(0, len(data), CHUNK):
            yield data[at : at + CHUNK]

    async def put(self, key: str, data: bytes) -> StoredObject:
        """See `Store`."""
        etag = hashlib.md5(data, usedforsecurity=False).hexdigest()
        stored = StoredObject(keys.checked(key), len(data), self._clock.now(), etag)
        self.objects[key] = Content(bytes(data), stored)
        return stored

    async def create(self, key: str, data: bytes) -> StoredObject:
        """See `Store`."""
        if key in self.objects:
            raise Conflict(self._url(key), "the object is there already")
        return await self.put(key, data)

    async def replace(self, last: StoredObject, data: bytes) -> StoredObject:
        """See `Store`."""
        now = self.objects.get(last.key)
        if now is None or now.stored.etag != last.etag:
            raise Conflict(self._url(last.key), "the object changed since it was read")
        return await self.put(last.key, data)

    async def upload(self, key: str, chunks: AsyncIterable[bytes]) -> StoredObject:
        """See `Store`."""
        return await self.put(key, b"".join([bytes(chunk) async for chunk in chunks]))

    async def delete(self, key: str) -> None:
        """See `Store`."""
        self.objects.pop(key, None)

    def copy(self) -> MemoryStore:
        """A store with the same objects."""
        copied = MemoryStore(self._clock, where=self.where, retries=self.retries)
        copied.objects = {key: replace(content) for key, content in self.objects.items()}
        return copied

    def _url(self, key: str) -> str:
        return f"{self.where.rstrip('/')}/{key}"

    def _get(self, key: str) -> Content:
        content = self.objects.get(key)
        if content is None:
            raise NotFound(self._url(key), "no such object")
        return content
