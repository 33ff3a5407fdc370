"""The API servers of workload clusters: many in one process, each with its own address, CA and store."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import random
import socket
from collections.abc import Callable

from espalier.api.capi.cluster import Endpoint
from espalier.api.resource import Key
from espalier.apiserver.access.rbac import Rbac
from espalier.apiserver.access.webhooks import CallWebhook
from espalier.apiserver.requests.requests import Authorizer
from espalier.apiserver.server import Server
from espalier.apiserver.storage.sqlite import Unusable
from espalier.apiserver.storage.store import Store
from espalier.clusterapi.machines.network import Network
from espalier.kube.client import Client
from espalier.kube.connection.pki import Authority, KeyPair
from espalier.kube.objects import Object
from espalier.runtime.clock import Clock
from espalier.simulator.workload_clusters.stores import Stores
from espalier.simulator.workload_clusters.transport import WorkloadTransport
from espalier.simulator.workload_clusters.workload_cluster import Changed, WorkloadCluster

_FIRST_PORT = 30000


class Workloads:
    """All workload clusters of this process.

    With `listen` each is reachable over the network at its own port of `host`, else only from this process, at ports
    without a listener. `authorizer` decides who may do what in a cluster with a store. `kubelet_version` is what
    kubelets report, by the version of their machine.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        rng: random.Random,
        stores: Stores,
        listen: bool = True,
        host: str = "127.0.0.1",
        authorizer: Callable[[Store], Authorizer] = Rbac,
        kubelet_version: Callable[[str], str] = str,
    ) -> None:
        self._clock = clock
        self._rng = rng
        self._stores = stores
        self._listen = listen
        self._host = host
        self._authorizer = authorizer
        self._kubelet_version = kubelet_version
        self._running: dict[Key, WorkloadCluster] = {}
        self._by_address: dict[str, WorkloadCluster] = {}
        self._reserved: dict[Key, tuple[Endpoint, socket.socket | None]] = {}
        self._used_ports: set[int] = set()
        self._locks: dict[Key, asyncio.Lock] = {}
        self._subscribers: list[Changed] = []
        self.webhooks: Callable[[Key], CallWebhook] | None = None
        """Returns what calls the webhooks of a cluster; None: no webhook of a workload cluster is reached."""

    @property
    def identity(self) -> str:
        """The identity of these machines, for all management clusters that reach them."""
        return self._stores.identity()

    def subscribe(self, changed: Changed) -> None:
        """Call `changed` with each changed object of the `WATCHED` kinds, of every cluster."""
        self._subscribers.append(changed)

    def reach(self, cluster: Key) -> WorkloadCluster | None:
        """The running workload cluster with this key, None if it does not run."""
        return self._running.get(cluster)

    def running(self, namespace: str) -> list[WorkloadCluster]:
        """The running workload clusters of a namespace."""
        return [workload for key, workload in self._running.items() if key.namespace == namespace]

    def has_data(self, cluster: Key) -> bool:
        """True if there are data of a workload cluster, running or not."""
        return cluster in self._running or self._stores.exists(cluster)

    def at(self, server: str) -> WorkloadCluster | None:
        """The running workload cluster at an address (`https://host:port`), None if there is none."""
        return self._by_address.get(server)

    def connect(self, kubeconfig: bytes) -> Client:
        """A client for a kubeconfig: in-process for clusters of this process.

        Raises `KubeconfigError`.
        """
        return Client(WorkloadTransport(self.at, kubeconfig, network=self._listen), field_manager="espalier")

    def served(self, cluster: Key, endpoint: Endpoint) -> Endpoint:
        """The address of a cluster's API server in this process.

        An endpoint that a manifest asks for lies in a network of machines, which are simulated: here a loopback address
        stands for it, one for each cluster and environment, at the same port.
        """
        if not self._listen or endpoint.host == self._host:
            return endpoint
        location = f"{self._stores.location(cluster)} {endpoint.host}"
        digest = hashlib.blake2b(location.encode(), digest_size=3).digest()
        return Endpoint(host=f"127.{digest[0]}.{digest[1]}.{1 + digest[2] % 254}", port=endpoint.port)

    def reserve(self, cluster: Key) -> Endpoint:
        """An address for a cluster's API server, reserved until it is opened; that of a running cluster is its own."""
        if (running := self._running.get(cluster)) is not None:
            return running.endpoint
        present = self._reserved.get(cluster)
        if present is not None:
            return present[0]
        reservation: socket.socket | None = None
        if self._listen:
            reservation = socket.socket()
            reservation.bind((self._host, 0))
            port = int(reservation.getsockname()[1])
        else:
            port = next(port for port in itertools.count(_FIRST_PORT) if port not in self._used_ports)
        self._used_ports.add(port)
        endpoint = Endpoint(host=self._host, port=port)
        self._reserved[cluster] = (endpoint, reservation)
        return endpoint

    def mark_port_used(self, endpoint: Endpoint) -> None:
        """Exclude the port of an existing endpoint, from an earlier run, from later reservations."""
        self._used_ports.add(endpoint.port)

    async def open(
        self,
        cluster: Key,
        endpoint: Endpoint,
        *,
        authority: Authority,
        version: str,
        network: Network,
        is_new: bool = True,
    ) -> WorkloadCluster:
        """Run the API server of a cluster, with its existing data.

        Raises `AddressTaken`, and `Unusable` when the data of an existing cluster are missing.
        """
        async with self._locks.setdefault(cluster, asyncio.Lock()):
            running = self._running.get(cluster)
            if running is not None:
                return running
            if not is_new and not self._stores.exists(cluster):
                raise Unusable(f"{self._stores.location(cluster)} is missing, and with it all data of the API server")
            self._release(cluster)
            workload = self._new(cluster, endpoint, authority, version, network)
            try:
                await workload.start(
                    self._notify, self._serving(workload, authority, network) if self._listen else None
                )
            except BaseException:
                await workload.stop()
                raise
            self._used_ports.add(endpoint.port)
            self._running[cluster] = workload
            self._by_address[workload.served.url] = workload
            return workload

    async def remove(self, cluster: Key) -> None:
        """Stop a cluster's API server, and delete its data and its address; idempotent."""
        async with self._locks.setdefault(cluster, asyncio.Lock()):
            self._release(cluster)
            stopped = await self._stop(cluster)
            if stopped is not None:
                self._used_ports.discard(stopped.port)
            await self._stores.remove(cluster)
        self._locks.pop(cluster, None)

    async def stop(self, cluster: Key) -> None:
        """Stop a cluster's API server; its data and its address stay. Idempotent."""
        async with self._locks.setdefault(cluster, asyncio.Lock()):
            await self._stop(cluster)

    async def close(self) -> None:
        """Stop all workload clusters; the data stay."""
        for cluster in list(self._reserved):
            self._release(cluster)
        running = list(self._running.values())
        self._running.clear()
        self._by_address.clear()
        for workload in running:
            await workload.stop()

    async def _stop(self, cluster: Key) -> Endpoint | None:
        workload = self._running.pop(cluster, None)
        if workload is None:
            return None
        self._by_address.pop(workload.served.url, None)
        await workload.stop()
        return workload.endpoint

    def _new(
        self, cluster: Key, endpoint: Endpoint, authority: Authority, version: str, network: Network
    ) -> WorkloadCluster:
        rng = random.Random(self._rng.getrandbits(64))  # noqa: S311 - names and uids, not keys
        call = self.webhooks(cluster) if self.webhooks is not None else None
        store = self._stores.open(cluster)
        server = Server(
            store,
            now=self._clock.now,
            random=rng,
            version=version,
            call_webhook=call,
            authorizer=self._authorizer(store),
        )
        served = self.served(cluster, endpoint)
        workload = WorkloadCluster(cluster, endpoint, served, server, authority, network, self._clock)
        workload.kubelet_version = self._kubelet_version
        return workload

    def _serving(self, workload: WorkloadCluster, authority: Authority, network: Network) -> KeyPair:
        service = (
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            f"kubernetes.default.svc.{network.domain}",
        )
        hosts = dict.fromkeys((workload.endpoint.host, workload.served.host))
        names = (*hosts, "localhost", *service, network.service_address(1))
        return authority.issue_server("kube-apiserver", names=names, now=self._clock.now())

    def _release(self, cluster: Key) -> None:
        _, reservation = self._reserved.pop(cluster, (None, None))
        if reservation is not None:
            reservation.close()

    def _notify(self, cluster: Key, object_: Object) -> None:
        for subscriber in self._subscribers:
            subscriber(cluster, object_)
