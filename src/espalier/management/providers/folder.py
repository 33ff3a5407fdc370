"""A folder with components: its files, as far as a folder of components goes."""

from __future__ import annotations

import os
from pathlib import Path

from espalier.management.providers.components import Unusable

MOST_FILES, MOST_BYTES, MOST_LEVELS = 200, 64 * 2**20, 4
"""Files, bytes of all of them, and levels of folders below it."""


def files(folder: Path) -> dict[str, bytes]:
    """The YAML files in a folder and the folders in it, by their paths there. Raises `Unusable`."""
    contents: dict[str, bytes] = {}
    size = 0
    if not folder.is_dir():
        raise Unusable(f"{folder}: this is no folder: give one with the components of Cluster API and its providers")
    for root, folders, names in os.walk(folder, onerror=_unreadable):  # follows no links
        place = Path(root).relative_to(folder)
        if len(place.parts) > MOST_LEVELS:
            raise Unusable(f"{folder}: found {place}, allowed are {MOST_LEVELS} levels of folders")
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(root) / name
            if path.suffix not in (".yaml", ".yml") or name.startswith(".") or not path.is_file():
                continue
            if len(contents) == MOST_FILES:
                raise Unusable(f"{folder}: found more than {MOST_FILES} YAML files, which are not components alone")
            try:
                with path.open("rb") as file:
                    content = file.read(MOST_BYTES - size + 1)
            except OSError as error:
                raise Unusable(f"{path}: {error.strerror}") from None
            size += len(content)
            if size > MOST_BYTES:
                raise Unusable(f"{folder}: found more than {MOST_BYTES >> 20} MiB of YAML files")
            contents[str(place / name)] = content
    return contents


def _unreadable(error: OSError) -> None:
    raise Unusable(f"{error.filename}: {error.strerror}")
