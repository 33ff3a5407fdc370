"""The HTTP servers of tests, on a free port of this machine."""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from espalier.runtime.servers.serving import end

Answering = Callable[[web.Request], Awaitable[web.StreamResponse]]

LARGEST = 1 << 30
"""Bytes of a request."""


def tls(certificate: bytes, key: bytes) -> ssl.SSLContext:
    """The TLS context of a server with this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(certificate + key)
        context.load_cert_chain(file.name)
    return context


@asynccontextmanager
async def web_server(answering: Answering, context: ssl.SSLContext | None = None, **options: Any) -> AsyncIterator[int]:
    """Answer all requests, with TLS if there is a context for it; gives the port. No connection outlives it."""
    application = web.Application(client_max_size=LARGEST)
    application.router.add_route("*", "/{path:.*}", answering)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1, **options)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        yield runner.addresses[0][1]
    finally:
        await end(runner)
