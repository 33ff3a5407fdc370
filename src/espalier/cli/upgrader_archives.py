"""The upgrader images of the releases for real nodes: made from the bases of nodes when a node asks for one.

Here `upgrades/node`, which says what an upgrader image is, meets `local/nspawn`, whose registry nodes pull from.
"""

from __future__ import annotations

import hashlib
import shutil
import tarfile
import threading
from collections.abc import Sequence
from pathlib import Path

from espalier.cli import image
from espalier.cli.upgrader_images import versions_by_image
from espalier.local.assets.base import Base, MissingAssets, find_base
from espalier.local.assets.processes import BuildFailed
from espalier.local.nspawn.bases import plain_version
from espalier.local.nspawn.registry import BLOBS, CanNotMake
from espalier.releases import Releases
from espalier.upgrades import image as upgrader

_DIGEST = "digest"


class UpgraderArchives:
    """Makes each image once and keeps its contents below `place` (`local.nspawn.registry.Made`)."""

    def __init__(self, releases: Releases, place: Path) -> None:
        self._versions = versions_by_image(releases)
        self._place = place
        self._one_at_a_time = threading.Lock()

    def digest(self, name: str) -> str | None:
        """The digest of an upgrader image, once it is there; None for an image that is none. Blocks.

        Raises `CanNotMake`.
        """
        version = self._versions.get(name)
        if version is None:
            return None
        try:
            found = find_base(plain_version(version))
            with self._one_at_a_time:
                return _made(found, version, name, self._place / _name(found, version, name))
        except (MissingAssets, BuildFailed, OSError) as error:
            raise CanNotMake(f"upgrader image {name} can't be made: {error}") from error

    @property
    def stores(self) -> Sequence[Path]:
        """Folders of the images that were made."""
        return sorted(note.parent for note in self._place.glob(f"*/{_DIGEST}"))


def _made(found: Base, version: str, name: str, folder: Path) -> str:
    """The digest of an image whose contents lie in a folder; they are put there unless they are."""
    note = folder / _DIGEST
    if note.is_file():
        return note.read_text()
    fresh = folder.with_suffix(".new")
    shutil.rmtree(fresh, ignore_errors=True)
    (fresh / BLOBS).mkdir(parents=True)
    archive = fresh / "archive.tar"
    digest, _ = image.write(found, version, name, archive)
    with tarfile.open(archive) as tar:
        for entry in tar:
            blob = tar.extractfile(entry)
            if entry.name.startswith("blobs/sha256/") and blob is not None:
                with (fresh / BLOBS / Path(entry.name).name).open("wb") as target:
                    shutil.copyfileobj(blob, target, 2**20)
    archive.unlink()
    (fresh / _DIGEST).write_text(digest)
    fresh.rename(folder)
    return digest


def _name(found: Base, version: str, name: str) -> str:
    """A folder for exactly this content: another base, or another program, makes another image."""
    content = hashlib.sha256(f"{found.home.name} {name}".encode())
    for path, source in upgrader.sources().items():
        content.update(path.encode())
        content.update(source.read_bytes() if source else b"")
    return f"upgrader-{version}-{content.hexdigest()[:12]}"
