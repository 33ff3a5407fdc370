"""A proxy before a server of an object store, which does to requests what networks and stores do now and then."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from io import BytesIO

import aiohttp
from aiohttp import web
from yarl import URL

from tests.support.servers.web_server import web_server

_OWN = ("transfer-encoding", "connection", "content-encoding", "date", "server")


@dataclass(frozen=True)
class Fault:
    """A fault of one request. `concerns`: of which."""

    concerns: Callable[[web.Request], bool] = lambda _request: True
    status: int = 0
    """The answer, which the server never sees the request of."""
    body: bytes = b""
    lost: bool = False
    """The server does it, and nobody hears of it."""
    silent: bool = False
    """Nothing ever comes."""
    cut: int | None = None
    """The connection ends after so many bytes of the answer's body."""
    sent: Callable[[bytes], bytes] | None = None
    """Changes what the server gets."""
    told: dict[str, str] = field(default_factory=dict)
    """Headers of the answer."""


@dataclass
class FaultyHttp:
    """Passes everything on, except that each fault happens once, to the first request that it concerns."""

    server: str
    url: str = ""
    faults: list[Fault] = field(default_factory=list)
    away: bool = False
    """Every connection is reset, until it is False again."""
    seen: list[str] = field(default_factory=list)
    """Method and path of each request."""
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    """A request came."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(f"{request.method} {request.path}")
        self.asked.set()
        if self.away:
            return _aborted(request)
        fault = next((fault for fault in self.faults if fault.concerns(request)), Fault())
        if fault in self.faults:
            self.faults.remove(fault)
        data = await request.read()
        if fault.silent:
            await asyncio.Event().wait()  # until the client leaves, which cancels this
        if fault.status:
            return web.Response(status=fault.status, body=fault.body)
        return await self._forwarded(request, fault.sent(data) if fault.sent else data, fault)

    async def _forwarded(self, request: web.Request, data: bytes, fault: Fault) -> web.StreamResponse:
        headers = {name: value for name, value in request.headers.items() if name.lower() != "content-length"}
        url = URL(self.server + request.raw_path, encoded=True)
        async with (
            aiohttp.ClientSession(auto_decompress=False) as session,
            session.request(request.method, url, data=BytesIO(data), headers=headers, allow_redirects=False) as answer,
        ):
            body = await answer.read()
            passed_on = {name: value for name, value in answer.headers.items() if name.lower() not in _OWN}
            if fault.lost:
                return _aborted(request)
            response = web.StreamResponse(status=answer.status, headers={**passed_on, **fault.told})
            await response.prepare(request)
            if request.method != "HEAD":
                await response.write(body[: fault.cut])
            if fault.cut is not None:
                return _aborted(request, response)
            await response.write_eof()
            return response


def _aborted(request: web.Request, response: web.StreamResponse | None = None) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return response or web.Response()


@asynccontextmanager
async def faulty_http(server: str, context: ssl.SSLContext | None = None) -> AsyncIterator[FaultyHttp]:
    """A proxy before a server; with TLS if there is a context for it."""
    proxy = FaultyHttp(server)
    async with web_server(proxy.answer, context, handler_cancellation=True) as port:
        proxy.url = f"{'https' if context else 'http'}://127.0.0.1:{port}"
        yield proxy
