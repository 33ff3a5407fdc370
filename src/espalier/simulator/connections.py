"""Connections within this process that can be lost: their server ends, or the network between them is cut."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from espalier.kube.errors import ApiError, Unreachable
from espalier.kube.transports.inprocess import failure
from espalier.kube.transports.wire import ADMIN, Endpoint, Request, Response, Stream, User
from espalier.simulator.pods.runtimes import life
from espalier.simulator.pods.runtimes.life import ContainerEnded, Life

T = TypeVar("T")


class Link:
    """The network between two places. Cutting it fails requests in progress, and new ones until it is restored."""

    def __init__(self, name: str = "the network") -> None:
        self.name = name
        self._life = Life(name)

    @property
    def life(self) -> Life:
        """The life that ends with the next cut."""
        return self._life

    @property
    def is_cut(self) -> bool:
        """True while nothing gets through."""
        return self._life.over

    def cut(self) -> None:
        """Cut the link; idempotent."""
        self._life.end()

    def restore(self) -> None:
        """Restore the link; idempotent."""
        if self._life.over:
            self._life = Life(self.name)


@dataclass(frozen=True)
class Reached:
    """An API server, and the lives that a connection to it depends on: of containers, seeds and links."""

    endpoint: Endpoint
    lives: Sequence[Life]


Reach = Callable[[], Reached]
"""Looks up the API server for a request. Raises `ConnectionError`."""


class ReachingTransport:
    """Carries requests of one user to an API server of this process that may end, move and be cut off.

    A request that was sent runs to its end, even if its sender ends before, as with `InProcessTransport`.
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
        except ContainerEnded as ended:
            raise Unreachable(str(ended)) from ended
        except TimeoutError:
            raise Unreachable(f"the API server did not answer within {request.timeout:g} seconds") from None
        except ApiError as error:
            return failure(error)

    async def stream(self, request: Request) -> Stream | Response:
        """Start a watch, which ends with the first of the connection's lives. Raises `Unreachable`."""
        reached = self._reached()
        request.before_send()
        try:
            response = await during(reached.lives, reached.endpoint.watch(request, self._user))
        except ApiError as error:
            return failure(error)
        return response if isinstance(response, Response) else _InterruptibleStream(response, reached.lives)

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
        for needed in reached.lives:
            if needed.over:
                raise Unreachable(f"no route to host: {needed.name} is disconnected, or has stopped", sent=False)
        return reached


async def during(lives: Sequence[Life], work: Awaitable[T]) -> T:
    """The result of `work`. Raises `Unreachable` when one of the lives ends before."""
    try:
        return await life.during(lives, work)
    except ContainerEnded as ended:
        raise Unreachable(str(ended)) from ended


class _InterruptibleStream:
    """A watch that ends with the first of some lives. Events in transit are lost."""

    def __init__(self, stream: Stream, lives: Sequence[Life]) -> None:
        self._stream = stream
        self._items = stream.__aiter__()
        self._closing: asyncio.Task[None] | None = None
        self._unsubscribe = [needed.at_end(self._interrupt) for needed in lives]

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        item = await anext(self._items, None) if self._closing is None else None
        if item is None or self._closing is not None:
            await self.close()
            raise StopAsyncIteration
        return item

    async def close(self) -> None:
        """Stop the stream; idempotent."""
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        await self._stream.close()

    def _interrupt(self) -> None:
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._stream.close())
