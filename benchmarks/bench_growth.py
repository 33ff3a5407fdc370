"""A management cluster that grows: what each settled cluster costs the manager, kube-apiserver and etcd, by fleet size.

    python -m benchmarks.bench_growth [--clusters 1000 3000] [--idle 90] [--isolation gate] [--round]

One cluster is made on a real kube-apiserver and etcd, its objects are copied there (`benchmarks/etcd_fleet.py`), and
`espalier manager` is started: alone, then as two that share the fleet by namespace. With `--round`, what is done for
each cluster every hour and every ten hours is done all the time, at the smallest size. Without real programs, and with
`--smallest`, the embedded API server takes their place. kube-controller-manager is stopped, as its garbage collector
would look at each copy. 3,000 clusters need 8 GB of memory, and as much disk as that of etcd: half a GB.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from benchmarks.bench_manager import NEVER, one_steady_cluster
from benchmarks.etcd_fleet import FIRST, NAMESPACES, bytes_by_kind, fleet_of
from benchmarks.measure import PROGRAM, arguments, cpu_seconds, peak_memory, private_memory, report, size
from espalier.api.core import NAMESPACE
from espalier.api.eksa.cluster import Cluster
from espalier.clusters import Isolation
from espalier.etcd.client import Client as EtcdClient
from espalier.etcd.client import connect
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.transports.http import HttpTransport
from espalier.kube.transports.wire import Request
from espalier.runtime import logs
from espalier.runtime.clock import SystemClock
from espalier.simulator.workload_clusters.stores import MemoryStores
from espalier.simulator.workload_clusters.workloads import Workloads
from tests.support.environments.control_plane import find_assets, real_control_plane
from tests.support.environments.real_api_server import managed_on, stop
from tests.support.servers.ports import free_port

SIZES = [1000, 3000] if size(1, 0) else [2]
RECORD = "default"
"""The namespace of the management cluster's record, which every manager has to watch."""
REST = size(6.0, 1.0)
"""Seconds in which a manager that has nothing to do uses hardly any CPU."""
LOOKS = 4
WRITES = ("POST", "PUT", "PATCH", "APPLY", "DELETE")
ROUND = size(40, 5)
"""Sync period, in seconds, of a manager whose rounds are measured."""
CHECKING = (
    sys.executable,
    "-c",
    "import runpy; from espalier.clusters.act.secrets import kubeconfig_copies as copies; "
    f"copies.CHECK_EVERY = {ROUND}; runpy.run_module('espalier.cli', run_name='__main__')",
)
"""A manager that looks for the copies of kubeconfigs as often."""
TIMEOUT = 3600.0


@dataclass(frozen=True)
class Server:
    """An API server with a fleet: the processes of which it consists, and what it knows of itself."""

    kubeconfig: Path
    pids: Mapping[str, int]
    grow: Callable[[int], Awaitable[object]]
    held: Callable[[], Awaitable[Mapping[str, float]]]
    """MiB that etcd's database has in use, and that were reachable at the last garbage collection of kube-apiserver."""
    asked: Callable[[], Awaitable[Counter[str]]]
    """Requests that change something, by what, and events that were sent to watches, by kind."""

    def cpu(self) -> dict[str, float]:
        return {name: cpu_seconds(pid) for name, pid in self.pids.items()}

    def memory(self) -> dict[str, float]:
        return {name: private_memory(pid) for name, pid in self.pids.items()}


