"""The face of all stores. Keys are relative to the prefix of the store; `keys.py` says what a key may be."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from espalier.etcdbackup.stores.retries import Retries

MOST_LISTED = 200_000
"""Objects of a listing: an hourly full snapshot and a delta every 20 s make 130,000 in a month."""
CHUNK = 1 << 20
"""Bytes of a chunk of `stream`, at least, but for the last one."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object as the store describes it."""

    key: str
    size: int
    modified: datetime
    """Aware; the store's clock."""
    etag: str = ""
    """Stands for the content, as HTTP has it. It may be its MD5: equal contents may have equal ones."""
    version: str = ""
    """The generation, where the store counts them."""


@dataclass(frozen=True, slots=True)
class Content:
    """A small object, whole."""

    data: bytes
    stored: StoredObject


class Store(Protocol):
    """A folder of objects. Every method raises `StoreError`; which one says what a caller may do about it.

    Objects are written whole or not at all. Nobody but `list` asks a store for a listing.
    """

    where: str
    """URL, for messages: `s3://bucket/prefix`."""
    retries: Retries

    def list(self, folder: str = "", *, most: int = MOST_LISTED) -> AsyncGenerator[StoredObject, None]:
        """The objects below a folder (no slash at its end), page by page, in no order.

        Raises `Refused` when there are more than `most`.
        """

    async def head(self, key: str) -> StoredObject:
        """The description of an object. Raises `NotFound`."""

    async def read(self, key: str, *, most: int) -> Content:
        """A small object, whole. Raises `NotFound`, and `Corrupt` when it has more than `most` bytes."""

    def stream(self, key: str, *, start: int = 0, end: int | None = None) -> AsyncGenerator[bytes, None]:
        """The bytes of an object from `start` to `end` (exclusive), in chunks.

        Raises `NotFound`, and `Corrupt` when there are fewer or more than the store said.
        """

    async def put(self, key: str, data: bytes) -> StoredObject:
        """Write a small object, whatever is there: the last writer wins."""

    async def create(self, key: str, data: bytes) -> StoredObject:
        """Write a small object that is not there yet. Raises `Conflict` when it is.

        `data` must hold something that no other writer writes, such as a nonce: a retried request whose first try
        arrived is told from another writer's by it.
        """

    async def replace(self, last: StoredObject, data: bytes) -> StoredObject:
        """Write a small object in place of the one that was read. Raises `Conflict` when it is another one by now.

        `data` must hold a nonce, as for `create`.
        """

    async def upload(self, key: str, chunks: AsyncIterable[bytes]) -> StoredObject:
        """Write an object of any size with bounded memory, and compare what was stored with what was sent.

        Raises what `chunks` raises, then nothing is stored; and `Corrupt` when another size or other bytes came back:
        the object is there, and must be uploaded again or deleted.
        """

    async def delete(self, key: str) -> None:
        """Delete an object. One that is not there is no error."""
