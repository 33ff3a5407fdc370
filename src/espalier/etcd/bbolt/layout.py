"""Pages and meta pages as they lie in a file.

A page begins with its number, one flag for its kind, the number of its elements, and of the pages that it goes on
into. Elements of a branch have a key and the number of the page below; elements of a leaf a key and a value, which is
a nested bucket if flagged. Positions in elements count from the element itself.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

PAGE = struct.Struct("<QHHI")
"""Number, flags, count of elements, count of further pages."""
BRANCH_ELEMENT = struct.Struct("<IIQ")
"""Position of the key, its size, number of the page below."""
LEAF_ELEMENT = struct.Struct("<IIII")
"""Flags, position of the key, size of the key, size of the value behind it."""
BUCKET = struct.Struct("<QQ")
"""A bucket as a value: number of its root page, or 0 when the page itself follows; sequence."""

BRANCH, LEAF, META, FREELIST = 0x01, 0x02, 0x04, 0x10
NESTED = 0x01
"""The flag of a leaf's element whose value is a bucket."""
NO_FREELIST = 0xFFFF_FFFF_FFFF_FFFF
"""In place of the number of a freelist's page: pages that no tree reaches are free. etcd writes its files this way."""
COUNT_FOLLOWS = 0xFFFF
"""The count of a freelist whose first number is the real count."""

MOST_ELEMENTS = 0xFFFF
LEAST_PAGE_SIZE, MOST_PAGE_SIZE = 1 << 10, 1 << 24
"""Where bbolt looks for a second meta page."""

_MAGIC, _VERSION = 0xED0CDAED, 2
_META = struct.Struct("<IIIIQQQQQ")
_SUM = struct.Struct("<Q")
META_SIZE = PAGE.size + _META.size + _SUM.size


class Meta(NamedTuple):
    """A state of the whole file. Two are kept; the valid one with the later transaction counts."""

    page_size: int
    root: int
    """Page of the bucket that holds all buckets."""
    sequence: int
    freelist: int
    pages: int
    """The number of pages in use: those from here on are not part of this state."""
    transaction: int


def encode_meta(meta: Meta) -> bytes:
    """The meta page of a state, padded to a page. Its position in the file is page `transaction % 2`."""
    body = _META.pack(
        _MAGIC, _VERSION, meta.page_size, 0, meta.root, meta.sequence, meta.freelist, meta.pages, meta.transaction
    )
    page = PAGE.pack(meta.transaction % 2, META, 0, 0) + body + _SUM.pack(fnv64a(body))
    return page.ljust(meta.page_size, b"\0")


def decode_meta(page: bytes) -> Meta | None:
    """The state in a meta page; None if it is invalid or incomplete."""
    if len(page) < META_SIZE:
        return None
    body = page[PAGE.size : PAGE.size + _META.size]
    magic, version, page_size, _, root, sequence, freelist, pages, transaction = _META.unpack(body)
    (checksum,) = _SUM.unpack_from(page, PAGE.size + _META.size)
    if (magic, version) != (_MAGIC, _VERSION) or checksum != fnv64a(body):
        return None
    if page_size & (page_size - 1) or not LEAST_PAGE_SIZE <= page_size <= MOST_PAGE_SIZE:
        return None
    return Meta(page_size, root, sequence, freelist, pages, transaction)


def fnv64a(data: bytes) -> int:
    """The checksum of meta pages: 64 bit FNV-1a."""
    value = 0xCBF2_9CE4_8422_2325
    for byte in data:
        value = (value ^ byte) * 0x100_0000_01B3 & 0xFFFF_FFFF_FFFF_FFFF
    return value
