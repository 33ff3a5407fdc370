"""Watch ingest beside client-go, on one real kube-apiserver: from the server's events to keys in a work queue.

Both readers follow the same objects of 10 KB, by turns, each in a process of its own. Three things are measured:

- first list: from nothing to a complete cache, every key queued;
- backlog: the reader is stopped while each object is changed once, then it catches up; the server has given up its
  watch by then, so it resumes. Nobody writes meanwhile: this is what the reader can do, or the server, which has to
  encode and send;
- live: each object is changed once while the reader follows. The writer sets the pace; what counts is the reader's own
  CPU time, which no neighbour on the machine changes.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from benchmarks.measure import arguments, cpu_seconds, report, size, spread
from benchmarks.watched import CONFIG_MAPS, CUSTOM_OBJECTS, OBJECTS, Population, Watched
from espalier.assets.build import MissingRequirements, provide
from espalier.assets.cache import cache_folder
from espalier.assets.component import MIB
from espalier.assets.go import GoModule
from espalier.assets.processes import BuildFailed
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.transports.http import HttpTransport
from espalier.kube.transports.wire import Request
from tests.support.environments.control_plane import find_assets, real_control_plane, why_no_assets

ROOT = Path(__file__).parents[1]
PEER = GoModule(
    "client-go-peer",
    folder=Path(__file__).parent / "peers" / "client_go",
    module="k8s.io/client-go",
    programs={"client-go-peer": ()},
    size=27 * MIB,
    workspace=700 * MIB,
    minutes=1.5,
)
RUNS = size(5, 1)
PATIENCE = 120.0


class Phase(msgspec.Struct):
    """A line that a reader prints; the peer's main.go describes it."""

    objects: int
    seconds: float
    unix_seconds: float
    cpu_seconds: float
    cpu_seconds_before: float
    heap_bytes: int
    heap_bytes_before: int
    peak_memory_kib: int
    versions: str = ""
    client_go: str = ""
    go: str = ""


@dataclass(frozen=True)
class Run:
    """One reader's life: its first list, then as many events as there are objects."""

    synced: Phase
    done: Phase
    events_seconds: float
    events_cpu: float

    @property
    def list_cpu(self) -> float:
        """CPU seconds of the first list."""
        return self.synced.cpu_seconds - self.synced.cpu_seconds_before

    @property
    def heap_per_object(self) -> float:
        """Bytes that live for each object in the cache."""
        return (self.done.heap_bytes - self.done.heap_bytes_before) / self.done.objects


@dataclass(frozen=True)
class Side:
    """A reader: how it is started, and its runs."""

    name: str
    command: tuple[str, ...]
    backlog: list[Run]
    live: list[Run]


async def follow(command: Sequence[str], population: Population, present: int, *, backlog: bool) -> Run:
    """Run a reader until it has seen `present` objects and a change of each of the population."""
    arguments = [*command, str(present + OBJECTS)]
    async with asyncio.timeout(PATIENCE), reader(arguments) as (process, next_phase):
        synced = await next_phase()
        cpu_before, began = cpu_seconds(process.pid), time.time()
        if backlog:
            process.send_signal(signal.SIGSTOP)
            await population.change()
            began = time.time()
            process.send_signal(signal.SIGCONT)
        else:
            await population.change()
        done = await next_phase()
    return Run(synced, done, done.unix_seconds - began, done.cpu_seconds - cpu_before)


