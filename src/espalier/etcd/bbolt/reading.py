"""Reading a bbolt file that may come from anywhere: nothing in it is believed before it was compared.

Pages are read when they are needed, one at a time (`pread` instead of a mapping: a file that shrinks meanwhile is an
error and not the end of the process, and what was read does not count as the process's memory). Keys must ascend over
the whole tree and lie within what the page above says, and data of elements must not overlap: a page that is reached
twice is found by that, and reading never costs more than the file is large.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, NoReturn

from espalier.etcd.bbolt.layout import (
    BRANCH,
    BRANCH_ELEMENT,
    BUCKET,
    LEAF,
    LEAF_ELEMENT,
    LEAST_PAGE_SIZE,
    META_SIZE,
    MOST_PAGE_SIZE,
    NESTED,
    PAGE,
    Meta,
    decode_meta,
)

MOST_LEVELS = 32
"""Branches above a leaf. A tree with two children each has 2**32 leaves then; real ones have three or four levels."""
LONGEST_PAGE = 1 << 28
"""Bytes of one page with its overflow pages: a value, or the freelist of a database of 128 GiB."""

Read = Callable[[int, int], bytes]
"""Takes an offset and a size; returns fewer bytes at the end of the file."""


class Damaged(Exception):
    """A file is not a complete bbolt file. The message names the file, the page and the problem."""


class Page(NamedTuple):
    """A page with its overflow pages."""

    number: int
    flags: int
    elements: int
    data: bytes
    """The bytes of the page, from its header on."""


class Node(NamedTuple):
    """A page of a bucket's tree, and the limits that the page above sets for its keys."""

    page: Page
    least: bytes
    below: bytes | None
    """All keys are less than this; None: no limit."""


