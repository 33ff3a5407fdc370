"""The manager works in workload clusters as a user with declared rights, as administrator only to make that user."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from espalier.api.core import CERTIFICATE_SIGNING_REQUEST
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.resource import Key
from espalier.kube.client import Client
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.wire import User
from espalier.runtime.virtual import Simulation, run
from espalier.runtime.workload_clusters.workload_account import NAME
from espalier.simulator.workload_clusters import transport
from tests.support.environments.managed_environment import GARDEN, ManagedEnvironment, managed_environment

pytestmark = pytest.mark.embedded

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
ADMINISTRATORS = ("clusterroles", "clusterrolebindings", "certificatesigningrequests")
Story = Callable[[ManagedEnvironment], Awaitable[None]]


def journey(story: Story, **settings: Any) -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock, **settings) as env:
            await story(env)

    run(main, epoch=EPOCH, seed=1)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Users of requests to workload clusters, and their kinds of object."""
    requests: list[tuple[str, str]] = []

    class Recorded(InProcessTransport):
        def __init__(self, endpoint: Any, user: User) -> None:
            super().__init__(endpoint, user)
            self.user = user

        async def request(self, request: Any) -> Any:
            parts = request.path.strip("/").split("/")
            parts = parts[4:] if "namespaces" in parts and not request.path.endswith("namespaces") else parts
            kind = next((part for part in parts if part.endswith("s") and part not in ("apis", "namespaces")), "")
            requests.append((self.user.name, kind))
            return await super().request(request)

    monkeypatch.setattr(transport, "InProcessTransport", Recorded)
    return requests


def administrator(env: ManagedEnvironment) -> Client:
    workload = env.workloads.reach(Key(SYSTEM_NAMESPACE, GARDEN.name))
    assert workload is not None
    return workload.client


@pytest.mark.demand(L63="the manager")
def test_the_manager_asks_as_its_own_user(asked: list[tuple[str, str]]) -> None:
    async def story(env: ManagedEnvironment) -> None:
        await env.apply()
        await env.until_ready()
        others = {kind for user, kind in asked if user != NAME}
        assert others <= set(ADMINISTRATORS)
        assert len([user for user, _ in asked if user == NAME]) > 5
        assert not (await administrator(env).list(CERTIFICATE_SIGNING_REQUEST)).items

    journey(story)
