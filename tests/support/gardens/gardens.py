"""A garden for tests, on a simulated clock: that of the environment, with seeds whose control planes take no pods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from types import MappingProxyType

from espalier.api.etcd.timing import Timing
from espalier.apiserver.server import Server
from espalier.cli.local.environment.garden.garden_objects import PROVIDER
from espalier.cli.local.environment.garden.gardens import Garden, Settings, Wrap, unchanged
from espalier.kube.client import Client
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.retry import Retry
from espalier.kube.transports.wire import ADMIN, User
from espalier.runtime import virtual
from espalier.shoots.gardenlet.config import GardenletConfig
from tests.support.gardens.fast_seeds import FastSeed, Shared
from tests.support.gardens.garden_users import NAMESPACE, PROJECT, GardenUser
from tests.support.tasks import left_over

__all__ = ["EPOCH", "GARDEN", "GARDENLET", "NAMESPACE", "PROJECT", "World", "client_of", "garden"]

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
GARDENLET, GARDEN = "gardenlet", "garden"
"""User agents of the programs that are tested; all else has another."""


class World(GardenUser):
    """A garden with fast seeds, its user, and what they have in common."""

    def __init__(
        self, simulation: virtual.Simulation, settings: Settings, shared: Shared, *, wrap: Wrap = unchanged
    ) -> None:
        self.timing, self.config = settings.gardenlet.timing, settings.garden
        self.seeds = shared.seeds
        self.infrastructures, self.buckets, self.witness = shared.infrastructures, shared.buckets, shared.witness

        def new_seed(made: Garden, name: str) -> FastSeed:
            self.seeds[name] = FastSeed(made, name, shared)
            return self.seeds[name]

        super().__init__(Garden(simulation.clock, simulation.random, settings, wrap=wrap, new_seed=new_seed))
        self.server, self.cloud = self.garden.server, self.garden.cloud

    def restore_links(self) -> None:
        """All networks are whole again."""
        for seed in self.seeds.values():
            seed.links.restore()


def client_of(server: Server, agent: str, user: User = ADMIN) -> Client:
    """A client of a server that does not end."""
    return Client(InProcessTransport(server, user), user_agent=agent, retry=Retry(attempts=1))


@asynccontextmanager
async def garden(
    simulation: virtual.Simulation,
    *seeds: str,
    timing: Timing | None = None,
    delay: float = 1.0,
    wrap: Wrap = unchanged,
    with_cloud: bool = False,
    has_clients: bool = False,
    clock_skew: float = 0.0,
    clock_ahead: Mapping[str, float] = MappingProxyType({}),
) -> AsyncIterator[World]:
    """A garden with these seeds, all running. Nothing is left running afterwards. Clocks of seeds are ahead by seconds,
    or at random within a skew."""
    before = asyncio.all_tasks()
    config = GardenletConfig("", timing=timing or Timing(), dns_type=PROVIDER)
    settings = Settings(gardenlet=config, random_keys=False)
    shared = Shared(delay, with_cloud, has_clients, clock_skew, clock_ahead)
    world = World(simulation, settings, shared, wrap=wrap)
    try:
        await world.garden.start([PROJECT])
        for name in seeds or ("a", "b"):
            await world.garden.add_seed(name)
        yield world
    finally:
        await world.garden.stop()
    assert world.witness.violations == []
    assert await left_over(before) == set()
