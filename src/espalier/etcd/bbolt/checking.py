"""Checks a whole bbolt file against the rules of the format, as bbolt's own `check` does."""

from __future__ import annotations

from espalier.etcd.bbolt.layout import BRANCH, COUNT_FOLLOWS, FREELIST, NESTED, NO_FREELIST, PAGE
from espalier.etcd.bbolt.reading import Bucket, Database

MOST_NESTED = 8
"""Levels of nested buckets."""
MOST_PAGES = 1 << 32
"""A bit in memory for each page; with 4 KiB pages this covers 16 TiB."""


def check(database: Database) -> int:
    """Read all of a file and return the number of records; raise `Damaged` with the first problem. Each page is part of
    one tree or of the freelist, or free; keys ascend."""
    return _Check(database).run()


class _Check:
    def __init__(self, database: Database) -> None:
        self._database = database
        if database.meta.pages > MOST_PAGES:
            database.refuse(f"its meta page lists {database.meta.pages} pages; at most {MOST_PAGES} can be checked")
        self._used = bytearray(database.meta.pages // 8 + 1)

    def run(self) -> int:
        """Walk all trees, then the freelist."""
        self._use(0, 2, "the meta pages")
        free = self._freelist()
        records = self._bucket(self._database.root, "the root bucket", 0)
        for number in free:
            self._use(number, 1, "the freelist")
        if self._database.meta.freelist != NO_FREELIST:
            missing = self._database.meta.pages - sum(byte.bit_count() for byte in self._used)
            if missing:
                self._database.refuse(f"{missing} pages are neither used nor in the freelist")
        return records

    def _bucket(self, bucket: Bucket, name: str, depth: int) -> int:
        database, records = self._database, 0
        if depth > MOST_NESTED:
            database.refuse(f"{name} is nested {depth} deep; {MOST_NESTED} are allowed")
        page_size = database.meta.page_size
        for node in bucket.nodes():
            page = node.page
            if bucket.root:
                self._use(page.number, len(page.data) // page_size, name)
            if page.flags == BRANCH:
                continue
            for key, _, flags in bucket.leaf_elements(node):
                if flags & NESTED and (nested := bucket.bucket(key)) is not None:
                    records += self._bucket(nested, f"bucket {key!r}", depth + 1)
                else:
                    records += 1
        return records

    def _freelist(self) -> list[int]:
        database, number = self._database, self._database.meta.freelist
        if number == NO_FREELIST:
            return []
        page = database.page(number)
        if page.flags != FREELIST:
            database.refuse(f"page {number} should be the freelist and has flags {page.flags:#x}")
        self._use(number, len(page.data) // database.meta.page_size, "the freelist")
        start, count = PAGE.size, page.elements
        if count == COUNT_FOLLOWS:
            count = int.from_bytes(page.data[start : start + 8], "little")
            start += 8
        end = start + 8 * count
        if end > len(page.data):
            database.refuse(f"page {number} should list {count} free pages in {len(page.data)} bytes")
        return [int.from_bytes(page.data[offset : offset + 8], "little") for offset in range(start, end, 8)]

    def _use(self, first: int, count: int, by: str) -> None:
        if first + count > self._database.meta.pages:
            self._database.refuse(
                f"page {first + count - 1} of {by} is beyond the last, {self._database.meta.pages - 1}"
            )
        for number in range(first, first + count):
            byte, bit = divmod(number, 8)
            if self._used[byte] >> bit & 1:
                self._database.refuse(f"page {number} of {by} is used twice")
            self._used[byte] |= 1 << bit
