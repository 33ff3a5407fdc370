"""The state that an earlier manager leaves behind: ready clusters, left alone, kept to start stories from."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

from espalier.apiserver.storage.store import MemoryStore
from espalier.clusters import Isolation
from espalier.runtime.virtual import Simulation, run
from espalier.simulator.workload_clusters.stores import MemoryStores
from tests.support.environments.managed_environment import CALM, managed_environment
from tests.support.environments.many_clusters import all_ready
from tests.support.histories.isolation_stories import apply, machines


@dataclass(frozen=True)
class Steady:
    """So many clusters that are ready and were left alone for a while; no manager runs."""

    count: int
    store: MemoryStore
    stores: MemoryStores
    machines: Mapping[str, str]
    at: datetime


def steady(
    count: int,
    *,
    since: datetime,
    isolation: Isolation = Isolation.LAYERS,
    annotations: Mapping[str, str] = MappingProxyType({}),
) -> Steady:
    """Make them, on a simulated clock that starts at `since`."""

    async def main(simulation: Simulation) -> Steady:
        store, stores = MemoryStore(), MemoryStores()
        async with managed_environment(simulation.clock, store=store, stores=stores, isolation=isolation) as env:
            await apply(env.client, count, **annotations)
            await all_ready(env.clusters, count, seconds=900)
            await asyncio.sleep(CALM)
            result = await machines(env.client)
        return Steady(count, store, stores, result, simulation.clock.now())

    return run(main, epoch=since, seed=1)
