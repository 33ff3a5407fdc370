"""The hashes by which etcd's data are compared: of a snapshot, and of the keys up to a revision.

CRC-32C is in no library that we need anyway: four tables take four bytes at a time, some 15 MB a second. That is enough
for what tests and a restore drill compare.
"""

from __future__ import annotations

import hashlib
import os
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import BinaryIO

from espalier.etcd.bbolt.reading import Damaged, Database
from espalier.etcd.database.backend import (
    CONSISTENT_INDEX,
    KEY,
    META,
    STORAGE_VERSION,
    TERM,
    Record,
    parse_revision_key,
)

DIGEST_SIZE = 32
"""Bytes of the SHA-256 after the database in a snapshot."""
SECTOR = 512
"""Databases are multiples of this, so snapshots with their digest are not."""

_POLYNOMIAL = 0x82F6_3B78
_GATHERED = 1 << 16


def snapshot_chunks(file: BinaryIO, size: int) -> Iterator[bytes]:
    """A database from its start in chunks of `size` bytes, then its digest: what `Maintenance.Snapshot` sends."""
    digest = hashlib.sha256()
    while chunk := file.read(size):
        digest.update(chunk)
        yield chunk
    yield digest.digest()


def check_snapshot(file: BinaryIO, name: str) -> None:
    """Read a snapshot from its start and compare it with the digest at its end. Raises `Damaged`. A file of whole
    sectors is a copied database, and has none."""
    size = file.seek(0, os.SEEK_END)
    if size % SECTOR not in {0, DIGEST_SIZE}:
        raise Damaged(
            f"{name} has {size} bytes: allowed is a multiple of {SECTOR}, with or without {DIGEST_SIZE} for the hash"
        )
    if size % SECTOR == 0:
        return
    digest, left = hashlib.sha256(), size - DIGEST_SIZE
    file.seek(0)
    while left and (chunk := file.read(min(left, _GATHERED))):
        digest.update(chunk)
        left -= len(chunk)
    if left or file.read() != digest.digest():
        raise Damaged(
            f"{name} is damaged: the sha256 of its {size - DIGEST_SIZE} bytes differs from the one at its end"
        )


def hash_kv(records: Callable[[], Iterable[tuple[bytes, bytes]]], revision: int, compacted: int) -> int:
    """The hash of `Maintenance.HashKV`, as etcd 3.5 and 3.6 compute it (mvcc/hash.go: CRC-32C of the bucket `key`).

    `records` gives the records of that bucket in order, and is asked twice; `revision` is the last one that counts;
    `compacted` that of the last compaction, -1 without one. Records up to it count only as far as they are still
    visible at `revision`, because compaction may not have removed the others yet.
    """
    visible: dict[bytes, bytes] = {}
    for key, value in records():
        record = Record.decode(key, value)
        if record.main > revision:
            break
        if record.tombstone:
            visible.pop(record.kv.key, None)
        else:
            visible[record.kv.key] = key
    return crc32c(_hashed(records(), set(visible.values()), revision, compacted))


def _hashed(
    records: Iterable[tuple[bytes, bytes]], visible: set[bytes], revision: int, compacted: int
) -> Iterator[bytes]:
    yield KEY
    for key, value in records:
        main, _, tombstone = parse_revision_key(key)
        if main > revision:
            return
        if (main <= compacted and visible and key not in visible) or (main == compacted and tombstone):
            continue
        yield key
        yield value


def hash_database(database: Database) -> int:
    """The hash of `Maintenance.Hash`: CRC-32C of all buckets, without what differs between members."""

    def content() -> Iterator[bytes]:
        for name in database.root.buckets():
            yield name
            bucket = database.bucket(name)
            for key, value in bucket.items() if bucket is not None else ():
                if name != META or key not in {TERM, CONSISTENT_INDEX, STORAGE_VERSION}:
                    yield key
                    yield value

    return crc32c(content())


def crc32c(chunks: Iterable[bytes], before: int = 0) -> int:
    """CRC-32C (Castagnoli) of all chunks in order. `before` is that of the preceding bytes."""
    first, second, third, fourth = _tables()
    crc = before ^ 0xFFFF_FFFF
    for data in _gathered(chunks):
        aligned = len(data) & ~3
        words = array("I", data[:aligned])
        if sys.byteorder == "big":
            words.byteswap()
        for word in words:
            crc ^= word
            crc = fourth[crc & 0xFF] ^ third[crc >> 8 & 0xFF] ^ second[crc >> 16 & 0xFF] ^ first[crc >> 24]
        for byte in data[aligned:]:
            crc = first[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFF_FFFF


@cache
def _tables() -> list[list[int]]:
    """The remainders of a byte, and of a byte followed by one, two and three zero bytes."""
    first = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
        first.append(crc)
    tables = [first]
    for _ in range(3):
        tables.append([first[crc & 0xFF] ^ crc >> 8 for crc in tables[-1]])
    return tables


def _gathered(chunks: Iterable[bytes]) -> Iterator[bytes]:
    buffer = bytearray()
    for chunk in chunks:
        buffer += chunk
        if len(buffer) >= _GATHERED:
            yield bytes(buffer)
            buffer.clear()
    yield bytes(buffer)
