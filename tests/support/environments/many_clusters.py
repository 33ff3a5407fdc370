"""Many clusters that are made, and listened to once they are steady."""

from __future__ import annotations

import asyncio
from collections import Counter

from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.resource import Key
from espalier.apiserver.server import Server
from espalier.kube.client import Client
from espalier.kube.objects import Object
from espalier.providers.kinds import CATALOG
from espalier.runtime.caches.cache import Cache
from tests.support.environments.control_plane import READING_VERBS
from tests.support.environments.managed_clusters import manifests
from tests.support.environments.managed_environment import ManagedEnvironment

CALM_SECONDS = 5.0
"""A real environment is steady once it has not written for so long."""
SIMULATED_SECONDS = 600.0
"""How long a simulated environment is listened to; its time costs nothing."""

Writes = Counter[tuple[str, ...]]


async def apply(client: Client, count: int) -> None:
    for tree in manifests(count):
        await client.apply(CATALOG.resource_of(tree["apiVersion"], tree["kind"]), tree, field_manager="kubectl")


async def all_ready(clusters: Cache, count: int, *, seconds: float) -> None:
    """Wait until so many Clusters are ready, besides that of the management cluster."""
    ready: set[Key] = set()
    enough = asyncio.Event()

    def look(_old: Object | None, new: Object | None, _first: bool) -> None:
        if new is not None and new.name.startswith("garden-") and new.decode(Cluster).status.ready:
            ready.add(new.key)
        if len(ready) == count:
            enough.set()

    stop = clusters.subscribe(look)
    try:
        for item in clusters.list():
            look(None, item, True)
        async with asyncio.timeout(seconds):
            await enough.wait()
    finally:
        stop()


def writes(servers: list[Server]) -> Writes:
    """The requests to these servers so far, without reads and Leases."""
    total: Writes = Counter()
    for server in servers:
        total += Counter(
            {
                asked: count
                for asked, count in server.requests.items()
                if asked[0] not in READING_VERBS and asked[1] != "leases"
            }
        )
    return total


def servers(env: ManagedEnvironment, count: int) -> list[Server]:
    """The management cluster's API server, and those of all workload clusters."""
    results = [env.server]
    for number in range(count):
        workload = env.workloads.reach(Key(SYSTEM_NAMESPACE, f"garden-{number:03}"))
        assert workload is not None
        results.append(workload.server)
    return results


async def heard(env: ManagedEnvironment, count: int) -> Writes:
    """The writes in an environment with so many steady clusters, while it is listened to."""
    all_servers = servers(env, count)
    before = writes(all_servers)
    await asyncio.sleep(SIMULATED_SECONDS)
    return writes(all_servers) - before
