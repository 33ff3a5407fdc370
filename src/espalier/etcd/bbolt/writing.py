"""Writing a bbolt file from sorted buckets in one pass: pages are filled to their ends, one after the other.

Memory is bounded by a page of each level of one tree, however many records there are. The file has no freelist, as
etcd's: whoever opens it for writing finds what is free by walking the trees.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from espalier.etcd.bbolt.layout import (
    BRANCH,
    BRANCH_ELEMENT,
    BUCKET,
    LEAF,
    LEAF_ELEMENT,
    MOST_ELEMENTS,
    NESTED,
    NO_FREELIST,
    PAGE,
    Meta,
    encode_meta,
)

Records = Iterable[tuple[bytes, bytes]]
"""Keys and values, keys ascending."""

_BUFFER = 1 << 20


class NotSorted(ValueError):
    """A key is not greater than the one before it."""


def write_database(file: BinaryIO, buckets: Iterable[tuple[bytes, Records]], *, page_size: int = 4096) -> Meta:
    """Write a whole file from its start: buckets in the order of their names, each with its records.

    `file` can seek, and is empty. The two meta pages come last, behind an fsync if it is a real file: a file that was
    not written to its end is none. Raises `NotSorted`, and `OSError`.
    """
    pages = Pages(file, page_size, first=2)
    root = Tree(pages)
    previous: bytes | None = None
    for name, records in buckets:
        if previous is not None and name <= previous:
            raise NotSorted(f"bucket {name!r} comes after {previous!r}; names must ascend")
        tree = Tree(pages)
        for key, value in records:
            tree.add(key, value)
        root.add(name, tree.as_value(), NESTED)
        previous = name
    meta = Meta(page_size, root.finish(), 0, NO_FREELIST, pages.next, 1)
    pages.flush()
    sync(file)
    for number in range(2):
        file.seek(number * page_size)
        file.write(encode_meta(meta._replace(transaction=number)))
    file.flush()
    sync(file)
    file.seek(0, os.SEEK_END)
    return meta


class Pages:
    """New pages, written one after the other from page `first` on."""

    def __init__(self, file: BinaryIO, page_size: int, *, first: int) -> None:
        self.page_size = page_size
        self.next = first
        self._file = file
        self._buffer = bytearray()
        file.seek(first * page_size)

    def write(self, flags: int, count: int, body: bytes) -> int:
        """Write a page, with as many overflow pages as it needs; return its number."""
        number = self.next
        length = -(-(PAGE.size + len(body)) // self.page_size)
        self._buffer += PAGE.pack(number, flags, count, length - 1)
        self._buffer += body
        self._buffer += bytes(length * self.page_size - PAGE.size - len(body))
        self.next += length
        if len(self._buffer) >= _BUFFER:
            self.flush()
        return number

    def flush(self) -> None:
        """Pass buffered bytes to the operating system."""
        self._file.write(self._buffer)
        self._file.flush()
        self._buffer.clear()


class Tree:
    """A bucket's pages from its least key to its greatest."""

    def __init__(self, pages: Pages, sequence: int = 0) -> None:
        self._pages = pages
        self._sequence = sequence
        self._last: bytes | None = None
        self._leaf: list[tuple[bytes, bytes, int]] = []
        self._leaf_size = PAGE.size
        self._branches: list[_Branch] = []

    def add(self, key: bytes, value: bytes, flags: int = 0) -> None:
        """Append a record. Raises `NotSorted`, and `ValueError` for an empty key."""
        if self._last is not None and key <= self._last:
            raise NotSorted(f"key {key!r} comes after {self._last!r}; keys must ascend")
        if not key:
            raise ValueError("a key is empty; bbolt has no empty keys")
        size = LEAF_ELEMENT.size + len(key) + len(value)
        if self._leaf and (self._leaf_size + size > self._pages.page_size or len(self._leaf) == MOST_ELEMENTS):
            self._enter(0, self._end_leaf())
        self._leaf.append((key, value, flags))
        self._leaf_size += size
        self._last = key

    def continue_from(
        self, leaf: Iterable[tuple[bytes, bytes, int]], branches: Iterable[list[tuple[bytes, int]]]
    ) -> None:
        """Go on behind the last records of an existing tree: its last leaf, and what branches above hold before it.

        The pages themselves are left alone; `branches` are from the lowest to the root, without their last elements.
        """
        for children in branches:
            branch = _Branch(self._pages)
            for key, child in children:
                branch.add(key, child)
            self._branches.append(branch)
        for key, value, flags in leaf:
            self.add(key, value, flags)

    def finish(self) -> int:
        """Write the rest; return the number of the root page."""
        if self._leaf or not self._branches:
            leaf = self._end_leaf()
            if not self._branches:
                return leaf[1]
            self._enter(0, leaf)
        for level, branch in enumerate(self._branches):  # grows during the iteration
            if level == len(self._branches) - 1:
                break
            self._enter(level + 1, branch.end())
        root = self._branches[-1]
        return root.children[0][1] if len(root.children) == 1 else root.end()[1]

    def as_value(self) -> bytes:
        """Write the rest; return the bucket as the value of its name. A small one is part of the value itself."""
        if not self._branches and self._leaf_size <= self._pages.page_size // 4:  # the same limit as in bbolt
            page = PAGE.pack(0, LEAF, len(self._leaf), 0) + _leaf_body(self._leaf)
            return BUCKET.pack(0, self._sequence) + page
        return BUCKET.pack(self.finish(), self._sequence)

    def _end_leaf(self) -> tuple[bytes, int]:
        """Write the leaf; return its least key and its number."""
        first = self._leaf[0][0] if self._leaf else b""
        number = self._pages.write(LEAF, len(self._leaf), _leaf_body(self._leaf))
        self._leaf = []
        self._leaf_size = PAGE.size
        return first, number

    def _enter(self, level: int, page: tuple[bytes, int]) -> None:
        """Enter a page in its parent branch, and a branch that becomes full in its own parent."""
        written: tuple[bytes, int] | None = page
        while written is not None:
            if level == len(self._branches):
                self._branches.append(_Branch(self._pages))
            written = self._branches[level].add(*written)
            level += 1


