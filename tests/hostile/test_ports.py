"""Every port of this program, and clients that send half of something, or nothing, or what is no HTTP."""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from espalier.apiserver import http
from espalier.apiserver.http import HttpShell
from espalier.apiserver.server import Server
from espalier.apiserver.storage.store import MemoryStore
from espalier.kube.connection.pki import Authority
from espalier.kube.objects import encode_json
from espalier.kube.transports import serving
from espalier.kube.transports.wire import Request, User
from espalier.runtime.servers.admission import AdmissionResponse
from espalier.runtime.servers.health import health_application
from espalier.runtime.servers.serving import HttpServer
from espalier.runtime.servers.webhooks import Webhooks

NOW = datetime.now(UTC)
AUTHORITY = Authority.create("test", now=NOW, rng=random.Random(1))
PAIR = AUTHORITY.issue_server("server", names=["127.0.0.1"], now=NOW)
TOKEN = "canary-token-of-a-user"
SECOND = 0.05
"""How long clients get here for what takes them a minute elsewhere."""


@asynccontextmanager
async def api_server(_folder: Path) -> AsyncIterator[tuple[int, bool]]:
    server = Server(MemoryStore(), now=lambda: NOW, random=random.Random(1))
    await server.start()
    user = User("admin", ("system:masters",))
    shell = HttpShell(server, serving=PAIR, client_ca=AUTHORITY.certificate, tokens={TOKEN: user})
    await shell.start()
    yield shell.port, True
    await shell.stop()
    await server.close()


@asynccontextmanager
async def webhooks(_folder: Path) -> AsyncIterator[tuple[int, bool]]:
    served = Webhooks(host="127.0.0.1", port=0)
    served.handle("/validate", lambda request: AdmissionResponse())
    served.use(PAIR)
    await served.start()
    yield served.port, True
    await served.stop()


@asynccontextmanager
async def health(_folder: Path) -> AsyncIterator[tuple[int, bool]]:
    server = HttpServer(health_application({}, {}), "127.0.0.1", 0)
    await server.start()
    yield server.port, False
    await server.stop()


PORTS = (api_server, webhooks, health)
Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


@pytest.fixture(params=PORTS, ids=lambda port: port.__name__)
async def connect(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Connect]:
    async with request.param(tmp_path) as (port, encrypted):
        context = ssl.create_default_context(cadata=AUTHORITY.certificate.decode()) if encrypted else None
        yield lambda: asyncio.open_connection("127.0.0.1", port, ssl=context)


async def ended(reader: asyncio.StreamReader) -> bytes:
    """All that a server says until it closes the connection."""
    try:
        async with asyncio.timeout(20):
            return await reader.read()
    except ConnectionError:
        return b""


GET = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
HALF = b"GET /healthz HTTP/1.1\r\nHost: a\r\nAuthorization: Bear"
HALVES = {
    "nothing": ("HEADERS_WITHIN", b"", b""),
    "a line": ("HEADERS_WITHIN", b"", b"GET /healthz HTTP/1.1\r\n"),
    "half a header": ("HEADERS_WITHIN", b"", HALF),
    "half a header after a request": ("HEADERS_WITHIN", GET, HALF),
    "a request and a half at once": ("IDLE_WITHIN", b"", GET + HALF),
}


