"""A request leaves once, and no write leaves after the fence closed, whatever it waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from urllib.parse import urlsplit

import pytest
from aiohttp import web
from msgspec.structs import replace

from espalier.kube.connection.credentials import Credential
from espalier.kube.errors import Unreachable
from espalier.kube.transports.http import HttpTransport
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.threaded import ThreadedTransport
from espalier.kube.transports.wire import Request, Response, Transport
from espalier.runtime.leadership.fencing import Fence, Fenced, FencedTransport
from tests.support.servers.https_server import Served, serve
from tests.support.servers.scripted_server import Script, json_response

PATH = "/api/v1/namespaces/a/configmaps/b"
METHODS = ("GET", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "POST")
WRITES = ("PUT", "DELETE", "PATCH", "POST")


@pytest.mark.parametrize("kind", [HttpTransport, ThreadedTransport])
@pytest.mark.parametrize("method", METHODS)
async def test_request_with_dropped_connection_is_sent_once(
    kind: type[HttpTransport | ThreadedTransport], method: str
) -> None:
    """`Retry` and the fence decide each time if it may be sent again."""
    arrived: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        if request.path == PATH:
            arrived.append(request.method)
            assert request.transport is not None
            request.transport.abort()
        return web.Response(body=b"{}")

    async with serve(handler) as served:
        transport = kind(served.access(), environment={})
        await transport.request(Request("GET", "/version"))  # the connection is kept alive, and used again
        with pytest.raises(Unreachable) as refusal:
            await transport.request(Request(method, PATH, body=b"{}" if method in WRITES else b""))
        await transport.close()
    assert arrived == [method]
    assert refusal.value.sent


# -- what a request waits for, and the fence


class Waiting:
    """A server that says what arrived, behind something that makes requests wait until `go`."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.waits = asyncio.Event()
        self.writes: list[str] = []

    async def handle(self, request: web.Request) -> web.Response:
        if request.method != "GET":
            self.writes.append(request.method)
        elif request.path == "/slow":
            self.waits.set()
            await self.go.wait()
        return web.Response(body=b"{}")

    async def current(self) -> Credential:
        self.waits.set()
        await self.go.wait()
        return Credential()

    def reject(self, credential: Credential) -> bool:
        return False


Place = Callable[[Waiting, Served], AbstractAsyncContextManager[Transport]]


@asynccontextmanager
async def for_a_turn(waiting: Waiting, served: Served) -> AsyncIterator[Transport]:
    """All requests that may be under way at once are."""
    transport = HttpTransport(served.access(), max_requests=1, environment={})
    first = asyncio.create_task(transport.request(Request("GET", "/slow")))
    await waiting.waits.wait()
    yield transport
    await first
    await transport.close()


@asynccontextmanager
async def for_a_connection(waiting: Waiting, served: Served) -> AsyncIterator[Transport]:
    """The server accepts connections, and says nothing yet."""
    host, port = urlsplit(served.url).hostname, urlsplit(served.url).port

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        waiting.waits.set()
        await waiting.go.wait()
        there, back = await asyncio.open_connection(host, port)
        with suppress(ConnectionError):
            await asyncio.gather(_pass_on(reader, back), _pass_on(there, writer))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    slow = server.sockets[0].getsockname()[1]
    transport = HttpTransport(replace(served.access(), server=f"https://127.0.0.1:{slow}"), environment={})
    yield transport
    await transport.close()
    server.close()


@asynccontextmanager
async def for_credentials(waiting: Waiting, served: Served) -> AsyncIterator[Transport]:
    """A plugin is asked for them."""
    transport = HttpTransport(served.access(), environment={})
    transport._channel.credentials = waiting
    yield transport
    await transport.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while part := await reader.read(65536):
        writer.write(part)
    writer.close()


@pytest.mark.parametrize("place", [for_a_turn, for_a_connection, for_credentials])
@pytest.mark.parametrize("method", WRITES)
async def test_waiting_write_is_not_sent_after_a_lost_lease(place: Place, method: str) -> None:
    await _wait_and_lose(place, lambda transport: transport.request(Request(method, PATH, body=b"{}")))


async def test_a_read_that_waited_is_sent_all_the_same() -> None:
    waiting = Waiting()
    async with serve(waiting.handle) as served, for_credentials(waiting, served) as transport:
        fence = Fence(lambda: 0.0)
        reading = asyncio.create_task(FencedTransport(transport, fence).request(Request("GET", PATH)))
        await waiting.waits.wait()
        waiting.go.set()
        assert (await reading).status == 200


async def _wait_and_lose(place: Place, write: Callable[[Transport], Awaitable[Response]]) -> None:
    waiting, now = Waiting(), 0.0
    async with serve(waiting.handle) as served, place(waiting, served) as transport:
        fence = Fence(lambda: now)
        fence.extend(10.0)
        writing = asyncio.ensure_future(write(FencedTransport(transport, fence)))
        await waiting.waits.wait()
        await asyncio.sleep(0)
        now = 10.0
        waiting.go.set()
        with pytest.raises(Fenced, match="was not sent"):
            await writing
    assert waiting.writes == []


@pytest.mark.parametrize("kind", [HttpTransport, ThreadedTransport, InProcessTransport])
async def test_every_transport_asks_before_a_request_leaves(kind: type) -> None:
    class No(Exception):
        pass

    def hold() -> None:
        raise No

    script = Script(json_response({}))

    async def handler(_: web.Request) -> web.Response:
        raise AssertionError

    async with serve(handler) as served:
        transport = kind(script) if kind is InProcessTransport else kind(served.access(), environment={})
        with pytest.raises(No):
            await transport.request(Request("PATCH", PATH, before_send=hold))
        with pytest.raises(No):
            await transport.stream(Request("GET", PATH, before_send=hold))
        await transport.close()
    assert script.requests == []
