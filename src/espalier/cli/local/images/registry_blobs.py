"""The contents of images as the registry of real nodes finds them: files by their digests."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

from espalier.realnodes.nspawn.system.registry import BLOBS, DIGEST


def store_image(folder: Path, write: Callable[[Path], str]) -> None:
    """Create the folder of an image whose archive `write` makes, and whose digest it returns; complete, or not."""
    fresh = folder.with_suffix(".new")
    shutil.rmtree(fresh, ignore_errors=True)
    (fresh / BLOBS).mkdir(parents=True)
    archive = fresh / "archive.tar"
    digest = write(archive)
    _unpack(archive, fresh)
    (fresh / DIGEST).write_text(digest)
    fresh.rename(folder)


def _unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as tar:
        for entry in tar:
            blob = tar.extractfile(entry)
            if entry.name.startswith("blobs/sha256/") and blob is not None:
                with (folder / BLOBS / Path(entry.name).name).open("wb") as target:
                    shutil.copyfileobj(blob, target, 2**20)
    archive.unlink()
