"""The process in front of all control planes of a local environment: TCP, health-checked, standard library only.

    python -m espalier.realnodes.nspawn.system.balancer SETTINGS

It is a process of its own so that nodes keep their API server while the local environment is down. SETTINGS is a JSON
file, read again at SIGHUP: `[{"address": "10.77.0.2", "port": 6443, "backends": ["10.77.0.3", ...]}]`. Backends listen
at the same port. A backend that does not answer `/readyz` gets no new connections and loses those it has.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
import ssl
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CHECK_EVERY = 1.0
CHECK_WITHIN = 2.0
CONNECT_WITHIN = 1.0
FAILURES_UNTIL_DOWN = 2
CHUNK = 64 * 1024


def no_verification() -> ssl.SSLContext:
    """A TLS context without verification: health checks send no secrets."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@dataclass(eq=False)
class Backend:
    """One API server. It starts as unhealthy, and unhealthy ones are used while none is healthy."""

    host: str
    port: int
    healthy: bool = False
    failures: int = 0
    connections: set[asyncio.StreamWriter] = field(default_factory=set)

    async def check(self, context: ssl.SSLContext) -> None:
        """Check once, and close connections when the server is down."""
        if await self._is_ready(context):
            self.healthy, self.failures = True, 0
            return
        self.failures += 1
        if self.failures >= FAILURES_UNTIL_DOWN:
            if self.healthy:
                self.drop()
            self.healthy = False

    def drop(self) -> None:
        """Close all connections."""
        for writer in list(self.connections):
            writer.transport.abort()

    async def _is_ready(self, context: ssl.SSLContext) -> bool:
        try:
            async with asyncio.timeout(CHECK_WITHIN):
                reader, writer = await asyncio.open_connection(self.host, self.port, ssl=context)
                try:
                    writer.write(f"GET /readyz HTTP/1.1\r\nHost: {self.host}\r\nConnection: close\r\n\r\n".encode())
                    status = await reader.readline()
                finally:
                    writer.transport.abort()
        except (OSError, TimeoutError):
            return False
        return status.split()[1:2] == [b"200"]


class Listener:
    """One control plane: an address, and the backends behind it."""

    def __init__(self, address: str, port: int) -> None:
        self.address = address
        self.port = port
        self.backends: list[Backend] = []
        self.problem = ""
        self._turn = itertools.count()
        self._server: asyncio.Server | None = None

    def use(self, hosts: list[str]) -> None:
        """Set the backends; connections of removed ones are closed."""
        known = {backend.host: backend for backend in self.backends}
        self.backends = [known.pop(host) if host in known else Backend(host, self.port) for host in hosts]
        for removed in known.values():
            removed.drop()

    async def open(self) -> None:
        """Listen. Raises `OSError` when the address does not exist, or is in use."""
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, self.address, self.port)

    def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
        self.use([])

    def in_order(self) -> list[Backend]:
        """Backends to try: healthy ones first, round-robin."""
        turn = next(self._turn)
        rotated = [self.backends[(turn + index) % len(self.backends)] for index in range(len(self.backends))]
        return sorted(rotated, key=lambda backend: not backend.healthy)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for backend in self.in_order():
            try:
                async with asyncio.timeout(CONNECT_WITHIN):
                    upstream = await asyncio.open_connection(backend.host, backend.port)
            except (OSError, TimeoutError):
                continue
            backend.connections |= {writer, upstream[1]}
            try:
                await asyncio.gather(_pump(reader, upstream[1]), _pump(upstream[0], writer))
            finally:
                backend.connections -= {writer, upstream[1]}
                upstream[1].close()
                writer.close()
            return
        writer.transport.abort()


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """Copy one direction; its end closes the other side's input, an error closes both."""
    try:
        while data := await source.read(CHUNK):
            target.write(data)
            await target.drain()
        target.write_eof()
    except (OSError, RuntimeError):
        target.transport.abort()


class Balancer:
    """All listeners of the settings."""

    def __init__(self, settings: Path) -> None:
        self._settings = settings
        self._listeners: dict[tuple[str, int], Listener] = {}

    async def read(self) -> None:
        """Apply the settings. A missing address is tried again with the next health checks."""
        wanted: list[dict[str, Any]] = json.loads(self._settings.read_bytes())
        places = {(entry["address"], entry["port"]): entry["backends"] for entry in wanted}
        for place in [place for place in self._listeners if place not in places]:
            self._listeners.pop(place).close()
        for place, hosts in places.items():
            listener = self._listeners.setdefault(place, Listener(*place))
            listener.use(hosts)
        await self._open()

    async def watch_over(self) -> None:
        """Check all backends periodically."""
        context = no_verification()
        while True:
            await self._open()
            backends = [backend for listener in self._listeners.values() for backend in listener.backends]
            await asyncio.gather(*(backend.check(context) for backend in backends))
            await asyncio.sleep(CHECK_EVERY)

    async def _open(self) -> None:
        for listener in self._listeners.values():
            try:
                await listener.open()
            except OSError as error:
                if str(error) != listener.problem:
                    print(error, file=sys.stderr, flush=True)
                listener.problem = str(error)


async def main(settings: Path) -> None:
    """Balance until SIGTERM."""
    balancer = Balancer(settings)
    loop = asyncio.get_running_loop()
    readings: set[asyncio.Task[None]] = set()

    def again() -> None:
        task = loop.create_task(balancer.read())
        readings.add(task)
        task.add_done_callback(readings.discard)

    loop.add_signal_handler(signal.SIGHUP, again)
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    await balancer.read()
    watching = loop.create_task(balancer.watch_over())
    await asyncio.wait([watching, loop.create_task(stop.wait())], return_when=asyncio.FIRST_COMPLETED)
    if watching.done():
        watching.result()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
