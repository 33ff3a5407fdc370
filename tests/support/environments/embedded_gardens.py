"""How stories of isolation are told on the embedded API server: under a manager, none, then one of a later build."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from espalier.api.resource import Key
from espalier.apiserver.server import Server
from espalier.apiserver.storage.store import MemoryStore
from espalier.clusters import Isolation
from espalier.clusters.design.layers import Layer
from espalier.kube.client import Client
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.providers.kinds import CLUSTER_API_KINDS, EKSA_KINDS
from espalier.releases import Releases
from espalier.runtime.virtual import Simulation, run
from espalier.simulator.workload_clusters.stores import MemoryStores
from tests.support.environments.managed_clusters import AccountedClusters
from tests.support.environments.managed_environment import CALM, ManagedEnvironment
from tests.support.environments.prepared_cluster import prepare
from tests.support.histories.isolation_stories import NEXT, Backup, Step, Story
from tests.support.providers.orchard import KINDS

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)

Environment = Callable[..., AbstractAsyncContextManager[ManagedEnvironment]]


@dataclass(frozen=True)
class Garden:
    """A steady garden: the local environment that it is on, how it is made, and its backup."""

    environment: Environment
    plant: Step
    back_up: Callable[[AccountedClusters], Awaitable[Backup]]

    def tell(self, story: Story, isolation: Isolation = Isolation.GATE) -> None:
        """Before it without a manager, after it with one of a later build."""

        async def main(simulation: Simulation) -> None:
            store, stores = MemoryStore(), MemoryStores()
            async with self.environment(simulation.clock, store=store, stores=stores, isolation=isolation) as env:
                await self.plant(env)
                # What comes now is not seen by a manager before the later one.
                env.manager.stop()
                await asyncio.sleep(CALM)
                await story.before(env)
            async with self.environment(
                simulation.clock, seed=2, store=store, stores=stores, layers=NEXT, isolation=isolation
            ) as env:
                await story.after(env)

        run(main, epoch=EPOCH, seed=1)

    @asynccontextmanager
    async def restored(
        self,
        simulation: Simulation,
        *lost: Key,
        layers: Sequence[Layer] = NEXT,
        isolation: Isolation = Isolation.GATE,
    ) -> AsyncIterator[tuple[ManagedEnvironment, Backup]]:
        """Into an API server that had nothing, without objects of some keys; now there is a manager of a later build.

        It is also what a move to another management cluster comes to.
        """
        empty, stores = MemoryStore(), MemoryStores()
        async with self.environment(simulation.clock, stores=stores) as env:
            await self.plant(env)
            backup = await self.back_up(env)
        server = Server(empty, now=simulation.clock.now, random=simulation.random)
        await server.start()
        client = Client(InProcessTransport(server))
        await prepare(client, Releases.load(), (*EKSA_KINDS, *CLUSTER_API_KINDS, *KINDS))
        await backup.restore(client, *lost)
        await server.close()
        async with self.environment(
            simulation.clock, seed=2, store=empty, stores=stores, layers=layers, isolation=isolation
        ) as env:
            yield env, backup
