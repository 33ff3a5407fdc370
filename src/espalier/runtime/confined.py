"""Files below a folder whose content strangers decide: paths and links never lead out of it, and nothing blocks.

The folders are disks of nodes and roots of containers. Whoever may write there chooses names, paths and links, so
everything on this side reaches them through these functions. Standard library only: the programs of simulated nodes
(`hosts/programs.py`) are started with nothing else.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from pathlib import Path

MOST_LINKS = 40
"""As many links as Linux follows."""
LONGEST_NAME = 255
LONGEST_READ = 1024 * 1024


def child(folder: Path, name: str) -> Path:
    """The entry of a folder that has this name, which is one name and no path. Raises `ValueError`."""
    if name in ("", ".", "..") or "/" in name or "\0" in name or len(os.fsencode(name)) > LONGEST_NAME:
        raise ValueError(f"{name!r} can't be the name of a file: allowed is one name, without '/', and not '.' or '..'")
    return folder / name


def relative(path: str) -> tuple[str, ...]:
    """The names that a path is made of, which has no `..` among them. Raises `ValueError`."""
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    for part in parts:
        if part == ".." or "\0" in part or len(os.fsencode(part)) > LONGEST_NAME:
            raise ValueError(
                f"the path {path!r} is not allowed: it must not have '..' in it, or names no file can have"
            )
    return parts


def place(root: Path, path: str) -> Path:
    """Where a path lies when `root` is its `/`, all links followed as whoever lives there would follow them.

    It need not exist. Raises `OSError` for more links than Linux follows, and for what no file can be called.
    """
    here, parts, links = root, path.split("/")[::-1], 0
    while parts:
        part = parts.pop()
        if part in ("", "."):
            continue
        if part == "..":
            here = here if here == root else here.parent
            continue
        try:
            entry = child(here, part)
        except ValueError as error:  # the name stands in a link, perhaps
            raise OSError(errno.EINVAL, str(error), path) from None
        if not entry.is_symlink():
            here = entry
            continue
        links += 1
        if links > MOST_LINKS:
            raise OSError(errno.ELOOP, "too many links", path)
        target = os.readlink(entry)
        here = root if target.startswith("/") else here
        parts += target.split("/")[::-1]
    return here


def open_file(root: Path, path: str, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """A descriptor of the regular file at a path. Raises `OSError`, also where a link is put into its way meanwhile."""
    parts = place(root, path).relative_to(root).parts
    if not parts:
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            os.close(folder)
            folder = inner
        # Without O_NONBLOCK, a FIFO would keep whoever opens it until somebody opens its other end.
        file = os.open(parts[-1], flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode, dir_fd=folder)
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return file


def read(root: Path, path: str, *, start: int = 0, limit: int = LONGEST_READ) -> bytes:
    """So many bytes of a regular file, from `start`; counted from its end when that is negative. Raises `OSError`."""
    with open(open_file(root, path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(size + start, 0) if start < 0 else start)
        return file.read(limit)


def text(root: Path, path: str) -> str:
    """Read a text file. Raises `OSError`."""
    return read(root, path).decode(errors="replace")


def is_file(root: Path, path: str) -> bool:
    """True if a regular file is there."""
    try:
        return stat.S_ISREG(place(root, path).lstat().st_mode)
    except OSError:
        return False


def make_folder(root: Path, path: str) -> Path:
    """Make a folder and those above it, if they are not there. Raises `OSError`."""
    found = place(root, path)
    found.mkdir(parents=True, exist_ok=True)
    return found


def write(root: Path, path: str, content: str, mode: int = 0o600) -> None:
    """Make a file of this content, whole or not at all, in place of what was there. Raises `OSError`, `ValueError`."""
    folder, _, name = path.rpartition("/")
    file = child(make_folder(root, folder), name)
    staged = file.with_name(f".{file.name[: LONGEST_NAME - 20]}.{os.getpid()}")
    staged.unlink(missing_ok=True)
    # O_EXCL: whatever was put there since, also a link, is not opened.
    descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with open(descriptor, "w") as opened:
        os.fchmod(descriptor, mode)
        opened.write(content)
    staged.replace(file)


def remove(folder: Path, name: str) -> None:
    """Take an entry of a folder away with all that it holds; of a link, the link. Raises `ValueError`, `OSError`."""
    entry = child(folder, name)
    if entry.is_symlink() or not entry.is_dir():
        entry.unlink(missing_ok=True)
    else:
        shutil.rmtree(entry, ignore_errors=True)
