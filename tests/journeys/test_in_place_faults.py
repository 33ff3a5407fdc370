"""The manager dies while a cluster is upgraded in place, after any write: another one brings it to the same end."""

from __future__ import annotations

import asyncio

import pytest

from espalier.apiserver.store import MemoryStore
from espalier.kube.wire import Request, Response, Stream, Transport
from espalier.local.stores import MemoryStores
from espalier.runtime.virtual import Simulation, run
from tests.journeys.in_place import EPOCH, NEW, identities, marks, spec
from tests.journeys.managed import ManagedLaptop, managed_laptop
from tests.journeys.test_simulated_machines import CrashingTransport
from tests.support.upgraders import Upgraders

pytestmark = pytest.mark.embedded


class Valve:
    """Stands before all writes of the controllers; dies after a number of them, once it is armed."""

    def __init__(self) -> None:
        self.died = asyncio.Event()
        self.left: int | None = None
        self.seen = 0

    def __call__(self, transport: Transport) -> Transport:
        return _Valved(transport, self)


class _Valved:
    def __init__(self, transport: Transport, valve: Valve) -> None:
        self._transport = transport
        self._valve = valve

    async def request(self, request: Request) -> Response:
        valve = self._valve
        if valve.died.is_set():
            return await CrashingTransport(self._transport, 0, valve.died).request(request)
        response = await self._transport.request(request)
        if request.method != "GET":
            valve.seen += 1
            if valve.left is not None:
                valve.left -= 1
                if valve.left <= 0:
                    valve.died.set()
        return response

    async def stream(self, request: Request) -> Stream | Response:
        return await self._transport.stream(request)

    async def close(self) -> None:
        await self._transport.close()


@pytest.mark.parametrize("writes", [1, 4, 8, 13, 19, 26, 34, 44])
def test_a_manager_that_died_after_any_write_is_followed_by_one_that_ends_the_upgrade(writes: int) -> None:
    async def main(simulation: Simulation) -> None:
        store, stores, valve = MemoryStore(), MemoryStores(), Valve()
        async with managed_laptop(simulation.clock, store=store, stores=stores, wrap=valve) as world:
            await world.apply(**spec(1, 1))
            await world.until_ready()
            Upgraders(world.workloads)
            before = await identities(world)
            valve.left = writes
            await world.change(kubernetesVersion="1.36")
            done = asyncio.create_task(world.until_ready())
            died = asyncio.create_task(valve.died.wait())
            await asyncio.wait({done, died}, return_when=asyncio.FIRST_COMPLETED)
            assert valve.died.is_set(), "the upgrade was finished before the manager died"
            for task in (done, died):
                task.cancel()
            await asyncio.gather(done, died, return_exceptions=True)
        async with managed_laptop(simulation.clock, seed=2, store=store, stores=stores) as world:
            await finish(world)
            assert await identities(world) == before
            assert await world.versions() == [NEW] * 2
            assert await marks(world) == []

    run(main, epoch=EPOCH, seed=1)


async def finish(world: ManagedLaptop) -> None:
    Upgraders(world.workloads)
    await world.until_ready()