class _Branch:
    """The last branch of a level, not yet written."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self.children: list[tuple[bytes, int]] = []
        self._size = PAGE.size

    def add(self, key: bytes, child: int) -> tuple[bytes, int] | None:
        """Enter a page; return the branch that was written because it is full, if one was.

        The last two stay, so that no branch is left with a single page below it, which bbolt does not write either.
        """
        size = BRANCH_ELEMENT.size + len(key)
        written = None
        full = self._size + size > self._pages.page_size or len(self.children) == MOST_ELEMENTS
        if full and len(self.children) > 2:
            last = self.children.pop()
            written = self.end()
            self.children = [last]
            self._size = PAGE.size + BRANCH_ELEMENT.size + len(last[0])
        self.children.append((key, child))
        self._size += size
        return written

    def end(self) -> tuple[bytes, int]:
        """Write the branch; return its least key and its number."""
        elements, keys = bytearray(), bytearray()
        offset = len(self.children) * BRANCH_ELEMENT.size
        for key, child in self.children:
            elements += BRANCH_ELEMENT.pack(offset - len(elements) + len(keys), len(key), child)
            keys += key
        return self.children[0][0], self._pages.write(BRANCH, len(self.children), bytes(elements + keys))


def _leaf_body(elements: list[tuple[bytes, bytes, int]]) -> bytes:
    return b"".join(_leaf_parts(elements))


def _leaf_parts(elements: list[tuple[bytes, bytes, int]]) -> Iterator[bytes]:
    position = len(elements) * LEAF_ELEMENT.size
    for key, value, flags in elements:
        yield LEAF_ELEMENT.pack(flags, position, len(key), len(value))
        position += len(key) + len(value) - LEAF_ELEMENT.size
    for key, value, _ in elements:
        yield key
        yield value


def sync(file: BinaryIO) -> None:
    """Sync written bytes to disk, if it is a real file."""
    try:
        descriptor = file.fileno()
    except OSError:
        return
    os.fsync(descriptor)
