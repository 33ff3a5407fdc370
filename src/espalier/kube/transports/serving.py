"""Time limits of all HTTP servers of this program: clients that send or read too slowly are cut off.

The limits are those of kube-apiserver. A connection that is idle between two requests, and a watch whose reader keeps
up, are left alone. Nothing a client sends is logged: headers carry tokens, bodies carry Secrets.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

HEADERS_WITHIN = 32.0
"""Seconds from the first byte of a request (of the first one: from the connection) to the end of its headers."""

BODY_WITHIN = 60.0
ANSWER_WITHIN = 60.0
"""Seconds for a client to receive a response, or one event of a watch."""

LINGER_SECONDS = 10.0
"""Seconds for which an unwanted body is drained, so that its sender reads the response."""

IDLE_WITHIN = 90.0
"""Seconds between requests, and for a request whose beginning came together with the one before."""


def _clean(record: logging.LogRecord) -> bool:
    """Logs nothing of malformed requests; of our failures type and place, without the message."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, HttpProcessingError):
        return False
    place, trace = "", error.__traceback__ if error is not None else None
    while trace is not None:
        place, trace = f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}", trace.tb_next
    record.msg, record.args = f"an HTTP request could not be answered: {type(error).__name__}{place}", ()
    record.exc_info = record.exc_text = record.stack_info = None
    return True


LOGGER = logging.getLogger("espalier.http")
"""Replaces aiohttp's logger, which quotes malformed requests."""

LOGGER.addFilter(_clean)


_SILENT: Mapping[str, Any] = {"access_log": None, "logger": LOGGER}


class Connection(web.RequestHandler):
    """One client connection, with limits on how long its requests and answers may take."""

    __slots__ = ("_headers_due", "_payload")

    def __init__(self, manager: web.Server, *, loop: asyncio.AbstractEventLoop, **options: Any) -> None:
        limits: dict[str, Any] = {"lingering_time": LINGER_SECONDS, "keepalive_timeout": IDLE_WITHIN}
        super().__init__(manager, loop=loop, **_SILENT, **limits, **options)
        self._headers_due: asyncio.TimerHandle | None = None
        self._payload: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection and await its first request."""
        super().connection_made(transport)
        self._await_headers()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Stop the timers of a lost connection."""
        self._headers_came()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Handle received data; the first part of a request starts the timer for its headers."""
        in_body = self._payload is not None and not self._payload.is_eof()
        known = self._request_count
        super().data_received(data)
        if self._request_count > known:
            self._headers_came()
            self._payload = self._messages[-1][1] if self._messages else None
        elif not in_body and self._headers_due is None:
            self._await_headers()

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send a response; the connection of a client that does not read it is cut."""
        try:
            async with asyncio.timeout(ANSWER_WITHIN):
                return await super().finish_response(request, resp, start_time)
        except TimeoutError:
            self.abort()
            return resp, True

    def abort(self) -> None:
        """Abort the connection."""
        if self.transport is not None:
            abort(self.transport)

    def _await_headers(self) -> None:
        self._headers_due = self._loop.call_later(HEADERS_WITHIN, self._too_late)

    def _headers_came(self) -> None:
        if self._headers_due is not None:
            self._headers_due.cancel()
            self._headers_due = None

    def _too_late(self) -> None:
        self._headers_due = None
        if self._request_in_progress:
            self._await_headers()  # the beginning of the next request came early
        else:
            self.abort()


def abort(transport: asyncio.Transport) -> None:
    """Abort a connection. One with TLS that was closed twice is aborted already; Python 3.11.2 fails on it."""
    with suppress(AttributeError):
        transport.abort()


async def body_of(request: web.BaseRequest) -> bytes:
    """The body of a request. Raises `HTTPRequestTimeout` and `HTTPRequestEntityTooLarge`."""
    try:
        async with asyncio.timeout(BODY_WITHIN):
            return await request.read()
    except TimeoutError:
        late = web.HTTPRequestTimeout(text=f"the body of the request did not arrive within {BODY_WITHIN:g} s\n")
        late.force_close()
        raise late from None
