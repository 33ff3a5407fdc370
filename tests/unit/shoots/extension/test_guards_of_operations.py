"""Operations that must not begin, go on, write or forget a request: each guard alone."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from espalier.api.core import CONFIG_MAP
from espalier.api.gardener.extensions.cluster import Cluster
from espalier.kube.client import PatchType
from espalier.kube.errors import NotFound
from espalier.runtime.controllers.outcome import Wait
from espalier.runtime.virtual import Simulation
from espalier.shoots.extension import Request, Result
from tests.support.environments.simulated_loop import simulate
from tests.support.gardens.extensions import SHOOT, is_gone, running, settle, succeeded
from tests.support.gardens.ponds import POND, Ponds, Story, Water, begin


class LateWriter(Ponds):
    """Its author does not end when it is told to, and writes then."""

    async def reconcile(self, request: Request[Water]) -> Result[Water] | Wait:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)
        metadata = {"name": "late", "namespace": SHOOT}
        await request.writer.create(CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        return Result(Water("late"))


def test_nothing_is_written_once_the_lease_is_over() -> None:
    """Another seed may have restored the shoot's objects by then."""

    async def story(simulation: Simulation) -> None:
        world = await begin(simulation)
        world.actuator = LateWriter(world.provider)
        await world.seed.renew(seconds=30)
        async with running(world.seed, [world.component()]):
            await world.make(asks="reconcile")
            await settle(600)
            with pytest.raises(NotFound):
                await world.seed.client.get(CONFIG_MAP, "late", SHOOT)

    simulate(story)


def test_migrate_ends_a_call_at_once() -> None:
    """Not only when clocks are checked again: the shoot is down meanwhile."""

    async def story(simulation: Simulation) -> None:
        world = await begin(simulation)
        world.seed.keep_renewing()
        world.provider.takes = 60
        async with running(world.seed, [world.component()]):
            await world.make(asks="reconcile")
            await settle(11)
            await world.seed.ask(POND, "pond", "migrate")
            asked = simulation.clock.monotonic()
            await world.until(succeeded("Migrate"))
        assert simulation.clock.monotonic() - asked < 1

    simulate(story)


def test_a_request_during_a_restore_is_carried_out() -> None:
    """As one for a corrected state: it is another one, and not done with the first."""

    async def story(simulation: Simulation) -> None:
        world = await begin(simulation)
        world.seed.keep_renewing()
        world.provider.ponds, world.provider.takes = ["blue"], 60
        async with running(world.seed, [world.component()]):
            await world.make(asks="restore", state={"pond": "blue"})
            await settle(10)
            await world.seed.ask(POND, "pond", "restore")
            await world.until(succeeded("Restore"))
        assert world.provider.calls == ["fill blue", "fill blue"]

    simulate(story)


def test_nothing_is_deleted_of_a_failed_shoot() -> None:
    async def failed(world: Story, state: str) -> None:
        shoot = {"status": {"lastOperation": {"type": "Delete", "state": state}}}
        await world.seed.client.patch(Cluster.resource, SHOOT, patch={"spec": {"shoot": shoot}}, type=PatchType.MERGE)

    async def story(simulation: Simulation) -> None:
        world = await begin(simulation)
        world.seed.keep_renewing()
        async with running(world.seed, [world.component()]):
            await world.make(asks="reconcile")
            await world.until(succeeded("Create"))
            before = list(world.provider.calls)
            await failed(world, "Failed")
            await world.seed.delete(POND, "pond")
            await settle(600)
            assert world.provider.calls == before
            await failed(world, "Processing")
            await world.until(is_gone)
        assert world.provider.calls == [*before, "fill up"]

    simulate(story)


def test_resource_of_another_type_is_left_alone() -> None:
    """Two extensions of a seed would make two of everything."""

    async def story(simulation: Simulation) -> None:
        world = await begin(simulation)
        world.seed.keep_renewing()
        async with running(world.seed, [world.component()]):
            await world.seed.make(POND, "pond", {"type": "aquarium"}, asks="reconcile")
            await settle(600)
            tree = (await world.seed.get(POND, "pond")).tree
        assert (world.provider.calls, "status" in tree, "finalizers" in tree["metadata"]) == ([], False, False)

    simulate(story)
