"""How processes are reached that run in seeds, and how they reach Services of their seed: ports of this machine."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

from espalier.cli.environment.seed_processes.process import HOST
from espalier.simulator.pods.in_process import Container
from espalier.simulator.pods.life import Life, during
from espalier.simulator.pods.pod_network import endpoint_of

_CHUNK = 1 << 16


class TcpEndpoint:
    """A port of this machine on which a container listens."""

    def __init__(self, port: int) -> None:
        self.port = port


Found: TypeAlias = tuple[TcpEndpoint, Sequence[Life]]
"""Where a connection leads, and what has to last while it does."""


class Forwarder:
    """Passes connections on, each to what is found when it is made. `find` raises `OSError` when there is nothing."""

    def __init__(self, name: str, find: Callable[[], Found]) -> None:
        self._name = name
        self._find = find
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._closed = False

    async def listen(self, host: str = HOST, port: int = 0) -> int:
        """Begin; gives the port. Raises `OSError` when the address is not there, or in use."""
        self._server = await asyncio.start_server(self._accept, host, port)
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    def close(self) -> None:
        """Stop, and cut all connections."""
        self._closed = True
        if self._server is not None:
            self._server.close()
        for task in self._connections:
            task.cancel()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._closed:
            writer.transport.abort()
            return

        def done(task: asyncio.Task[None]) -> None:
            self._connections.discard(task)
            writer.transport.abort()  # here: a task that is cancelled before it begins cleans nothing up

        task = asyncio.create_task(self._pass_on(reader, writer), name=self._name)
        self._connections.add(task)
        task.add_done_callback(done)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):  # nothing is there, or it has ended
            endpoint, lives = self._find()
            far_reader, far_writer = await asyncio.open_connection(HOST, endpoint.port)
            try:
                await during(lives, asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer)))
            finally:
                far_writer.transport.abort()


async def forwarded(container: Container, host: str, port: int) -> int:
    """A port of this machine that leads to a Service of the seed, found anew for each connection.

    It is there as long as the container lives.
    """

    def find() -> Found:
        return endpoint_of(container.find(host, port), TcpEndpoint), ()

    forwarder = Forwarder(f"connection of {container.life.name} to {host}", find)
    container.life.at_end(forwarder.close)
    return await forwarder.listen()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until one of them ends; then the other does too."""
    try:
        while chunk := await reader.read(_CHUNK):
            writer.write(chunk)
            await writer.drain()
    except (OSError, RuntimeError):  # uvloop's error for a connection that was closed meanwhile
        pass
    finally:
        writer.close()


def unverified() -> ssl.SSLContext:
    """TLS as kubelets probe with it: they know no authority of the certificates of pods."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def status_of(port: int, path: str, tls: ssl.SSLContext | None = None) -> int:
    """The status of a GET, as kubelets make probes. Raises `OSError`, `ValueError`."""
    reader, writer = await asyncio.open_connection(HOST, port, ssl=tls)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {HOST}:{port}\r\nConnection: close\r\n\r\n".encode())
        _, status, *_ = (await reader.readline()).split(maxsplit=2)
        return int(status)
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
