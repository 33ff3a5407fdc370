"""The transport over HTTP/1.1 and TLS."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode, urlsplit
from weakref import WeakSet

from multidict import CIMultiDict
from yarl import URL

from espalier.kube.access import Access
from espalier.kube.credentials import Credential, credentials_of
from espalier.kube.errors import Unreachable
from espalier.kube.proxies import proxy_for
from espalier.kube.tls import CertificateError, client_context, without_system_certificates
from espalier.kube.wire import Request, Response, Stream

with without_system_certificates():
    import aiohttp

_CONNECT_SECONDS = 10.0
_KEEP_ALIVE_SECONDS = 30.0
"""Idle connections are given up well before servers do (75 s and more), so that no write meets a closing one."""
_READ_BUFFER = 256 * 1024
_DEAD_PEER_OPTIONS = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 60_000}
"""A watch may be silent for minutes. With these a host that vanished is noticed after one."""
_TURNS_TO_CLOSE = 10
"""Turns of the event loop in which a connection that was cut is noticed and closed; it takes three."""


class HttpTransport:
    """Carries requests to the API server that `access` names, over a pool of kept-alive connections.

    At most `max_requests` requests are under way at once; watches come on top. Responses are asked for
    uncompressed: controllers sit near their API servers, where compressing costs both sides more than it saves.
    `now` is the wall clock for credentials that expire. Belongs to the event loop of its first request.
    """

    def __init__(
        self,
        access: Access,
        *,
        max_requests: int = 64,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._access = access
        self._base = access.server.rstrip("/")
        self.host = urlsplit(access.server).netloc.rpartition("@")[2]
        self._proxy = access.proxy_url or proxy_for(access.server, os.environ if environment is None else environment)
        self._credentials = credentials_of(access, now=now, environment=environment)
        self._impersonation = access.impersonation.headers() if access.impersonation else []
        self._slots = asyncio.Semaphore(max_requests)
        self._tls: tuple[Credential, ssl.SSLContext] | None = None
        self._session: aiohttp.ClientSession | None = None
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._closed = False

    async def request(self, request: Request) -> Response:
        """Send one request and read the whole response."""
        async with self._slots:
            response = await self._send(request, aiohttp.ClientTimeout(request.timeout, sock_connect=_CONNECT_SECONDS))
            try:
                return await _whole(response)
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                raise self._unreachable(request, error) from error

    async def stream(self, request: Request) -> Stream | Response:
        """Start a watch. `request.timeout` bounds the time to its beginning, not its length."""
        limits = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
        try:
            async with asyncio.timeout(request.timeout):
                response = await self._send(request, limits)
                if response.status == 200:
                    return _HttpStream(response, self._base)
                return await _whole(response)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._unreachable(request, error) from error

    async def close(self) -> None:
        """Close all connections; idempotent. Running watches end."""
        self._closed = True
        if self._session is not None:
            await self._session.close()
            await self._cut()

    async def _cut(self) -> None:
        """End what still waits for a server to answer TLS's goodbye: connections whose request was cancelled."""
        for _ in range(_TURNS_TO_CLOSE):
            waiting = [connection for connection in self._sockets if connection.fileno() != -1]
            if not waiting:
                return
            for connection in waiting:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            await asyncio.sleep(0)

    async def _send(self, request: Request, limits: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        credential = await self._credentials.current()
        response = await self._send_as(credential, request, limits)
        if response.status == 401 and self._credentials.reject(credential):
            response.release()
            response = await self._send_as(await self._credentials.current(), request, limits)
        return response

    async def _send_as(
        self, credential: Credential, request: Request, limits: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        headers = CIMultiDict(request.headers)
        headers["accept-encoding"] = "identity"
        headers.extend(self._impersonation)
        if credential.token:
            headers["authorization"] = f"Bearer {credential.token}"
        try:
            return await self._open_session().request(
                request.method,
                self._url(request),
                data=request.body or None,
                headers=headers,
                timeout=limits,
                allow_redirects=False,
                ssl=self._context(credential),
                server_hostname=self._access.tls_server_name or None,
                proxy=self._proxy,
            )
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._unreachable(request, error) from error

    def _url(self, request: Request) -> URL:
        url = self._base + quote(request.path, safe="/:@!$&'()*+,;=~")
        if request.query:
            url += "?" + urlencode(request.query)
        return URL(url, encoded=True)

    def _open_session(self) -> aiohttp.ClientSession:
        if self._closed:
            raise Unreachable(f"the connection to the API server at {self._base} is closed", sent=False)
        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=0, keepalive_timeout=_KEEP_ALIVE_SECONDS, socket_factory=self._socket_with_keepalive
            )
            self._session = aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar(), read_bufsize=_READ_BUFFER
            )
        return self._session

    def _socket_with_keepalive(self, address: tuple[Any, ...]) -> socket.socket:
        family, type_, protocol = address[:3]
        connection = socket.socket(family, type_, protocol)
        self._sockets.add(connection)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _DEAD_PEER_OPTIONS.items():
            if hasattr(socket, option):  # not every system has each
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        return connection

    def _context(self, credential: Credential) -> ssl.SSLContext:
        """The TLS context, made anew when the client certificate changed."""
        if self._tls is None or self._tls[0].certificate != credential.certificate:
            try:
                context = client_context(
                    self._access.certificate_authority,
                    insecure_skip_tls_verify=self._access.insecure_skip_tls_verify,
                    certificate=credential.certificate,
                    key=credential.key,
                )
            except CertificateError as error:
                raise CertificateError(f"cannot connect to the API server at {self._base}: {error}") from error
            self._tls = credential, context
        return self._tls[1]

    def _unreachable(self, request: Request, error: Exception) -> Unreachable:
        cause = _cause(request, error)
        sent = not isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
        return Unreachable(f"cannot reach the API server at {self._base}: {cause}", sent=sent)


