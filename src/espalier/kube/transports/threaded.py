"""The transport of commands: a few threads with Python's own HTTP client.

To load the library of `HttpTransport` takes longer than most commands do otherwise, so it is loaded by those only that
watch, or go through a proxy.
"""

from __future__ import annotations

import asyncio
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from espalier.kube.connection.access import Access
from espalier.kube.connection.credentials import Credential
from espalier.kube.transports import channel
from espalier.kube.transports.channel import CONNECT_SECONDS, KEEP_ALIVE_SECONDS, Channel
from espalier.kube.transports.wire import Request, Response, Stream

if TYPE_CHECKING:
    from espalier.kube.transports.http import HttpTransport


NEAR = 0.1
"""Seconds in which a near server usually responds: waiting for a free connection is faster than another handshake."""


class _Idle(msgspec.Struct, frozen=True):
    """An idle connection, and since when."""

    connection: Connection
    credential: Credential
    since: float


class ThreadedTransport:
    """Carries requests to the API server that `access` names.

    One at a time, until a response is slow: from then on at most `max_requests` concurrently.
    """

    def __init__(
        self,
        access: Access,
        *,
        max_requests: int = 4,
        now: Callable[[], datetime] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._access = access
        self._channel = Channel(access, now=now, environment=environment)
        self._environment = environment
        self._threads = ThreadPoolExecutor(max_requests, thread_name_prefix="request")
        self._slots = asyncio.Semaphore(1)
        self._further = max_requests - 1
        self._idle: list[_Idle] = []
        self._other: HttpTransport | None = None
        self._closed = False

    async def request(self, request: Request) -> Response:
        """Send one request and read the whole response."""
        if self._closed:
            raise self._channel.closed()
        if self._channel.proxy:
            return await self._loaded().request(request)
        async with self._slots:
            credentials = self._channel.credentials
            credential = await credentials.current()
            response = await self._send(request, credential)
            if response.status == 401 and credentials.reject(credential):
                response = await self._send(request, await credentials.current())
            self._channel.check(response.status)
            return response

    async def stream(self, request: Request) -> Stream | Response:
        """Start a watch. `request.timeout` limits the time until it starts, not its duration."""
        if self._closed:
            raise self._channel.closed()
        return await self._loaded().stream(request)

    async def close(self) -> None:
        """Close all connections; idempotent. Running watches end."""
        self._closed = True
        for idle in self._idle:
            idle.connection.close()
        self._idle.clear()
        self._threads.shutdown(wait=False, cancel_futures=True)
        if self._other is not None:
            await self._other.close()

    def _loaded(self) -> HttpTransport:
        from espalier.kube.transports.http import HttpTransport  # noqa: PLC0415  see above

        if self._other is None:
            self._other = HttpTransport(self._access, environment=self._environment)
        return self._other

    async def _send(self, request: Request, credential: Credential) -> Response:
        """Run in a thread; on cancellation its connection is cut and the thread abandoned."""
        connection = self._connection(credential)
        loop = asyncio.get_running_loop()
        waiting = loop.call_later(NEAR, self._widen)
        sending = loop.run_in_executor(self._threads, connection.send, request, credential)
        try:
            async with asyncio.timeout(request.timeout):
                response, reusable = await sending
        except TimeoutError as error:
            connection.cut()
            raise self._channel.unreachable(channel.no_answer(request), sent=True) from error
        except asyncio.CancelledError:
            connection.cut()
            raise
        finally:
            waiting.cancel()
        if reusable and not self._closed:
            self._idle.append(_Idle(connection, credential, time.monotonic()))
        else:
            connection.close()
        return response

    def _widen(self) -> None:
        for _ in range(self._further):
            self._slots.release()
        self._further = 0

    def _connection(self, credential: Credential) -> Connection:
        while self._idle:
            idle = self._idle.pop()
            if idle.credential == credential and time.monotonic() - idle.since < KEEP_ALIVE_SECONDS:
                return idle.connection
            idle.connection.close()
        return Connection(self._channel, credential)


class Connection:
    """One connection, used by one thread at a time."""

    def __init__(self, to: Channel, credential: Credential) -> None:
        self._channel = to
        self._context = to.context(credential) if to.base.startswith("https:") else None
        self._client: http.client.HTTPConnection | None = None
        self._ending = threading.Lock()
        self._cut = False

    def send(self, request: Request, credential: Credential) -> tuple[Response, bool]:
        """The response, and whether the connection can be used again. Raises `Unreachable`."""
        client = self._client or self._connected(request)
        try:
            request.before_send()
        except BaseException:
            self.close()
            raise
        try:
            client.putrequest(request.method, self._target(request), skip_accept_encoding=True)
            for name, value in self._channel.headers(request, credential):
                client.putheader(name, value)
            if request.body or request.method in ("POST", "PUT", "PATCH"):
                client.putheader("content-length", str(len(request.body)))
            client.endheaders(request.body or None)
            answer = client.getresponse()
            response = Response(answer.status, self._read_all(answer), _headers(answer))
        except http.client.NotConnected as error:
            raise self._channel.unreachable("the connection to it is closed", sent=False) from error
        except http.client.RemoteDisconnected as error:
            self.close()
            raise self._channel.unreachable(channel.NO_WORD, sent=True) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            cause = channel.reason(error) if isinstance(error, OSError) else str(error)
            raise self._channel.unreachable(cause or type(error).__name__, sent=True) from error
        return response, not answer.will_close

    def cut(self) -> None:
        """Abort the connection from another thread."""
        with self._ending:
            self._cut = True
            connected = self._client.sock if self._client is not None else None
            if connected is not None:
                with suppress(OSError):
                    connected.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection, by its last user; idempotent."""
        if self._client is not None:
            self._client.close()

    def _read_all(self, answer: http.client.HTTPResponse) -> bytes:
        """The whole body, or none of it."""
        largest = self._channel.access.largest_answer
        try:
            encoding = answer.getheader("content-encoding", "identity").lower()
            if encoding != "identity":
                raise self._channel.compressed(encoding)
            body = answer.read(largest + 1) if (answer.length or 0) <= largest else b""
            if len(body) > largest or (answer.length or 0) > largest:
                raise self._channel.too_large()
            if answer.length:
                raise http.client.IncompleteRead(body, answer.length)
        except BaseException:
            answer.close()  # the response keeps the socket open by itself
            self.close()
            raise
        return body

    def _target(self, request: Request) -> str:
        parts = urlsplit(self._channel.url(request))
        return f"{parts.path}?{parts.query}" if parts.query else parts.path

    def _connected(self, request: Request) -> http.client.HTTPConnection:
        parts = urlsplit(self._channel.base)
        host, port = parts.hostname or "", parts.port or (443 if self._context else 80)
        client = http.client.HTTPConnection(host, port)
        client.auto_open = 0  # the client would reconnect by itself, without TLS
        try:
            client.sock = self._socket(host, port)
        except ssl.SSLCertVerificationError as error:
            raise self._channel.unreachable(channel.not_trusted(error), sent=False) from error
        except TimeoutError as error:
            raise self._channel.unreachable(channel.no_connection(), sent=False) from error
        except OSError as error:
            raise self._channel.unreachable(channel.reason(error), sent=False) from error
        with self._ending:
            self._client = client
            given_up = self._cut
        if given_up:
            client.close()
            raise self._channel.unreachable(channel.no_answer(request), sent=False)
        return client

    def _socket(self, host: str, port: int) -> socket.socket:
        plain = socket.create_connection((host, port), CONNECT_SECONDS)
        try:
            channel.keep_alive(plain)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            name = self._channel.access.tls_server_name or host
            connected = self._context.wrap_socket(plain, server_hostname=name) if self._context else plain
            connected.settimeout(None)  # the caller limits the time
        except BaseException:
            plain.close()
            raise
        return connected


def _headers(answer: http.client.HTTPResponse) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in answer.getheaders():
        lower = name.lower()
        headers[lower] = f"{headers[lower]}, {value}" if lower in headers else value
    return headers
