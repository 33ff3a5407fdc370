"""A container's volumes as folders of this machine, and its command with the paths that they have here."""

from __future__ import annotations

import re
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from espalier.simulator.pods.runtimes.in_process import Container
from espalier.simulator.pods.runtimes.memory_volumes import Mounted

FOLDER = "folder"
"""The key under which a volume stores its folder."""


class Folder:
    """A folder that is removed with its last user."""

    def __init__(self, home: Path) -> None:
        # Short, because it contains sockets: their paths have at most 107 bytes.
        self.path = Path(tempfile.mkdtemp(prefix="v", dir=home))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


@dataclass(frozen=True)
class Mounts:
    """The folders of one run of a container, by their paths in the container."""

    folders: Mapping[str, Folder]
    own: Folder
    """The folder for files of this run."""

    @classmethod
    def of(cls, container: Container, home: Path) -> Mounts:
        """Create a folder for each volume, with the files of Secrets and ConfigMaps."""
        return cls({path: _folder(volume, home) for path, volume in container.volumes.items()}, Folder(home))

    def here(self, text: str) -> str:
        """A text in which paths of the container are replaced by paths of this machine."""
        if not self.folders:
            return text
        known = "|".join(re.escape(path) for path in sorted(self.folders, key=len, reverse=True))
        return re.sub(
            rf"(?<![\w.-])({known})(?![\w.-])", lambda match: str(self.folders[match[1]].path), text, flags=re.ASCII
        )

    def write(self, name: str, content: bytes | str) -> Path:
        """A file of this run."""
        path = self.own.path / name
        path.touch(mode=0o600)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path


def _folder(volume: Mounted, home: Path) -> Folder:
    if not volume.read_only:
        folder: Folder | None = volume.get(FOLDER)
        if folder is None:
            folder = volume[FOLDER] = Folder(home)
        return folder
    folder = Folder(home)
    for name, content in volume.items():
        path = folder.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_bytes(content)
    return folder