@dataclass(frozen=True)
class ManagerProcess:
    """A manager: its process, and where it serves metrics."""

    pid: int
    metrics: str

    async def figures(self) -> Counter[str]:
        """Reconciles of Clusters, requests and writes so far."""
        result: Counter[str] = Counter()
        try:
            async with aiohttp.ClientSession() as session, session.get(self.metrics) as answer:
                text = await answer.text()
        except aiohttp.ClientError:  # not served yet
            return result
        for labels, value in re.findall(r"^controller_runtime_reconcile_total\{([^}]*)\} (\S+)$", text, re.MULTILINE):
            result["reconciles"] += round(float(value)) if 'controller="cluster"' in labels else 0
        for labels, value in re.findall(r"^rest_client_requests_total\{([^}]*)\} (\S+)$", text, re.MULTILINE):
            result["reads" if 'method="GET"' in labels else "writes"] += round(float(value))
        return result

    async def until_it_rests(self, reconciles: int) -> float:
        """Wait until so many were made, and nothing is done any more. Returns the clock's seconds when that began."""
        since, used = time.monotonic(), cpu_seconds(self.pid)
        async with asyncio.timeout(TIMEOUT):
            while time.monotonic() - since < REST or (await self.figures())["reconciles"] < reconciles:
                await asyncio.sleep(REST / LOOKS)
                if cpu_seconds(self.pid) - used > REST / 50:
                    since, used = time.monotonic(), cpu_seconds(self.pid)
        return since


@contextmanager
def managing(kubeconfig: Path, *flags: str, program: Sequence[str] = PROGRAM) -> Iterator[ManagerProcess]:
    """A manager without webhooks."""
    address = f"127.0.0.1:{free_port()}"
    off = ["--webhook-address", "0", "--health-address", "0", "--log-level", "error"]
    command = [*program, "manager", "--kubeconfig", str(kubeconfig), "--metrics-address", address, *off, *flags]
    process = subprocess.Popen(command, env={**os.environ, "ESPALIER_HOME": str(kubeconfig.parent)})
    try:
        yield ManagerProcess(process.pid, f"http://{address}/metrics")
    finally:
        process.terminate()
        process.wait()


@asynccontextmanager
async def embedded(home: Path, count: int) -> AsyncIterator[Server]:
    """The embedded API server, whose fleet has the size that it starts with."""
    await one_steady_cluster(home)
    command = (sys.executable, "-m", "benchmarks.fleet", str(home), str(count))
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)

    async def nothing(_count: int = 0) -> Counter[str]:
        return Counter()

    try:
        assert process.stdout is not None
        await process.stdout.readline()
        yield Server(home / "fleet.kubeconfig", {"API server": process.pid}, nothing, nothing, nothing)
    finally:
        process.kill()
        await process.wait()


@asynccontextmanager
async def real(folder: Path, assets: Path, isolation: Isolation) -> AsyncIterator[Server]:
    """kube-apiserver and etcd, with one cluster that a manager and simulated machines have made."""
    clock, stores = SystemClock(), MemoryStores()
    machines = Workloads(clock=clock, rng=random.Random(1), stores=stores)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(machines.close)
        plane = await stack.enter_async_context(real_control_plane(folder, assets))
        client = await stack.enter_async_context(plane.connected())
        etcd: EtcdClient = await stack.enter_async_context(connect(f"unix://{folder}/etcd.sock:0"))
        for namespace in NAMESPACES:
            await client.create(NAMESPACE, {"metadata": {"name": namespace}})
        async with managed_on(plane, stores, isolation=isolation, resync=TIMEOUT, machines_of=machines) as env:
            await env.apply(namespace=FIRST.namespace, name=FIRST.name)
            await env.until_ready(FIRST)
            await env.until_it_rests()
            await stop(env)
        programs = {program.name: program.pid or 0 for program in plane.supervisor.reports}
        collector = programs.pop("kube-controller-manager")
        os.kill(collector, signal.SIGSTOP)
        stack.callback(os.kill, collector, signal.SIGCONT)
        fleet = await fleet_of(etcd, client)
        report(
            f"one cluster in etcd: {sum(fleet.numbers.values())} objects, {sum(fleet.sizes.values()) / 1024:.0f} KiB",
            *bytes_by_kind(fleet),
        )

        async def metrics() -> str:
            return (await client.raw(Request("GET", "/metrics"))).body.decode()

        async def held() -> dict[str, float]:
            (live,) = re.findall(r"^go_gc_heap_live_bytes (\S+)$", await metrics(), re.MULTILINE)
            in_use = (await etcd.status()).db_size_in_use
            return {"etcd in use": in_use / 2**20, "live heap of kube-apiserver": float(live) / 2**20}

        async def asked() -> Counter[str]:
            result: Counter[str] = Counter()
            counters = re.findall(r"^(apiserver_\w+_total)\{([^}]*)\} (\S+)$", await metrics(), re.MULTILINE)
            for metric, labels, value in counters:
                of = dict(re.findall(r'(\w+)="([^"]*)"', labels))
                if metric == "apiserver_watch_events_total":
                    kind = "of Leases" if of.get("resource") == "leases" else "of other kinds, bookmarks among them"
                    result[f"watch events {kind}"] += round(float(value))
                elif metric == "apiserver_request_total" and of["verb"] in WRITES:
                    result[f"{of['verb']} {of['resource']} {of['code']}"] += round(float(value))
            return result

        yield Server(plane.kubeconfig, programs, fleet.grow, held, asked)


