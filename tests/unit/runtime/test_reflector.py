"""Mirrors become true again, whatever becomes of the server, and a server that is away is asked ever less often."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
import pytest

from espalier.api.core import CONFIG_MAP
from espalier.api.resource import Key
from espalier.kube.client import Client
from espalier.kube.errors import (
    ApiError,
    Expired,
    Forbidden,
    NotFound,
    ServerFailure,
    Status,
    StatusCause,
    StatusDetails,
    Unreachable,
)
from espalier.kube.objects import Object
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.wire import Request
from espalier.kube.watching import EventType
from espalier.runtime.caches.cache import Cache, Caches
from espalier.runtime.caches.reflector import WATCH_SECONDS, Reflector, Source, earlier
from tests.support.environments.simulated_loop import simulate
from tests.support.servers.small_server import SmallServer, config_map
from tests.support.waiting import running

Story = Callable[[SmallServer, Caches], Awaitable[Any]]
KEY = Key("default", "a")
TOO_LARGE = StatusCause(reason="ResourceVersionTooLarge", message="Too large resource version")


def play(story: Story) -> Any:
    """With a client as managers have it, which repeats requests by itself."""

    async def main(_: object) -> Any:
        server = SmallServer()
        client = Client(InProcessTransport(server), rng=random.Random(0))
        caches = Caches(client, rng=random.Random(1))
        async with running(caches):
            return await story(server, caches)

    return simulate(main)


def data_of(cache: Cache, key: Key = KEY) -> Any:
    object_ = cache.get(key)
    return object_.tree["data"] if object_ is not None else None


def away(_: Request) -> None:
    raise Unreachable("connection refused", sent=False)


def broken(request: Request) -> None:
    """It lists, and ends watches."""
    if "watch" in request.query:
        raise Unreachable("connection reset")


def failing(_: Request) -> None:
    raise ServerFailure.of("etcdserver: no leader")


# -- pauses


@pytest.mark.parametrize("trouble", [away, broken, failing])
def test_server_that_is_away_is_asked_ever_less_often(trouble: Callable[[Request], None]) -> None:
    async def story(server: SmallServer, caches: Caches) -> None:
        cache = caches.of(CONFIG_MAP)
        await cache.wait_synced()
        await asyncio.sleep(5)
        server.before = trouble
        server.break_watches()
        rates = []
        for _ in range(12):
            before = len(server.requests)
            await asyncio.sleep(60)
            rates.append(len(server.requests) - before)
        assert rates[0] <= 20, rates
        assert max(rates[3:]) <= 8, rates
        server.before = lambda request: None
        server.put(config_map("a", colour="red"))
        await asyncio.sleep(50)
        assert data_of(cache) == {"colour": "red"}, "and it is found soon when it is back"
        server.before = trouble
        server.break_watches()
        await asyncio.sleep(1)
        server.before = lambda request: None
        server.put(config_map("a", colour="blue"))
        await asyncio.sleep(3)
        assert data_of(cache) == {"colour": "blue"}, "the first pause is a short one again"

    play(story)


@pytest.mark.parametrize("trouble", [away, failing])
def test_pages_shrink_where_a_slow_server_fails(trouble: Callable[[Request], None]) -> None:
    """A fleet's objects are large, and a busy server may not send 500 of them in time."""

    async def story(server: SmallServer, caches: Caches) -> None:
        limits: list[int] = []

        def slow(request: Request) -> None:
            if "watch" not in request.query:
                limits.append(int(request.query.get("limit", "0")))
                if limits[-1] > 100:
                    if trouble is away:
                        raise Unreachable("no answer within 30 s")
                    trouble(request)

        server.before = slow
        cache = caches.of(CONFIG_MAP)
        await asyncio.sleep(60)
        assert limits == [500, 125, 31]
        assert cache.synced

    play(story)


# -- revisions that fall


def restored(server: SmallServer, *trees: dict[str, Any]) -> None:
    """Put back to an earlier moment: fewer revisions, and these objects."""
    server.version = 20
    server._history.clear()
    server.objects.clear()
    for tree in trees:
        server.put(tree)


