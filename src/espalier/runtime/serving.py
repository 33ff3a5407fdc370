"""One HTTP server of this process: health, metrics and webhooks each have theirs."""

from __future__ import annotations

import asyncio
import ssl

from aiohttp import web

STOP_WITHIN = 5.0
"""Seconds that requests have to end when the server stops."""


class HttpServer:
    """Serves an aiohttp application on an address; port 0 takes a free one."""

    def __init__(
        self, application: web.Application, host: str, port: int, *, context: ssl.SSLContext | None = None
    ) -> None:
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=STOP_WITHIN)
        self._host = host
        self._port = port
        self._context = context

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._runner.addresses[0][1])

    async def start(self) -> None:
        """Listen. Raises `OSError` when the address is taken."""
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._host, self._port, ssl_context=self._context).start()
        except OSError:
            await self._runner.cleanup()
            raise

    async def stop(self) -> None:
        """Stop listening; requests that run may end. Nobody waits for the other side to say goodbye, as TLS has it."""
        server = self._runner.server
        transports = [handler.transport for handler in server.connections] if server is not None else []
        await self._runner.cleanup()
        for transport in transports:
            if isinstance(transport, asyncio.Transport):
                transport.abort()
        await asyncio.sleep(0)  # connections are lost in the next turn of the loop
