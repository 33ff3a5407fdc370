"""The node's files, accessed through the directory where its root is mounted.

Paths are the host's (`/usr/bin/kubelet`), and links resolve within its root. Each change is atomic: tests interrupt it
before, during and after.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from pathlib import Path

STAGED = ".espalier-new"
"""The suffix of files that are being written. Leftovers are overwritten."""
CHUNK_BYTES = 1024 * 1024
MAX_LINKS = 40
"""The number of symbolic links that Linux follows in a path."""


class Files:
    """The files of one host."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._checksums: dict[tuple[int, ...], str] = {}

    def place(self, path: str) -> Path:
        """The local path for a path of the host, with all links resolved within its root. Raises `OSError`."""
        root = str(self._root)
        place, parts, links = root, [part for part in path.split("/") if part][::-1], 0
        while parts:
            part = parts.pop()
            if part == "..":
                place = place if place == root else os.path.dirname(place)
                continue
            following = os.path.join(place, part)
            if not os.path.islink(following):
                place = following
                continue
            links += 1
            if links > MAX_LINKS:
                raise OSError(f"too many symbolic links in {path}")
            target = os.readlink(following)
            if target.startswith("/"):
                place = root
            parts += [part for part in target.split("/") if part not in ("", ".")][::-1]
        return Path(place)

    def own_place(self, path: str) -> Path:
        """The local path at which to write the program of `path`.

        A link is followed, unless its target has another name: such a file serves several programs, which must not all
        be replaced, so the link itself is replaced. Raises `OSError`.
        """
        place = self.place(path)
        folder, _, name = path.rpartition("/")
        return place if place.name == name else self.place(folder) / name

    def is_file(self, path: str) -> bool:
        """True if a regular file exists at the path."""
        return self.place(path).is_file()

    def names(self, folder: str) -> list[str]:
        """The names in a directory, sorted; none if it does not exist."""
        place = self.place(folder)
        return sorted(entry.name for entry in place.iterdir()) if place.is_dir() else []

    def text(self, path: str) -> str:
        """Content of a text file; empty if it does not exist."""
        with contextlib.suppress(FileNotFoundError):
            return self.place(path).read_text(errors="replace")
        return ""

    def checksum(self, path: str) -> str:
        """SHA-256 of a file; empty if it does not exist."""
        with contextlib.suppress(FileNotFoundError):
            return self._sum(self.place(path))
        return ""

    def _sum(self, place: Path) -> str:
        """SHA-256 of a file, cached until it changes: programs are large, and often linked."""
        status = place.stat()
        identity = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        if identity not in self._checksums:
            self._checksums[identity] = checksum(place)
        return self._checksums[identity]

    def size(self, path: str) -> int:
        """Bytes of a file; 0 if it does not exist."""
        place = self.place(path)
        return place.stat().st_size if place.is_file() else 0

    def folder_size(self, path: str) -> int:
        """Bytes of all files in a directory, without following links; 0 if it does not exist."""
        walk = os.walk(self.place(path))
        return sum(Path(folder, name).lstat().st_size for folder, _, names in walk for name in names)

    def room(self, path: str) -> tuple[int, int]:
        """The device number of the file system of a path, which need not exist, and its free bytes."""
        place = self.place(path)
        while not place.exists():
            place = place.parent
        return place.stat().st_dev, self._free(place)

    def _free(self, place: Path) -> int:
        status = os.statvfs(place)
        return status.f_bavail * status.f_frsize

    def make_folder(self, path: str) -> None:
        """Create a directory and its parents, if they do not exist."""
        place = self.place(path)
        missing = [folder for folder in (place, *place.parents) if not folder.exists()]
        for folder in reversed(missing):
            self._make_folder(folder)

    def put(self, source: Path, target: str, *, expected: str, mode: int, share: bool = False) -> None:
        """Make `target` a copy of a file atomically; it keeps the owner of the file it replaces.

        With `share`, for a source that nobody writes to, it becomes a hard link if the file system allows that.
        Raises `OSError`, also if the written file does not have the checksum `expected`.
        """
        place = self.own_place(target)
        staged = place.with_name(f".{place.name}{STAGED}")
        if staged.exists():
            self._remove(staged)
        shared = share and self._hard_link(source, staged)
        if not shared:
            self._copy(source, staged)
        if (written := self._sum(staged) if shared else checksum(staged)) != expected:
            self._remove(staged)
            raise OSError(f"the copy of {source} to {place} has checksum {written}, not {expected}")
        owner = place.stat() if place.exists() else None
        self._set_owner_and_mode(staged, mode, owner and (owner.st_uid, owner.st_gid))
        self._rename(staged, place)

    def sweep(self, target: str) -> None:
        """Remove the leftover of an interrupted write of `target`."""
        place = self.own_place(target)
        staged = place.with_name(f".{place.name}{STAGED}")
        if staged.exists():
            self._remove(staged)

    def write(self, target: str, text: str) -> None:
        """Write a text to `target` atomically."""
        place = self.place(target)
        staged = place.with_name(f".{place.name}{STAGED}")
        self._write(staged, text.encode())
        self._set_owner_and_mode(staged, 0o644, None)
        self._rename(staged, place)

    def place_content(self, target: str, content: bytes, *, mode: int, owner: tuple[int, int] | None = None) -> None:
        """Write content to `target` atomically; without an `owner`, the file keeps the owner that it had.

        While it is written, only root can read it. Raises `OSError`.
        """
        place = self.place(target)
        staged = place.with_name(f".{place.name}{STAGED}")
        if staged.is_symlink() or staged.exists():
            self._remove(staged)
        replaced = place.stat() if place.exists() else None
        self._write(staged, content)
        self._set_owner_and_mode(staged, mode, owner or (replaced and (replaced.st_uid, replaced.st_gid)))
        self._rename(staged, place)

    def mode(self, path: str) -> int:
        """The permission bits of a file; 0644 if it does not exist."""
        place = self.place(path)
        return stat.S_IMODE(place.stat().st_mode) if place.exists() else 0o644

    def is_identical(self, path: str, content: bytes, *, mode: int, owner: tuple[int, int]) -> bool:
        """True if a file has this content, these permissions and, as only root can set it, this owner."""
        place = self.place(path)
        if not place.is_file() or self.checksum(path) != hashlib.sha256(content).hexdigest():
            return False
        status = place.stat()
        return stat.S_IMODE(status.st_mode) == mode and (os.geteuid() != 0 or (status.st_uid, status.st_gid) == owner)

    def first_unsafe_part(self, path: str) -> str:
        """The first part of a path that is a link, or not a directory or file as required; empty if there is none."""
        place, names = self._root, [part for part in path.split("/") if part]
        for depth, name in enumerate(names, 1):
            place = place / name
            is_right = place.is_file() if depth == len(names) else place.is_dir()
            if place.is_symlink() or (place.exists() and not is_right):
                return "/" + "/".join(names[:depth])
        return ""

    def remove(self, path: str) -> None:
        """Remove a file, if it exists."""
        place = self.place(path)
        if place.exists():
            self._remove(place)

    def remove_folder(self, path: str) -> None:
        """Remove a directory and its content, if it exists."""
        place = self.place(path)
        for folder, names, files in os.walk(place, topdown=False):
            for name in files:
                self._remove(Path(folder, name))
            for name in names:
                inner = Path(folder, name)
                if inner.is_symlink():
                    self._remove(inner)
                else:
                    self._remove_folder(inner)
        if place.is_dir():
            self._remove_folder(place)

    def _make_folder(self, place: Path) -> None:
        place.mkdir(mode=0o755, exist_ok=True)

    def _hard_link(self, source: Path, staged: Path) -> bool:
        """Make `staged` a hard link to `source`; False if that is impossible."""
        try:
            os.link(source, staged)
        except OSError:  # Another file system, most often.
            return False
        return True

    def _copy(self, source: Path, staged: Path) -> None:
        with source.open("rb") as original, open(_private(staged), "wb") as copy:
            while piece := original.read(CHUNK_BYTES):
                copy.write(piece)
            copy.flush()
            os.fsync(copy.fileno())

    def _set_owner_and_mode(self, staged: Path, mode: int, owner: tuple[int, int] | None) -> None:
        if owner is not None and os.geteuid() == 0:
            os.chown(staged, *owner)
        staged.chmod(stat.S_IMODE(mode))

    def _write(self, staged: Path, content: bytes) -> None:
        with open(_private(staged), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    def _rename(self, staged: Path, place: Path) -> None:
        staged.rename(place)
        folder = os.open(place.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _remove(self, place: Path) -> None:
        place.unlink(missing_ok=True)

    def _remove_folder(self, place: Path) -> None:
        place.rmdir()


def _private(place: Path) -> int:
    """The descriptor of a new or emptied file that only its owner can read."""
    return os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def checksum(place: Path) -> str:
    """SHA-256 of a file of this container. Raises `OSError`."""
    with place.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
