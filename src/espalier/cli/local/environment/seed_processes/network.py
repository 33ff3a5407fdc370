"""Ports of this machine: how processes in seeds are reached, and how they reach Services of their seed."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

from espalier.cli.local.environment.seed_processes.process import HOST
from espalier.simulator.pods.runtimes.in_process import Container
from espalier.simulator.pods.runtimes.life import Life, during
from espalier.simulator.pods.runtimes.pod_network import endpoint_of

_CHUNK = 1 << 16


class TcpEndpoint:
    """A port of this machine on which a container listens."""

    def __init__(self, port: int) -> None:
        self.port = port


Target: TypeAlias = tuple[TcpEndpoint, Sequence[Life]]
"""The target of a connection, and what must stay alive meanwhile."""


class Forwarder:
    """Forwards each connection to its current target. `find` raises `OSError` if there is none."""

    def __init__(self, name: str, find: Callable[[], Target]) -> None:
        self._name = name
        self._find = find
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._closed = False

    async def listen(self, host: str = HOST, port: int = 0) -> int:
        """Start; returns the port. Raises `OSError` if the address does not exist, or is in use."""
        self._server = await asyncio.start_server(self._accept, host, port)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

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
            writer.transport.abort()  # here: a task that is cancelled before it starts cleans up nothing

        task = asyncio.create_task(self._pass_on(reader, writer), name=self._name)
        self._connections.add(task)
        task.add_done_callback(done)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):  # there is no target, or it has ended
            await pass_between(reader, writer, *self._find())


async def pass_between(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, endpoint: TcpEndpoint, lives: Sequence[Life]
) -> None:
    """Pass bytes between a connection and an endpoint, until one of them or a life ends. Raises `OSError`."""
    far_reader, far_writer = await asyncio.open_connection(HOST, endpoint.port)
    try:
        await during(lives, asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer)))
    finally:
        far_writer.transport.abort()


class ConnectProxy(Forwarder):
    """A proxy for HTTPS (`CONNECT`): programs reach pods and Services of a seed by their names there, which are also
    those in certificates. `find` raises `OSError` for a name and port that nobody has."""

    def __init__(self, name: str, find: Callable[[str, int], TcpEndpoint]) -> None:
        super().__init__(name, lambda: (TcpEndpoint(0), ()))
        self._find_host = find

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            _method, authority, *_ = head.split()
            host, _, port = authority.rpartition(":")
            endpoint = self._find_host(host, int(port))
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            await pass_between(reader, writer, endpoint, ())


async def https_proxy(container: Container) -> str:
    """The URL of a proxy by which a program reaches names of its seed. It lives as long as the container."""

    def find(host: str, port: int) -> TcpEndpoint:
        return endpoint_of(container.find(host, port), TcpEndpoint)

    proxy = ConnectProxy(f"connections of {container.life.name}", find)
    container.life.at_end(proxy.close)
    return f"http://{HOST}:{await proxy.listen()}"


async def forwarded(container: Container, host: str, port: int) -> int:
    """A port of this machine that forwards to a Service of the seed, resolved for each connection. It lives as long as
    the container."""

    def find() -> Target:
        return endpoint_of(container.find(host, port), TcpEndpoint), ()

    forwarder = Forwarder(f"connection of {container.life.name} to {host}", find)
    container.life.at_end(forwarder.close)
    return await forwarder.listen()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until one of them ends; then end the other."""
    try:
        while chunk := await reader.read(_CHUNK):
            writer.write(chunk)
            await writer.drain()
    except (OSError, RuntimeError):  # uvloop's error for a connection that was closed meanwhile
        pass
    finally:
        writer.close()


async def status_of(port: int, path: str, tls: ssl.SSLContext | None = None) -> int:
    """The status of a GET request, as in kubelets' probes. Raises `OSError`, `ValueError`."""
    reader, writer = await asyncio.open_connection(HOST, port, ssl=tls)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {HOST}:{port}\r\nConnection: close\r\n\r\n".encode())
        _, status, *_ = (await reader.readline()).split(maxsplit=2)
        return int(status)
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
