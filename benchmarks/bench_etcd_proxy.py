"""What the proxy costs a client of etcd: the same etcd through the guard, and on its unix socket, alternating.

etcd is a real one where it was built, else that for trying. Reads and writes one after the other (latency), from 32
clients at once (throughput), and a range of 16 MiB (bytes). The client is ours and takes most of the time: the
difference counts, not the sum.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from benchmarks.measure import arguments, cpu_seconds, peak_memory, report, size
from espalier.assets.recipes import ETCD
from espalier.etcd.client import Client, connect
from espalier.etcd.requests import Range
from tests.support.etcd.owners import seats
from tests.support.etcd.real_etcd import built

ROUNDS, CALLS, CLIENTS = size(5, 1), size(1000, 10), size(32, 2)
PREFIX = b"/large/"


async def one_by_one(client: Client, call: Callable[[Client], Awaitable[object]]) -> list[float]:
    """Milliseconds of each call."""
    taken = []
    for _ in range(CALLS):
        begun = time.perf_counter()
        await call(client)
        taken.append((time.perf_counter() - begun) * 1000)
    return taken


async def at_once(url: str) -> float:
    """Reads a second by many clients."""
    clients = [connect(url) for _ in range(CLIENTS)]
    for client in clients:
        await client.get(b"/x")
    begun = time.perf_counter()

    async def some(client: Client) -> None:
        for _ in range(CALLS // 10):
            await client.get(b"/x")

    await asyncio.gather(*(some(client) for client in clients))
    seconds = time.perf_counter() - begun
    for client in clients:
        await client.close()
    return CLIENTS * (CALLS // 10) / seconds


async def large(client: Client) -> float:
    """MiB a second of a range."""
    begun = time.perf_counter()
    result = await client.do(Range(PREFIX, PREFIX + b"\xff"))
    return sum(len(item.value) for item in result.items) / (1 << 20) / (time.perf_counter() - begun)


async def main() -> None:
    """Print the comparison."""
    arguments(__doc__).parse_args()
    component = ETCD if built(ETCD) is not None else None
    with tempfile.TemporaryDirectory() as name:
        async with seats(Path(name), component) as made:
            seat = made.seat()
            await seat.start()
            await seat.serves()
            ways = {"direct": seat.etcd_url, "proxy": seat.url}
            reads: dict[str, list[float]] = {way: [] for way in ways}
            writes: dict[str, list[float]] = {way: [] for way in ways}
            many: dict[str, list[float]] = {way: [] for way in ways}
            bulk: dict[str, list[float]] = {way: [] for way in ways}
            clients = {way: connect(url) for way, url in ways.items()}
            for number in range(16):
                await clients["direct"].put(PREFIX + b"%d" % number, os.urandom(1 << 20))
            assert seat.guard.process is not None
            pid = seat.guard.process.pid
            for _ in range(ROUNDS):
                for way, client in clients.items():
                    reads[way] += await one_by_one(client, lambda item: item.get(b"/x"))
                    writes[way] += await one_by_one(client, lambda item: item.put(b"/x", b"y" * 200))
                    many[way].append(await at_once(ways[way]))
                    bulk[way].append(await large(client))
            for client in clients.values():
                await client.close()
            cost, memory = cpu_seconds(pid), peak_memory(pid)
        lines = []
        for title, value in (("read", reads), ("write", writes)):
            for way in ways:
                values = sorted(value[way])
                p99 = values[int(len(values) * 0.99)]
                lines.append(f"{title:6} {way:7} median {statistics.median(values):.3f} ms, p99 {p99:.3f} ms")
        for way in ways:
            lines.append(f"{CLIENTS} clients {way:7} {statistics.median(many[way]):,.0f} reads a second")
        for way in ways:
            lines.append(f"16 MiB     {way:7} {statistics.median(bulk[way]):,.0f} MiB a second")
        lines.append(f"guard: {cost:.1f} s of CPU, {memory} MiB at most")
        report(f"the proxy of etcd ({'etcd ' + ETCD.version if component else 'for trying'})", *lines)


if __name__ == "__main__":
    asyncio.run(main())
