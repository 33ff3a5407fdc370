"""The implementations of etcd's protocol on which the contract is tried, through the client."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from espalier.etcd.client import Client
from tests.support.etcd.etcds import IMPLEMENTATIONS, Clients, Implementation, Limits
from tests.support.left_files import folder_of_a_fixture


def each_implementation() -> list[object]:
    """For `params`: real ones are of another tier."""
    return [
        pytest.param(each, id=each.name, marks=pytest.mark.envtest if each.real else pytest.mark.embedded)
        for each in IMPLEMENTATIONS
    ]


@pytest.fixture(scope="module", params=each_implementation())
def implementation(request: pytest.FixtureRequest) -> Implementation:
    chosen: Implementation = request.param
    if reason := chosen.lacks():
        pytest.skip(reason)
    return chosen


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def clients(implementation: Implementation, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Clients]:
    """Clients of one running etcd, which the tests of a module share: each writes below a prefix of its own."""
    with folder_of_a_fixture(tmp_path_factory, "etcd") as folder:
        async with implementation.run(folder, Limits()) as made:
            yield made


@pytest_asyncio.fixture(loop_scope="session")
async def client(clients: Clients) -> AsyncIterator[Client]:
    async with clients() as made:
        yield made


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> bytes:
    """Where a test writes."""
    return f"/{request.node.originalname}/".encode()
