"""Where workload clusters keep their objects: in a folder each, or in memory."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Protocol

from espalier.api.resource import Key
from espalier.apiserver.sqlite import SqliteStore
from espalier.apiserver.store import MemoryStore, Store


class Stores(Protocol):
    """A store for each cluster."""

    def open(self, cluster: Key) -> Store:
        """The store of a cluster, with what it held before."""

    def holds(self, cluster: Key) -> bool:
        """Whether there is a store of a cluster that was opened before."""

    def place(self, cluster: Key) -> str:
        """Where the store of a cluster is, for sentences."""

    async def remove(self, cluster: Key) -> None:
        """Forget what a cluster held; idempotent."""


_OBJECTS = "objects.db"


class FolderStores:
    """Below `home`, a folder `clusters/<namespace>-<name>` for each cluster, for its owner to read only."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def open(self, cluster: Key) -> Store:
        """The store of a cluster, with what it held before."""
        folder = self._folder(cluster)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return SqliteStore(folder / _OBJECTS)

    def holds(self, cluster: Key) -> bool:
        """Whether there is a store of a cluster that was opened before."""
        return (self._folder(cluster) / _OBJECTS).exists()

    def place(self, cluster: Key) -> str:
        """The file."""
        return str(self._folder(cluster) / _OBJECTS)

    async def remove(self, cluster: Key) -> None:
        """Delete the cluster's folder; idempotent."""
        folder = self._folder(cluster)
        if folder.exists():
            await asyncio.to_thread(shutil.rmtree, folder)

    def _folder(self, cluster: Key) -> Path:
        return self._home / "clusters" / f"{cluster.namespace}-{cluster.name}"


class MemoryStores:
    """In memory: as lasting as this object."""

    def __init__(self) -> None:
        self._stores: dict[Key, Store] = {}

    def open(self, cluster: Key) -> Store:
        """The store of a cluster, with what it held before."""
        return self._stores.setdefault(cluster, MemoryStore())

    def holds(self, cluster: Key) -> bool:
        """Whether there is a store of a cluster that was opened before."""
        return cluster in self._stores

    def place(self, cluster: Key) -> str:
        """Its name."""
        return f"the memory of cluster {cluster}"

    async def remove(self, cluster: Key) -> None:
        """Forget what a cluster held; idempotent."""
        self._stores.pop(cluster, None)