@pytest.mark.parametrize(("limit", "before", "half"), HALVES.values(), ids=HALVES)
async def test_half_a_request_is_not_waited_for(
    connect: Connect, limit: str, before: bytes, half: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the limit that is named is short here: the other one must not be what ends the wait."""
    monkeypatch.setattr(serving, limit, SECOND)
    reader, writer = await connect()
    if before:
        writer.write(before)
        await reader.readuntil(b"\r\n\r\n")
    writer.write(half)
    await ended(reader)
    writer.close()


async def test_half_a_body_is_not_waited_for(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "BODY_WITHIN", SECOND)
    monkeypatch.setattr(serving, "LINGER_SECONDS", SECOND)
    for method, path in (("POST", "/validate"), ("POST", "/api/v1/namespaces"), ("GET", "/healthz")):
        reader, writer = await connect()
        head = f"{method} {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 100\r\n\r\n"
        writer.write(head.encode() + b"{")
        answer = await ended(reader)
        assert answer.startswith(b"HTTP/1.1 ")
        assert b" 408 " not in answer or b"\r\nConnection: close\r\n" in answer
        writer.close()


@pytest.mark.soak
async def test_connection_idle_between_requests_stays(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "HEADERS_WITHIN", SECOND)
    reader, writer = await connect()
    for _ in range(2):
        writer.write(GET)
        await reader.readuntil(b"\r\n\r\n")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(6 * SECOND):
                await reader.readuntil(b"never")
    assert not reader.at_eof()
    writer.close()


MALFORMED = (
    b"GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer CANARY\x01\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nCANARY CANARY: x\r\n\r\n",
    b"CANARY\x00\xff\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: CANARY\r\n\r\n",
    b"GET /" + b"CANARY" * 50_000 + b" HTTP/1.1\r\n\r\n",
    b"POST /validate HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nCANARY\r\n",
)


async def test_nothing_of_a_malformed_request_is_logged(
    connect: Connect, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    for malformed in MALFORMED:
        reader, writer = await connect()
        writer.write(malformed)
        await ended(reader)
        writer.close()
    shown = caplog.text + "".join(capfd.readouterr())
    assert "CANARY" not in shown
    assert "Traceback" not in shown


async def test_client_that_reads_no_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(serving, "ANSWER_WITHIN", SECOND)
    aborted, abort = asyncio.Event(), serving.Connection.abort

    def noticed(connection: serving.Connection) -> None:
        abort(connection)
        aborted.set()

    monkeypatch.setattr(serving.Connection, "abort", noticed)
    answer = b"x" * 50_000_000

    async def large(_request: web.Request) -> web.Response:
        return web.Response(body=answer)

    application = web.Application()
    application.router.add_get("/", large)
    server = HttpServer(application, "127.0.0.1", 0)
    await server.start()
    try:
        async with asyncio.timeout(30):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            await aborted.wait()
            assert len(await ended(reader)) < len(answer)
            writer.close()
    finally:
        await server.stop()


@asynccontextmanager
async def watch_that_nobody_reads() -> AsyncIterator[None]:
    """A client that begins a watch and reads nothing, and more events than the system keeps for it."""
    server = Server(MemoryStore(), now=lambda: NOW, random=random.Random(1))
    await server.start()
    user = User("admin", ("system:masters",))
    shell = HttpShell(server, serving=PAIR, client_ca=AUTHORITY.certificate, tokens={TOKEN: user})
    await shell.start()
    path = "/api/v1/namespaces/default/configmaps"
    try:
        async with asyncio.timeout(30):
            context = ssl.create_default_context(cadata=AUTHORITY.certificate.decode())
            _reader, writer = await asyncio.open_connection("127.0.0.1", shell.port, ssl=context, limit=1024)
            head = f"GET {path}?watch=1 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
            writer.write(head.encode())
            for number in range(20):
                item = {"metadata": {"name": f"large-{number}"}, "data": {"a": "x" * 1_000_000}}
                body = encode_json({"apiVersion": "v1", "kind": "ConfigMap"} | item)
                request = Request("POST", path, {}, {"content-type": "application/json"}, body)
                assert (await server.serve(request, user)).status == 201
            yield
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()
    finally:
        await shell.stop()
        await server.close()


async def test_unread_watch_keeps_little_more_than_one_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of every watch: with thousands of them and large objects the server would be out of memory within seconds."""
    retained: list[int] = []
    paused, made, pause = asyncio.Event(), http.Connection.connection_made, http.Connection.pause_writing
    transports: list[asyncio.Transport] = []

    def accepted(connection: http.Connection, transport: asyncio.BaseTransport) -> None:
        made(connection, transport)
        assert isinstance(transport, asyncio.Transport)
        transports.append(transport)

    def stuck(connection: http.Connection) -> None:
        pause(connection)
        retained.append(transports[0].get_write_buffer_size())
        paused.set()

    monkeypatch.setattr(http.Connection, "connection_made", accepted)
    monkeypatch.setattr(http.Connection, "pause_writing", stuck)
    async with watch_that_nobody_reads():
        await paused.wait()
    assert retained[0] < 4 * http.WRITE_BUFFER


async def test_client_that_reads_no_watch_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not given the same time again for the end of the answer."""
    monkeypatch.setattr(serving, "ANSWER_WITHIN", SECOND)
    told: list[str] = []
    over, abort, finish = asyncio.Event(), http.Connection.abort, http.Connection.finish_response

    def aborted(connection: http.Connection) -> None:
        told.append("cut off")
        abort(connection)

    async def finished(*arguments: Any) -> Any:
        told.append("ended")
        over.set()
        return await finish(*arguments)

    monkeypatch.setattr(http.Connection, "abort", aborted)
    monkeypatch.setattr(http.Connection, "finish_response", finished)
    async with watch_that_nobody_reads():
        await over.wait()
    assert told[:2] == ["cut off", "ended"]