async def settled(kubeconfig: Path) -> str:
    """Clusters by the status of conditions Ready and Synced."""
    client = Client(HttpTransport(Kubeconfig.load([kubeconfig]).context(), environment={}))
    statuses: Counter[str] = Counter()
    for cluster in (await client.list(Cluster.resource)).items:
        for condition in cluster.decode(Cluster).status.conditions:
            if condition.type in ("Ready", "Synced"):
                statuses[f"{condition.type} {condition.status} {condition.reason}"] += 1
    await client.close()
    return ", ".join(f"{number} {what}" for what, number in sorted(statuses.items()))


def listed(values: Mapping[str, float], form: str = "", per: float = 1) -> str:
    return ", ".join(f"{name} {format(value / per if form else value, form)}" for name, value in values.items())


async def alone(server: Server, count: int, idle: float, flags: Sequence[str]) -> None:
    """Measure one manager that starts, and then waits."""
    loaded, before, began = server.memory(), server.cpu(), time.monotonic()
    with managing(server.kubeconfig, *flags, "--sync-period", NEVER) as manager:
        rested = await manager.until_it_rests(count)
        cpu = {"manager": cpu_seconds(manager.pid)}
        cpu |= {name: used - before[name] for name, used in server.cpu().items()}
        started = await manager.figures()
        memory = {"manager": private_memory(manager.pid)} | server.memory()
        peak = peak_memory(manager.pid)
        earlier, before, waiting = await server.asked(), server.cpu(), cpu_seconds(manager.pid)
        await asyncio.sleep(idle)
        used = {"manager": cpu_seconds(manager.pid) - waiting}
        used |= {name: now - before[name] for name, now in server.cpu().items()}
        asked, own = await server.asked() - earlier, await manager.figures() - started
        held = await server.held()
    report(
        f"{count} clusters, one manager ({' '.join(flags)}), load {os.getloadavg()[0]:.1f}",
        f"start: {rested - began:.0f} s until it rests; CPU seconds: {listed(cpu, '.1f')}; "
        f"CPU of each cluster: {listed(cpu, '.2f', count / 1000)} ms",
        f"at the start: {listed(started)}; {await settled(server.kubeconfig)}",
        f"private memory in MiB: {listed(memory, '.0f')}; before it {listed(loaded, '.0f')}; peak of the manager "
        f"{peak}",
        f"private memory of each cluster: {listed(memory, '.1f', count / 1024)} KiB",
        f"held in MiB: {listed(held, '.0f')}; of each cluster in KiB: {listed(held, '.0f', count / 1024)}",
        f"at rest for {idle:g} s, CPU in % of a core: {listed(used, '.2f', idle / 100)}",
        f"at rest, of the manager: {listed(own) or 'no request'}; at the API server: {listed(asked)}",
    )


