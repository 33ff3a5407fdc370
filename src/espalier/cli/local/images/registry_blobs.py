"""The contents of images as the registry of real nodes finds them: files by their digests."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

from espalier.realnodes.nspawn.system.registry import BLOBS


def unpack_blobs(archive: Path, folder: Path) -> None:
    """Move the contents of an image's archive to the folder of a created image; the archive is deleted."""
    with tarfile.open(archive) as tar:
        for entry in tar:
            blob = tar.extractfile(entry)
            if entry.name.startswith("blobs/sha256/") and blob is not None:
                with (folder / BLOBS / Path(entry.name).name).open("wb") as target:
                    shutil.copyfileobj(blob, target, 2**20)
    archive.unlink()
