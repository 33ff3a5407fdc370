"""A management cluster on which a tenant has a cluster of every provider, all settled: stories begin from copies."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache

from espalier.api.resource import Key
from espalier.apiserver.storage.store import MemoryStore
from espalier.runtime.virtual import Simulation, run
from espalier.simulator.workload_clusters.stores import MemoryStores
from tests.support.environments.managed_environment import CALM, ManagedEnvironment, managed_environment
from tests.support.environments.stores import CopiedStores, copied
from tests.support.histories.isolation_stories import machines
from tests.support.histories.tenant_stories import ALICE, BOB
from tests.support.providers.every_provider import KINDS, SAMPLES, apply

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def key_of(kind: str) -> Key:
    """Her cluster of a provider, by the kind of its datacenter."""
    return Key(ALICE, f"core-{kind.removesuffix('DatacenterConfig').lower()}")


async def make_all(env: ManagedEnvironment, kinds: Sequence[str] = KINDS) -> None:
    """All that administrators bring for both tenants, and hers of each provider."""
    for kind in kinds:
        sample, key = SAMPLES[kind], key_of(kind)
        await sample.bring(env.client, ALICE, BOB)
        await apply(env.client, sample.cluster(ALICE, key.name, KINDS.index(kind)))
    await asyncio.sleep(CALM)
    for kind in kinds:
        await env.until_ready(key_of(kind))
    await asyncio.sleep(CALM)


@dataclass(frozen=True)
class Settled:
    """All are ready, and were left alone for a while; no manager runs."""

    store: MemoryStore
    stores: MemoryStores
    machines: Mapping[str, str]
    at: datetime

    def opened(self) -> tuple[MemoryStore, CopiedStores]:
        """Stores to go on from."""
        return copied(self.store), CopiedStores(self.stores)


def settled(*kinds: str, since: datetime = EPOCH) -> Settled:
    """With her clusters of these providers, by default of all; made once, on a simulated clock that starts then."""
    return _settled(kinds or tuple(KINDS), since)


@cache
def _settled(kinds: tuple[str, ...], since: datetime) -> Settled:
    async def main(simulation: Simulation) -> Settled:
        store, stores = MemoryStore(), MemoryStores()
        tenants = (ALICE, BOB)
        async with managed_environment(simulation.clock, store=store, stores=stores, copies_to=tenants) as env:
            await make_all(env, kinds)
            result = await machines(env.client)
        return Settled(store, stores, result, simulation.clock.now())

    return run(main, epoch=since, seed=1)