async def rounds(server: Server, count: int, what: str, flags: Sequence[str], program: Sequence[str] = PROGRAM) -> None:
    """Measure what is done periodically for all clusters, by having it done every `ROUND` seconds."""
    with managing(server.kubeconfig, *flags, program=program) as manager:
        while (await manager.figures())["reconciles"] < 2 * count:  # noqa: ASYNC110 - its start and a first round
            await asyncio.sleep(REST / LOOKS)
        before, used, earlier = await manager.figures(), cpu_seconds(manager.pid), await server.asked()
        servers = server.cpu()
        await asyncio.sleep(2 * ROUND)
        done, cpu = await manager.figures() - before, {"manager": cpu_seconds(manager.pid) - used}
        cpu |= {name: now - servers[name] for name, now in server.cpu().items()}
        asked = await server.asked() - earlier
    number = max(1, done["reconciles"])
    report(
        f"{count} clusters, {what} every {ROUND} s ({' '.join(flags)})",
        f"{number} reconciles; of each: CPU {listed(cpu, '.2f', number / 1000)} "
        f"ms; requests of the manager: {listed(done)}; at the API server: {listed(asked)}",
    )


async def shared(server: Server, count: int, flags: Sequence[str]) -> None:
    """Measure two managers that have half of the namespaces each and start together."""
    with ExitStack() as stack:
        managers = [
            stack.enter_context(
                managing(server.kubeconfig, *flags, "--sync-period", NEVER, "--namespace", f"{namespace},{RECORD}")
            )
            for namespace in NAMESPACES
        ]
        began, before = time.monotonic(), server.cpu()
        rested = max(await asyncio.gather(*(manager.until_it_rests(count // 2) for manager in managers)))
        cpu = {f"manager of {n}": cpu_seconds(m.pid) for n, m in zip(NAMESPACES, managers, strict=True)}
        cpu |= {name: used - before[name] for name, used in server.cpu().items()}
        memory = {f"manager of {n}": private_memory(m.pid) for n, m in zip(NAMESPACES, managers, strict=True)}
        memory |= server.memory()
        done = [(await manager.figures())["reconciles"] for manager in managers]
    report(
        f"{count} clusters, two managers that share by namespace ({' '.join(flags)}), load {os.getloadavg()[0]:.1f}",
        f"start: {rested - began:.0f} s until both rest; {done} reconciles; CPU seconds: {listed(cpu, '.1f')}",
        f"private memory in MiB: {listed(memory, '.0f')}",
    )


async def main(counts: Sequence[int], idle: float, isolation: str, *, with_round: bool) -> None:
    assets = find_assets() if size(1, 0) else None
    counts = counts if assets is not None else counts[:1]
    with tempfile.TemporaryDirectory() as folder:
        made = (
            real(Path(folder), assets, Isolation(isolation))
            if assets is not None
            else embedded(Path(folder) / "home", counts[0])
        )
        async with made as server:
            flags = ("--isolation", isolation)
            for count in counts:
                began, before = time.monotonic(), server.cpu()
                await server.grow(count)
                used = {name: now - before[name] for name, now in server.cpu().items()}
                report(f"{count} clusters copied: {time.monotonic() - began:.0f} s, CPU {listed(used, '.1f')}")
                await alone(server, count, idle, flags)
                if with_round and count == counts[0]:
                    period = ("--sync-period", f"{ROUND}s")
                    await rounds(server, count, "rounds of reconciles (usually every ten hours)", (*flags, *period))
                    await rounds(server, count, "checks of copied kubeconfigs (usually every hour)", flags, CHECKING)
                await shared(server, count, flags)


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--clusters", type=int, nargs="+", default=SIZES)
    parser.add_argument("--isolation", default="gate")
    parser.add_argument("--idle", type=float, default=size(90.0, 1.0))
    parser.add_argument("--round", action="store_true")
    asked = parser.parse_args()
    logs.setup(level="error")
    asyncio.run(main(asked.clusters, asked.idle, asked.isolation, with_round=asked.round))
