"""Reads snapshots from a store: decompressed, and with their hash verified before a caller may use them.

Errors are those of stores, and name the object: `Corrupt` if the content is not what was written.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncGenerator, AsyncIterable, Callable
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import BinaryIO

from espalier.etcdbackup.snapshots.codecs import decompress, in_thread
from espalier.etcdbackup.snapshots.content import verified
from espalier.etcdbackup.snapshots.deltas import Event, read_events
from espalier.etcdbackup.snapshots.malformed import Malformed
from espalier.etcdbackup.snapshots.names import Kind
from espalier.etcdbackup.snapshots.sets import Inventory, StoredSnapshot, inventory_of
from espalier.etcdbackup.stores.errors import Corrupt
from espalier.etcdbackup.stores.store import CHUNK, Store

LARGEST_FULL, LARGEST_DELTA = 32 << 30, 2 << 30
"""The largest content in bytes, decompressed: etcd recommends 8 GiB at most for a database; Gardener's deltas are cut
at 100 MiB."""
IN_MEMORY = 16 << 20
"""Bytes of a delta that are kept in memory until its hash is verified; larger deltas go to a temporary file."""
ADVICE = "nothing of it was used; take a full snapshot, or restore from an older set"

Progress = Callable[[int], None]
"""Receives the number of bytes that were read from a store."""


def silent(_size: int) -> None:
    """Ignores progress."""


async def read_inventory(store: Store) -> Inventory:
    """All objects of a store. Raises `StoreError`."""
    async with aclosing(store.list()) as listing:
        return inventory_of([stored async for stored in listing])


async def content(store: Store, stored: StoredSnapshot, progress: Progress = silent) -> AsyncGenerator[bytes, None]:
    """The content of a snapshot without its hash. It is verified only at its end: use it for comparing.

    Raises `Corrupt`.
    """
    most = LARGEST_FULL if stored.snapshot.kind is Kind.FULL else LARGEST_DELTA
    try:
        async with aclosing(store.stream(stored.key)) as chunks:
            packed = _counted(chunks, progress)
            async with aclosing(decompress(packed, stored.snapshot.compression, most=most)) as unpacked:
                async for piece in verified(unpacked, stored.snapshot.kind):
                    yield piece
    except Malformed as error:
        raise corrupt(store, stored, error) from None


async def download(store: Store, stored: StoredSnapshot, path: Path, progress: Progress = silent) -> int:
    """Write the content of a full snapshot, without its hash, to a new file, which gets its name only once the hash is
    verified. Returns the number of bytes. Raises `Corrupt`, `OSError`."""
    part = path.with_name(f"{path.name}.part")
    try:
        with os.fdopen(os.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as file:
            async with aclosing(content(store, stored, progress)) as pieces:
                async for piece in pieces:
                    await in_thread(partial(file.write, piece), len(piece))
            size = file.tell()
            await in_thread(partial(_flush, file), size)
        part.rename(path)
    finally:
        part.unlink(missing_ok=True)
    return size


async def events(
    store: Store, stored: StoredSnapshot, progress: Progress = silent
) -> AsyncGenerator[list[Event], None]:
    """The events of a delta, in lists of whole revisions, once its hash is verified. Raises `Corrupt`."""
    with tempfile.SpooledTemporaryFile(IN_MEMORY) as spool:
        async with aclosing(content(store, stored, progress)) as pieces:
            async for piece in pieces:
                await in_thread(partial(spool.write, piece), len(piece))
        size = spool.tell()
        spool.seek(0)

        async def spooled() -> AsyncGenerator[bytes, None]:
            while piece := await in_thread(partial(spool.read, CHUNK), size):
                yield piece

        try:
            async with aclosing(read_events(spooled(), stored.snapshot)) as batches:
                async for batch in batches:
                    yield batch
        except Malformed as error:
            raise corrupt(store, stored, error) from None


def corrupt(store: Store, stored: StoredSnapshot, error: Malformed) -> Corrupt:
    """The error, with the object's name."""
    return Corrupt(f"{store.where}/{stored.key}", str(error), ADVICE)


def _flush(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


async def _counted(chunks: AsyncIterable[bytes], progress: Progress) -> AsyncGenerator[bytes, None]:
    async for chunk in chunks:
        progress(len(chunk))
        yield chunk
