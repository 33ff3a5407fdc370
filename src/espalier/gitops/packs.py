"""The size of a pack once it is unpacked, told from the pack alone.

A pack of a few KiB may stand for GiB: contents are deflated, and a delta copies parts of its base. The library unpacks
all of it at once, so this is asked first. No more than a delta of a pack is held in memory.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import BinaryIO

_OFFSET_DELTA, _NAMED_DELTA = 6, 7
"""Types of objects that are stored as a delta: to one before it in the pack, or to one by its id."""
_ID = 20
_LONGEST_NUMBER = 10
"""Bytes of a number of 64 bits."""
_DEFAULT_COPY = 1 << 16
_PART = 1 << 16


class TooMuch(ValueError):
    """A pack comes to more than is allowed; the message says of what."""


class Damaged(ValueError):
    """The server sent no pack, or a part of one."""


def check(pack: BinaryIO, *, most_bytes: int, most_objects: int, in_time: Callable[[], None] = lambda: None) -> None:
    """Read a pack from its start, and leave it anywhere.

    `most_bytes` is for all objects together, with the deltas that some are made from. `in_time` is called for each
    part that is read, and may raise. Raises `TooMuch` and `Damaged`.
    """
    header = pack.read(12)
    if len(header) < 12 or not header.startswith(b"PACK"):
        raise Damaged("the server sent something that is no pack")
    count = int.from_bytes(header[8:])
    if count > most_objects:
        raise TooMuch(f"{most_objects} objects")
    left = most_bytes
    for _ in range(count):
        in_time()
        left -= _size_of_next(pack, left, most_bytes, in_time)
        if left < 0:
            raise _over(most_bytes)


def _over(most: int) -> TooMuch:
    return TooMuch(f"{most >> 20} MiB")


def _size_of_next(pack: BinaryIO, left: int, most: int, in_time: Callable[[], None]) -> int:
    """Bytes of an object, and of the delta that it is made from."""
    numbers = _number(pack)
    kind, stated = numbers[0] >> 4 & 7, numbers[0] & 15 | _value(numbers[1:]) << 4
    if kind == _OFFSET_DELTA:
        _number(pack)
    elif kind == _NAMED_DELTA and len(pack.read(_ID)) < _ID:
        raise _ends_early()
    if stated > left:
        raise _over(most)
    is_delta = kind in (_OFFSET_DELTA, _NAMED_DELTA)
    delta = bytearray()
    size = 0
    inflating = zlib.decompressobj()
    compressed = b""
    while not inflating.eof:
        in_time()
        compressed = compressed or pack.read(_PART)
        try:
            part = inflating.decompress(compressed, _PART)
        except zlib.error as error:
            raise Damaged(f"the server sent a damaged pack: {error}") from None
        if not part and not compressed:
            raise _ends_early()
        compressed = inflating.unconsumed_tail
        size += len(part)
        if size > stated:
            raise Damaged(f"the server sent a damaged pack: an object of {stated} bytes has more")
        if is_delta:
            delta += part
    pack.seek(-len(inflating.unused_data), 1)
    return size + (_size_after(delta, left - size, most) if is_delta else 0)


def _size_after(delta: bytearray, left: int, most: int) -> int:
    """Bytes of the object that a delta makes: of what it inserts, and of what it copies from its base."""
    size = 0
    try:
        at = _after_number(delta, _after_number(delta, 0))
        while at < len(delta):
            command = delta[at]
            at += 1
            if command & 128:
                at += (command & 15).bit_count()  # where it copies from
                length = 0
                for byte in range(3):
                    if command >> 4 + byte & 1:
                        length |= delta[at] << 8 * byte
                        at += 1
                size += length or _DEFAULT_COPY
            else:
                at += command
                size += command
            if size > left:
                raise _over(most)
    except IndexError:
        raise _ends_early() from None
    if at > len(delta):
        raise _ends_early()
    return size


def _number(pack: BinaryIO) -> bytes:
    """The bytes of a number of a pack: all but the last have their highest bit set."""
    read = b""
    while not read or read[-1] & 128:
        byte = pack.read(1)
        if not byte or len(read) == _LONGEST_NUMBER:
            raise _ends_early()
        read += byte
    return read


def _value(numbers: bytes) -> int:
    return sum((number & 127) << 7 * place for place, number in enumerate(numbers))


def _after_number(delta: bytearray, at: int) -> int:
    while delta[at] & 128:
        at += 1
    return at + 1


def _ends_early() -> Damaged:
    return Damaged("the server sent a damaged pack: it ends too early")
