"""A running API server, and its administrator."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from espalier.apiserver.server import Server
from espalier.kube.client import Client
from tests.support.servers.embedded_server import client_of, new_server


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = new_server()
    await server.start()
    yield server
    await server.close()


@pytest.fixture
def client(server: Server) -> Client:
    return client_of(server)
