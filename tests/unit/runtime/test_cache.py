from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from espalier.api.core import CONFIG_MAP
from espalier.api.resource import Key
from espalier.kube.errors import Expired, ServerFailure
from espalier.kube.objects import Object
from espalier.kube.transports.wire import Request
from espalier.runtime import virtual
from espalier.runtime.caches.cache import Cache, Caches
from espalier.runtime.options import WATCH_FILTER_LABEL, Options
from tests.support.objects.indexes import by_label
from tests.support.servers.small_server import SmallServer, client_of, config_map

Story = Callable[[SmallServer, Caches], Awaitable[Any]]


def play(story: Story, *, options: Options | None = None) -> Any:
    """Tell a story on a simulated loop, with a server and caches on it."""

    async def main(simulation: virtual.Simulation) -> Any:
        server = SmallServer()
        caches = Caches(client_of(server), rng=random.Random(1), options=options)
        async with running(caches):
            return await story(server, caches)

    return virtual.run(main, epoch=datetime(2026, 1, 1, tzinfo=UTC), seed=1)


@asynccontextmanager
async def running(caches: Caches) -> AsyncIterator[None]:
    task = asyncio.create_task(caches.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class Diary:
    """The notifications of a cache, as short lines."""

    def __init__(self, cache: Cache) -> None:
        self.lines: list[str] = []
        self._event = asyncio.Event()
        cache.subscribe(self._told)

    def _told(self, old: Object | None, new: Object | None, first: bool) -> None:
        word = "appeared" if old is None else "vanished" if new is None else "changed"
        self.lines.append(f"{(new or old).name} {word}{' at first' if first else ''}")  # type: ignore[union-attr]
        self._event.set()

    async def until(self, line: str) -> None:
        async with asyncio.timeout(600):
            while line not in self.lines:
                self._event.clear()
                await self._event.wait()


def data_of(cache: Cache, name: str) -> Any:
    object_ = cache.get(Key("default", name))
    return object_.tree["data"] if object_ else None


def test_it_lists_page_by_page_then_follows_events() -> None:
    async def story(server: SmallServer, caches: Caches) -> None:
        for number in range(1201):
            server.put(config_map(f"a{number}"))
        cache = caches.of(CONFIG_MAP)
        diary = Diary(cache)
        await cache.wait_synced()
        assert len(cache) == 1201
        assert diary.lines[0] == "a0 appeared at first"
        assert [request.query.get("limit") for request in server.requests if "watch" not in request.query] == [
            "500"
        ] * 3
        server.put(config_map("a7", colour="red"))
        await diary.until("a7 changed")
        assert data_of(cache, "a7") == {"colour": "red"}
        server.remove("a7")
        await diary.until("a7 vanished")
        assert cache.get(Key("default", "a7")) is None

    play(story)


def test_a_broken_watch_is_resumed_where_it_stopped() -> None:
    async def story(server: SmallServer, caches: Caches) -> None:
        server.put(config_map("a"))
        cache = caches.of(CONFIG_MAP)
        diary = Diary(cache)
        await cache.wait_synced()
        for round_ in range(20):
            server.put(config_map(f"b{round_}"))
            await diary.until(f"b{round_} appeared")
            server.break_watches()
        lists = [request for request in server.requests if request.query.get("limit") == "500"]
        assert len(lists) == 1
        assert diary.lines == ["a appeared at first", *(f"b{round_} appeared" for round_ in range(20))]

    play(story)


def test_relist_after_410_shows_deletions() -> None:
    async def story(server: SmallServer, caches: Caches) -> None:
        for name in "abc":
            server.put(config_map(name))
        cache = caches.of(CONFIG_MAP, indexes={"colour": by_label("colour")})
        diary = Diary(cache)
        await cache.wait_synced()
        del diary.lines[:]
        server.before = refuse_watches
        server.break_watches()
        server.remove("b")
        server.put(config_map("c", colour="red"))
        server.put(config_map("d", labels={"colour": "blue"}))
        server.compact()
        await asyncio.sleep(20)
        assert diary.lines == []
        server.before = lambda request: None
        await diary.until("b vanished")
        assert sorted(diary.lines) == ["b vanished", "c changed", "d appeared"]
        assert [object_.name for object_ in cache.by_index("colour", "blue")] == ["d"]

    play(story)


def refuse_watches(request: Request) -> None:
    if "watch" in request.query:
        raise ServerFailure.of("not now")


def test_silent_server_is_silent_until_a_watch() -> None:
    async def story(server: SmallServer, caches: Caches) -> None:
        cache, other = caches.of(CONFIG_MAP), caches.of(CONFIG_MAP, labels="colour=blue")
        await cache.wait_synced()
        await other.wait_synced()
        loop = asyncio.get_running_loop()
        began = loop.time()
        server.before = refuse_watches
        server.break_watches()
        await asyncio.sleep(100)
        assert caches.silent_since is not None
        assert began <= caches.silent_since < began + 1
        server.before = lambda request: None
        await asyncio.sleep(100)
        assert caches.silent_since is None, "also when nothing has happened since"
        server.before = lambda request: refuse_watches(request) if "labelSelector" in request.query else None
        server.break_watches()
        await asyncio.sleep(100)
        assert caches.silent_since is None, "one of two watches has it"

    play(story)


def test_failures_are_retried_with_growing_pauses() -> None:
    async def story(server: SmallServer, caches: Caches) -> list[float]:
        times: list[float] = []

        def refuse(request: Request) -> None:
            times.append(asyncio.get_running_loop().time())
            raise ServerFailure.of("not now")

        server.before = refuse
        cache = caches.of(CONFIG_MAP)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(300):
                await cache.wait_synced()
        server.before = lambda request: None
        await cache.wait_synced()
        return times

    times = play(story)
    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert pauses[0] < 0.2
    assert 15 <= pauses[-1] <= 45
    assert len(times) < 25


def test_forgetful_server_is_not_flooded_with_lists() -> None:
    async def story(server: SmallServer, caches: Caches) -> None:
        def expire(request: Request) -> None:
            if "watch" in request.query:
                raise Expired.of("too old")

        server.before = expire
        cache = caches.of(CONFIG_MAP)
        await cache.wait_synced()
        await asyncio.sleep(600)
        assert 15 < len(server.requests) < 80

    play(story)


def test_list_expired_between_pages_is_read_at_once() -> None:
    async def story(server: SmallServer, caches: Caches) -> None:
        for number in range(600):
            server.put(config_map(f"a{number}"))

        def expire(request: Request) -> None:
            if "continue" in request.query:
                raise Expired.of("the continue token is too old")

        server.before = expire
        cache = caches.of(CONFIG_MAP)
        async with asyncio.timeout(60):
            await cache.wait_synced()
        assert len(cache) == 600

    play(story)


def test_a_slow_list_is_waited_for() -> None:
    async def story(server: SmallServer, caches: Caches) -> None:
        server.put(config_map("a"))
        server.slow = 25.0
        cache = caches.of(CONFIG_MAP)
        assert not cache.synced
        await caches.wait_synced()
        assert len(cache) == 1

    play(story)


def test_a_silent_connection_is_given_up() -> None:
    async def story(server: SmallServer, caches: Caches) -> None:
        cache = caches.of(CONFIG_MAP)
        diary = Diary(cache)
        await cache.wait_synced()
        await asyncio.sleep(1)
        server.watches[0].seconds = 1e9  # the server's end never comes
        server.watches.clear()  # and no event arrives
        await asyncio.sleep(1)
        server.put(config_map("a"))
        await asyncio.sleep(700)
        assert diary.lines == ["a appeared"]

    play(story)


def test_own_writes_are_not_reverted_by_the_watch() -> None:
    async def story(server: SmallServer, caches: Caches) -> None:
        server.put(config_map("a", step="0"))
        cache = caches.of(CONFIG_MAP)
        diary = Diary(cache)
        await cache.wait_synced()
        await asyncio.sleep(1)
        watch = server.watches[0]
        watch.hold()
        server.put(config_map("a", step="1"))
        mine = server.put(config_map("a", step="2"))
        cache.wrote(as_object(mine))
        assert data_of(cache, "a") == {"step": "2"}
        server.put(config_map("a", step="3"))
        seen: list[Any] = []
        cache.subscribe(lambda old, new, first: seen.append(new.tree["data"]["step"] if new else None))
        watch.release()
        await diary.until("a changed")
        await asyncio.sleep(1)
        assert seen == ["2", "3"]
        assert data_of(cache, "a") == {"step": "3"}

    play(story)


def test_write_behind_the_watch_is_no_news() -> None:
    async def story(server: SmallServer, caches: Caches) -> None:
        cache = caches.of(CONFIG_MAP)
        diary = Diary(cache)
        await cache.wait_synced()
        mine = server.put(config_map("a"))
        server.remove("a")
        await diary.until("a vanished")
        cache.wrote(as_object(mine))
        assert len(cache) == 0

    play(story)


def test_an_own_write_that_was_deleted_since_vanishes() -> None:
    async def story(server: SmallServer, caches: Caches) -> None:
        cache = caches.of(CONFIG_MAP)
        diary = Diary(cache)
        await cache.wait_synced()
        await asyncio.sleep(1)
        mine = server.put(config_map("a"))
        cache.wrote(as_object(mine))
        server.remove("a")
        await diary.until("a vanished")
        assert diary.lines == ["a appeared", "a vanished"]

    play(story)


def test_own_write_before_a_gap_ends_with_a_new_list() -> None:
    async def story(server: SmallServer, caches: Caches) -> None:
        cache = caches.of(CONFIG_MAP)
        diary = Diary(cache)
        await cache.wait_synced()
        await asyncio.sleep(1)
        server.watches[0].hold()
        mine = server.put(config_map("a"))
        cache.wrote(as_object(mine))
        server.remove("a")
        server.compact()
        await diary.until("a vanished")
        assert len(cache) == 0

    play(story)


def test_writes_that_cache_does_not_select_stay_out() -> None:
    async def story(server: SmallServer, caches: Caches) -> None:
        cache = caches.of(CONFIG_MAP, "default", "colour=red")
        await cache.wait_synced()
        for name, namespace, labels in (("a", "other", {"colour": "red"}), ("b", "default", {"colour": "blue"})):
            cache.wrote(as_object(server.put(config_map(name, namespace, labels=labels))))
        cache.wrote(as_object(server.put(config_map("c", labels={"colour": "red"}))))
        assert [object_.name for object_ in cache.list()] == ["c"]

    play(story)


def test_equal_requests_share_a_watch_and_indexes() -> None:
    async def story(server: SmallServer, caches: Caches) -> None:
        server.put(config_map("a", labels={"colour": "red", "size": "big"}))
        first = caches.of(CONFIG_MAP, indexes={"colour": by_label("colour")})
        await caches.wait_synced()
        second = caches.of(CONFIG_MAP, indexes={"size": by_label("size")})
        assert first is second
        assert [object_.name for object_ in second.by_index("size", "big")] == ["a"]
        assert second.by_index("size", "small") == []
        with pytest.raises(ValueError, match="an index named"):
            caches.of(CONFIG_MAP, indexes={"size": by_label("colour")})

    play(story)


def test_manager_of_a_namespace_asks_for_no_more() -> None:
    async def story(server: SmallServer, caches: Caches) -> None:
        for name, namespace, share in (("a", "mine", "blue"), ("b", "mine", "red"), ("c", "other", "blue")):
            server.put(config_map(name, namespace, labels={WATCH_FILTER_LABEL: share}))
        everything, shared = caches.of(CONFIG_MAP), caches.of(CONFIG_MAP, sharded=True)
        await caches.wait_synced()
        assert [object_.name for object_ in everything.list()] == ["a", "b"]
        assert [object_.name for object_ in shared.list()] == ["a"]

    play(story, options=Options(namespaces=("mine",), watch_filter="blue"))


def test_manager_of_several_namespaces_follows_each() -> None:
    async def story(server: SmallServer, caches: Caches) -> None:
        for name, namespace in (("a", "mine"), ("b", "yours"), ("c", "other")):
            server.put(config_map(name, namespace))
        cache = caches.of(CONFIG_MAP)
        await caches.wait_synced()
        assert sorted(str(object_.key) for object_ in cache.list()) == ["mine/a", "yours/b"]
        diary = Diary(cache)
        server.put(config_map("d", "yours"))
        await diary.until("d appeared")
        assert cache.get(Key("yours", "d")) is not None
        assert cache.get(Key("mine", "a")) is not None

    play(story, options=Options(namespaces=("mine", "yours")))


def test_lists_select_by_namespace_and_labels() -> None:
    async def story(server: SmallServer, caches: Caches) -> None:
        server.put(config_map("a", "one", labels={"tier": "db"}))
        server.put(config_map("b", "one", labels={"tier": "web"}))
        server.put(config_map("c", "two", labels={"tier": "db"}))
        cache = caches.of(CONFIG_MAP)
        await caches.wait_synced()
        assert [object_.name for object_ in cache.list("one")] == ["a", "b"]
        assert [object_.name for object_ in cache.list(labels="tier in (db, cache)")] == ["a", "c"]
        assert [object_.name for object_ in cache.list("two", "tier!=db")] == []

    play(story)


def as_object(tree: dict[str, Any]) -> Object:
    return Object(msgspec.json.encode(tree))


def test_caches_keep_as_many_ready_as_they_are_told() -> None:
    """One that is not packed is the same object at each read."""

    async def story(server: SmallServer, _: Caches) -> list[bool]:
        for name in "abc":
            server.put(config_map(name))
        caches = Caches(client_of(server), rng=random.Random(1), ready=1)
        cache = caches.of(CONFIG_MAP)
        async with running(caches):
            await cache.wait_synced()
            one_read, another = cache.list(), cache.list()
        return [one_read == another, one_read[0] is another[0], one_read[-1] is another[-1]]

    assert play(story) == [True, False, True]
