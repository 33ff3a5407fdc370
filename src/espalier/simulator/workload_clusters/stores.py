"""Stores of workload clusters: in a folder each, or in memory."""

from __future__ import annotations

import asyncio
import shutil
import uuid
from pathlib import Path
from typing import Protocol

from espalier.api.resource import Key
from espalier.apiserver.storage.sqlite import SqliteStore
from espalier.apiserver.storage.store import MemoryStore, Store


class Stores(Protocol):
    """A store for each cluster."""

    def identity(self) -> str:
        """The same for whoever has these stores, also later, and for nobody else."""

    def open(self, cluster: Key) -> Store:
        """The store of a cluster, with its existing data."""

    def exists(self, cluster: Key) -> bool:
        """True if there is a store of the cluster, whether opened by this process or before."""

    def clusters(self, namespace: str) -> list[Key]:
        """The clusters of a namespace that have a store."""

    def location(self, cluster: Key) -> str:
        """The location of a store, for messages."""

    async def remove(self, cluster: Key) -> None:
        """Delete the data of a cluster; idempotent."""


_DATABASE = "objects.db"
_IDENTITY = "identity"


class FolderStores:
    """Below `home`, a folder `clusters/<namespace>-<name>` for each cluster, readable only by its owner."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def identity(self) -> str:
        """Generated once, and kept in a file."""
        file = self._home / "clusters" / _IDENTITY
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            staged = file.with_name(f".{_IDENTITY}")
            staged.write_text(f"{uuid.uuid4()}\n")
            staged.replace(file)
        return file.read_text().strip()

    def open(self, cluster: Key) -> Store:
        """The store of a cluster, with its existing data."""
        folder = self._folder(cluster)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return SqliteStore(folder / _DATABASE)

    def exists(self, cluster: Key) -> bool:
        """True if there is a store of the cluster, whether opened by this process or before."""
        return (self._folder(cluster) / _DATABASE).exists()

    def clusters(self, namespace: str) -> list[Key]:
        """The clusters of a namespace that have a store."""
        folders = sorted(path.parent.name for path in self._home.glob(f"clusters/{namespace}-*/{_DATABASE}"))
        return [Key(namespace, name.removeprefix(f"{namespace}-")) for name in folders]

    def location(self, cluster: Key) -> str:
        """The path of the file."""
        return str(self._folder(cluster) / _DATABASE)

    async def remove(self, cluster: Key) -> None:
        """Delete the cluster's folder; idempotent."""
        folder = self._folder(cluster)
        if folder.exists():
            await asyncio.to_thread(shutil.rmtree, folder)

    def _folder(self, cluster: Key) -> Path:
        return self._home / "clusters" / f"{cluster.namespace}-{cluster.name}"


class MemoryStores:
    """Stores in memory, which live as long as this object."""

    def __init__(self, identity: str = "memory") -> None:
        self._identity = identity
        self._stores: dict[Key, Store] = {}

    def identity(self) -> str:
        """The one it was made with."""
        return self._identity

    def open(self, cluster: Key) -> Store:
        """The store of a cluster, with its existing data."""
        return self._stores.setdefault(cluster, MemoryStore())

    def exists(self, cluster: Key) -> bool:
        """True if there is a store of the cluster, whether opened by this process or before."""
        return cluster in self._stores

    def clusters(self, namespace: str) -> list[Key]:
        """The clusters of a namespace that have a store."""
        return [key for key in self._stores if key.namespace == namespace]

    def location(self, cluster: Key) -> str:
        """A description: it has no path."""
        return f"the memory of cluster {cluster}"

    async def remove(self, cluster: Key) -> None:
        """Delete the data of a cluster; idempotent."""
        self._stores.pop(cluster, None)
