"""The effects of a later manager are known before it comes: nothing now, and under the gate alone so much later."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest

from espalier.api.capi.machine import Machine
from espalier.apiserver.storage.store import MemoryStore
from espalier.clusters import Isolation
from espalier.clusters.preview.previews import Preview
from espalier.kube.client import Client
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.runtime.virtual import Simulation, run
from espalier.simulator.workload_clusters.stores import MemoryStores
from tests.support.environments.managed_environment import GARDEN, managed_environment
from tests.support.histories.isolation_stories import NEXT
from tests.support.histories.plan_and_reality import EPOCH, apply, assert_so, manifest_of_the_example, planned, previews
from tests.support.histories.recorded_history import recorder
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded

CALM = 600.0


def going(preview: Preview) -> set[str]:
    return {machine.name for group in preview.groups for machine in group.replaced}


@pytest.mark.demand("I19", "I20")
@pytest.mark.parametrize("isolation", sampled([Isolation.GATE, Isolation.LAYERS], 1))
def test_first_change_under_later_manager_is_planned(isolation: Isolation) -> None:
    later: dict[str, Any] = {"isolation": isolation, "layers": NEXT}
    manifest = manifest_of_the_example()
    scaled = copy.deepcopy(manifest)
    scaled[-1]["spec"]["workerNodeGroupConfigurations"][0]["count"] = 3

    async def main(simulation: Simulation) -> None:
        store, stores = MemoryStore(), MemoryStores()
        async with managed_environment(simulation.clock, store=store, stores=stores, isolation=isolation) as env:
            await apply(env, manifest)
            await env.until_ready()
            await asyncio.sleep(CALM)
            asked = await previews(env, **later)
            now, then = asked.as_it_is(GARDEN), asked.at_next_change(GARDEN)
            foreseen = await planned(env, scaled, **later)
            assert now.settled
            assert now.is_empty
            everything = {machine.name for machine in env.capi_objects.of(Machine.resource).list()}
            expected = everything if isolation is Isolation.GATE else set()
            assert going(then) == going(foreseen) == expected
        async with managed_environment(
            simulation.clock, seed=2, store=store, stores=stores, isolation=isolation, layers=NEXT
        ) as env:
            watching = Client(InProcessTransport(env.server), user_agent="recorder")
            async with recorder(env, watching) as watch:
                await watch.begin()
                await asyncio.sleep(CALM)
                left_alone = await watch.end()
                assert not any((left_alone.changed, left_alone.created, left_alone.deleted, left_alone.going))
                await watch.begin()
                await apply(env, scaled)
                await env.until_ready()
                await asyncio.sleep(CALM)
                assert_so(foreseen, await watch.end())

    run(main, epoch=EPOCH, seed=1)
