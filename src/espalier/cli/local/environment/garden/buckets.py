"""Object stores in this process, and the network to them, which can be cut."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Mapping

from espalier.cli.local.environment.seed_programs.agent import OpenStore, StoreConfig
from espalier.etcdbackup.stores.errors import Unavailable
from espalier.etcdbackup.stores.memory import MemoryStore
from espalier.etcdbackup.stores.store import MOST_LISTED, Content, Store, StoredObject
from espalier.runtime.clock import Clock
from espalier.shoots.extension import OperationFailed
from espalier.simulator.connections import Link


class Buckets:
    """Stores by URL: the same URL gives the same objects."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.stores: dict[str, MemoryStore] = {}

    def through(self, link: Link) -> OpenStore:
        """Opens stores as a seed does, through a network."""

        def open_store(config: StoreConfig) -> Store:
            if not config.credentials:
                raise ValueError(f"{config.url}: found no credentials, allowed is a Secret with some")
            store = self.stores.setdefault(config.url, MemoryStore(self._clock, where=config.url))
            return ReachedStore(store, lambda: link.is_cut)

        return open_store

    def managed_through(self, link: Link) -> ManagedBuckets:
        """Buckets, as the extensions of a seed create and delete them, through a network."""
        return ManagedBuckets(self.stores, link)


class ManagedBuckets:
    """Creates and deletes buckets (`Stores` of the extensions of type `local`)."""

    def __init__(self, stores: dict[str, MemoryStore], link: Link) -> None:
        self._stores = stores
        self._link = link

    async def ensure_bucket(self, url: str, credentials: Mapping[str, bytes]) -> None:
        """See `Stores`: a store exists once something is written to it."""
        self._reach(url)

    async def delete_bucket(self, url: str, credentials: Mapping[str, bytes]) -> None:
        """See `Stores`."""
        self._delete_below(url)

    async def delete_folder(self, url: str, folder: str, credentials: Mapping[str, bytes]) -> None:
        """See `Stores`."""
        self._delete_below(f"{url}/{folder}")

    def _delete_below(self, url: str) -> None:
        self._reach(url)
        for address in [store for store in self._stores if store == url or store.startswith(f"{url}/")]:
            del self._stores[address]

    def _reach(self, url: str) -> None:
        if self._link.is_cut:
            raise OperationFailed(f"{url}: no route to host")


class ReachedStore:
    """A store that is unreachable while its network is cut."""

    def __init__(self, store: Store, is_cut: Callable[[], bool]) -> None:
        self.where = store.where
        self.retries = store.retries
        self._store = store
        self._is_cut = is_cut

    async def list(self, folder: str = "", *, most: int = MOST_LISTED) -> AsyncGenerator[StoredObject, None]:
        """See `Store`."""
        async for stored in self._reached().list(folder, most=most):
            self._reached()
            yield stored

    async def head(self, key: str) -> StoredObject:
        """See `Store`."""
        return await self._reached().head(key)

    async def read(self, key: str, *, most: int) -> Content:
        """See `Store`."""
        return await self._reached().read(key, most=most)

    async def stream(self, key: str, *, start: int = 0, end: int | None = None) -> AsyncGenerator[bytes, None]:
        """See `Store`."""
        async for chunk in self._reached().stream(key, start=start, end=end):
            self._reached()
            yield chunk

    async def put(self, key: str, data: bytes) -> StoredObject:
        """See `Store`."""
        return await self._reached().put(key, data)

    async def create(self, key: str, data: bytes) -> StoredObject:
        """See `Store`."""
        return await self._reached().create(key, data)

    async def replace(self, last: StoredObject, data: bytes) -> StoredObject:
        """See `Store`."""
        return await self._reached().replace(last, data)

    async def upload(self, key: str, chunks: AsyncIterable[bytes]) -> StoredObject:
        """See `Store`."""
        return await self._reached().upload(key, chunks)

    async def delete(self, key: str) -> None:
        """See `Store`."""
        await self._reached().delete(key)

    def _reached(self) -> Store:
        if self._is_cut():
            raise Unavailable(self.where, "no route to host")
        return self._store
