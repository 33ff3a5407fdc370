"""The dashboard that a manager serves, with sixteen sessions: what each of them takes of the manager's memory.

    python -m benchmarks.bench_dashboard_sessions [--clusters 1000] [--sessions 16]

The API server is the embedded one, in another process, with copies of one cluster that was really made. A session is a
token of its own that reads the page of all clusters, and follows its changes.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import aiohttp

from benchmarks.bench_dashboard import change
from benchmarks.bench_manager import LOOK, METRICS, calm, fleet, one_steady_cluster, until
from benchmarks.fleet import TOKENS
from benchmarks.measure import PROGRAM, arguments, cpu_seconds, memory, report, size, spread
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.transports.http import HttpTransport
from tests.support.servers.ports import free_port

IDLE = size(20.0, 0.5)
STORM = size(300, 2)
CALM = size(5.0, 1.0)
"""Seconds."""
ORIGIN = f"https://127.0.0.1:{free_port()}"


@contextmanager
def managing(home: Path) -> Iterator[int]:
    """The process of a manager that serves the dashboard."""
    addresses = {
        "--webhook-address": f"127.0.0.1:{free_port()}",
        "--webhook-names": "127.0.0.1",
        "--health-address": "0",
        "--metrics-address": METRICS[7:].partition("/")[0],
        "--dashboard-address": ORIGIN[8:],
    }
    flags = [word for flag in addresses.items() for word in flag]
    command = [*PROGRAM, "manager", "--kubeconfig", str(home / "fleet.kubeconfig"), *flags]
    settings = ["--isolation", "gate", "--sync-period", "10h", "--log-level", "error"]
    process = subprocess.Popen([*command, *settings], env={**os.environ, "ESPALIER_HOME": str(home)})
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait()


class Reader:
    """The page of all clusters with one token, as a browser keeps it open."""

    def __init__(self, session: aiohttp.ClientSession, token: str) -> None:
        self._session = session
        self._headers = {"Authorization": f"Bearer {token}"}
        self.rows = 0
        """Those that were sent since the page was loaded."""
        self._number = ""

    async def load(self, count: int) -> float:
        """Load the page until it has all rows; the seconds that took."""
        began = time.monotonic()
        while True:
            async with self._session.get(f"{ORIGIN}/", headers=self._headers) as answer:
                assert answer.status == 200, await answer.text()
                page = await answer.text()
            if page.count("<tr role") > count:
                self._number = page.partition('data-number="')[2].partition('"')[0]
                return time.monotonic() - began
            await asyncio.sleep(LOOK)

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Follow what changes within the block."""
        address = f"{ORIGIN}/events/fleet?since={self._number}"
        async with self._session.get(address, headers=self._headers) as answer:
            reading = asyncio.create_task(self._read(answer))
            try:
                yield
            finally:
                reading.cancel()

    async def _read(self, answer: aiohttp.ClientResponse) -> None:
        async for piece in answer.content.iter_any():
            self.rows += piece.count(b"<tr role")


async def shown(readers: Sequence[Reader]) -> None:
    """Wait until the pages have been sent nothing more for a while."""
    rows, since = -1, time.monotonic()
    while time.monotonic() - since < CALM:
        await asyncio.sleep(LOOK)
        if (now := sum(reader.rows for reader in readers)) != rows:
            rows, since = now, time.monotonic()


async def main(count: int, sessions: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        await one_steady_cluster(home)
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # what is measured is memory
        connector = aiohttp.TCPConnector(ssl=context, limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        with fleet(home, count), managing(home) as pid:
            async with (
                aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
                AsyncExitStack() as open_pages,
            ):
                await until(session, passes=count)
                await calm(session)
                loads, figures = [], [memory(pid)]
                readers = [Reader(session, token) for token in list(TOKENS)[:sessions]]
                for reader in readers:
                    loads.append(await reader.load(count))
                    await open_pages.enter_async_context(reader.following())
                    figures.append(memory(pid))
                before = cpu_seconds(pid)
                await asyncio.sleep(IDLE)
                idle = cpu_seconds(pid) - before
                settled = memory(pid)
                sent = [reader.rows for reader in readers]
                client = Client(HttpTransport(Kubeconfig.load([home / "fleet.kubeconfig"]).context()))
                for number in range(STORM):
                    await change(client, f"garden-{number % count:05}", 3 + number // count)
                await client.close()
                await shown(readers)
                seen = [reader.rows - earlier for reader, earlier in zip(readers, sent, strict=True)]
                stormed = memory(pid)
    each = (settled - figures[0]) / sessions
    report(
        f"the manager's dashboard with {count} clusters and {sessions} sessions",
        f"the manager without sessions: {figures[0]:.0f} MiB; with one: {figures[1]:.0f}; with all: {settled:.0f}",
        f"a session: {each:.1f} MiB   (aim: <= 5 MiB)",
        f"its page loaded with all rows: {spread(loads)}",
        f"idle: {100 * idle / IDLE:.1f} % of a core for all",
        f"after {STORM} changes, of which each page was sent {min(seen)} rows or more: {stormed:.0f} MiB",
    )


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--clusters", type=int, default=size(1000, 2))
    parser.add_argument("--sessions", type=int, default=size(len(TOKENS), 2))
    asked = parser.parse_args()
    asyncio.run(main(asked.clusters, asked.sessions))
