"""The interface of all stores. Keys are relative to the prefix of the store; `keys.py` says which keys are allowed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from espalier.etcdbackup.stores.retries import Retries

MOST_LISTED = 200_000
"""The largest number of objects in a listing: an hourly full snapshot and a delta every 20 s make 130,000 in a
month."""
CHUNK = 1 << 20
"""The smallest number of bytes of a chunk of `stream`, except the last chunk."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object as the store describes it."""

    key: str
    size: int
    modified: datetime
    """Timezone-aware; by the store's clock."""
    etag: str = ""
    """Identifies the content, as in HTTP. It may be its MD5: equal contents may have equal ETags."""
    version: str = ""
    """The generation, if the store counts them."""


@dataclass(frozen=True, slots=True)
class Content:
    """A small object with its content."""

    data: bytes
    stored: StoredObject


class Store(Protocol):
    """A folder of objects. Every method raises `StoreError`; its subclass says what a caller may do about it.

    Objects are written completely or not at all. Only `list` requests a listing from a store.
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
        """A small object with its content. Raises `NotFound`, and `Corrupt` if it has more than `most` bytes."""

    def stream(self, key: str, *, start: int = 0, end: int | None = None) -> AsyncGenerator[bytes, None]:
        """The bytes of an object from `start` to `end` (exclusive), in chunks.

        Raises `NotFound`, and `Corrupt` if there are fewer or more than the store announced.
        """

    async def put(self, key: str, data: bytes) -> StoredObject:
        """Write a small object, whether it exists or not: the last writer wins."""

    async def create(self, key: str, data: bytes) -> StoredObject:
        """Create a small object. Raises `Conflict` if it exists.

        `data` must hold something that no other writer writes, such as a nonce: it distinguishes a retried request
        whose first attempt arrived from another writer's.
        """

    async def replace(self, last: StoredObject, data: bytes) -> StoredObject:
        """Replace the small object that was read. Raises `Conflict` if it has changed since.

        `data` must hold a nonce, as for `create`.
        """

    async def upload(self, key: str, chunks: AsyncIterable[bytes]) -> StoredObject:
        """Write an object of any size with bounded memory, and compare what was stored with what was sent.

        Raises what `chunks` raises, in which case nothing is stored; and `Corrupt` if another size or other bytes came
        back: then the object exists, and must be uploaded again or deleted.
        """

    async def delete(self, key: str) -> None:
        """Delete an object. A missing object is no error."""
