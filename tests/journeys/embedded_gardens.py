"""How stories of isolation are told on the embedded API server: under a manager, none, then one of a later build."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from espalier.api.resource import Key
from espalier.apiserver.server import Server
from espalier.apiserver.store import MemoryStore
from espalier.cli.environment.management import prepare
from espalier.clusters import Isolation
from espalier.clusters.layers import Layer
from espalier.kube.client import Client
from espalier.kube.inprocess import InProcessTransport
from espalier.providers.kinds import CLUSTER_API_KINDS, EKSA_KINDS
from espalier.releases import Releases
from espalier.runtime.virtual import Simulation, run
from espalier.simulator.stores import MemoryStores
from tests.journeys.asking import AccountedClusters
from tests.journeys.isolation_stories import NEXT, Backup, Step, Story
from tests.journeys.managed import CALM, ManagedLaptop
from tests.support.orchard import KINDS

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)

Laptop = Callable[..., AbstractAsyncContextManager[ManagedLaptop]]


@dataclass(frozen=True)
class Garden:
    """A steady garden: the laptop that it is on, how it is made, and its backup."""

    laptop: Laptop
    plant: Step
    back_up: Callable[[AccountedClusters], Awaitable[Backup]]

    def tell(self, story: Story, isolation: Isolation = Isolation.GATE) -> None:
        """Before it without a manager, after it with one of a later build."""

        async def main(simulation: Simulation) -> None:
            store, stores = MemoryStore(), MemoryStores()
            async with self.laptop(simulation.clock, store=store, stores=stores, isolation=isolation) as world:
                await self.plant(world)
                # What comes now is not seen by a manager before the later one.
                world.manager.stop()
                await asyncio.sleep(CALM)
                await story.before(world)
            async with self.laptop(
                simulation.clock, seed=2, store=store, stores=stores, layers=NEXT, isolation=isolation
            ) as world:
                await story.after(world)

        run(main, epoch=EPOCH, seed=1)

    @asynccontextmanager
    async def restored(
        self,
        simulation: Simulation,
        *lost: Key,
        layers: Sequence[Layer] = NEXT,
        isolation: Isolation = Isolation.GATE,
    ) -> AsyncIterator[tuple[ManagedLaptop, Backup]]:
        """Into an API server that had nothing, without objects of some keys; now there is a manager of a later build.

        It is also what a move to another management cluster comes to.
        """
        empty, stores = MemoryStore(), MemoryStores()
        async with self.laptop(simulation.clock, stores=stores) as world:
            await self.plant(world)
            backup = await self.back_up(world)
        server = Server(empty, now=simulation.clock.now, random=simulation.random)
        await server.start()
        client = Client(InProcessTransport(server))
        await prepare(client, Releases.load(), (*EKSA_KINDS, *CLUSTER_API_KINDS, *KINDS))
        await backup.restore(client, *lost)
        await server.close()
        async with self.laptop(
            simulation.clock, seed=2, store=empty, stores=stores, layers=layers, isolation=isolation
        ) as world:
            yield world, backup
