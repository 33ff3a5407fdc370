"""Clients of workload clusters: one per cluster until its kubeconfig changes, up to a limit."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from espalier.api.identity import ClusterIdentity
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.transports.http import HttpTransport
from espalier.kube.transports.wire import Request, Response, Stream, Transport
from espalier.runtime.leadership.fencing import Fence, FencedTransport
from espalier.runtime.leadership.write_limits import LimitedTransport, OnLimited, WriteLimit, ignored
from espalier.runtime.workload_clusters.workload_account import AccountState, AccountTransport, WorkloadAccount

Connect: TypeAlias = Callable[[bytes], Client]
"""Creates a client from a kubeconfig, without connecting. Raises `ValueError` for an invalid kubeconfig."""


def over_http(kubeconfig: bytes, user_agent: str = "espalier") -> Client:
    """A client over HTTP, for the current context of a kubeconfig."""
    access = Kubeconfig.parse(kubeconfig).context()
    return Client(HttpTransport(access), field_manager="espalier", user_agent=user_agent)


class _Counting:
    """Passes requests on, and counts those in progress."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._in_flight = 0
        self.idle = asyncio.Event()
        self.idle.set()

    async def request(self, request: Request) -> Response:
        """Send one request."""
        self._in_flight += 1
        self.idle.clear()
        try:
            return await self._transport.request(request)
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self.idle.set()

    async def stream(self, request: Request) -> Stream | Response:
        """Start a watch, which ends when this is closed."""
        return await self._transport.stream(request)

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()


class _Pooled(NamedTuple):
    digest: bytes
    client: Client
    requests: _Counting


class RemoteClients:
    """A pool of clients by cluster, which evicts the least recently used ones.

    The limit keeps a manager of thousands of clusters from holding thousands of connections. An evicted client is
    closed after its last request, and not before `linger` seconds, as its user may be between two requests. With a
    `fence`, writes to workload clusters also stop once the Lease may be lost. `on_limited` is called with the resource
    of each write that a limit refuses. With an `account`, requests are sent as its user instead of the kubeconfig's.
    """

    def __init__(
        self,
        connect: Connect,
        *,
        limit: int = 256,
        linger: float = 5.0,
        fence: Fence | None = None,
        on_limited: OnLimited = ignored,
        account: WorkloadAccount | None = None,
    ) -> None:
        self._connect = connect
        self._limit = limit
        self._linger = linger
        self._fence = fence
        self._on_limited = on_limited
        self._account = account
        self._pool: OrderedDict[ClusterIdentity, _Pooled] = OrderedDict()
        self._leaving: dict[asyncio.Task[None], Client] = {}
        self._states: dict[ClusterIdentity, tuple[bytes, AccountState]] = {}
        """The account in each cluster, with the digest of the kubeconfig that it was made by."""

    def __len__(self) -> int:
        return len(self._pool)

    def get(self, cluster: ClusterIdentity, kubeconfig: bytes) -> Client:
        """The client of a cluster, a new one if its kubeconfig changed. Call it for each use: clients may be closed."""
        digest = hashlib.sha256(kubeconfig).digest()
        pooled = self._pool.get(cluster)
        if pooled is not None and pooled.digest == digest:
            self._pool.move_to_end(cluster)
            return pooled.client
        client = self._connect(kubeconfig)
        self._evict(cluster)
        if self._account is not None:
            client.transport = self._as_account(cluster, kubeconfig, digest, client.transport, self._account)
        client.transport = requests = _Counting(client.transport)
        client.transport = LimitedTransport(client.transport, WriteLimit(self._on_limited))
        if self._fence is not None:
            client.transport = FencedTransport(client.transport, self._fence)
        self._pool[cluster] = _Pooled(digest, client, requests)
        while len(self._pool) > self._limit:
            self._evict(next(iter(self._pool)))
        return client

    def drop(self, cluster: ClusterIdentity) -> None:
        """Drop the client of a cluster, for example a deleted one. That of another cluster with its name stays."""
        self._states.pop(cluster, None)
        self._evict(cluster)

    def _as_account(
        self,
        cluster: ClusterIdentity,
        kubeconfig: bytes,
        digest: bytes,
        administrator: Transport,
        account: WorkloadAccount,
    ) -> Transport:
        """A transport as the manager's account. What the account has there outlives an eviction."""
        known = self._states.get(cluster)
        if known is None or known[0] != digest:
            known = self._states[cluster] = digest, AccountState()
        if self._fence is not None:
            administrator = FencedTransport(administrator, self._fence)
        return AccountTransport(account, kubeconfig, administrator, lambda own: self._connect(own).transport, known[1])

    def _evict(self, cluster: ClusterIdentity) -> None:
        pooled = self._pool.pop(cluster, None)
        if pooled is not None:
            task = asyncio.get_running_loop().create_task(self._leave(pooled), name=f"leave cluster {cluster.capi}")
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

    async def _leave(self, pooled: _Pooled) -> None:
        await asyncio.sleep(self._linger)
        await pooled.requests.idle.wait()
        await pooled.client.close()

    def _left(self, task: asyncio.Task[None]) -> None:
        self._leaving.pop(task, None)