class _HttpStream:
    """The documents of a watch, one per line."""

    def __init__(self, response: aiohttp.ClientResponse, base: str) -> None:
        self._response = response
        self._base = base
        self._closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        parts: list[bytes] = []
        try:
            async for chunk in self._response.content.iter_any():
                lines = chunk.split(b"\n")
                if len(lines) > 1 and parts:
                    lines[0] = b"".join((*parts, lines[0]))
                    parts.clear()
                # A line that the server did not finish is no event: whoever watches again gets it whole.
                if rest := lines.pop():
                    parts.append(rest)
                for line in lines:
                    if line:
                        yield line
        except (aiohttp.ClientError, OSError) as error:
            if not self._closed:
                raise Unreachable(f"the watch of the API server at {self._base} broke: {error}") from error

    async def close(self) -> None:
        self._closed = True
        connection = self._response.connection
        protocol = connection.protocol if connection is not None else None
        if protocol is not None:
            # Not closed politely: TLS would wait for the answer of a server that may have no reason to give one.
            gone = protocol.closed
            protocol.abort()
            if gone is not None:
                await asyncio.gather(gone, return_exceptions=True)
        self._response.close()


async def _whole(response: aiohttp.ClientResponse) -> Response:
    body = await response.read()
    headers: dict[str, str] = {}
    for name, value in response.headers.items():
        lower = name.lower()
        headers[lower] = f"{headers[lower]}, {value}" if lower in headers else value
    return Response(response.status, body, headers)


def _cause(request: Request, error: Exception) -> str:
    match error:
        case aiohttp.ClientConnectorCertificateError():
            refusal = error.certificate_error
            return f"its certificate is not trusted: {getattr(refusal, 'verify_message', '') or refusal}"
        case aiohttp.ClientHttpProxyError():
            return f"the proxy answered {error.status} {error.message}"
        case aiohttp.ClientProxyConnectionError():
            return f"the proxy cannot be reached: {_reason(error.os_error)}"
        case aiohttp.ClientConnectorError():
            return _reason(error.os_error)
        case aiohttp.ConnectionTimeoutError():
            return f"no connection within {_CONNECT_SECONDS:g} seconds"
        case TimeoutError():
            return f"no answer within {request.timeout:g} seconds"
        case aiohttp.ServerDisconnectedError():
            return "it closed the connection without an answer"
        case _:
            return str(error) or type(error).__name__


def _reason(error: OSError) -> str:
    """The system's words for an error; event loops put their own in front."""
    if error.errno and not isinstance(error, socket.gaierror | ssl.SSLError):
        return os.strerror(error.errno)
    return error.strerror or str(error)