class Database:
    """A state of a file, as its last complete transaction left it. Reading raises `Damaged` and `OSError`."""

    def __init__(self, read: Read, size: int, name: str) -> None:
        self.name = name
        self._read = read
        self._size = size
        self.meta = self._find_meta()

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[Database]:
        """A file that nobody writes to while it is read."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(descriptor).st_size
            yield cls(lambda offset, size: os.pread(descriptor, size, offset), size, str(path))
        finally:
            os.close(descriptor)

    @classmethod
    def of(cls, content: bytes, name: str = "the database") -> Database:
        """A file in memory."""
        return cls(lambda offset, size: content[offset : offset + size], len(content), name)

    @property
    def root(self) -> Bucket:
        """The bucket that contains all others."""
        return Bucket(self, self.meta.root, self.meta.sequence)

    def bucket(self, name: bytes) -> Bucket | None:
        """The bucket of a name; None if it does not exist."""
        return self.root.bucket(name)

    def page(self, number: int) -> Page:
        """A page with its overflow pages."""
        meta = self.meta
        if not 2 <= number < meta.pages:
            self.refuse(f"page {number} is referred to, but pages of buckets are 2 to {meta.pages - 1}")
        data = self._read(number * meta.page_size, meta.page_size)
        if len(data) < meta.page_size:
            self.refuse(f"page {number} ends after {len(data)} bytes")
        itself, flags, count, overflow = PAGE.unpack_from(data)
        if itself != number:
            self.refuse(f"page {number} claims to be page {itself}")
        if overflow:
            size = (overflow + 1) * meta.page_size
            if number + overflow >= meta.pages or size > LONGEST_PAGE:
                self.refuse(f"page {number} overflows into {overflow} more, but pages end at {meta.pages - 1}")
            data += self._read((number + 1) * meta.page_size, size - meta.page_size)
            if len(data) < size:
                self.refuse(f"page {number} ends after {len(data)} of {size} bytes")
        return Page(number, flags, count, data)

    def refuse(self, why: str) -> NoReturn:
        """Raise `Damaged`."""
        raise Damaged(f"{self.name} is damaged: {why}")

    def _find_meta(self) -> Meta:
        """The valid meta page of the later transaction. The second is searched at all possible page sizes."""
        metas = [decode_meta(self._read(0, META_SIZE))]
        sizes = [LEAST_PAGE_SIZE << shift for shift in range((MOST_PAGE_SIZE // LEAST_PAGE_SIZE).bit_length())]
        for size in sizes if metas[0] is None else [metas[0].page_size]:
            second = decode_meta(self._read(size, META_SIZE))
            if second is not None and second.page_size == size:
                metas.append(second)
        valid = [meta for meta in metas if meta is not None]
        if not valid:
            raise Damaged(f"{self.name} is not an etcd database: neither of its first two pages is a valid meta page")
        # The later meta page, even if the file is too short: pages of the earlier state may have been reused.
        meta = max(valid, key=lambda meta: meta.transaction)
        if meta.pages * meta.page_size > self._size:
            size = meta.pages * meta.page_size
            raise Damaged(f"{self.name} is truncated: it has {self._size} bytes, but its meta page says {size}")
        return meta


class Bucket:
    """Sorted keys with values; a value may be a bucket in turn."""

    def __init__(self, database: Database, root: int, sequence: int = 0, inline: Page | None = None) -> None:
        self._database = database
        self._inline = inline
        self.root = root
        """Number of the root page of its tree; 0 for a bucket inside another one's leaf."""
        self.sequence = sequence

    def items(self, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Keys and values in order, from the first key not less than `start`. Nested buckets are omitted."""
        for key, value, flags in self.elements(start):
            if not flags & NESTED:
                yield key, value

    def elements(self, start: bytes = b"") -> Iterator[tuple[bytes, bytes, int]]:
        """All keys in order from `start` on, with values and flags."""
        previous: bytes | None = None
        for node in self.nodes(start):
            if node.page.flags != LEAF:
                continue
            for key, value, flags in self.leaf_elements(node):
                if previous is not None and key <= previous:
                    self._database.refuse(f"page {node.page.number} holds {key!r} after {previous!r}")
                previous = key
                if key >= start:
                    yield key, value, flags

    def get(self, key: bytes) -> bytes | None:
        """The value of a key; None if it does not exist."""
        for first_key, value in self.items(key):
            return value if first_key == key else None
        return None

    def last(self) -> tuple[bytes, bytes] | None:
        """The last key with its value; None if there is none."""
        node = self.right_edge()[-1]
        elements = list(self.leaf_elements(node))
        return elements[-1][:2] if elements else None

    def buckets(self) -> Iterator[bytes]:
        """Names of the nested buckets."""
        for key, _, flags in self.elements():
            if flags & NESTED:
                yield key

    def bucket(self, name: bytes) -> Bucket | None:
        """The nested bucket of a name; None if it does not exist."""
        for key, value, flags in self.elements(name):
            return self._nested(key, value) if key == name and flags & NESTED else None
        return None

    def nodes(self, start: bytes = b"") -> Iterator[Node]:
        """All pages of the tree that may hold keys from `start` on: each branch before those below it, in order."""
        if self._inline is not None:
            yield Node(self._inline, b"", None)
            return
        stack: list[tuple[int, bytes, bytes | None, int]] = [(self.root, b"", None, 0)]
        while stack:
            number, least, below, level = stack.pop()
            node = self._node(number, least, below, level)
            yield node
            if node.page.flags == BRANCH:
                children = self.branch_elements(node)
                first = max(bisect_right(children, start, key=lambda child: child[0]) - 1, 0)
                bound = below
                for key, child in reversed(children[first:]):
                    stack.append((child, key, bound, level + 1))
                    bound = key

    def right_edge(self) -> list[Node]:
        """The pages on the path to the last key: the root, its last child, and so on to a leaf."""
        if self._inline is not None:
            return [Node(self._inline, b"", None)]
        edge = [self._node(self.root, b"", None, 0)]
        while edge[-1].page.flags == BRANCH:
            key, child = self.branch_elements(edge[-1])[-1]
            edge.append(self._node(child, key, None, len(edge)))
        return edge

    def branch_elements(self, node: Node) -> list[tuple[bytes, int]]:
        """Least keys and numbers of the child pages."""
        page, refuse = node.page, self._database.refuse
        end = PAGE.size + page.elements * BRANCH_ELEMENT.size
        if not page.elements or end > len(page.data):
            refuse(f"page {page.number} is a branch of {page.elements} elements in {len(page.data)} bytes")
        elements: list[tuple[bytes, int]] = []
        previous: bytes | None = None
        offset = PAGE.size
        for position, key_size, child in BRANCH_ELEMENT.iter_unpack(page.data[offset:end]):
            start = offset + position
            offset += BRANCH_ELEMENT.size
            end_of_key = start + key_size
            if start < end or end_of_key > len(page.data) or not key_size:
                refuse(f"element {len(elements)} of page {page.number} has its key at {start} to {end_of_key}")
            end = end_of_key
            key = page.data[start:end]
            self._check_order(node, key, previous)
            elements.append((key, child))
            previous = key
        return elements

    def leaf_elements(self, node: Node) -> Iterator[tuple[bytes, bytes, int]]:
        """Keys, values and flags of a leaf, in order."""
        page, refuse = node.page, self._database.refuse
        data, size = page.data, len(page.data)
        end = PAGE.size + page.elements * LEAF_ELEMENT.size
        if end > size:
            refuse(f"page {page.number} is a leaf of {page.elements} elements in {size} bytes")
        previous: bytes | None = None
        offset = PAGE.size
        least, below = node.least, node.below
        for flags, position, key_size, value_size in LEAF_ELEMENT.iter_unpack(data[offset:end]):
            start = offset + position
            offset += LEAF_ELEMENT.size
            middle = start + key_size
            if start < end or (end := middle + value_size) > size or not key_size or flags > NESTED:
                refuse(f"an element of page {page.number} lies at {start} to {middle + value_size}, flags {flags}")
            key = data[start:middle]
            if (key <= previous if previous is not None else key < least) or (below is not None and key >= below):
                self._check_order(node, key, previous)
            previous = key
            yield key, data[middle:end], flags

    def _check_order(self, node: Node, key: bytes, previous: bytes | None) -> None:
        wrong = key <= previous if previous is not None else key < node.least
        if wrong or (node.below is not None and key >= node.below):
            self._database.refuse(
                f"page {node.page.number} holds key {key!r} after {previous!r}; its keys must ascend from "
                f"{node.least!r}" + ("" if node.below is None else f" and be less than {node.below!r}")
            )

    def _node(self, number: int, least: bytes, below: bytes | None, level: int) -> Node:
        if level > MOST_LEVELS:
            self._database.refuse(f"page {number} is {level} levels deep; {MOST_LEVELS} are allowed")
        page = self._database.page(number)
        if page.flags not in {BRANCH, LEAF}:
            self._database.refuse(f"page {number} is part of a bucket and has flags {page.flags:#x}: no branch or leaf")
        if level and not page.elements:
            self._database.refuse(f"page {number} is empty")
        return Node(page, least, below)

    def _nested(self, name: bytes, value: bytes) -> Bucket:
        if len(value) < BUCKET.size:
            self._database.refuse(f"bucket {name!r} is described by {len(value)} bytes; {BUCKET.size} are needed")
        root, sequence = BUCKET.unpack_from(value)
        if root:
            return Bucket(self._database, root, sequence)
        inside = value[BUCKET.size :]
        if len(inside) < PAGE.size:
            self._database.refuse(f"bucket {name!r} lies in a leaf with {len(inside)} bytes of a page")
        number, flags, count, overflow = PAGE.unpack_from(inside)
        if flags != LEAF or overflow:
            self._database.refuse(
                f"bucket {name!r} lies in a leaf, but its page has flags {flags:#x}: it must be a leaf"
            )
        return Bucket(self._database, 0, sequence, Page(number, flags, count, inside))
