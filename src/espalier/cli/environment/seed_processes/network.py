"""How processes are reached that run in seeds, and how they reach Services of their seed: ports of this machine."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress

from espalier.cli.environment.seed_processes.process import HOST
from espalier.simulator.pods.in_process import Container
from espalier.simulator.pods.pod_network import door_of

_CHUNK = 1 << 16


class TcpDoor:
    """A port of this machine on which a container listens."""

    def __init__(self, port: int) -> None:
        self.port = port


async def forwarded(container: Container, host: str, port: int) -> int:
    """A port of this machine that leads to a Service of the seed, found anew for each connection.

    It is there as long as the container lives.
    """

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            door = door_of(container.find(host, port), TcpDoor)
            far_reader, far_writer = await asyncio.open_connection(HOST, door.port)
        except OSError:
            writer.transport.abort()
            return
        await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))

    server = await asyncio.start_server(pass_on, HOST, 0)
    container.life.at_end(server.close)
    found: int = server.sockets[0].getsockname()[1]
    return found


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until one of them ends; then the other does too."""
    try:
        while chunk := await reader.read(_CHUNK):
            writer.write(chunk)
            await writer.drain()
    except OSError:
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
