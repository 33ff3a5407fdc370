"""Following one object while its API server comes and goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from espalier.api.core import NAMESPACE
from espalier.api.resource import Key
from espalier.cli.kit import follow
from espalier.kube.client import Client
from espalier.kube.errors import Unreachable
from espalier.kube.objects import Object, to_bytes
from espalier.runtime.virtual import Simulation, run

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FOUND = Object(to_bytes({"metadata": {"name": "oak"}}))


class Breaking:
    """An API server whose watch breaks after a minute each time, and which then is away for some seconds."""

    def __init__(self, away: float) -> None:
        self._away = away
        self._back = 0.0

    async def list(self, *_: Any, **__: Any) -> SimpleNamespace:
        if asyncio.get_running_loop().time() < self._back:
            raise Unreachable("nobody answers")
        return SimpleNamespace(items=[FOUND], resource_version="1")

    async def watch(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        await asyncio.sleep(60)
        self._back = asyncio.get_running_loop().time() + self._away
        if self._away >= 0:
            raise Unreachable("the watch broke")
        yield None


def followed(server: Breaking, states: int) -> None:
    async def main(_: Simulation) -> None:
        async with aclosing(follow.follow(cast(Client, server), NAMESPACE, Key("", "oak"))) as found:
            for _state in range(states):
                assert await anext(found) is FOUND

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