@pytest.mark.parametrize("ending", ["broken", "ended", "told"])
def test_a_server_that_was_put_back_is_listed_anew(ending: str) -> None:
    async def story(server: SmallServer, caches: Caches) -> None:
        cache = caches.of(CONFIG_MAP)
        for name in "abc":
            server.put(config_map(name, moment="later"))
        await cache.wait_synced()
        await asyncio.sleep(5)
        watch = server.watches[0]
        if ending != "told":  # of what happened after it was put back, with versions of before
            server.watches.clear()
        restored(server, config_map("a", moment="earlier"), config_map("d", moment="earlier"))
        if ending == "broken":
            watch.break_off()
        elif ending == "ended":  # by a server that goes on, over a storage that does not
            watch._queue.put_nowait(TimeoutError())
        await asyncio.sleep(5)
        assert sorted(object_.name for object_ in cache.list()) == ["a", "d"]
        assert data_of(cache) == {"moment": "earlier"}
        server.put(config_map("a", moment="now"))
        await asyncio.sleep(5)
        assert data_of(cache) == {"moment": "now"}, "and followed"

    play(story)


def test_same_version_may_differ_after_a_restore() -> None:
    async def story(server: SmallServer, caches: Caches) -> None:
        cache = caches.of(CONFIG_MAP)
        server.put(config_map("a", moment="later"))
        await cache.wait_synced()
        server.put(config_map("b"))
        await asyncio.sleep(5)
        (watch,) = server.watches
        server.watches.clear()
        server.version, server._uids = 99, 0
        server._history.clear()
        server.objects.clear()
        server.put(config_map("x"))
        server.objects.clear()
        server.put(config_map("a", moment="other"))
        assert server.objects["/api/v1/namespaces/default/configmaps/a"]["metadata"]["resourceVersion"] == "101"
        watch.break_off()
        await asyncio.sleep(5)
        assert data_of(cache) == {"moment": "other"}

    play(story)


class Follower:
    """Writes down which lists it was told are of a server that was put back."""

    def __init__(self) -> None:
        self.restored: list[bool] = []

    def begin_list(self, *, restored: bool = False) -> None:
        self.restored.append(restored)

    def listed(self, objects: Sequence[Object]) -> None:
        pass

    def end_list(self, resource_version: str) -> None:
        pass

    def happened(self, type: EventType, object: Object) -> None:
        pass


@pytest.mark.parametrize("sign", ["the server is behind", "it refuses the watch", "an event of before"])
def test_the_mirror_hears_of_a_restore_exactly_once(sign: str) -> None:
    async def story(server: SmallServer, _: Caches) -> list[bool]:
        follower = Follower()
        client = Client(InProcessTransport(server), rng=random.Random(0))
        refusals = [ServerFailure(Status(code=504, details=StatusDetails(causes=[TOO_LARGE])))]

        def refuse(request: Request) -> None:
            if "watch" in request.query and refusals:
                raise refusals.pop()

        async with running(Reflector(client, Source(CONFIG_MAP), follower, random.Random(1))):
            await asyncio.sleep(5)
            (watch,) = server.watches
            if sign == "the server is behind":
                restored(server)
                server.break_watches()
            elif sign == "it refuses the watch":
                server.before = refuse
                await asyncio.sleep(2 * WATCH_SECONDS + 10)
                assert not refusals
            else:
                restored(server, config_map("a"))
                watch.break_off()
            await asyncio.sleep(5)
            server.compact()
            await asyncio.sleep(5)
        return follower.restored

    assert play(story) == [False, True, False]


def test_own_writes_of_before_a_restore_count_no_more() -> None:
    async def story(server: SmallServer, caches: Caches) -> None:
        cache = caches.of(CONFIG_MAP)
        await cache.wait_synced()
        await asyncio.sleep(5)
        server.watches[0].hold()
        cache.wrote(Object(msgspec.json.encode(server.put(config_map("a", moment="later")))))
        restored(server, config_map("b"))
        server.break_watches()
        await asyncio.sleep(5)
        assert data_of(cache) is None
        assert cache.get(Key("default", "b")) is not None

    play(story)


