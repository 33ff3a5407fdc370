"""Clients of workload clusters: one for each cluster, as long as its kubeconfig stays the same, and not too many."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from espalier.api.resource import Key
from espalier.kube.client import Client
from espalier.runtime.fencing import Fence, FencedTransport

Connect: TypeAlias = Callable[[bytes], Client]
"""From the bytes of a kubeconfig to a client. Makes no connection yet; raises `ValueError` when it is no kubeconfig."""


class _Pooled(NamedTuple):
    digest: bytes
    client: Client


class RemoteClients:
    """A pool of clients by cluster; the least recently used go first.

    `linger` is how many seconds a client that was put out may still finish its requests. With a `fence`, no write
    reaches a workload cluster either once the Lease may be lost.
    """

    def __init__(self, connect: Connect, *, limit: int = 512, linger: float = 60.0, fence: Fence | None = None) -> None:
        self._connect = connect
        self._limit = limit
        self._linger = linger
        self._fence = fence
        self._pool: OrderedDict[Key, _Pooled] = OrderedDict()
        self._leaving: dict[asyncio.Task[None], Client] = {}

    def __len__(self) -> int:
        return len(self._pool)

    def get(self, key: Key, kubeconfig: bytes) -> Client:
        """The client of a cluster, anew when its kubeconfig changed. Ask at each use: it may be closed meanwhile."""
        digest = hashlib.sha256(kubeconfig).digest()
        pooled = self._pool.get(key)
        if pooled is not None and pooled.digest == digest:
            self._pool.move_to_end(key)
            return pooled.client
        client = self._connect(kubeconfig)
        if self._fence is not None:
            client.transport = FencedTransport(client.transport, self._fence)
        self.drop(key)
        self._pool[key] = _Pooled(digest, client)
        while len(self._pool) > self._limit:
            self.drop(next(iter(self._pool)))
        return client

    def drop(self, key: Key) -> None:
        """Forget the client of a cluster (it is gone, say)."""
        pooled = self._pool.pop(key, None)
        if pooled is not None:
            task = asyncio.get_running_loop().create_task(self._leave(pooled.client), name=f"leave cluster {key}")
            self._leaving[task] = pooled.client
            task.add_done_callback(self._left)

    async def close(self) -> None:
        """Close all clients now; the pool may be used again."""
        leaving = list(self._leaving.items())
        for task, _ in leaving:
            task.cancel()
        clients = [pooled.client for pooled in self._pool.values()] + [client for _, client in leaving]
        self._pool.clear()
        for client in clients:
            await client.close()

    async def _leave(self, client: Client) -> None:
        await asyncio.sleep(self._linger)
        await client.close()

    def _left(self, task: asyncio.Task[None]) -> None:
        self._leaving.pop(task, None)
