"""A store in a local folder, in the layout of etcd-backup-restore: a file for each object, below the folder.

File systems have no conditional update: writers take a lock file, so all of them must be on machines that share its
locks (one machine, or NFS 4). Files are written beside their place, flushed to the disk, and renamed: complete or not
at all, even after kill -9 or a loss of power.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import stat
import time
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from io import BufferedRandom, BufferedReader
from pathlib import Path
from typing import TypeVar

from espalier.etcdbackup.stores import keys
from espalier.etcdbackup.stores.errors import Conflict, Corrupt, NotFound, Refused, StoreError, Unavailable
from espalier.etcdbackup.stores.retries import Retries
from espalier.etcdbackup.stores.store import CHUNK, MOST_LISTED, Content, StoredObject

T = TypeVar("T")

LOCK, UPLOADS = ".lock", ".uploads"
"""Names in the folder that are not objects."""
HASHED = 1 << 20
"""Files up to this size have an ETag of their content. Larger files have an ETag of inode, time and size: a file
system may repeat those within a tick of its clock, which does no harm where nothing is updated conditionally."""
_THREADS = ThreadPoolExecutor(16, "local-store")
"""Of all local stores: a file system that hangs keeps threads, and those of the loop have names to resolve."""
_ABANDONED = 24 * 3600.0
_FULL = (errno.ENOSPC, errno.EDQUOT)
_REFUSED = (errno.ELOOP, errno.EROFS, errno.ENAMETOOLONG, errno.ENOTDIR)


class _LockHeld(Exception):
    """Another writer has the lock."""


class LocalStore:
    """Objects as files below a folder, which is created by the first write.

    Once the folder was seen it must stay: a file system that is no longer mounted must not look like an empty bucket.
    """

    def __init__(self, folder: Path, *, retries: Retries | None = None) -> None:
        self.where = f"file://{folder}"
        self.retries = retries or Retries()
        self._folder = folder
        self._device: int | None = None
        """The file system of the folder, once that was seen."""

    async def list(self, folder: str = "", *, most: int = MOST_LISTED) -> AsyncGenerator[StoredObject, None]:
        """See `Store`. Symbolic links are not followed and, like pipes and sockets, are not objects."""
        objects = await self._in_thread(folder, lambda: list(self._walk(folder, most)), limited=False)
        for stored in objects:
            yield stored

    async def head(self, key: str) -> StoredObject:
        """See `Store`."""

        def look() -> StoredObject:
            with self._open(key) as file:
                return _describe(key, file)

        return await self._in_thread(key, look)

    async def read(self, key: str, *, most: int) -> Content:
        """See `Store`."""
        return await self._in_thread(key, lambda: self._read(key, most))

    async def stream(self, key: str, *, start: int = 0, end: int | None = None) -> AsyncGenerator[bytes, None]:
        """See `Store`."""
        file = await self._in_thread(key, lambda: self._open(key))
        try:
            size = os.fstat(file.fileno()).st_size
            at, last = min(start, size), size if end is None else min(end, size)
            file.seek(at)
            while at < last:
                wanted = min(CHUNK, last - at)
                chunk = await self._in_thread(key, partial(file.read, wanted), seconds=self.retries.stall)
                if not chunk:
                    raise Corrupt(self._url(key), f"ended after {at} of {last} bytes while it was read")
                at += len(chunk)
                yield chunk
        finally:
            await self._close(file)

    async def put(self, key: str, data: bytes) -> StoredObject:
        """See `Store`."""
        return await self._write(key, data, lambda: None)

    async def create(self, key: str, data: bytes) -> StoredObject:
        """See `Store`."""

        def check() -> None:
            if os.path.lexists(self._path(key)):
                raise Conflict(self._url(key), "the object is there already")

        return await self._write(key, data, check)

    async def replace(self, last: StoredObject, data: bytes) -> StoredObject:
        """See `Store`."""

        def check() -> None:
            try:
                with self._open(last.key) as file:
                    now = _describe(last.key, file)
            except NotFound:
                now = None
            if now is None or now.etag != last.etag:
                raise Conflict(self._url(last.key), "the object changed since it was read")

        return await self._write(last.key, data, check)

    async def upload(self, key: str, chunks: AsyncIterable[bytes]) -> StoredObject:
        """See `Store`."""
        sent = hashlib.sha256()
        async with self._temporary_file(key) as (temporary, file):
            async for chunk in chunks:
                await self._in_thread(key, partial(_append, file, sent, chunk), seconds=self.retries.stall)
            await self._in_thread(key, lambda: _flush(file), seconds=self.retries.part)
            stored = await self._in_thread(key, lambda: self._verify(key, file, sent.digest()), limited=False)
            await self._exclusively(key, lambda: self._put_in_place(temporary, key))
            return stored

    async def delete(self, key: str) -> None:
        """See `Store`."""

        def remove() -> None:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                path = self._path(key)
                path.unlink()
                _flush_folder(path.parent)

        await self._exclusively(key, remove)

    async def _write(self, key: str, data: bytes, check: Callable[[], None]) -> StoredObject:
        """Write a small object unless a check under the lock raises."""

        def write() -> StoredObject:
            check()
            temporary = self._temporary()
            try:
                with open(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600), "w+b") as file:
                    file.write(data)
                    _flush(file)
                    file.seek(0)
                    stored = _describe(key, file)
                self._put_in_place(temporary, key)
            finally:
                temporary.unlink(missing_ok=True)
            return stored

        return await self._exclusively(key, write)

    async def _exclusively(self, key: str, work: Callable[[], T]) -> T:
        """The result of work under the lock of all writers. The working thread holds the lock, so that cancelling the
        waiting task does not let another writer in. Raises `Unavailable` if another writer holds it all the time.

        The lock is polled: a blocking wait would keep a thread for as long as a frozen holder keeps the lock.
        """

        def attempt() -> T:
            if not self._exists():
                _make_folder(self._folder)
                self._exists()
            descriptor = os.open(self._folder / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            try:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise _LockHeld from None
                return work()
            finally:
                os.close(descriptor)

        loop = asyncio.get_running_loop()
        deadline, wait = loop.time() + self.retries.total, 0.01
        while True:
            try:
                return await self._in_thread(key, attempt)
            except _LockHeld:
                if loop.time() + wait > deadline:
                    finding = f"another writer has held {self._folder / LOCK} for {self.retries.total:g} s"
                    raise Unavailable(self._url(key), finding, "find its process with `fuser`") from None
            await asyncio.sleep(wait)
            wait = min(wait * 2, 0.2)

    @asynccontextmanager
    async def _temporary_file(self, key: str) -> AsyncIterator[tuple[Path, BufferedRandom]]:
        """A new file that is not an object yet; it is removed unless it was renamed."""

        def begin() -> tuple[Path, BufferedRandom]:
            self._path(key)
            temporary = self._temporary()
            return temporary, open(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600), "w+b")

        temporary, file = await self._in_thread(key, begin)
        try:
            yield temporary, file
        finally:
            await self._close(file, temporary)

    async def _close(self, file: BufferedRandom | BufferedReader, temporary: Path | None = None) -> None:
        """Close a file, and remove a temporary file. A thread that gave no answer in time may still hold it: then
        another thread waits for that, not the loop."""

        def end() -> None:
            with contextlib.suppress(OSError):  # buffered bytes that can't be written
                if temporary is not None:
                    temporary.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                file.close()

        ending = asyncio.get_running_loop().run_in_executor(_THREADS, end)
        await asyncio.wait([ending], timeout=self.retries.attempt)

    def _temporary(self) -> Path:
        """A path for a new file. Files that were abandoned there a day ago are removed."""
        self._exists()
        uploads = self._folder / UPLOADS
        _make_folder(uploads)
        for file in uploads.iterdir():
            with contextlib.suppress(FileNotFoundError):
                if time.time() - file.stat().st_mtime > _ABANDONED:
                    file.unlink()
        return uploads / secrets.token_hex(8)

    def _put_in_place(self, temporary: Path, key: str) -> None:
        path = self._path(key)
        _make_folder(path.parent)
        temporary.rename(path)
        _flush_folder(path.parent)

    def _verify(self, key: str, file: BufferedRandom, digest: bytes) -> StoredObject:
        file.seek(0)
        if hashlib.file_digest(file, "sha256").digest() != digest:
            raise Corrupt(self._url(key), "the stored bytes differ from those written", "check the disk")
        file.seek(0)
        return _describe(key, file)

    def _walk(self, folder: str, most: int) -> Iterator[StoredObject]:
        top = self._path(folder) if folder else self._folder
        count = 0
        if not self._exists():
            return
        for parent, folders, names in os.walk(top, onerror=_raise):
            if Path(parent) == self._folder:
                folders[:] = [name for name in folders if name != UPLOADS]
            for name in names:
                if name == LOCK and Path(parent) == self._folder:
                    continue
                path = Path(parent, name)
                state = path.lstat()
                if stat.S_ISREG(state.st_mode):
                    count += 1
                    if count > most:
                        raise Refused(self.where, f"more than {most} files below it", "use a folder of its own")
                    modified = datetime.fromtimestamp(state.st_mtime, UTC)
                    yield StoredObject(path.relative_to(self._folder).as_posix(), state.st_size, modified)
        self._exists()  # raises if the folder has disappeared

    def _read(self, key: str, most: int) -> Content:
        with self._open(key) as file:
            data = file.read(most + 1)
            if len(data) > most:
                raise Corrupt(self._url(key), f"more than the expected {most} bytes")
            file.seek(0)
            return Content(data, _describe(key, file))

    def _exists(self) -> bool:
        """True if the folder exists. Raises `Unavailable` if it existed and now does not, or is on another file
        system."""
        device = self._device  # read first: another thread may create the folder meanwhile
        try:
            state = self._folder.stat()
        except FileNotFoundError:
            if device is None:
                return False
            finding = "the folder has disappeared"
        else:
            if not stat.S_ISDIR(state.st_mode):
                raise Refused(self.where, "it is not a folder", "name a folder")
            if device in (None, state.st_dev):
                self._device = state.st_dev
                return True
            finding = "the folder is on another file system than before"
        raise Unavailable(self.where, finding, "mount its file system; then it resumes by itself")

    def _open(self, key: str) -> BufferedReader:
        if not self._exists():
            raise NotFound(self._url(key), "no such object")
        try:
            # A pipe would have its reader wait for a writer.
            descriptor = os.open(self._path(key), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                os.close(descriptor)
                raise NotFound(self._url(key), "no such object: the path is not a file")
            return open(descriptor, "rb")
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            self._exists()  # raises if the folder has disappeared
            raise NotFound(self._url(key), "no such object") from None

    def _path(self, key: str) -> Path:
        if keys.checked(key).partition("/")[0] in (LOCK, UPLOADS):
            raise ValueError(f"key: found {key!r}, which the store reserves")
        return self._folder / key

    def _url(self, key: str) -> str:
        return f"{self.where}/{key}" if key else self.where

    async def _in_thread(
        self, key: str, work: Callable[[], T], *, seconds: float | None = None, limited: bool = True
    ) -> T:
        """The result of blocking work, in a thread; errors of the system become those of stores."""
        try:
            async with asyncio.timeout((seconds or self.retries.total) if limited else None):
                return await asyncio.get_running_loop().run_in_executor(_THREADS, work)
        except StoreError:
            raise
        except TimeoutError:
            raise Unavailable(self._url(key), "the file system does not answer") from None
        except PermissionError as error:
            raise Refused(self._url(key), f"{error.strerror}: {error.filename}", "check its owner and mode") from None
        except OSError as error:
            advice = "make room" if error.errno in _FULL else ""
            kind = Refused if error.errno in _REFUSED else Unavailable
            raise kind(self._url(key), error.strerror or str(error), advice) from None


def _describe(key: str, file: BufferedReader | BufferedRandom) -> StoredObject:
    """The description of an open file that is positioned at its beginning."""
    state = os.fstat(file.fileno())
    if state.st_size <= HASHED:
        etag = hashlib.sha256(file.read()).hexdigest()
    else:
        etag = f"{state.st_ino:x}-{state.st_mtime_ns:x}-{state.st_size:x}"
    return StoredObject(key, state.st_size, datetime.fromtimestamp(state.st_mtime, UTC), etag)


def _append(file: BufferedRandom, digest: hashlib._Hash, chunk: bytes) -> None:
    file.write(chunk)
    digest.update(chunk)


def _flush(file: BufferedRandom) -> None:
    file.flush()
    os.fsync(file.fileno())


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _make_folder(folder: Path) -> None:
    """Create a folder and its missing parents, for the owner alone, and durably."""
    missing = [folder]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for new_folder in reversed(missing):
        with contextlib.suppress(FileExistsError):
            new_folder.mkdir(0o700)
            _flush_folder(new_folder.parent)


def _raise(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error
