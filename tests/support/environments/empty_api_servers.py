"""Two API servers that have nothing: a bootstrap and a management cluster, for steps that miss something there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from espalier.api.core import CONFIG_MAP, NAMESPACE
from espalier.api.eksa.vocabulary.group import MANAGEMENT_CLUSTER, SYSTEM_NAMESPACE
from espalier.api.resource import Key
from espalier.apiserver.server import Server
from espalier.apiserver.storage.store import MemoryStore
from espalier.kube.client import Client
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.management.creation import Creation
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.bootstraps import Quiet
from tests.support.objects.moved_clusters import NoRules

MANAGEMENT = Key("default", "management")
Story = Callable[[Client, Client], Awaitable[None]]


@asynccontextmanager
async def server(simulation: Simulation) -> AsyncIterator[Client]:
    served = Server(MemoryStore(), now=simulation.clock.now, random=simulation.random)
    await served.start()
    try:
        yield Client(InProcessTransport(served))
    finally:
        await served.close()


def with_servers(story: Story) -> None:
    """A bootstrap and a cluster, both of which have nothing."""

    async def main(simulation: Simulation) -> None:
        async with server(simulation) as bootstrap, server(simulation) as cluster:
            await story(bootstrap, cluster)

    run(main, epoch=datetime(2026, 1, 1, tzinfo=UTC), seed=1)


def creation(bootstrap: Client, cluster: Client) -> Creation:
    parts = {"cluster_api": [], "espalier": [], "judge": NoRules(), "write_kubeconfig": None, "made": None}
    return Creation(MANAGEMENT, "v0.26.0", bootstrap, connect=lambda _: cluster, progress=Quiet(), **parts)  # type: ignore[arg-type]


async def named(client: Client, name: str) -> None:
    """The ConfigMap of a management cluster."""
    await client.apply(NAMESPACE, {"metadata": {"name": SYSTEM_NAMESPACE}})
    metadata = {"name": MANAGEMENT_CLUSTER, "namespace": SYSTEM_NAMESPACE}
    await client.apply(CONFIG_MAP, {"metadata": metadata, "data": {"namespace": "default", "name": name}})
