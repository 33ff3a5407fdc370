"""Connections within this process that can be lost: their server ends, or the network between is cut."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from espalier.kube.errors import ApiError, Unreachable
from espalier.kube.inprocess import failure
from espalier.kube.wire import ADMIN, Endpoint, Request, Response, Stream, User
from espalier.simulator.pods import life
from espalier.simulator.pods.life import ContainerEnded, Life

T = TypeVar("T")


class Link:
    """The network between two places. Cutting it drops requests in progress, and blocks new ones until restored."""

    def __init__(self, name: str = "the network") -> None:
        self.name = name
        self._life = Life(name)

    @property
    def life(self) -> Life:
        """Its life until the next cut."""
        return self._life

    @property
    def is_cut(self) -> bool:
        """True while nothing gets through."""
        return self._life.over

    def cut(self) -> None:
        """Cut it; idempotent."""
        self._life.end()

    def restore(self) -> None:
        """Restore it; idempotent."""
        if self._life.over:
            self._life = Life(self.name)


@dataclass(frozen=True)
class Reached:
    """An API server, and the lives that a connection to it needs."""

    endpoint: Endpoint
    lives: Sequence[Life]


Reach = Callable[[], Reached]
"""Looks up an API server for each request. Raises `ConnectionError`."""


class ReachingTransport:
    """Carries requests of one user to an API server of this process that may end, move and be cut off.

    A request that was sent runs to its end, whatever becomes of its sender, as with `InProcessTransport`.
    """

    def __init__(self, reach: Reach, user: User = ADMIN) -> None:
        self._reach = reach
        self._user = user
        self._closed = False

    async def request(self, request: Request) -> Response:
        """Send one request. Raises `Unreachable`."""
        reached = self._reached()
        request.before_send()
        serving = asyncio.ensure_future(reached.endpoint.serve(request, self._user))
        try:
            return await life.during(reached.lives, asyncio.shield(serving), request.timeout)
        except ContainerEnded as over:
            raise Unreachable(str(over)) from over
        except TimeoutError:
            raise Unreachable(f"the API server did not answer within {request.timeout:g} seconds") from None
        except ApiError as error:
            return failure(error)

    async def stream(self, request: Request) -> Stream | Response:
        """Start a watch, which ends with what it goes through."""
        reached = self._reached()
        request.before_send()
        try:
            answer = await during(reached.lives, reached.endpoint.watch(request, self._user))
        except ApiError as error:
            return failure(error)
        return answer if isinstance(answer, Response) else _Cuttable(answer, reached.lives)

    async def close(self) -> None:
        """Send no further requests; idempotent. Does not wait for running ones, whose server may be gone."""
        self._closed = True

    def _reached(self) -> Reached:
        if self._closed:
            raise Unreachable("the connection is closed", sent=False)
        try:
            reached = self._reach()
        except ConnectionError as error:
            raise Unreachable(str(error), sent=False) from error
        for one in reached.lives:
            if one.over:
                raise Unreachable(f"no route to host: {one.name} is disconnected, or has stopped", sent=False)
        return reached


async def during(lives: Sequence[Life], work: Awaitable[T]) -> T:
    """The result of a request, unless one of the lives ends before. Raises `Unreachable`."""
    try:
        return await life.during(lives, work)
    except ContainerEnded as over:
        raise Unreachable(str(over)) from over


class _Cuttable:
    """A watch that ends with the first of some lives. Events in transit are lost."""

    def __init__(self, stream: Stream, lives: Sequence[Life]) -> None:
        self._stream = stream
        self._items = stream.__aiter__()
        self._cut: asyncio.Task[None] | None = None
        self._undo = [one.at_end(self._lost) for one in lives]

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        item = await anext(self._items, None) if self._cut is None else None
        if item is None or self._cut is not None:
            await self.close()
            raise StopAsyncIteration
        return item

    async def close(self) -> None:
        """Stop it; idempotent."""
        for undo in self._undo:
            undo()
        await self._stream.close()

    def _lost(self) -> None:
        if self._cut is None:
            self._cut = asyncio.ensure_future(self._stream.close())
