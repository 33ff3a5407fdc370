"""A data directory that is built in a folder beside it, and put in place by one rename."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from espalier.etcdbackup.restore.errors import NotWritten, Occupied

MEMBER = Path("member")
"""In a data directory: everything that etcd keeps."""
DATABASE = Path("member/snap/db")
"""In a data directory."""
WAL = Path("member/wal")
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


class SideFolder:
    """`DIR.part`, which is used by restores alone. Methods block, and raise `OSError`."""

    def __init__(self, target: Path, part: Path, replaced: Path) -> None:
        self.part = part
        self._target = target
        self._replaced = replaced

    @property
    def database(self) -> Path:
        """The path of etcd's database."""
        return self.part / DATABASE

    def write(self, name: Path, content: bytes) -> None:
        """Write a small file durably."""
        with os.fdopen(os.open(self.part / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    def put_in_place(self) -> Path | None:
        """Rename it to its final name, durably. An existing data directory is kept; its new name is returned."""
        for folder in (WAL, DATABASE.parent, DATABASE.parent.parent, Path()):
            flush_folder(self.part / folder)
        if not _has_content(self._target):
            self.part.rename(self._target)
            flush_folder(self._target.parent)
            return None
        self.part.rename(self._replaced)
        try:
            _exchange(self._replaced, self._target)
        except OSError:
            self._replaced.rename(self.part)
            raise
        flush_folder(self._target.parent)
        return self._replaced


def check_is_of_etcd(folder: Path) -> None:
    """Raise `Occupied` unless this may become, or is, a data directory: it is missing, empty, or has etcd's `member`.

    A restore replaces everything in it.
    """
    folder = folder.absolute()
    if folder == folder.parent:
        raise Occupied(f"{folder} can't be a data directory: a restore creates a new one beside it, then renames it")
    if _has_content(folder) and not (folder / MEMBER).is_dir():
        raise Occupied(
            f"{folder} is not empty and has no folder {MEMBER}, so it is not a data directory; use a separate folder, "
            "below the root of its volume"
        )


@contextmanager
def side_folder(target: Path, *, replace: bool) -> Iterator[SideFolder]:
    """Make a data directory; without `put_in_place`, nothing is left of it.

    Raises `Occupied` if there are data already and `replace` is not set, if an etcd uses them, or if another restore is
    running; `NotWritten` for errors of the file system, also those in the block.
    """
    target = target.absolute()
    part, replaced = target.with_name(f"{target.name}.part"), target.with_name(f"{target.name}.replaced")
    with _translated_errors(part), _locked_target(target, replaced, replace=replace):
        part.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _lock(descriptor, part)
            _empty(part)
            try:
                part.chmod(0o700)  # also of an existing folder
                for folder in (WAL.parent, WAL, DATABASE.parent):
                    (part / folder).mkdir(mode=0o700)
                yield SideFolder(target, part, replaced)
            finally:
                if part.exists() and os.path.samestat(os.stat(part), os.fstat(descriptor)):
                    shutil.rmtree(part, ignore_errors=True)
        finally:
            os.close(descriptor)


@contextmanager
def _locked_target(target: Path, replaced: Path, *, replace: bool) -> Iterator[None]:
    """Keep etcd from starting with data that are about to be replaced."""
    if not _has_content(target):
        yield
        return
    if not replace:
        raise Occupied(f"{target} already has data; restore elsewhere, or replace it with --replace")
    check_is_of_etcd(target)
    if os.path.lexists(replaced):
        raise Occupied(f"{replaced} holds data replaced by an earlier restore; delete or move it")
    database = target / DATABASE
    if not database.exists():
        yield
        return
    with database.open("rb") as file:
        _lock(file.fileno(), target)
        yield


def _has_content(folder: Path) -> bool:
    return os.path.lexists(folder) and (not folder.is_dir() or folder.is_symlink() or any(folder.iterdir()))


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # as bbolt does
    except BlockingIOError:
        raise Occupied(f"{path} is in use by another process; stop it first") from None


def _empty(folder: Path) -> None:
    """Remove the files of a killed restore."""
    for entry in folder.iterdir():
        shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()


def _exchange(first: Path, second: Path) -> None:
    """Exchange two names in one step (renameat2 of Linux): each of them has data, even if it is interrupted."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE):
        number = ctypes.get_errno()
        raise OSError(number, f"two folders can't be swapped here: {os.strerror(number)}", str(second))


def flush_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _translated_errors(part: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        advice = (
            "free space, or restore elsewhere"
            if error.errno in {errno.ENOSPC, errno.EDQUOT}
            else "nothing was restored"
        )
        raise NotWritten(f"{error.filename or part}: {error.strerror or error}; {advice}") from error
