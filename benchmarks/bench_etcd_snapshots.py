"""What a full snapshot costs the writers of an etcd: latency of puts while none, ours, and etcdctl's is taken.

One writer puts an object after the other into a real etcd of some hundred MiB (argument: MiB) that flushes to the disk.
The three take turns; ours is asked for over the agent's HTTP, with its hash, its check and gzip as by default. The
agent's CPU and memory are those of its whole life: delta snapshots included.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from benchmarks.measure import arguments, cpu_seconds, peak_memory, report, size, spread
from espalier.assets.recipes import ETCD
from espalier.etcd.client import Client
from tests.support.etcd.agents import AgentProcess, running_agent
from tests.support.etcd.real_etcd import built, real_etcd

ROUNDS, QUIET_SECONDS, VALUE = size(5, 1), size(5.0, 0.1), 64 * 1024


async def put_until(client: Client, done: asyncio.Task[object]) -> list[float]:
    """Milliseconds of each put until a task has ended."""
    taken = []
    while not done.done():
        begun = time.perf_counter()
        await client.put(b"/registry/written", b"x" * 1000)
        taken.append((time.perf_counter() - begun) * 1000)
    done.result()
    return taken


async def etcdctl(program: Path, endpoint: str, folder: Path) -> None:
    """`etcdctl snapshot save` into a file."""
    target = folder / "saved.db"
    target.unlink(missing_ok=True)
    words = (str(program), f"--endpoints={endpoint}", "snapshot", "save", str(target))
    process = await asyncio.create_subprocess_exec(
        *words, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    if await process.wait():
        raise SystemExit(f"{program} failed")


async def ours(agent: AgentProcess) -> None:
    """A full snapshot, once it is stored."""
    await agent.ask("/snapshot/full")


async def main() -> None:
    """Print the comparison."""
    parser = arguments(__doc__)
    parser.add_argument("mib", type=int, nargs="?", default=size(256, 1), help="size of the database")
    mib = parser.parse_args().mib
    programs = built(ETCD)
    if programs is None:
        report("writers during a full snapshot", f"not measured: no etcd {ETCD.version}; run make real-assets")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "etcd").mkdir()
        async with (
            real_etcd(programs, folder / "etcd", durable=True) as etcd,
            etcd.client() as filler,
            etcd.client() as client,
        ):
            for number in range(mib * (1 << 20) // VALUE):
                await filler.put(b"/registry/filling/%d" % number, os.urandom(VALUE // 2) + bytes(VALUE // 2))
            flags = ("--delta-snapshot-period", "20s")
            async with running_agent(f"file://{folder}/store", etcd.endpoint, folder / "agent.log", *flags) as agent:
                await agent.ask("/snapshot/full", until_taken=True)
                ways: dict[str, Callable[[], Awaitable[object]]] = {
                    "no snapshot": lambda: asyncio.sleep(QUIET_SECONDS),
                    "etcdctl": lambda: etcdctl(programs / "etcdctl", etcd.endpoint, folder),
                    "ours": lambda: ours(agent),
                }
                puts: dict[str, list[float]] = {way: [] for way in ways}
                lasted: dict[str, list[float]] = {way: [] for way in ways}
                for _ in range(ROUNDS):
                    for way, begin in ways.items():
                        begun = time.perf_counter()
                        puts[way] += await put_until(client, asyncio.ensure_future(begin()))
                        lasted[way].append(time.perf_counter() - begun)
                cost, memory = cpu_seconds(agent.pid), peak_memory(agent.pid)
    lines = []
    for way, item in puts.items():
        values = sorted(item)
        median, p99 = values[len(values) // 2], values[int(len(values) * 0.99)]
        lines.append(f"{way:12} puts: median {median:.2f} ms, p99 {p99:.2f} ms; each lasted {spread(lasted[way])}")
    lines.append(f"the agent: {cost:.1f} s of CPU, {memory} MiB at most")
    report(f"writers during a full snapshot of {mib} MiB (etcd {ETCD.version})", *lines)


if __name__ == "__main__":
    asyncio.run(main())
