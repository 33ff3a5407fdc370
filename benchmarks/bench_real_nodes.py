"""Time and memory of real nodes: a cluster of 1+1, one worker more, and all of it gone again.

    python -m benchmarks.bench_real_nodes [--workers 2] [--control-planes 1]

As root, with what `make real-assets REAL=nodes` builds; elsewhere it says what is missing and measures nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from espalier.cli import lock
from espalier.local.nspawn import cgroups
from tests.nodes.manifests import CLUSTER, manifest, workers
from tests.support.real_world import RealLaptop, real_laptop, why_not

MIB = 1024 * 1024


async def measure(control_planes: int, count: int) -> None:
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        async with real_laptop(Path(folder)) as laptop:
            say("management cluster serves", started)
            await timed(laptop, f"apply to Ready, {control_planes}+{count}", manifest(count, control_planes))
            nodes = {node["folder"].rpartition("/")[2]: node["role"] for node in await laptop.nodes()}
            for id_, role in nodes.items():
                print(f"memory of a {role} node: {memory(cgroups.members(id_)) / MIB:.0f} MiB")
            running = lock.holder(laptop.home.lock)
            assert running is not None
            print(f"memory of our own process: {memory([running.pid]) / MIB:.0f} MiB")
            before = time.monotonic()
            await laptop.management("patch", CLUSTER, "--type=merge", "-p", workers(count + 1))
            await laptop.ready("garden")
            say("one worker more", before)
            before = time.monotonic()
            await laptop.management("delete", CLUSTER, "--wait")
            say("delete", before)


async def timed(laptop: RealLaptop, what: str, text: str) -> None:
    before = time.monotonic()
    await laptop.management("apply", "-f", "-", stdin=text)
    await laptop.ready("garden")
    say(what, before)


def say(what: str, since: float) -> None:
    print(f"{what}: {time.monotonic() - since:.1f} s", flush=True)


def memory(pids: Iterator[int] | list[int]) -> int:
    """Bytes that belong to these processes alone, and their parts of what they share (PSS)."""
    found = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        found += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--control-planes", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    chosen = parser.parse_args()
    if missing := why_not("1.35.4"):
        print(f"real nodes are not measured here: {missing}")
        return
    asyncio.run(measure(chosen.control_planes, chosen.workers))


if __name__ == "__main__":
    main()
