from __future__ import annotations

import asyncio
import itertools
from contextlib import suppress

import pytest

from espalier.api.core import CONFIG_MAP
from espalier.api.identity import ClusterIdentity
from espalier.api.resource import Key
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import Unreachable
from espalier.kube.transports.wire import Request, Response, Stream
from espalier.runtime.leadership.fencing import Fence, Fenced
from espalier.runtime.leadership.write_limits import TooManyWrites
from espalier.runtime.metrics import Metrics
from espalier.runtime.virtual import Simulation
from espalier.runtime.workload_clusters.remote import RemoteClients
from tests.support.environments.simulated_loop import simulate
from tests.support.servers.small_server import SmallServer, client_of, config_map


def named(name: str, namespace: str = "n") -> ClusterIdentity:
    return ClusterIdentity.of(Key(namespace, name))


def connect(kubeconfig: bytes) -> Client:
    return client_of(SmallServer())


def test_cluster_has_one_client_per_kubeconfig() -> None:
    async def main(simulation: Simulation) -> None:
        clients = RemoteClients(connect)
        first = clients.get(named("a"), b"1")
        assert clients.get(named("a"), b"1") is first
        assert clients.get(named("b"), b"1") is not first
        assert clients.get(named("a"), b"2") is not first
        await clients.close()

    simulate(main)


def test_cluster_of_the_same_name_is_another() -> None:
    async def main(simulation: Simulation) -> None:
        clients = RemoteClients(connect)
        first = clients.get(named("a"), b"1")
        clients.drop(named("a", namespace="of-somebody-else"))
        assert clients.get(named("a"), b"1") is first
        await clients.close()

    simulate(main)


def test_least_recent_client_is_closed_after_request() -> None:
    async def main(simulation: Simulation) -> None:
        clients = RemoteClients(connect, limit=2, linger=60.0)
        a, b = (clients.get(named(name), b"1") for name in "ab")
        assert clients.get(named("a"), b"1") is a
        clients.get(named("c"), b"1")
        assert len(clients) == 2
        assert clients.get(named("a"), b"1") is a
        await asyncio.sleep(59)
        await b.list(CONFIG_MAP)
        await asyncio.sleep(2)
        with pytest.raises(Unreachable):
            await b.list(CONFIG_MAP)
        await a.list(CONFIG_MAP)
        await clients.close()
        with pytest.raises(Unreachable):
            await a.list(CONFIG_MAP)

    simulate(main)


class Slow:
    """Answers after twenty seconds, and tells what happened."""

    def __init__(self) -> None:
        self.happened: list[str] = []

    async def request(self, request: Request) -> Response:
        self.happened.append("asked")
        await asyncio.sleep(20)
        self.happened.append("answered")
        return Response(200, b"{}")

    async def stream(self, request: Request) -> Stream | Response:
        raise NotImplementedError

    async def close(self) -> None:
        self.happened.append("closed")


def test_replaced_client_closes_after_its_last_request() -> None:
    async def main(simulation: Simulation) -> None:
        slow = Slow()
        clients = RemoteClients(lambda kubeconfig: Client(slow), limit=1, linger=5.0)
        asked = asyncio.create_task(clients.get(named("a"), b"1").transport.request(Request("GET", "/")))
        await asyncio.sleep(1)
        clients.drop(named("a"))
        await asked
        await asyncio.sleep(1)
        assert slow.happened == ["asked", "answered", "closed"]

    simulate(main)


async def test_lost_lease_stops_writes_into_clusters() -> None:
    clients = RemoteClients(connect, fence=Fence(lambda: 0.0))
    with pytest.raises(Fenced):
        await clients.get(named("a"), b"1").create(CONFIG_MAP, config_map("a"))
    await clients.close()


async def test_limited_writes_into_clusters_are_counted() -> None:
    metrics = Metrics()
    clients = RemoteClients(connect, on_limited=metrics.on_limited)
    client = clients.get(named("a"), b"1")
    await client.create(CONFIG_MAP, config_map("a"))
    with suppress(TooManyWrites):
        for _ in itertools.repeat(None):
            await client.patch(CONFIG_MAP, "a", "default", patch={"data": {"a": "b"}}, type=PatchType.MERGE)
    assert b'espalier_braked_writes_total{resource="configmaps"} 1.0' in metrics.exposition()
    await clients.close()
