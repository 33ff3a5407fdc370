"""What contracts are tried on: the embedded API server with each of its stores, and a real control plane."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from espalier.api.core import NAMESPACE
from espalier.apiserver.server import Server
from espalier.apiserver.sqlite import SqliteStore
from espalier.apiserver.store import MemoryStore, Store
from espalier.kube.client import Client
from espalier.kube.http import HttpTransport
from espalier.kube.inprocess import InProcessTransport
from espalier.kube.kubeconfig import Kubeconfig
from espalier.kube.wire import Transport
from tests.support.control_plane import ControlPlane


@asynccontextmanager
async def running(store: Store) -> AsyncIterator[Server]:
    server = Server(store, now=lambda: datetime.now(UTC), random=random.Random(1))
    await server.start()
    yield server
    await server.close()


@pytest.fixture
async def in_memory() -> AsyncIterator[Server]:
    async with running(MemoryStore()) as server:
        yield server


@pytest.fixture
async def on_disk(tmp_path: Path) -> AsyncIterator[Server]:
    async with running(SqliteStore(tmp_path / "objects.db")) as server:
        yield server


@pytest.fixture(
    params=[
        pytest.param("in_memory", marks=pytest.mark.embedded),
        pytest.param("on_disk", marks=pytest.mark.embedded),
        pytest.param("real", marks=pytest.mark.envtest),
    ]
)
def transport(request: pytest.FixtureRequest) -> Transport:
    if request.param != "real":
        return InProcessTransport(request.getfixturevalue(request.param))
    real: ControlPlane = request.getfixturevalue("control_plane")
    return HttpTransport(Kubeconfig.load([real.kubeconfig]).context(), environment={})


@pytest.fixture
async def client(transport: Transport) -> AsyncIterator[Client]:
    client = Client(transport, field_manager="contract", user_agent="contract")
    yield client
    await client.close()


@pytest.fixture
async def namespace(client: Client) -> str:
    return (await client.create(NAMESPACE, {"metadata": {"generateName": "contract-"}})).name
