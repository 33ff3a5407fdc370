"""Following one object while its API server comes and goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from espalier.api.core import NAMESPACE
from espalier.api.resource import Key
from espalier.cli.kit import follow
from espalier.cli.kit.printing import tables
from espalier.kube.client import Client
from espalier.kube.errors import Expired, Unreachable
from espalier.kube.objects import Object, to_bytes
from espalier.runtime.virtual import Simulation, run

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OAK = Object(to_bytes({"metadata": {"name": "oak"}}))


class Breaking:
    """An API server whose watch breaks after a minute each time, and which then is away for some seconds."""

    def __init__(self, away: float) -> None:
        self._away = away
        self._back = 0.0

    async def list(self, *_: Any, **__: Any) -> SimpleNamespace:
        if asyncio.get_running_loop().time() < self._back:
            raise Unreachable("nobody answers")
        return SimpleNamespace(items=[OAK], resource_version="1")

    async def watch(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        await asyncio.sleep(60)
        self._back = asyncio.get_running_loop().time() + self._away
        if self._away >= 0:
            raise Unreachable("the watch broke")
        yield None


def followed(server: Breaking, states: int) -> None:
    async def main(_: Simulation) -> None:
        async with aclosing(follow.follow(cast(Client, server), NAMESPACE, Key("", "oak"))) as opened:
            for _state in range(states):
                assert await anext(opened) is OAK

    run(main, epoch=NOW, seed=1)


def test_broken_watches_are_followed_by_the_next() -> None:
    followed(Breaking(follow.AWAY_SECONDS / 2), states=5)


def test_server_that_is_away_for_long_is_an_error() -> None:
    with pytest.raises(Unreachable):
        followed(Breaking(2 * follow.AWAY_SECONDS), states=2)


def test_server_that_never_answers_is_an_error_at_once() -> None:
    server = Breaking(0)
    server._back = float("inf")
    with pytest.raises(Unreachable):
        followed(server, states=1)


class Hasty:
    """An API server, or a proxy before it, that ends each watch at once; with `error`, by breaking it."""

    def __init__(self, error: Exception | None) -> None:
        self._error = error
        self.watches = 0

    async def list(self, *_: Any, **__: Any) -> SimpleNamespace:
        return SimpleNamespace(items=[OAK], resource_version="1")

    async def watch(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        self.watches += 1
        assert self.watches < 1000, "it is watched without a pause"
        if self._error is not None:
            raise self._error
        nothing: tuple[Any, ...] = ()
        for event in nothing:
            yield event


ENDINGS = pytest.mark.parametrize(
    "error", [None, Unreachable("cut"), Expired.of("too old")], ids=["ends", "breaks", "expires"]
)


def watches_in_a_minute(server: Hasty, states: AsyncIterator[Any]) -> int:
    async def main(_: Simulation) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(60):
                async for _state in states:
                    pass

    run(main, epoch=NOW, seed=1)
    return server.watches


@ENDINGS
def test_watch_that_ends_at_once_has_a_pause(error: Exception | None) -> None:
    server = Hasty(error)
    states = follow.follow(cast(Client, server), NAMESPACE, Key("", "oak"))
    assert 10 < watches_in_a_minute(server, states) < 70


@ENDINGS
def test_watch_of_a_table_that_ends_has_a_pause(error: Exception | None) -> None:
    server = Hasty(error)
    states = tables.watch_objects(cast(Client, server), tables.Selection(NAMESPACE, None))
    assert 10 < watches_in_a_minute(server, states) < 70
