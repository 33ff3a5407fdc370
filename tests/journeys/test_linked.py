"""What linked objects hold, and a Secret that they name, is what was asked for: a provider whose children have content.

Docker's have none, so that its stories in test_isolation.py would hold if nobody looked at children.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from functools import partial

import pytest

from espalier.apiserver.store import MemoryStore
from espalier.clusters import Isolation
from espalier.local.stores import MemoryStores
from espalier.runtime.virtual import Simulation, run
from tests.journeys.isolation_stories import NEXT
from tests.journeys.linked_stories import STORIES, plant
from tests.journeys.managed import CALM, managed_laptop
from tests.support.orchard import KINDS, ORCHARD

pytestmark = pytest.mark.embedded

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)

gated = partial(managed_laptop, providers=ORCHARD, kinds=KINDS, isolation=Isolation.GATE)
"""With the gate alone: what a later manager does is then seen in the machines, once the gate opens."""


@pytest.mark.parametrize("name", STORIES)
def test_what_happened_to_linked_objects_without_a_manager_is_seen_by_the_later_one(name: str) -> None:
    story = STORIES[name]()

    async def main(simulation: Simulation) -> None:
        store, stores = MemoryStore(), MemoryStores()
        async with gated(simulation.clock, store=store, stores=stores) as world:
            await plant(world)
            world.manager.stop()
            await asyncio.sleep(CALM)
            await story.before(world)
        async with gated(simulation.clock, seed=2, store=store, stores=stores, layers=NEXT) as world:
            await story.after(world)

    run(main, epoch=EPOCH, seed=1)
