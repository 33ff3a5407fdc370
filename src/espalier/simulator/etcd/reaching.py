"""Connections from a container to an etcd in another one: looked up for each request, closed when either one ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Generic, Protocol, TypeVar

from google.protobuf.message import Message

from espalier.etcd.errors import Closed, Unavailable
from espalier.etcd.messages.services import BothStream, ServerStream, Unary
from espalier.etcd.transport import Stream, Transport
from espalier.simulator.pods.runtimes import life
from espalier.simulator.pods.runtimes.life import ContainerEnded, Life

T = TypeVar("T")
Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


class EtcdEndpoint(Protocol):
    """The endpoint of an etcd's listener."""

    def transport(self) -> Transport:
        """A transport through the proxy. It reconnects to the next etcd when one has ended."""

    def disconnect(self, transport: Transport) -> None:
        """Close the connection of a client that has ended."""


class ContainerTransport:
    """A `Transport` of a client in a container, which ends with the `life` of that container.

    `find` returns the endpoint to connect to, and the life of its container; it raises `ConnectionError` if nothing
    listens.
    """

    def __init__(self, find: Callable[[], tuple[EtcdEndpoint, Life]], life: Life) -> None:
        self._find = find
        self._life = life
        self._connected: tuple[EtcdEndpoint, Transport] | None = None
        self._closed = False

    async def call(
        self, method: Unary[Request, Response], request: Request, *, timeout: float, repeatable: bool
    ) -> Response:
        """The response. Raises `Unavailable` if a container of client or server ends before it comes."""
        transport, lives = self._connect()
        return await during(lives, transport.call(method, request, timeout=timeout, repeatable=repeatable))

    async def open(
        self, method: ServerStream[Request, Response] | BothStream[Request, Response], request: Request, timeout: float
    ) -> Stream[Request, Response]:
        """Open a stream, which ends with the containers of client and server."""
        transport, lives = self._connect()
        return _ContainerStream(await during(lives, transport.open(method, request, timeout)), lives)

    async def close(self) -> None:
        """Close the transport; idempotent."""
        self._closed = True
        if self._connected is not None:
            await self._connected[1].close()

    def _connect(self) -> tuple[Transport, tuple[Life, ...]]:
        if self._closed or self._life.over:
            raise Closed("the client was closed, or its container has ended", sent=False)
        try:
            endpoint, etcd_life = self._find()
        except ConnectionError as error:
            raise Unavailable(str(error), sent=False) from error
        if etcd_life.over:
            raise Unavailable(f"{etcd_life.name} has ended", sent=False)
        if self._connected is None or self._connected[0] is not endpoint:
            transport = endpoint.transport()
            self._connected = endpoint, transport
            self._life.at_end(lambda: endpoint.disconnect(transport))
        return self._connected[1], (self._life, etcd_life)


class _ContainerStream(Generic[Request, Response]):
    """A stream that ends as soon as one of the lives does."""

    def __init__(self, stream: Stream[Request, Response], lives: tuple[Life, ...]) -> None:
        self._stream: Any = stream
        self._lives = lives

    async def send(self, request: Request) -> None:
        """Send a further request."""
        await during(self._lives, self._stream.send(request))

    async def receive(self) -> Response | None:
        """The next response; None at the end."""
        receiving: asyncio.Task[Response | None] = asyncio.ensure_future(self._stream.receive())
        try:
            return await during(self._lives, receiving)
        finally:
            receiving.cancel()

    async def close(self) -> None:
        """End the stream."""
        await self._stream.close()


async def during(lives: tuple[Life, ...], work: Awaitable[T]) -> T:
    """The result of a request. Raises `Unavailable` as soon as one of the lives ends."""
    try:
        return await life.during(lives, work)
    except ContainerEnded as error:
        raise Unavailable(str(error)) from error
