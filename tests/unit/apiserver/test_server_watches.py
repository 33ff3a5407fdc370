"""Watches of a server: what they hear, from when on, and when they end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from espalier.api.core import (
    CONFIG_MAP,
    NAMESPACE,
)
from espalier.apiserver.server import Server
from espalier.apiserver.storage.store import HISTORY, Change, MemoryStore, Store
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import Expired
from espalier.kube.transports.wire import ADMIN, Request
from espalier.runtime.virtual import Simulation, run
from tests.support.servers.embedded_server import body, client_of, new_server

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def simulated(story: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
    async def main(simulation: Simulation) -> None:
        server = Server(MemoryStore(), now=simulation.clock.now, random=simulation.random)
        await server.start()
        await story(client_of(server))
        await server.close()

    run(main, epoch=EPOCH, seed=1)


def test_quiet_watch_gets_a_bookmark_each_minute() -> None:
    async def story(client: Client) -> None:
        async with aclosing(client.watch(CONFIG_MAP, resource_version="5")) as events:
            time_formats = []
            async for event in events:
                assert event.type == "BOOKMARK"
                time_formats.append(asyncio.get_running_loop().time())
                if len(time_formats) == 3:
                    break
                await client.patch(
                    NAMESPACE,
                    "default",
                    patch={"metadata": {"labels": {"n": str(len(time_formats))}}},
                    type=PatchType.MERGE,
                )
            assert time_formats == [60, 120, 180]
            assert int(event.object.resource_version) > 5, "bookmarks rise with writes elsewhere"

    simulated(story)


def test_changes_are_kept_for_some_minutes() -> None:
    async def story(client: Client) -> None:
        start = (await client.create(CONFIG_MAP, body("a"))).resource_version
        await client.patch(CONFIG_MAP, "a", "default", patch={"data": {"x": "1"}}, type=PatchType.MERGE)
        await asyncio.sleep(4 * 60)
        async for event in client.watch(CONFIG_MAP, resource_version=start, timeout_seconds=1):
            assert event.type in ("MODIFIED", "BOOKMARK")
        await asyncio.sleep(3 * 60)
        with pytest.raises(Expired):
            async for _ in client.watch(CONFIG_MAP, resource_version=start, timeout_seconds=1):
                pass

    simulated(story)


def test_watcher_ahead_of_a_restored_store_starts_anew() -> None:
    """As kube-apiserver: a watch from the future waits in silence, without bookmarks, until the store is there."""

    async def story(client: Client) -> None:
        seen = int((await client.create(CONFIG_MAP, body("last"))).resource_version) + 2
        watch = client.watch(CONFIG_MAP, "default", resource_version=str(seen), timeout_seconds=150)
        async with aclosing(watch) as events:
            first = asyncio.ensure_future(anext(events))
            await asyncio.sleep(61)  # the minute in which others get a bookmark
            for name in "abc":
                await client.create(CONFIG_MAP, body(name))
            event = await first
            assert (event.type, event.object.name) == ("ADDED", "c")
            assert (await anext(events)).type == "BOOKMARK"

    simulated(story)


async def test_page_of_store_that_was_put_back_is_too_old(server: Server, client: Client) -> None:
    for name in "abc":
        await client.create(CONFIG_MAP, body(name))
    path = CONFIG_MAP.path("default")
    later = msgspec.json.decode((await client.raw(Request("GET", path, {"limit": "1"}))).body)
    earlier = new_server()
    await earlier.start()
    query = {"limit": "1", "continue": later["metadata"]["continue"]}
    assert (await server.serve(Request("GET", path, query), ADMIN)).status == 200
    assert (await earlier.serve(Request("GET", path, query), ADMIN)).status == 410
    await earlier.close()


@pytest.mark.soak
async def test_a_reader_that_falls_too_far_behind_is_cut_off(client: Client) -> None:
    start = (await client.create(CONFIG_MAP, body("a"))).resource_version
    async with aclosing(client.watch(CONFIG_MAP, resource_version=start)) as events:
        first = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        for index in range(2 * HISTORY):
            await client.patch(CONFIG_MAP, "a", "default", patch={"data": {"x": str(index)}}, type=PatchType.MERGE)
        assert (await first).type == "MODIFIED"
        with pytest.raises(Expired):
            async for _ in events:
                pass


async def test_watches_end_with_their_server(server: Server, client: Client) -> None:
    start = (await client.list(CONFIG_MAP)).resource_version

    async def read() -> list[str]:
        return [event.type async for event in client.watch(CONFIG_MAP, resource_version=start)]

    reading = asyncio.ensure_future(read())
    await asyncio.sleep(0)
    await server.close()
    async with asyncio.timeout(60):
        assert await reading == []


class HeldStore(Store):
    """Writes become durable when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[Change] = []
        self.hold = False
        self.turn = asyncio.Event()
        self.waiting: asyncio.Queue[int] = asyncio.Queue()
        """The revision for which each request waits, as requests come."""

    def _persist(self, change: Change) -> None:
        if self.hold:
            self.held.append(change)
        else:
            self._publish((change,))

    def remove_finalizer(self) -> None:
        self._publish(self.held)
        self.turn.set()

    async def flushed(self, revision: int) -> None:
        if revision > self.durable:
            self.waiting.put_nowait(revision)
        while revision > self.durable:
            await self.turn.wait()


async def test_watches_send_nothing_before_it_is_durable() -> None:
    store = HeldStore()
    server = new_server(store)
    await server.start()
    client = client_of(server)
    stored = await client.create(CONFIG_MAP, body("kept"))
    start = stored.resource_version
    store.hold = True
    names: list[str] = []

    async def listen() -> None:
        async for event in client.watch(CONFIG_MAP, resource_version=start):
            names.append(event.object.name)

    listening = asyncio.ensure_future(listen())
    writing = asyncio.ensure_future(client.create(CONFIG_MAP, body("new")))
    async with asyncio.timeout(60):
        await store.waiting.get()
    reads = [
        asyncio.ensure_future(client.get(CONFIG_MAP, "new", "default")),
        asyncio.ensure_future(client.list(CONFIG_MAP)),
        asyncio.ensure_future(client.create(CONFIG_MAP, body("new"))),
        asyncio.ensure_future(client.get(CONFIG_MAP, "missing", "default")),
    ]
    async with asyncio.timeout(60):
        for _ in reads:
            await store.waiting.get()
    assert not writing.done()
    assert not any(read.done() for read in reads)
    assert names == []
    assert await client.get(CONFIG_MAP, "kept", "default") == stored, "what is durable can be read"
    watch = client.watch(CONFIG_MAP, resource_version="0")
    assert (await anext(watch)).object.name == "kept"
    store.remove_finalizer()
    async with asyncio.timeout(60):
        assert (await writing).name == "new"
        assert (await anext(watch)).object.name == "new"
        results = await asyncio.gather(*reads, return_exceptions=True)
    assert [type(result).__name__ for result in results] == ["Object", "ObjectList", "AlreadyExists", "NotFound"]
    assert names == ["new"]
    listening.cancel()
    await watch.aclose()
    await server.close()
