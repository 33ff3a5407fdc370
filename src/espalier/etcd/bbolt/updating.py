"""Appending to a bbolt file that nobody else has open: all of an update, or nothing of it, whenever it is cut short.

New pages go behind all others: the right edge of a tree that grows (its last leaf and the branches above) is written
anew, then the root bucket, then one meta page, with an fsync before and after it. Until then the file has its old
state. Pages that were replaced are free, without being listed: the updated file has no freelist, as etcd's.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from espalier.etcd.bbolt.layout import NESTED, NO_FREELIST, encode_meta
from espalier.etcd.bbolt.reading import Bucket, Database
from espalier.etcd.bbolt.writing import Pages, Records, Tree, sync

MOST_BUCKETS = 10_000
"""Entries of the root bucket, which every update rewrites. etcd has ten."""


class InUse(Exception):
    """Another process has the file open for writing."""


class Update:
    """Changes that become one transaction."""

    def __init__(self, database: Database, file: BinaryIO) -> None:
        self._database = database
        self._file = file
        self._pages = Pages(file, database.meta.page_size, first=database.meta.pages)
        self._changed: dict[bytes, bytes] = {}

    def append(self, name: bytes, records: Records) -> None:
        """Append records to a bucket, which is created if it does not exist; any number of them. Raises `NotSorted` for
        a key that is not greater than the one before it, in the file or in `records`."""
        bucket = self._bucket(name)
        tree = Tree(self._pages, 0 if bucket is None else bucket.sequence)
        if bucket is not None:
            *above, last = bucket.right_edge()
            branches = [bucket.branch_elements(node)[:-1] for node in reversed(above)]
            tree.continue_from(bucket.leaf_elements(last), branches)
        for key, value in records:
            tree.add(key, value)
        self._changed[name] = tree.as_value()

    def replace(self, name: bytes, records: Records) -> None:
        """Replace the content of a bucket by these records. They may be read from the bucket itself."""
        bucket = self._bucket(name)
        tree = Tree(self._pages, 0 if bucket is None else bucket.sequence)
        for key, value in records:
            tree.add(key, value)
        self._changed[name] = tree.as_value()

    def finish(self) -> bytes:
        """Write the rest durably; return the meta page that makes it the file's state."""
        entries: dict[bytes, tuple[bytes, int]] = {}
        for key, value, flags in self._database.root.elements():
            if len(entries) == MOST_BUCKETS:
                self._database.refuse(f"it has more than {MOST_BUCKETS} buckets")
            entries[key] = (value, flags)
        entries |= {name: (value, NESTED) for name, value in self._changed.items()}
        root = Tree(self._pages)
        for name, (value, flags) in sorted(entries.items()):
            root.add(name, value, flags)
        meta = self._database.meta
        number = root.finish()
        self._pages.flush()
        sync(self._file)
        new = meta._replace(root=number, freelist=NO_FREELIST, pages=self._pages.next, transaction=meta.transaction + 1)
        return encode_meta(new)

    def _bucket(self, name: bytes) -> Bucket | None:
        if name in self._changed:
            raise ValueError(f"bucket {name!r} was changed in this update before; one change of each is possible")
        return self._database.bucket(name)


@contextmanager
def updating(path: Path) -> Iterator[Update]:
    """Change a file in one transaction, at the end of the block; an exception in it leaves the old state.

    Raises `InUse`, `Damaged`, `OSError`. Blocks: call it in a thread.
    """
    with path.open("r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # as bbolt does
        except BlockingIOError as error:
            raise InUse(f"{path} is open in another process; stop it first") from error
        descriptor = file.fileno()
        size = os.fstat(descriptor).st_size
        database = Database(lambda offset, count: os.pread(descriptor, count, offset), size, str(path))
        meta = database.meta
        try:
            update = Update(database, file)
            yield update
            page = update.finish()
        except BaseException:
            with suppress(OSError):  # anything after the old state does no harm
                os.ftruncate(descriptor, size)
            raise
        os.pwrite(descriptor, page, (meta.transaction + 1) % 2 * meta.page_size)
        os.fsync(descriptor)
