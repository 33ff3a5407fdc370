"""The transport over HTTP/1.1 and TLS."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from datetime import datetime
from types import SimpleNamespace
from typing import Any
from weakref import WeakSet

from multidict import CIMultiDict
from yarl import URL

from espalier.kube.connection.access import Access
from espalier.kube.connection.credentials import Credential, CredentialsError
from espalier.kube.connection.tls import without_system_certificates
from espalier.kube.errors import Unreachable
from espalier.kube.transports import channel
from espalier.kube.transports.channel import CONNECT_SECONDS, KEEP_ALIVE_SECONDS, Channel
from espalier.kube.transports.wire import Request, Response, Stream

with without_system_certificates():
    import aiohttp

_READ_BUFFER = 256 * 1024
_TURNS_TO_CLOSE = 10
"""Iterations of the event loop until an aborted connection is closed; it takes three."""


class HttpTransport:
    """Carries requests to the API server that `access` names, over a pool of kept-alive connections.

    At most `max_requests` requests are under way at once; watches come on top. `now` is the wall clock for credentials
    that expire. Belongs to the event loop of its first request.
    """

    def __init__(
        self,
        access: Access,
        *,
        max_requests: int = 64,
        now: Callable[[], datetime] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._channel = Channel(access, now=now, environment=environment)
        self._slots = asyncio.Semaphore(max_requests)
        self._session: aiohttp.ClientSession | None = None
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._closed = False

    @property
    def host(self) -> str:
        """Host and port of the API server."""
        return self._channel.host

    async def request(self, request: Request) -> Response:
        """Send one request and read the whole response."""
        async with self._slots:
            response = await self._send(request, aiohttp.ClientTimeout(request.timeout, sock_connect=CONNECT_SECONDS))
            try:
                return await self._read_all(response)
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                raise self._unreachable(request, error) from error

    async def stream(self, request: Request) -> Stream | Response:
        """Start a watch. `request.timeout` limits the time until it starts, not its duration."""
        limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
        try:
            async with asyncio.timeout(request.timeout):
                response = await self._send(request, limits)
                if response.status == 200:
                    self._check_plain(response)
                    return _HttpStream(response, self._channel)
                return await self._read_all(response)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._unreachable(request, error) from error

    async def close(self) -> None:
        """Close all connections; idempotent. Running watches end."""
        self._closed = True
        if self._session is not None:
            await self._session.close()
            await self._cut()

    async def _cut(self) -> None:
        """Abort connections of cancelled requests that wait for TLS close_notify."""
        for _ in range(_TURNS_TO_CLOSE):
            waiting = [connection for connection in self._sockets if connection.fileno() != -1]
            if not waiting:
                return
            for connection in waiting:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            await asyncio.sleep(0)

    async def _send(self, request: Request, limits: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        credentials = self._channel.credentials
        credential = await credentials.current()
        response = await self._send_as(credential, request, limits)
        if response.status == 401 and credentials.reject(credential):
            response.close()  # not released: that would read the rest of it, however much it is
            response = await self._send_as(await credentials.current(), request, limits)
        try:
            self._channel.check(response.status)
        except CredentialsError:
            response.close()
            raise
        return response

    async def _send_as(
        self, credential: Credential, request: Request, limits: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        own = self._channel
        try:
            return await self._open_session().request(
                request.method,
                URL(own.url(request), encoded=True),
                data=request.body or None,
                headers=CIMultiDict(own.headers(request, credential)),
                timeout=limits,
                allow_redirects=False,
                ssl=own.context(credential),
                server_hostname=own.access.tls_server_name or None,
                proxy=own.proxy,
                trace_request_ctx=_SentRequest(request),
            )
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._unreachable(request, error) from error

    def _open_session(self) -> aiohttp.ClientSession:
        if self._closed:
            raise self._channel.closed()
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_SECONDS, socket_factory=self._socket)
            departures = aiohttp.TraceConfig()
            departures.on_request_headers_sent.append(_leave)
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=_READ_BUFFER,
                auto_decompress=False,
                trace_configs=[departures],
            )
        return self._session

    def _socket(self, address: tuple[Any, ...]) -> socket.socket:
        family, type_, protocol = address[:3]
        connection = socket.socket(family, type_, protocol)
        self._sockets.add(connection)
        channel.keep_alive(connection)
        return connection

    async def _read_all(self, response: aiohttp.ClientResponse) -> Response:
        """The whole response, or none of it: what is too large is not read, and its connection not used again."""
        try:
            self._check_plain(response)
            parts: list[bytes] = []
            size = response.content_length or 0
            if size <= self._channel.access.largest_answer:
                size = 0
                async for part in response.content.iter_any():
                    size += len(part)
                    if size > self._channel.access.largest_answer:
                        break
                    parts.append(part)
            if size > self._channel.access.largest_answer:
                raise self._channel.too_large()
        except BaseException:
            response.close()
            raise
        response.release()
        headers: dict[str, str] = {}
        for name, value in response.headers.items():
            lower = name.lower()
            headers[lower] = f"{headers[lower]}, {value}" if lower in headers else value
        return Response(response.status, b"".join(parts), headers)

    def _check_plain(self, response: aiohttp.ClientResponse) -> None:
        encoding = response.headers.get("content-encoding", "identity").lower()
        if encoding != "identity":
            raise self._channel.compressed(encoding)

    def _unreachable(self, request: Request, error: Exception) -> Unreachable:
        sent = not isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
        return self._channel.unreachable(_cause(request, error), sent=sent)


class _HttpStream:
    """The documents of a watch, one per line."""

    def __init__(self, response: aiohttp.ClientResponse, channel_: Channel) -> None:
        self._response = response
        self._channel = channel_
        self._closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        parts: list[bytes] = []
        size = 0
        try:
            async for chunk in self._response.content.iter_any():
                lines = chunk.split(b"\n")
                if len(lines) > 1 and parts:
                    lines[0] = b"".join((*parts, lines[0]))
                    parts.clear()
                    size = 0
                # An incomplete line is not an event: the next watch gets it completely.
                if rest := lines.pop():
                    parts.append(rest)
                    size += len(rest)
                    if size > self._channel.access.largest_answer:
                        raise self._channel.too_large()
                for line in lines:
                    if line:
                        yield line
        except (aiohttp.ClientError, OSError) as error:
            if not self._closed:
                raise Unreachable(f"the watch of the API server at {self._channel.base} broke: {error}") from error

    async def close(self) -> None:
        self._closed = True
        connection = self._response.connection
        protocol = connection.protocol if connection is not None else None
        if protocol is not None:
            # Aborted: a close would wait for the server's TLS close_notify.
            closed = protocol.closed
            protocol.abort()
            if closed is not None:
                await asyncio.gather(closed, return_exceptions=True)
        self._response.close()


class _SentRequest:
    """A request on its way out. It leaves once: what to do after a broken connection is decided above.

    There it is known whether it may be repeated, or sent at all. (aiohttp repeats GET, PUT and DELETE by itself.)
    """

    def __init__(self, request: Request) -> None:
        self._request = request
        self._left = False

    def leave(self) -> None:
        if self._left:
            raise aiohttp.ServerDisconnectedError
        self._request.before_send()
        self._left = True


async def _leave(_session: object, context: SimpleNamespace, _sent: object) -> None:
    """Called by aiohttp when it has a connection, and before it writes to it."""
    departure: _SentRequest = context.trace_request_ctx
    departure.leave()


def _cause(request: Request, error: Exception) -> str:
    match error:
        case aiohttp.ClientConnectorCertificateError():
            refusal = error.certificate_error
            return channel.not_trusted(refusal) if isinstance(refusal, ssl.SSLCertVerificationError) else str(refusal)
        case aiohttp.ClientHttpProxyError():
            return f"the proxy answered {error.status} {error.message}"
        case aiohttp.ClientProxyConnectionError():
            return f"the proxy cannot be reached: {channel.reason(error.os_error)}"
        case aiohttp.ClientConnectorError():
            return channel.reason(error.os_error)
        case aiohttp.ConnectionTimeoutError():
            return channel.no_connection()
        case TimeoutError():
            return channel.no_answer(request)
        case aiohttp.ServerDisconnectedError():
            return channel.NO_WORD
        case _:
            return str(error) or type(error).__name__