@contextlib.asynccontextmanager
async def reader(
    command: Sequence[str],
) -> AsyncIterator[tuple[asyncio.subprocess.Process, Callable[[], Awaitable[Phase]]]]:
    """A running reader, and what waits for its next line."""
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, cwd=ROOT)
    output = process.stdout
    assert output is not None

    async def next_phase() -> Phase:
        return msgspec.json.decode(await output.readline(), type=Phase)

    try:
        yield process, next_phase
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def compare(watched: Watched, assets: Path, peer: Path) -> None:
    """Measure one kind on a control plane of its own, and print what was found."""
    with tempfile.TemporaryDirectory() as folder:
        async with real_control_plane(Path(folder), assets) as control_plane:
            client = Client(HttpTransport(Kubeconfig.load([control_plane.kubeconfig]).context(), environment={}))
            population = Population(control_plane, client, watched)
            await population.create()
            present = (await client.list(watched.resource)).items
            kubeconfig = str(control_plane.kubeconfig)
            coordinates = ("--resource", "/".join(watched.resource[:3]), "--kind", watched.resource.kind)
            ours = (sys.executable, "-m", "benchmarks.watch_reader", "--kubeconfig", kubeconfig, *coordinates)
            sides = (
                Side("Espalier", (*ours, "--count"), [], []),
                Side("client-go", (str(peer), "-kubeconfig", kubeconfig, *watched.peer, "-count"), [], []),
            )
            for number in range(RUNS):
                for side in sides if number % 2 else reversed(sides):
                    side.backlog.append(await follow(side.command, population, len(present), backlog=True))
                    side.live.append(await follow(side.command, population, len(present), backlog=False))
            traced = await follow((*ours, "--trace-memory", "--count"), population, len(present), backlog=True)
            version = msgspec.json.decode((await client.raw(Request("GET", "/version"))).body)["gitVersion"]
            await client.close()
    wire = statistics.fmean(len(object_.raw) for object_ in present)
    show(watched, sides, traced, wire=wire, server=version)


def show(watched: Watched, sides: tuple[Side, Side], traced: Run, *, wire: float, server: str) -> None:
    """Print the figures of both sides, and their ratios run by run."""
    espalier, peer = sides

    figures: dict[tuple[str, str], Callable[[Side], list[float]]] = {
        ("first list to queue", "objects/s"): lambda side: [
            run.synced.objects / run.synced.seconds for run in side.live
        ],
        ("first list, CPU per 1000 objects", "ms"): lambda side: [1e6 * run.list_cpu / OBJECTS for run in side.live],
        ("backlog to queue", "events/s"): lambda side: [OBJECTS / run.events_seconds for run in side.backlog],
        ("backlog, CPU per 1000 events", "ms"): lambda side: [1e6 * run.events_cpu / OBJECTS for run in side.backlog],
        ("live (the writer's pace)", "events/s"): lambda side: [OBJECTS / run.events_seconds for run in side.live],
        ("live, CPU per 1000 events", "ms"): lambda side: [1e6 * run.events_cpu / OBJECTS for run in side.live],
        ("peak memory", "MiB"): lambda side: [run.done.peak_memory_kib / 1024 for run in side.live],
    }
    lines = []
    for (title, unit), values in figures.items():
        ratios = [ours / theirs for ours, theirs in zip(values(espalier), values(peer), strict=True)]
        lines += [title, *(f"  {side.name:<10} {spread(values(side), unit)}" for side in sides)]
        lines.append(f"  {'ratio':<10} {spread(ratios, 'x')}")
    heaps = {"Espalier": traced.heap_per_object, "client-go": peer.live[-1].heap_per_object}
    theirs = peer.live[-1].done
    report(
        f"Watch ingest, {OBJECTS} {watched.title}, {wire:.0f} bytes of JSON each",
        f"kube-apiserver {server}; {espalier.live[-1].done.versions}; client-go {theirs.client_go}, {theirs.go}",
        *lines,
        "cache per object",
        *(f"  {name:<10} {heap:.0f} bytes, {heap / wire:.2f} x wire size" for name, heap in heaps.items()),
        "aim: ahead of client-go to the queue, cache <= 1.2 x wire size",
    )


def build_peer() -> Path | None:
    """The client-go program, built if it is not there yet; None when it cannot be, for which reasons are printed."""
    folder = cache_folder() / "benchmarks"
    try:
        provide([PEER], folder, print)
    except (BuildFailed, MissingRequirements) as reason:
        print(reason)
        return None
    return PEER.home(folder) / PEER.name


async def main() -> None:
    arguments(__doc__).parse_args()
    assets = find_assets()
    if assets is None:
        print(f"Watch ingest was not measured: there is no real kube-apiserver here; {why_no_assets()}.")
        return
    peer = build_peer()
    if peer is None:
        print("Watch ingest was not measured: the client-go program that it is compared with could not be built.")
        return
    for watched in (CUSTOM_OBJECTS, CONFIG_MAPS):
        await compare(watched, assets, peer)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
