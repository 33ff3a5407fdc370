"""Access to files below a directory with untrusted content: paths and links never leave it, and nothing blocks.

The directories are disks of nodes and roots of containers. Whoever can write there chooses names, paths and links, so
all of our accesses go through these functions. Standard library only: the programs of simulated nodes
(`simulator/hosts/programs.py`) run with nothing else.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

MOST_LINKS = 40
"""As many links as Linux follows."""
LONGEST_NAME = 255
LONGEST_READ = 1024 * 1024


def child(folder: Path, name: str) -> Path:
    """The entry of a directory with this name, which must not be a path. Raises `ValueError`."""
    if name in ("", ".", "..") or "/" in name or "\0" in name or len(os.fsencode(name)) > LONGEST_NAME:
        raise ValueError(f"{name!r} is not a valid file name; allowed: one name without '/', except '.' and '..'")
    return folder / name


def relative(path: str) -> tuple[str, ...]:
    """The names in a path, which must not have `..`. Raises `ValueError`."""
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    for part in parts:
        if part == ".." or "\0" in part or len(os.fsencode(part)) > LONGEST_NAME:
            raise ValueError(f"path {path!r} is not allowed: it must not contain '..' or an invalid file name")
    return parts


def place(root: Path, path: str) -> Path:
    """The local path for a path whose `/` is `root`, with all links resolved within it.

    It need not exist. Raises `OSError` for more links than Linux follows, and for invalid file names.
    """
    current, parts, links = root, path.split("/")[::-1], 0
    while parts:
        part = parts.pop()
        if part in ("", "."):
            continue
        if part == "..":
            current = current if current == root else current.parent
            continue
        try:
            entry = child(current, part)
        except ValueError as error:  # the name may come from a link
            raise OSError(errno.EINVAL, str(error), path) from None
        if not entry.is_symlink():
            current = entry
            continue
        links += 1
        if links > MOST_LINKS:
            raise OSError(errno.ELOOP, "too many links", path)
        target = os.readlink(entry)
        current = root if target.startswith("/") else current
        parts += target.split("/")[::-1]
    return current


def open_file(root: Path, path: str, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """A descriptor of the regular file at a path. Raises `OSError`, also if a link appears in the path meanwhile."""
    parts = place(root, path).relative_to(root).parts
    if not parts:
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            os.close(folder)
            folder = inner
        # Without O_NONBLOCK, opening a FIFO would block until somebody opens its other end.
        file = os.open(parts[-1], flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode, dir_fd=folder)
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return file


def read(root: Path, path: str, *, start: int = 0, limit: int = LONGEST_READ) -> bytes:
    """Up to `limit` bytes of a regular file, from `start`, which counts from the end if negative. Raises `OSError`."""
    with open(open_file(root, path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(size + start, 0) if start < 0 else start)
        return file.read(limit)


def text(root: Path, path: str) -> str:
    """Read a text file. Raises `OSError`."""
    return read(root, path).decode(errors="replace")


def is_file(root: Path, path: str) -> bool:
    """True if a regular file exists at the path."""
    try:
        return stat.S_ISREG(place(root, path).lstat().st_mode)
    except OSError:
        return False


def make_folder(root: Path, path: str) -> Path:
    """Create a directory and its parents, if they do not exist. Raises `OSError`."""
    folder = place(root, path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def write(root: Path, path: str, content: str, mode: int = 0o600) -> None:
    """Write a file atomically, replacing an existing one. Raises `OSError`, `ValueError`."""
    folder, _, name = path.rpartition("/")
    file = child(make_folder(root, folder), name)
    staged = file.with_name(f".{file.name[: LONGEST_NAME - 20]}.{os.getpid()}")
    staged.unlink(missing_ok=True)
    # O_EXCL: a file or link that appeared there since is not opened.
    descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with open(descriptor, "w") as opened:
        os.fchmod(descriptor, mode)
        opened.write(content)
    staged.replace(file)


def remove(folder: Path, name: str) -> None:
    """Remove an entry of a directory with its content; a link is removed itself. Raises `ValueError`, `OSError`."""
    entry = child(folder, name)
    if entry.is_symlink() or not entry.is_dir():
        entry.unlink(missing_ok=True)
    else:
        import shutil  # noqa: PLC0415 - programs of simulated nodes, which start often, need it rarely

        shutil.rmtree(entry, ignore_errors=True)
