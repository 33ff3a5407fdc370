"""Snapshots of a member's database, verified while they are streamed."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Coroutine

from msgspec import Struct

from espalier.etcd.errors import Corrupt, NotEtcd, Unavailable
from espalier.etcd.messages import rpc_pb2 as rpc
from espalier.etcd.messages.services import SNAPSHOT
from espalier.etcd.transport import Transport

HASH_SIZE = hashlib.sha256().digest_size
"""A snapshot ends with the SHA-256 of all preceding bytes."""
SECTOR = 512
"""The database's size is a multiple of this, so that of a snapshot with its hash is not."""


class Chunk(Struct, frozen=True, gc=False):
    """A part of a snapshot."""

    data: bytes
    remaining: int
    """Bytes that etcd still has to send by its own count, without the hash."""
    version: str
    """The version of etcd's storage (`3.6.0`); empty before 3.6."""


async def snapshot(transport: Transport, timeout: float) -> AsyncGenerator[Chunk, None]:
    """The database file of one member and its hash, in chunks. To be closed (`contextlib.aclosing`).

    The hash itself is in the last chunk, and comes only if it is right: a file without it is no snapshot. Raises
    `Corrupt` if the bytes are not those of the hash, `Unavailable` when the connection breaks or nothing comes for
    `timeout` seconds, and other `EtcdError`s.
    """
    stream = await transport.open(SNAPSHOT, rpc.SnapshotRequest(), timeout)
    digest, size, held, version = hashlib.sha256(), 0, b"", ""
    try:
        while (response := await _received(stream.receive(), timeout)) is not None:
            version = response.version or version
            held += response.blob
            data, held = held[:-HASH_SIZE], held[-HASH_SIZE:]
            if data:
                digest.update(data)
                size += len(data)
                yield Chunk(data, response.remaining_bytes, version)
    finally:
        await stream.close()
    if size == 0 or size % SECTOR or len(held) != HASH_SIZE:
        raise NotEtcd(f"a snapshot of {size + len(held)} bytes is not a database followed by a hash")
    if digest.digest() != held:
        raise Corrupt(f"the {size} bytes of a snapshot have another sha256 than etcd sent")
    yield Chunk(held, 0, version)


async def _received(
    receiving: Coroutine[object, object, rpc.SnapshotResponse | None], timeout: float
) -> rpc.SnapshotResponse | None:
    try:
        async with asyncio.timeout(timeout):
            return await receiving
    except TimeoutError:
        raise Unavailable(f"etcd sent nothing of a snapshot for {timeout:g} s") from None
