"""Cache of finished builds, with checks that they are unchanged."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

SUMS = "SHA256SUMS"
UNFINISHED = ".unfinished-"
"""The name prefix of folders of running or killed builds."""


def assets_folder() -> Path:
    """Directory of assets: below `$ESPALIER_CACHE`, else below `espalier` in the user's cache folder."""
    return cache_folder() / "assets"


def cache_folder() -> Path:
    """`$ESPALIER_CACHE`, else `espalier` in the user's cache folder."""
    if named := os.environ.get("ESPALIER_CACHE"):
        return Path(named).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "espalier"


def is_finished(home: Path) -> bool:
    """True if a complete build exists; its files are not checked."""
    return (home / SUMS).is_file()


def is_intact(home: Path) -> bool:
    """True if a build ended there, and nothing was changed, lost or added since: every byte is read. Files that only
    another user may read count as intact: this user could not rebuild them either."""
    try:
        recorded = (home / SUMS).read_bytes()
        return recorded == sums(home)
    except FileNotFoundError:
        return False
    except PermissionError:
        return True


def seal(home: Path) -> None:
    """Record the contents of a folder, which makes it a finished build."""
    (home / SUMS).write_bytes(sums(home))


def sums(home: Path) -> bytes:
    """The checksums of all files below a folder, as sha256sum writes and reads them. Links have no content."""
    lines = []
    for path in sorted(_files(home)):
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        lines.append(os.fsencode(f"{digest}  {path.relative_to(home)}\n"))
    return b"".join(lines)


def size_of(home: Path) -> int:
    """Bytes that a folder takes on disk; a file with several links counts once."""
    seen = {}
    for folder, _, names in os.walk(home):
        for name in names:
            status = os.lstat(os.path.join(folder, name))
            seen[status.st_dev, status.st_ino] = status.st_blocks * 512
    return sum(seen.values())


@contextlib.contextmanager
def only_one_builder(assets: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Lock the cache for one run; incomplete builds of killed runs are removed."""
    assets.mkdir(parents=True, exist_ok=True)
    with (assets / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another run is building; waiting for it.")
            fcntl.flock(lock, fcntl.LOCK_EX)
        for remains in assets.glob(f"{UNFINISHED}*"):
            shutil.rmtree(remains)
        yield


def _files(home: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(home):
        for name in names:
            path = Path(folder, name)
            if path.is_file() and not path.is_symlink() and path != home / SUMS:
                yield path
