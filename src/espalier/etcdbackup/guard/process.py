"""The guard as a process: `espalier etcd-guard`."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from espalier.etcdbackup.guard.child import Child
from espalier.etcdbackup.guard.control import Control
from espalier.etcdbackup.guard.proxy import Proxy

_ALIVE = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n"


@dataclass(frozen=True, slots=True)
class Options:
    """Where clients connect, where etcd and the agent are, and the program to run."""

    command: Sequence[str]
    etcd: Path
    """The unix socket on which etcd listens for clients."""
    control: Path
    """The unix socket for the agent."""
    host: str
    port: int
    liveness: tuple[str, int] | None = None
    """The address of the liveness probe."""
    patience: float = 30.0
    """Seconds that etcd has to end."""
    plain: Path | None = None
    """The unix socket for clients without TLS; None: all clients are passed to `etcd`."""


async def run(options: Options, listening: Callable[[int], None]) -> None:
    """Guard etcd until SIGTERM or SIGINT, then end it first. `listening` receives the port. Raises `OSError`."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    proxy = Proxy(options.etcd, plain=options.plain)
    child = Child(options.command, patience=options.patience)
    control = Control(proxy, child)
    probed: asyncio.Server | None = None
    try:
        port = proxy.listen(options.host, options.port)
        await control.listen(options.control)
        if options.liveness is not None:
            probed = await asyncio.start_server(_alive, *options.liveness, limit=1 << 14)
        listening(port)
        await stop.wait()
    finally:
        proxy.close()
        await child.stop()
        control.close()
        if probed is not None:
            probed.close()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


async def _alive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the liveness probe. An answer proves that the event loop runs: a frozen process lets the probe time
    out."""
    try:
        async with asyncio.timeout(5):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(_ALIVE)
            await writer.drain()
    except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
        pass
    finally:
        writer.close()
