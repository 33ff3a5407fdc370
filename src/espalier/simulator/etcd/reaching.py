"""Connections from a container to an etcd in another one: looked up for each request, and cut when either ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Generic, Protocol, TypeVar

from google.protobuf.message import Message

from espalier.etcd.errors import Closed, Unavailable
from espalier.etcd.messages.services import BothStream, ServerStream, Unary
from espalier.etcd.transport import Stream, Transport
from espalier.simulator.pods import life
from espalier.simulator.pods.life import ContainerEnded, Life

T = TypeVar("T")
Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


class EtcdEndpoint(Protocol):
    """The listener of an etcd."""

    def transport(self) -> Transport:
        """A transport through the proxy. It reconnects to the next etcd when one has ended."""

    def left(self, transport: Transport) -> None:
        """Close the connection of a client that has ended."""


class ReachingEtcd:
    """A `Transport` to whatever `find` finds, and the life of the container that has it. For the life of a client.

    `find` raises `ConnectionError` where nothing listens.
    """

    def __init__(self, find: Callable[[], tuple[EtcdEndpoint, Life]], life: Life) -> None:
        self._find = find
        self._life = life
        self._known: tuple[EtcdEndpoint, Transport] | None = None
        self._closed = False

    async def call(
        self, method: Unary[Request, Response], request: Request, *, timeout: float, repeatable: bool
    ) -> Response:
        """The response, unless server or client end before it comes."""
        transport, lives = self._reached()
        return await during(lives, transport.call(method, request, timeout=timeout, repeatable=repeatable))

    async def open(
        self, method: ServerStream[Request, Response] | BothStream[Request, Response], request: Request, timeout: float
    ) -> Stream[Request, Response]:
        """Open a stream, which is cut when server or client end."""
        transport, lives = self._reached()
        return _Cuttable(await during(lives, transport.open(method, request, timeout)), lives)

    async def close(self) -> None:
        """Close it; idempotent."""
        self._closed = True
        if self._known is not None:
            await self._known[1].close()

    def _reached(self) -> tuple[Transport, tuple[Life, ...]]:
        if self._closed or self._life.over:
            raise Closed("the client was closed, or its container has ended", sent=False)
        try:
            endpoint, its = self._find()
        except ConnectionError as error:
            raise Unavailable(str(error), sent=False) from error
        if its.over:
            raise Unavailable(f"{its.name} has ended", sent=False)
        if self._known is None or self._known[0] is not endpoint:
            transport = endpoint.transport()
            self._known = endpoint, transport
            self._life.at_end(lambda: endpoint.left(transport))
        return self._known[1], (self._life, its)


class _Cuttable(Generic[Request, Response]):
    """A stream that ends with the first of some lives."""

    def __init__(self, stream: Stream[Request, Response], lives: tuple[Life, ...]) -> None:
        self._stream: Any = stream
        self._lives = lives

    async def send(self, request: Request) -> None:
        """Send a further request."""
        await during(self._lives, self._stream.send(request))

    async def receive(self) -> Response | None:
        """The next response."""
        coming: asyncio.Task[Response | None] = asyncio.ensure_future(self._stream.receive())
        try:
            return await during(self._lives, coming)
        finally:
            coming.cancel()

    async def close(self) -> None:
        """End the stream."""
        await self._stream.close()


async def during(lives: tuple[Life, ...], work: Awaitable[T]) -> T:
    """The result of a request, unless one of the lives ends before. Raises `Unavailable`."""
    try:
        return await life.during(lives, work)
    except ContainerEnded as over:
        raise Unavailable(str(over)) from over
