"""A server on etcd leaves nothing running, however it ends."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from espalier.apiserver.builtin.builtin import KINDS
from espalier.apiserver.server import Server
from espalier.apiserver.storage.etcd_keys import Keys
from espalier.apiserver.storage.etcd_store import EtcdStore
from espalier.etcd.client import Client
from espalier.runtime import virtual
from espalier.simulator.etcd.guarded import MemoryGuard
from tests.support.tasks import left_over


def told(story: Callable[[MemoryGuard, Server], Awaitable[None]]) -> None:
    async def main(simulation: virtual.Simulation) -> None:
        guard = MemoryGuard(simulation.clock, simulation.random)
        await guard.start()
        await guard.open(simulation.clock.monotonic() + 3600)
        before = asyncio.all_tasks()
        store = EtcdStore(Client(guard.transport(), rng=simulation.random), Keys(KINDS))
        server = Server(store, now=simulation.clock.now, random=random.Random(1))
        await server.start()
        await story(guard, server)
        assert await left_over(before) == set()

    virtual.run(main, epoch=datetime(2026, 1, 1, tzinfo=UTC), seed=1)


def test_server_killed_while_closing_leaves_no_task() -> None:
    async def story(_guard: MemoryGuard, server: Server) -> None:
        closing = asyncio.create_task(server.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)

    told(story)


def test_nothing_asks_a_lost_etcd_for_its_progress() -> None:
    async def story(guard: MemoryGuard, server: Server) -> None:
        guard.kill()
        await server.lost()
        await asyncio.sleep(1)
        running = {getattr(task.get_coro(), "__name__", "") for task in asyncio.all_tasks()}
        await server.close()
        assert "_ask_progress" not in running

    told(story)
