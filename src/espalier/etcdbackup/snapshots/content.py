"""Content of snapshots and their hash.

Both kinds end with 32 bytes: the SHA-256 of everything before them. A full snapshot has etcd's own hash (what its
`Maintenance.Snapshot` streams: a bbolt file, whose size is a multiple of 512, and its hash); a delta has that of the
JSON.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, AsyncIterable
from functools import partial

from espalier.etcdbackup.snapshots.codecs import in_thread
from espalier.etcdbackup.snapshots.malformed import Malformed
from espalier.etcdbackup.snapshots.names import Kind

HASH = 32
"""Bytes of the hash at the end."""
SECTOR = 512
"""The size of a bbolt file is a multiple of it."""


class Trailer:
    """Splits the hash from a stream, and compares it at the end."""

    def __init__(self, kind: Kind) -> None:
        self.size = 0
        """Bytes received."""
        self._kind = kind
        self._hash = hashlib.sha256()
        self._tail = b""

    def read(self, data: bytes) -> bytes:
        """The bytes that are certainly content by now."""
        self.size += len(data)
        buffer = self._tail + data
        content, self._tail = buffer[:-HASH], buffer[-HASH:]
        self._hash.update(content)
        return content

    def finish(self) -> None:
        """Raise `Malformed` unless the hash matches all content, and a full snapshot has a possible size."""
        if self.size < HASH:
            raise Malformed(f"it has {self.size} bytes, but its hash alone needs {HASH}")
        if self._kind is Kind.FULL and (self.size % SECTOR != HASH or self.size == HASH):
            raise Malformed(
                f"it has {self.size} bytes, allowed is a multiple of {SECTOR} and {HASH} for the hash: it was "
                "truncated, or is not a snapshot of etcd"
            )
        if self._hash.digest() != self._tail:
            raise Malformed(f"its SHA-256 is {self._hash.hexdigest()}, and {self._tail.hex()} at its end")


async def verified(chunks: AsyncIterable[bytes], kind: Kind) -> AsyncGenerator[bytes, None]:
    """The content of a snapshot without its hash. Raises `Malformed` at its end: until then nothing is verified, and
    nothing may be used."""
    trailer = Trailer(kind)
    async for chunk in chunks:
        if content := await in_thread(partial(trailer.read, chunk), len(chunk)):
            yield content
    trailer.finish()
