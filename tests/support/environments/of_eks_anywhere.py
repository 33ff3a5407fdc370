"""A management cluster of EKS Anywhere with a settled cluster, in one process: stories of take-overs begin from it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import cache

from espalier.api.resource import Key
from espalier.apiserver.server import Server
from espalier.apiserver.storage.store import Change, MemoryStore
from espalier.kube.client import Client
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.management.adoption.apply import Adopter
from espalier.management.adoption.undo import Undoing
from espalier.providers.registry import PROVIDERS
from espalier.runtime.virtual import Simulation, run
from espalier.simulator.workload_clusters.stores import MemoryStores
from tests.support.environments.managed_clusters import AccountedClusters
from tests.support.environments.managed_environment import CALM, ManagedEnvironment, managed_environment
from tests.support.environments.manager_upgrades import is_content
from tests.support.environments.stores import CopiedStores, copied
from tests.support.environments.tenants_of_every_provider import settled
from tests.support.objects import eks_anywhere

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
Story = Callable[[ManagedEnvironment], Awaitable[None]]
Before = Callable[[Client], Awaitable[None]]


@cache
def made() -> tuple[MemoryStore, MemoryStores, datetime]:
    """It, with the workload clusters, and the time then."""

    async def main(simulation: Simulation) -> tuple[MemoryStore, MemoryStores, datetime]:
        store, stores = MemoryStore(), MemoryStores()
        async with managed_environment(simulation.clock, store=store, stores=stores) as env:
            await env.apply()
            await env.until_ready()
            await asyncio.sleep(CALM)
        eks_anywhere.hand_over(store)
        return store, stores, simulation.clock.now()

    return run(main, epoch=EPOCH, seed=1)


@cache
def of_every_provider(since: datetime = EPOCH) -> MemoryStore:
    """A management cluster of EKS Anywhere with a settled cluster of every provider, as `settled` makes them."""
    store = copied(settled(since=since).store)
    eks_anywhere.hand_over(store)
    return store


def after(before: Before, story: Story) -> list[str]:
    """A manager of ours starts after `before`. Returns what was written of Cluster API then, beside statuses."""
    content: list[str] = []

    async def main(simulation: Simulation) -> None:
        store, stores = copied(made()[0]), CopiedStores(made()[1])

        async def begin(client: Client) -> None:
            await before(client)
            store.follow(look)

        def look(change: Change) -> None:
            if is_content(change) and change.table.endswith("cluster.x-k8s.io"):
                content.append(f"{change.table} {change.key}")

        async with managed_environment(simulation.clock, seed=2, store=store, stores=stores, before_start=begin) as env:
            await asyncio.sleep(CALM)
            await story(env)

    run(main, epoch=made()[2], seed=1)
    return content


def on_site(story: Callable[[Client, MemoryStore], Awaitable[None]]) -> None:
    """All that runs of EKS Anywhere is installed as well, and nobody acts."""

    async def installed(client: Client, store: MemoryStore) -> None:
        await eks_anywhere.install(client)
        await story(client, store)

    on_store(installed, eks_anywhere.make_site)


def on_store(
    story: Callable[[Client, MemoryStore], Awaitable[None]],
    prepare: Callable[[MemoryStore], None] = lambda _store: None,
) -> None:
    """Its objects, on which nobody acts."""

    async def main(simulation: Simulation) -> None:
        store = copied(made()[0])
        prepare(store)
        server = Server(store, now=simulation.clock.now, random=random.Random(1))
        await server.start()
        try:
            await story(Client(InProcessTransport(server), user_agent="journey"), store)
        finally:
            await server.close()

    run(main, epoch=made()[2], seed=1)


def adopter(client: Client, *, stops: bool = False) -> Adopter:
    return Adopter(client, PROVIDERS, lambda _text: None, stops=stops)


def undoing(client: Client) -> Undoing:
    return Undoing(client, PROVIDERS, lambda _text: None)


async def adopted(client: Client) -> None:
    await adopter(client).apply(None)


async def nothing(_of: Client | ManagedEnvironment) -> None:
    pass


async def grows(env: AccountedClusters, key: Key) -> None:
    """A cluster gets one more worker; no machine is replaced."""
    cluster = env.clusters.get(key)
    assert cluster is not None
    before = await env.machine_names(key.name)
    groups = [dict(group) for group in cluster.tree["spec"]["workerNodeGroupConfigurations"]]
    groups[0]["count"] += 1
    await env.change(key, workerNodeGroupConfigurations=groups)
    await env.until_ready(key)
    after = await env.machine_names(key.name)
    assert all(before[name] <= after[name] for name in before), key
    assert sum(map(len, after.values())) == sum(map(len, before.values())) + 1, key
