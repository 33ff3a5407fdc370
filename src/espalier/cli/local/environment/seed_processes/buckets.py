"""Buckets as folders of this machine, and the network to them: a link in the file system, which can be cut."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from espalier.shoots.extension import OperationFailed
from espalier.simulator.connections import Link

_SCHEME = "file:///"


class FolderLink(Link):
    """The network from a seed to the buckets: `folder` has them, unless it is cut."""

    def __init__(self, name: str, folder: Path, buckets: Path) -> None:
        super().__init__(name)
        self.folder = folder
        self._buckets = buckets
        folder.symlink_to(buckets)

    def cut(self) -> None:
        """Cut it; idempotent."""
        super().cut()
        # A link to itself, which can't be followed: if there were a file or nothing, stores would find no objects.
        self._replace(lambda new: new.symlink_to(self.folder))

    def restore(self) -> None:
        """Restore it; idempotent."""
        super().restore()
        self._replace(lambda new: new.symlink_to(self._buckets))

    def _replace(self, make: Callable[[Path], object]) -> None:
        new = self.folder.with_name(f"{self.folder.name}.new")
        make(new)
        new.replace(self.folder)


class FolderBuckets:
    """Creates and deletes buckets (`Stores` of the extensions of type `local`)."""

    def __init__(self, link: FolderLink) -> None:
        self._link = link

    async def ensure_bucket(self, url: str, credentials: Mapping[str, bytes]) -> None:
        """See `Stores`."""
        self._folder(url).mkdir(exist_ok=True)

    async def delete_bucket(self, url: str, credentials: Mapping[str, bytes]) -> None:
        """See `Stores`."""
        await self._delete(self._folder(url))

    async def delete_folder(self, url: str, folder: str, credentials: Mapping[str, bytes]) -> None:
        """See `Stores`."""
        await self._delete(self._folder(f"{url}/{folder}"))

    async def _delete(self, folder: Path) -> None:
        if folder.exists():
            await asyncio.to_thread(shutil.rmtree, folder)

    def _folder(self, url: str) -> Path:
        if self._link.is_cut:
            raise OperationFailed(f"{url}: no route to host")
        return self._link.folder / url.removeprefix(_SCHEME)
