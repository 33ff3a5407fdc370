"""The etcd in this process, as the client's transport: without sockets and threads, so deterministic.

With `MemoryStorage` it runs on virtual time. Messages are encoded and decoded as over a network, so neither side sees
what the other changes later.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Generic, TypeVar

from google.protobuf.message import Message

from espalier.etcd.errors import Closed, Code, EtcdError, Unavailable, error_of
from espalier.etcd.messages.services import LEASE_KEEP_ALIVE, SNAPSHOT, WATCH, BothStream, ServerStream, Unary
from espalier.simulator.etcd.member import Member
from espalier.simulator.etcd.state.core import MOST_MESSAGE_BYTES

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


class MemoryTransport:
    """A `Transport` to a member of this process. As over a network, a request that was sent runs to its end."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._streams: dict[_Stream[Any, Any], None] = {}  # in order: simulations repeat
        self._calls: set[asyncio.Task[Any]] = set()
        self._closed = False

    async def call(
        self, method: Unary[Request, Response], request: Request, *, timeout: float, repeatable: bool
    ) -> Response:
        """The response of the member. Raises `EtcdError`, which is `Unavailable` after `timeout` seconds."""
        self._check_open()
        encoded = request.SerializeToString()
        if len(encoded) > MOST_MESSAGE_BYTES:
            message = f"grpc: received message larger than max ({len(encoded)} vs. {MOST_MESSAGE_BYTES})"
            raise error_of(Code.RESOURCE_EXHAUSTED, message)
        sent = method.request.FromString(encoded)
        call = asyncio.create_task(self._member.call(method, sent), name=f"{method.name} of etcd")
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        done, _ = await asyncio.wait((call,), timeout=timeout)
        if not done:
            call.add_done_callback(lambda call: call.cancelled() or call.exception())
            raise Unavailable(f"the etcd of this process did not answer within {timeout:g} s")
        return method.response.FromString(call.result().SerializeToString())

    async def open(
        self, method: ServerStream[Request, Response] | BothStream[Request, Response], request: Request, timeout: float
    ) -> _Stream[Request, Response]:
        """Open a stream and send its first request."""
        self._check_open()
        stream: _Stream[Request, Response] = _Stream(self._member, method, self._streams)
        await stream.send(request)
        return stream

    async def close(self) -> None:
        """End all streams."""
        self._closed = True
        for stream in tuple(self._streams):
            await stream.close()

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the client was closed", sent=False)


class _Stream(Generic[Request, Response]):
    """A `Stream` of the member. One response is buffered; the member waits until it is received."""

    def __init__(
        self,
        member: Member,
        method: ServerStream[Request, Response] | BothStream[Request, Response],
        streams: dict[_Stream[Any, Any], None],
    ) -> None:
        self._member = member
        self._method = method
        self._requests: asyncio.Queue[Request] = asyncio.Queue()
        self._responses: asyncio.Queue[Response | EtcdError | None] = asyncio.Queue(maxsize=1)
        self._responding: asyncio.Task[None] | None = None
        self._streams = streams
        self._closed = False
        streams[self] = None

    async def send(self, request: Request) -> None:
        """Send a further request."""
        if self._closed:
            raise Closed("the stream was closed", sent=False)
        self._requests.put_nowait(self._method.request.FromString(request.SerializeToString()))
        if self._responding is None:
            self._responding = asyncio.create_task(self._respond(), name=f"{self._method.name} of etcd")

    async def receive(self) -> Response | None:
        """The next response; None at the end. Raises `EtcdError`."""
        response = await self._responses.get()
        if response is None or isinstance(response, EtcdError):
            self._responses.put_nowait(response)  # further calls end alike
            if response is not None:
                raise response
        return response

    async def close(self) -> None:
        """End the stream."""
        self._closed = True
        self._streams.pop(self, None)
        if self._responding is not None:
            self._responding.cancel()
            await asyncio.gather(self._responding, return_exceptions=True)
        while not self._responses.empty():
            self._responses.get_nowait()
        self._responses.put_nowait(Closed("the stream was closed"))

    async def _respond(self) -> None:
        end: EtcdError | None = None
        try:
            async with aclosing(self._member_responses()) as responses:
                async for response in responses:
                    await self._responses.put(self._method.response.FromString(response.SerializeToString()))
        except EtcdError as error:
            end = error
        await self._responses.put(end)

    def _member_responses(self) -> AsyncGenerator[Any, None]:
        requests: Any = self._received_requests()
        match self._method.path:
            case WATCH.path:
                return self._member.watch(requests)
            case LEASE_KEEP_ALIVE.path:
                return self._member.keep_alive(requests)
            case SNAPSHOT.path:
                return self._member.snapshot(self._requests.get_nowait())  # type: ignore[arg-type]
        raise error_of(Code.UNIMPLEMENTED, f"this etcd has no {self._method.name}")

    async def _received_requests(self) -> AsyncGenerator[Request, None]:
        while True:
            yield await self._requests.get()
