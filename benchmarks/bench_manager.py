"""One manager process alone with ten thousand steady clusters: start, memory, idling, and rounds of looking at all.

    python -m benchmarks.bench_manager [--clusters 10000] [--isolation gate] [--idle 60]

The API server is the embedded one, in another process; what is measured is the manager. With `--isolation layers` every
cluster is also compared with what its layers render, also in its workload cluster: all of them are the one that was
really made, in a third process. A manager does so at its start, behind its first round of passes.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp

from benchmarks.measure import PROGRAM, arguments, cpu_seconds, peak_memory, report, size, start_environment
from espalier.api.eksa.cluster import Cluster
from espalier.api.manifests.manifests import read_manifests
from espalier.cli.clusters.reports import waiting
from espalier.cli.kit.printing.progress import Progress
from espalier.clusters.design.names import SYNCED
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.errors import KubeError
from espalier.kube.transports.http import HttpTransport
from espalier.providers.docker.kinds import DockerDatacenterConfig
from tests.support.servers.ports import free_port

EXAMPLE = Path(__file__).parents[1] / "examples" / "docker.yaml"
METRICS = f"http://127.0.0.1:{free_port()}/metrics"
LOOK = 0.5
"""Seconds between two looks at the figures of the manager, which has to make them up: many would be measured too."""
AWAKE = size(0.2, 0.02)
"""CPU seconds that a manager does not use while it idles through a sync period."""
NEVER, ROUNDS = "10h", f"{size(30, 5)}s"
"""Sync periods: none while it is measured, and so long that one round of gate checks is over before the next."""


async def one_steady_cluster(home: Path) -> None:
    """An environment that made one cluster and stopped."""
    process = start_environment(home)
    try:
        client = await until_serving(home / "kubeconfig")
        for document in read_manifests(EXAMPLE.read_bytes(), source=EXAMPLE.name):
            resource = Cluster.resource if document.kind == "Cluster" else DockerDatacenterConfig.resource
            tree = document.tree
            tree["metadata"]["namespace"] = "default"
            await client.apply(resource, tree, field_manager="kubectl")
        key = (await client.get(Cluster.resource, "garden", "default")).key
        await waiting.until_ready(client, key, generation=1, timeout=60, progress=Progress())
        await client.close()
    finally:
        process.terminate()
        process.wait()


async def until_serving(kubeconfig: Path) -> Client:
    while True:
        await asyncio.sleep(LOOK)
        if kubeconfig.exists():
            client = Client(HttpTransport(Kubeconfig.load([kubeconfig]).context()))
            try:
                await client.list(Cluster.resource)
                return client
            except KubeError:
                await client.close()


@contextmanager
def fleet(home: Path, count: int) -> Iterator[tuple[int, str]]:
    """The API server with so many clusters: objects of one cluster, by what they are."""
    command = [sys.executable, "-m", "benchmarks.fleet", str(home), str(count)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        _, objects, what = process.stdout.readline().split(maxsplit=2)
        yield int(objects), what.strip()
    finally:
        process.kill()
        process.wait()


@contextmanager
def workload_cluster(home: Path, isolation: str) -> Iterator[None]:
    """The one that was really made, serving again: with layers, drift is looked for there, by each cluster's name."""
    if isolation != "layers":
        yield
        return
    process = start_environment(home)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


@contextmanager
def managing(home: Path, isolation: str, period: str) -> Iterator[int]:
    """The manager's process."""
    flags = ["--webhook-address", "0", "--health-address", "0", "--metrics-address", METRICS[7:].partition("/")[0]]
    settings = ["--isolation", isolation, "--sync-period", period, "--log-level", "error"]
    command = [*PROGRAM, "manager", "--kubeconfig", str(home / "fleet.kubeconfig"), *flags, *settings]
    process = subprocess.Popen(command, env={**os.environ, "ESPALIER_HOME": str(home)})
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait()


