"""Kubelets of virtual machines: they become nodes, and stay what they are while their control plane moves."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from espalier.api.cloud import CloudRequest, Create, Credentials, Delete, Network, Record, SetRecord, VirtualMachine
from espalier.api.core import LEASE, NODE
from espalier.api.gardener.extensions.operating_system_config import BOOTSTRAP_KUBECONFIG
from espalier.apiserver.server import Server
from espalier.apiserver.storage.store import MemoryStore
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.errors import Unreachable
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.retry import Retry
from espalier.runtime.virtual import Simulation
from espalier.simulator.cloud.kubelets import NODE_LEASES, Kubelets
from espalier.simulator.cloud.service import Cloud
from espalier.simulator.cloud.user_data import Bootstrap, bootstrap_of
from tests.support.environments.simulated_loop import simulate

HOST = "api.rose.example"
BY = Credentials("garden", "t")


def user_data(content: str | None = None) -> bytes:
    kubeconfig = Kubeconfig.of_cluster(
        "rose", server=f"https://{HOST}:443", certificate_authority=b"ca", user="node", credentials="token"
    )
    text = kubeconfig.to_bytes().decode() if content is None else content
    return msgspec.json.encode({"files": [{"path": BOOTSTRAP_KUBECONFIG, "content": text}]})


class Garden:
    """API servers by address, of one store: a control plane that moves takes its data along."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.cloud = Cloud(simulation.clock, {"garden": "t"}, boot_seconds=30)
        self.servers: dict[str, Server] = {}
        self.store = MemoryStore()
        self.kubelets = Kubelets(self.cloud, self.connect, simulation.clock, simulation.random)

    def connect(self, address: str, bootstrap: Bootstrap) -> Client:
        assert bootstrap.host == HOST
        if address not in self.servers:
            raise Unreachable("connection refused", sent=False)
        transport = InProcessTransport(self.servers[address])
        return Client(transport, user_agent="kubelet", retry=Retry(attempts=1))

    async def serve(self, address: str) -> Server:
        now = self.simulation.clock.now
        server = self.servers[address] = Server(self.store, now=now, random=self.simulation.random)
        await server.start()
        return server

    async def set_record(self, *addresses: str) -> None:
        await self.cloud.call(CloudRequest(BY, SetRecord(Record(name=HOST, values=[*addresses], ttl=60))))

    async def machine(self, data: bytes) -> str:
        (network,) = await self.cloud.call(CloudRequest(BY, Create(Network(name="n", cidr="10.0.0.0/8"))))
        wanted = VirtualMachine(name="node-1", network=network.id, size="s", image="i", user_data=data)
        (made,) = await self.cloud.call(CloudRequest(BY, Create(wanted)))
        return made.id


def client_of(server: Server) -> Client:
    return Client(InProcessTransport(server))


@pytest.mark.demand(G3="nodes find it by DNS")
def test_node_finds_a_moved_control_plane_by_dns() -> None:
    """G3: the same kubelet, the same Node, and its Lease is renewed on the new API server."""

    async def story(simulation: Simulation) -> None:
        garden = Garden(simulation)
        running = asyncio.ensure_future(garden.kubelets.run())
        source = await garden.serve("192.0.2.1")
        await garden.set_record("192.0.2.1")
        id_ = await garden.machine(user_data())
        await asyncio.sleep(60)
        before = await client_of(source).get(NODE, "node-1")
        kubelet = garden.kubelets.kubelets[id_]
        del garden.servers["192.0.2.1"]
        await asyncio.sleep(600)
        assert kubelet.last_error
        destination = await garden.serve("192.0.2.2")
        await garden.set_record("192.0.2.2")
        await asyncio.sleep(120)
        after = await client_of(destination).get(NODE, "node-1")
        lease = (await client_of(destination).get(LEASE, "node-1", NODE_LEASES)).tree
        assert after.metadata.uid == before.metadata.uid == kubelet.node_uid
        assert garden.kubelets.kubelets[id_] is kubelet
        assert (kubelet.server, kubelet.last_error) == ("192.0.2.2", "")
        assert 600 < kubelet.longest_gap < 680
        assert lease["spec"]["renewTime"] > "2026-01-01T00:12:30"
        running.cancel()

    simulate(story)


def test_a_machine_that_is_deleted_renews_no_longer() -> None:
    async def story(simulation: Simulation) -> None:
        garden = Garden(simulation)
        running = asyncio.ensure_future(garden.kubelets.run())
        server = await garden.serve("192.0.2.1")
        await garden.set_record("192.0.2.1")
        id_ = await garden.machine(user_data())
        await asyncio.sleep(60)
        await garden.cloud.call(CloudRequest(BY, Delete("VirtualMachine", id_)))
        lease = await client_of(server).get(LEASE, "node-1", NODE_LEASES)
        await asyncio.sleep(60)
        assert await client_of(server).get(LEASE, "node-1", NODE_LEASES) == lease
        assert garden.kubelets.kubelets == {}
        running.cancel()

    simulate(story)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"#!/bin/sh",
        b"[" * 60_000,
        b'{"files": 3}',
        user_data(""),
        user_data("not: a kubeconfig"),
        user_data("{" * 1000),
        b"x" * 100_000,
    ],
)
def test_user_data_of_no_node_are_no_error(data: bytes) -> None:
    assert bootstrap_of(data) is None
