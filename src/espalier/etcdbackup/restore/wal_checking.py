"""Checks by reading whether a write-ahead log can be replayed: lengths, and the checksum over all earlier records.

As in etcd (server/storage/wal: decoder.go, wal.go), the last segment may end in the middle of a record, or in one with
a sector that was never written: that is a power cut, which etcd repairs. Anything else is damage. The format is that of
`wal.py`. Checking the 300 MB that a log may have takes about a minute; it is done only if etcd did not start.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import BinaryIO

from espalier.etcd.database.hashing import crc32c

_NAME = re.compile(r"([0-9a-f]{16})-[0-9a-f]{16}\.wal")
_CRC = 4
_SECTOR = 512
_LENGTH = 8
_MAX_RECORD = 1 << 27
"""Bytes of a record: etcd accepts requests of 1.5 MiB, and few users raise that limit."""


def damage(folder: Path) -> str:
    """The reason why the log can't be replayed; empty if none was found. Raises `OSError`."""
    segments = sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name))
    if not segments:
        return f"{folder} has no WAL segments"
    numbers = [int(path.name.partition("-")[0], 16) for path in segments]
    for path, number, following in zip(segments, numbers, numbers[1:], strict=False):
        if following != number + 1:
            return f"the WAL segment after {path} is missing"
    crc = 0
    for path in segments:
        with path.open("rb") as file:
            crc, problem = _read(file, path.stat().st_size, crc, is_last=path is segments[-1])
        if problem:
            return f"{path}: {problem}"
    return ""


def _read(file: BinaryIO, size: int, crc: int, *, is_last: bool) -> tuple[int, str]:
    """The checksum at the end of a segment, and its fault (empty if it has none)."""
    at = 0
    while at + _LENGTH <= size:
        head = file.read(_LENGTH)
        if not any(head):
            break  # allocated, and not written yet
        length = int.from_bytes(head[:7], "little")
        padding = head[7] & 0x07 if head[7] & 0x80 else 0
        start = at + _LENGTH
        at = start + length + padding
        if at > size or length > _MAX_RECORD:
            return crc, "" if is_last and at > size else f"the record at {start} claims {length} bytes"
        content = file.read(length + padding)[:length]
        record = _record(content)
        if record is not None:
            kind, stored, data = record
            if kind == _CRC:
                if crc not in (0, stored):
                    return crc, "it does not follow the segment before it"
                crc = stored
                continue
            computed = crc32c([data], crc)
            if computed == stored:
                crc = computed
                continue
        if is_last and _is_torn(content, start):
            return crc, ""
        return crc, f"the record at {start} has the wrong checksum"
    return crc, ""


def _record(content: bytes) -> tuple[int, int, bytes] | None:
    """Type, checksum and data of a record; None if the bytes are no record."""
    numbers, data, at = {1: 0, 2: 0}, b"", 0
    while at < len(content):
        tag, at = content[at], at + 1
        value, at = _varint(content, at)
        if value is None:
            return None
        if tag == 3 << 3 | 2:
            data, at = content[at : at + value], at + value
            if at > len(content):
                return None
        elif tag in (1 << 3, 2 << 3):
            numbers[tag >> 3] = value
        else:
            return None
    return numbers[1], numbers[2], data


def _varint(content: bytes, at: int) -> tuple[int | None, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(content):
            return None, at
        byte, at = content[at], at + 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    return None, at


def _is_torn(content: bytes, start: int) -> bool:
    """True if one of its sectors is all zeros: it was not written before the power cut."""
    at = 0
    while at < len(content):
        end = min(len(content), at + _SECTOR - (start + at) % _SECTOR)
        if not any(content[at:end]):
            return True
        at = end
    return False