async def figures(session: aiohttp.ClientSession) -> tuple[int, int, int]:
    """Objects in caches, passes so far, keys that wait."""
    try:
        async with session.get(METRICS) as answer:
            text = await answer.text()
    except aiohttp.ClientError:
        return 0, 0, 0

    def total(pattern: str) -> int:
        return round(sum(float(value) for value in re.findall(rf"^{pattern}\{{[^}}]*\}} (\S+)$", text, re.MULTILINE)))

    passes = total("controller_runtime_reconcile_total")
    return total("espalier_cache_objects"), passes, total("workqueue_depth")


async def until(session: aiohttp.ClientSession, *, passes: int) -> float:
    """Seconds of the clock when so many passes were made."""
    while True:
        if (await figures(session))[1] >= passes:
            return time.monotonic()
        await asyncio.sleep(LOOK)


async def working(pid: int) -> float:
    """Seconds of the clock when a process that idled began to work. It is not asked: one that works answers late."""
    idle = cpu_seconds(pid)
    while True:
        if cpu_seconds(pid) - idle >= AWAKE:
            return time.monotonic() - AWAKE
        await asyncio.sleep(AWAKE / 2)


async def calm(session: aiohttp.ClientSession) -> tuple[int, float]:
    """Wait until no pass was made for three seconds. Returns how many there were, and when the last was made."""
    last, since = -1, time.monotonic()
    while time.monotonic() - since < 3:
        await asyncio.sleep(LOOK)
        _, passes, waiting = await figures(session)
        if passes != last or waiting:
            last, since = passes, time.monotonic()
    return last, since


async def synced(home: Path) -> dict[str, int]:
    """Clusters by the status of their condition Synced, `none` without one."""
    client = Client(HttpTransport(Kubeconfig.load([home / "fleet.kubeconfig"]).context()))
    result: Counter[str] = Counter()
    for cluster in (await client.list(Cluster.resource)).items:
        conditions = cluster.decode(Cluster).status.conditions
        result[next((condition.status for condition in conditions if condition.type == SYNCED), "none")] += 1
    await client.close()
    return dict(result)


async def one_further_round(home: Path, session: aiohttp.ClientSession, count: int, isolation: str) -> str:
    """What looking at all of them once more takes a manager that knows them."""
    with managing(home, isolation, ROUNDS) as pid:
        await until(session, passes=count)
        passes, _ = await calm(session)
        before = cpu_seconds(pid)
        began = await working(pid)
        passes_then, done = await calm(session)
        assert passes_then >= passes + count
        used = cpu_seconds(pid) - before
    return f"one further round over all: {done - began:.1f} s, {used:.1f} CPU seconds   (aim: <= 20 s)"


async def main(count: int, isolation: str, idle: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        await one_steady_cluster(home)
        with fleet(home, count) as (objects, what), workload_cluster(home, isolation):
            async with aiohttp.ClientSession() as session:
                began = time.monotonic()
                with managing(home, isolation, NEVER) as pid:
                    done = await until(session, passes=count)
                    start, start_cpu = done - began, cpu_seconds(pid)
                    first, settled = await calm(session)
                    cached = (await figures(session))[0]
                    before = cpu_seconds(pid)
                    await asyncio.sleep(idle)
                    used = cpu_seconds(pid) - before
                    memory = peak_memory(pid)
                    statuses = await synced(home)
                if isolation == "layers":
                    further = f"all were also looked into: {settled - began:.1f} s, {before:.1f} CPU seconds"
                else:
                    further = await one_further_round(home, session, count, isolation)
    report(
        f"{count} steady clusters of {objects} objects each ({cached} objects in the manager's caches), "
        f"--isolation {isolation}",
        f"start until every cluster was looked at: {start:.1f} s, {start_cpu:.1f} CPU seconds   (aim: <= 60 s)",
        f"peak memory: {memory} MiB   (aim: <= 3072 MiB)",
        f"idle: {100 * used / idle:.2f} % of a core over {idle:g} s   (aim: <= 1 %)",
        further,
        f"condition Synced: {statuses}",
        f"passes at the start: {first}; objects of one cluster: {what}",
    )


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--clusters", type=int, default=size(10_000, 2))
    parser.add_argument("--isolation", default="gate")
    parser.add_argument("--idle", type=float, default=size(60.0, 1.0))
    asked = parser.parse_args()
    asyncio.run(main(asked.clusters, asked.isolation, asked.idle))