@pytest.mark.parametrize(
    "refusal",
    [
        Expired.of("too old resource version"),
        ServerFailure(Status(message="Timeout", code=504, details=StatusDetails(causes=[TOO_LARGE]))),
        ServerFailure(Status(message="Timeout: Too large resource version: 9, current: 5", code=504)),
    ],
)
def test_unknown_version_means_a_new_list(refusal: ApiError) -> None:
    async def story(server: SmallServer, caches: Caches) -> None:
        cache = caches.of(CONFIG_MAP)
        server.put(config_map("a"))
        await cache.wait_synced()
        await asyncio.sleep(5)
        once = [refusal]

        def refuse(request: Request) -> None:
            if "watch" in request.query and once:
                raise once.pop()

        server.before = refuse
        server.watches.clear()
        server.remove("a")
        server._history.clear()
        await asyncio.sleep(700)
        assert data_of(cache) is None

    play(story)


@pytest.mark.parametrize("optional", [True, False])
def test_optional_kind_is_empty_until_it_exists(optional: bool) -> None:
    """One that has to be there is waited for."""

    async def story(server: SmallServer, caches: Caches) -> None:
        def unknown(_: Request) -> None:
            raise NotFound.of("the server could not find the requested resource")

        server.before = unknown
        cache = caches.of(CONFIG_MAP, optional=optional)
        await asyncio.sleep(60)
        assert cache.synced is optional
        assert cache.list() == []
        server.before = lambda request: None
        server.put(config_map("a", data="1"))
        await asyncio.sleep(60)
        assert cache.get(KEY) is not None

    play(story)


@pytest.mark.parametrize("may_be_forbidden", [True, False])
def test_what_may_be_forbidden_is_empty_then(may_be_forbidden: bool) -> None:
    """Also if the right is taken away later; what has to be read is waited for, and stays as it was read."""

    async def story(server: SmallServer, caches: Caches) -> None:
        def forbidden(_: Request) -> None:
            raise Forbidden.of("configmaps is forbidden")

        server.put(config_map("a", data="1"))
        server.before = forbidden
        cache = caches.of(CONFIG_MAP, may_be_forbidden=may_be_forbidden)
        await asyncio.sleep(60)
        assert cache.synced is may_be_forbidden
        assert cache.list() == []
        server.before = lambda request: None
        await asyncio.sleep(60)
        assert cache.get(KEY) is not None
        server.before = forbidden
        server.break_watches()
        await asyncio.sleep(60)
        assert (cache.get(KEY) is None) is may_be_forbidden

    play(story)


def test_versions_are_numbers_of_any_length() -> None:
    assert earlier("9", "10")
    assert not earlier("10", "9")
    assert not earlier("10", "10")
    assert not earlier("abc", "10")
    assert not earlier("", "10")
    assert earlier("9" * 5000, "1" + "0" * 5000)


# -- events that cannot be read


@pytest.mark.parametrize(
    "document",
    [
        b"<html>a proxy says hello</html>",
        b'{"type":"MODIFIED","object":' + b'{"metadata":' * 5000,
        b'{"type":"MODIFIED","object":{"metadata":{"name":1}}}',
        b'{"type":"MODIFIED","object":{"spec":' + b"[" * 5000 + b"]" * 5000 + b"}}",
        b'{"type":"MODIFIED","object":{"metadata":{"labels":{"\xff":""}}}}',
        b'{"type":"WONDER","object":{}}',
        b"[" * 100_000,
        b"7",
    ],
)
def test_unreadable_event_holds_up_nothing(document: bytes) -> None:
    async def story(server: SmallServer, caches: Caches) -> None:
        cache = caches.of(CONFIG_MAP)
        await cache.wait_synced()
        await asyncio.sleep(5)
        server.watches[0]._queue.put_nowait(document)
        server.watches[0].break_off()
        server.put(config_map("a", colour="red"))
        await asyncio.sleep(5)
        assert data_of(cache) == {"colour": "red"}

    play(story)


def test_repeated_event_does_not_block() -> None:
    """Whatever stands in the history stands there until the position is behind it."""

    async def story(server: SmallServer, caches: Caches) -> None:
        cache = caches.of(CONFIG_MAP)
        await cache.wait_synced()
        await asyncio.sleep(5)

        def spoil(request: Request) -> None:
            if "watch" in request.query:
                asyncio.get_running_loop().call_soon(lambda: server.watches[-1]._queue.put_nowait(b"{]"))

        server.before = spoil
        server.break_watches()
        server.put(config_map("a", colour="red"))
        await asyncio.sleep(60)
        assert data_of(cache) == {"colour": "red"}
        before = len(server.requests)
        await asyncio.sleep(600)
        assert len(server.requests) - before < 90

    play(story)
