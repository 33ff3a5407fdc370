"""Controllers that run against a seed on virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION
from espalier.api.definitions.crd import crd_of
from espalier.kube.errors import AlreadyExists
from espalier.runtime.clock import Clock
from espalier.runtime.component import Component, assemble, kinds
from espalier.runtime.manager import Manager
from espalier.simulator.connections import Link
from espalier.simulator.seeds import Seed


@asynccontextmanager
async def managed(
    seed: Seed, components: Iterable[Component], *, clock: Clock, rng: random.Random, link: Link | None = None
) -> AsyncIterator[Manager]:
    """A manager of these components beside a seed; their kinds are installed."""
    client = seed.client(link=link)
    for kind in kinds(components):
        try:
            await client.create(CUSTOM_RESOURCE_DEFINITION, crd_of(kind))
        except AlreadyExists:
            continue
    manager = assemble(Manager(client, clock=clock, rng=rng), components)
    running = asyncio.create_task(manager.run(), name=f"manager of {seed.name}")
    try:
        yield manager
    finally:
        manager.stop()
        await asyncio.gather(running, return_exceptions=True)
