"""A store whose operations fail as a test says, on virtual time as well."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Mapping

from espalier.etcdbackup.stores.store import MOST_LISTED, Content, Store, StoredObject

Fault = Callable[[str], Exception | None]
"""For a key: the error, or None."""


class FaultyStore:
    """Passes everything on to a store, unless there is a fault for the operation.

    `before`: the operation does not happen. `after`: it does, and nobody hears of it.
    """

    def __init__(
        self, store: Store, before: Mapping[str, Fault] | None = None, after: Mapping[str, Fault] | None = None
    ) -> None:
        self.where = store.where
        self.retries = store.retries
        self.before = dict(before or {})
        self.after = dict(after or {})
        self.seen: list[tuple[str, str]] = []
        """Operation and key, in their order."""
        self._store = store

    async def list(self, folder: str = "", *, most: int = MOST_LISTED) -> AsyncGenerator[StoredObject, None]:
        self._begin("list", folder)
        async for stored in self._store.list(folder, most=most):
            yield stored

    async def head(self, key: str) -> StoredObject:
        self._begin("head", key)
        return await self._store.head(key)

    async def read(self, key: str, *, most: int) -> Content:
        self._begin("read", key)
        return await self._store.read(key, most=most)

    async def stream(self, key: str, *, start: int = 0, end: int | None = None) -> AsyncGenerator[bytes, None]:
        self._begin("stream", key)
        async for chunk in self._store.stream(key, start=start, end=end):
            yield chunk
            self._end("stream", key)

    async def put(self, key: str, data: bytes) -> StoredObject:
        self._begin("put", key)
        stored = await self._store.put(key, data)
        self._end("put", key)
        return stored

    async def create(self, key: str, data: bytes) -> StoredObject:
        self._begin("create", key)
        stored = await self._store.create(key, data)
        self._end("create", key)
        return stored

    async def replace(self, last: StoredObject, data: bytes) -> StoredObject:
        self._begin("replace", last.key)
        stored = await self._store.replace(last, data)
        self._end("replace", last.key)
        return stored

    async def upload(self, key: str, chunks: AsyncIterable[bytes]) -> StoredObject:
        self._begin("upload", key)
        stored = await self._store.upload(key, chunks)
        self._end("upload", key)
        return stored

    async def delete(self, key: str) -> None:
        self._begin("delete", key)
        await self._store.delete(key)
        self._end("delete", key)

    def _begin(self, operation: str, key: str) -> None:
        self.seen.append((operation, key))
        self._fail(self.before.get(operation), key)

    def _end(self, operation: str, key: str) -> None:
        self._fail(self.after.get(operation), key)

    def _fail(self, fault: Fault | None, key: str) -> None:
        error = fault(key) if fault is not None else None
        if error is not None:
            raise error
