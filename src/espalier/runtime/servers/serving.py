"""HTTP servers: health, metrics and webhooks each have one."""

from __future__ import annotations

import asyncio
import errno
import os
import ssl

from aiohttp import web

from espalier.kube.transports.serving import Connection, abort

STOP_WITHIN = 5.0
"""Seconds for requests to finish when the server stops."""

_TAKEN = (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES)
"""Errors of an address that a person chose, or left at its default, and that this machine can't give."""


async def end(runner: web.AppRunner) -> None:
    """Let requests finish, for as long as the runner allows, and close all connections, without a TLS close_notify."""
    transports = [handler.transport for handler in runner.server.connections] if runner.server is not None else []
    await runner.cleanup()
    for transport in transports:
        if isinstance(transport, asyncio.Transport):
            abort(transport)
    await asyncio.sleep(0)  # connections are lost in the next turn of the loop


class HttpServer:
    """Serves an aiohttp application on an address; port 0 takes a free one."""

    def __init__(
        self, application: web.Application, host: str, port: int, *, context: ssl.SSLContext | None = None
    ) -> None:
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=STOP_WITHIN)
        self._listener: asyncio.Server | None = None
        self._host = host
        self._port = port
        self._context = context

    @property
    def port(self) -> int:
        """The port it listens on."""
        if self._listener is None:
            raise RuntimeError("the server is not listening")
        return int(self._listener.sockets[0].getsockname()[1])

    async def start(self) -> None:
        """Listen. Raises `OSError`, which names the address if that can't be had."""
        await self._runner.setup()
        server, loop = self._runner.server, asyncio.get_running_loop()
        if server is None:
            raise RuntimeError("the application has no server")
        try:
            self._listener = await loop.create_server(
                lambda: Connection(server, loop=loop), self._host, self._port, ssl=self._context
            )
        except OSError as error:
            await self._runner.cleanup()
            if error.errno not in _TAKEN:
                raise
            reason = (
                f"cannot listen there, {os.strerror(error.errno).lower()}; give another address (--help has the flag)"
            )
            raise OSError(error.errno, reason, f"{self._host}:{self._port}") from error

    async def stop(self) -> None:
        """Stop listening, and let running requests finish, without waiting for a TLS close_notify."""
        if self._listener is not None:
            self._listener.close()
        await end(self._runner)
