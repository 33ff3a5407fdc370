"""API servers of workload clusters over the network: addresses, authorities, stores, and the short way inside."""

from __future__ import annotations

import random
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from espalier.api.capi.cluster import Endpoint
from espalier.api.core import CONFIG_MAP, NODE
from espalier.api.resource import Key
from espalier.apiserver.http import AddressTaken
from espalier.clusterapi.machines.network import Network
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.connection.pki import Authority
from espalier.kube.errors import KubeError, NotFound, Unreachable
from espalier.kube.transports.http import HttpTransport
from espalier.runtime.clock import SystemClock
from espalier.simulator.workload_clusters.stores import FolderStores
from espalier.simulator.workload_clusters.workload_cluster import WorkloadCluster
from espalier.simulator.workload_clusters.workloads import Workloads
from tests.support.servers.no_retry import NO_RETRY

GARDEN, ORCHARD = Key("eksa-system", "garden"), Key("eksa-system", "orchard")
NOW = datetime.now(UTC)
AUTHORITY = Authority.create("kubernetes", now=NOW)
NOTE = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "note", "namespace": "default"}}


@asynccontextmanager
async def hosting(home: Path, *, listen: bool = True) -> AsyncIterator[Workloads]:
    workloads = Workloads(clock=SystemClock(), rng=random.Random(1), stores=FolderStores(home), listen=listen)
    try:
        yield workloads
    finally:
        await workloads.close()


async def opened(workloads: Workloads, key: Key, endpoint: Endpoint | None = None) -> WorkloadCluster:
    return await workloads.open(
        key, endpoint or workloads.reserve(key), authority=AUTHORITY, version="v1.35.4", network=Network()
    )


def kubeconfig(endpoint: Endpoint, authority: Authority = AUTHORITY) -> bytes:
    return Kubeconfig.of_cluster(
        "garden",
        server=f"https://{endpoint.host}:{endpoint.port}",
        certificate_authority=AUTHORITY.certificate,
        user="admin",
        credentials=authority.issue_client("admin", groups=["system:masters"], now=NOW),
    ).to_bytes()


async def test_every_cluster_answers_at_its_own_address(tmp_path: Path) -> None:
    async with hosting(tmp_path) as workloads:
        garden, orchard = await opened(workloads, GARDEN), await opened(workloads, ORCHARD)
        assert garden.endpoint.port != orchard.endpoint.port
        client = Client(HttpTransport(Kubeconfig.parse(kubeconfig(garden.endpoint)).context()))
        await client.create(CONFIG_MAP, NOTE)
        await client.close()
        assert (await garden.client.get(CONFIG_MAP, "note", "default")).name == "note"
        with pytest.raises(NotFound):
            await orchard.client.get(CONFIG_MAP, "note", "default")


async def test_local_kubeconfig_needs_no_network(tmp_path: Path) -> None:
    async with hosting(tmp_path, listen=False) as workloads:
        garden = await opened(workloads, GARDEN)
        client = workloads.connect(kubeconfig(garden.endpoint))
        assert (await client.list(NODE)).items == []


async def test_foreign_certificate_opens_no_short_way(tmp_path: Path) -> None:
    async with hosting(tmp_path) as workloads:
        garden = await opened(workloads, GARDEN)
        stranger = Authority.create("kubernetes", now=NOW)
        client = Client(workloads.connect(kubeconfig(garden.endpoint, stranger)).transport, retry=NO_RETRY)
        with pytest.raises(KubeError):
            await client.list(NODE)
        await client.close()


async def test_client_outlives_stop_and_start_of_its_cluster(tmp_path: Path) -> None:
    async with hosting(tmp_path, listen=False) as workloads:
        garden = await opened(workloads, GARDEN)
        client = Client(workloads.connect(kubeconfig(garden.endpoint)).transport, retry=NO_RETRY)
        await client.create(CONFIG_MAP, NOTE)
        await workloads.close()
        with pytest.raises(Unreachable, match="no API server of this process"):
            await client.list(NODE)
        await opened(workloads, GARDEN, garden.endpoint)
        assert (await client.get(CONFIG_MAP, "note", "default")).name == "note"


async def test_objects_and_address_survive_the_process(tmp_path: Path) -> None:
    async with hosting(tmp_path) as workloads:
        garden = await opened(workloads, GARDEN)
        await garden.client.create(CONFIG_MAP, NOTE)
    async with hosting(tmp_path) as workloads:
        again = await opened(workloads, GARDEN, garden.endpoint)
        assert (await again.client.get(CONFIG_MAP, "note", "default")).name == "note"
        client = Client(HttpTransport(Kubeconfig.parse(kubeconfig(garden.endpoint)).context()))
        assert (await client.get(CONFIG_MAP, "note", "default")).name == "note"
        await client.close()


async def test_storage_of_a_cluster_is_kept_until_removed(tmp_path: Path) -> None:
    async with hosting(tmp_path, listen=False) as workloads:
        assert not workloads.has_data(GARDEN)
        assert not list(tmp_path.iterdir())
        await opened(workloads, GARDEN)
        assert workloads.has_data(GARDEN)
    async with hosting(tmp_path, listen=False) as workloads:
        assert workloads.has_data(GARDEN)
        assert workloads.reach(GARDEN) is None
        await workloads.remove(GARDEN)
        assert not workloads.has_data(GARDEN)


async def test_a_taken_port_is_said_and_can_be_tried_again(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        endpoint = Endpoint(host="127.0.0.1", port=other.getsockname()[1])
        async with hosting(tmp_path) as workloads:
            with pytest.raises(AddressTaken, match=str(endpoint.port)):
                await opened(workloads, GARDEN, endpoint)
            assert workloads.reach(GARDEN) is None
            other.close()
            assert (await opened(workloads, GARDEN, endpoint)).endpoint == endpoint


async def test_removed_cluster_leaves_no_file_and_no_address(tmp_path: Path) -> None:
    async with hosting(tmp_path) as workloads:
        garden = await opened(workloads, GARDEN)
        assert list((tmp_path / "clusters").iterdir())
        await workloads.remove(GARDEN)
        assert not list((tmp_path / "clusters").iterdir())
        assert workloads.reach(GARDEN) is None
        with socket.socket() as free:
            free.bind((garden.endpoint.host, garden.endpoint.port))
        await workloads.remove(GARDEN)


@pytest.mark.parametrize("listen", [True, False])
async def test_running_cluster_has_one_address(tmp_path: Path, listen: bool) -> None:
    """Opened before its infrastructure asks for an address: a kubeconfig issued later has to lead to the same."""
    async with hosting(tmp_path, listen=listen) as workloads:
        garden = await opened(workloads, GARDEN)
        assert workloads.reserve(GARDEN) == garden.endpoint


def test_addresses_without_a_network_are_all_different(tmp_path: Path) -> None:
    workloads = Workloads(clock=SystemClock(), rng=random.Random(1), stores=FolderStores(tmp_path), listen=False)
    first = workloads.reserve(GARDEN)
    assert workloads.reserve(GARDEN) == first
    workloads.mark_port_used(Endpoint(host="127.0.0.1", port=first.port + 1))
    assert workloads.reserve(ORCHARD).port == first.port + 2
