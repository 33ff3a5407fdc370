"""Temporary folders of demonstrations, which contain keys and an administrator's kubeconfig.

A demonstration that is killed can't remove its folder, so the next one does. Whether a demonstration still runs is told
by a lock, which the kernel releases however its process ends.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK = "demo.lock"
_NAME = "espalier-{}"


@contextmanager
def demo_folder(purpose: str = "") -> Iterator[Path]:
    """A new folder, removed at the end; `purpose` is a part of its name."""
    parent = Path(tempfile.gettempdir())
    _remove_abandoned(parent)
    with tempfile.TemporaryDirectory(prefix=_NAME.format(purpose), ignore_cleanup_errors=True) as made:
        folder = Path(made)
        descriptor = _lock(folder)
        try:
            yield folder
        finally:
            os.close(descriptor)


def _lock(folder: Path) -> int:
    """Hold the lock of a folder. Its file has its name only once it is held."""
    new = folder / f"{LOCK}.new"
    descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    new.rename(folder / LOCK)
    return descriptor


def _remove_abandoned(parent: Path) -> None:
    """Remove this user's folders whose demonstration has ended. What can't be read or removed is left."""
    for folder in parent.glob(_NAME.format("*")):
        try:
            status = folder.lstat()
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and _is_abandoned(folder / LOCK):
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue


def _is_abandoned(lock: Path) -> bool:
    """True if the lock is there and nobody holds it. Raises `OSError`."""
    descriptor = os.open(lock, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        return True
    finally:
        os.close(descriptor)
