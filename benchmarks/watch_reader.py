"""What a controller of Espalier does with a watched resource, and nothing more: the counterpart of client-go-peer.

A cache follows the resource, a controller queues the key of every change, a pass reads the object from the cache. It
prints the same lines of JSON as the peer does (described in its main.go), and ends after the second.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import gc
import os
import sys
import time
import tracemalloc
from importlib.metadata import version
from pathlib import Path

import msgspec
import uvloop

from benchmarks.measure import cpu_seconds, peak_memory
from espalier.api.resource import Key, Resource
from espalier.cli.kit import distribution
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.objects import Object
from espalier.kube.transports.http import HttpTransport
from espalier.runtime import logs
from espalier.runtime.caches.cache import Cache, Caches
from espalier.runtime.controllers.controller import Controller
from espalier.runtime.controllers.outcome import Done, Outcome


class Reader:
    """The controller, and what it has seen so far."""

    def __init__(self, cache: Cache, wanted: int) -> None:
        self.cache = cache
        self.wanted = wanted
        self.events = self.keys = 0
        self.reached = asyncio.Event()
        self.reached_at = (0.0, 0.0)
        self.controller = Controller("reader", self.reconcile)
        self.controller.watch(cache)
        cache.subscribe(self.queued)  # handlers are told in their order: the key is in the queue by then

    async def reconcile(self, key: Key) -> Outcome:
        """Read the object and be content with it."""
        self.cache.get(key)
        self.keys += 1
        return Done()

    def queued(self, old: Object | None, new: Object | None, first: bool) -> None:
        """Count an event whose key is in the queue."""
        self.events += 1
        if self.events == self.wanted:
            self.reached_at = (time.monotonic(), time.time())
            self.reached.set()


class Report(msgspec.Struct):
    """One line of output; as the peer's."""

    phase: str
    objects: int
    events: int
    keys_handled: int
    seconds: float
    unix_seconds: float
    cpu_seconds: float
    cpu_seconds_before: float
    heap_bytes: int
    heap_bytes_before: int
    peak_memory_kib: int
    cache_bytes: int
    versions: str


async def read(arguments: argparse.Namespace) -> None:
    client = Client(HttpTransport(Kubeconfig.load([arguments.kubeconfig]).context(), environment={}))
    caches = Caches(client)
    group, api_version, plural = arguments.resource.split("/")
    reader = Reader(caches.of(Resource(group, api_version, plural, arguments.kind)), arguments.count)
    heap_before, cpu_before = heap(), cpu_seconds(os.getpid())
    start = time.monotonic()

    def say(phase: str, moment: float, unix: float) -> None:
        line = Report(
            phase=phase,
            objects=len(reader.cache),
            events=reader.events,
            keys_handled=reader.keys,
            seconds=moment - start,
            unix_seconds=unix,
            cpu_seconds=cpu_seconds(os.getpid()),
            cpu_seconds_before=cpu_before,
            peak_memory_kib=1024 * peak_memory(os.getpid()),
            heap_bytes=heap(),
            heap_bytes_before=heap_before,
            cache_bytes=reader.cache.size,
            versions=f"Espalier {distribution.version()}, Python {sys.version.split()[0]}, uvloop {version('uvloop')}",
        )
        print(msgspec.json.encode(line).decode(), flush=True)

    tasks = [asyncio.ensure_future(runs) for runs in (caches.run(), reader.controller.run())]
    try:
        await caches.wait_synced()
        say("synced", time.monotonic(), time.time())
        if arguments.count:
            await reader.reached.wait()
            say("done", *reader.reached_at)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.close()


def heap() -> int:
    """Bytes that Python's allocators have given out and that live, if they are traced; else 0."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--resource", required=True, help="group/version/plural; the core group is empty")
    parser.add_argument("--kind", required=True)
    parser.add_argument("--count", type=int, default=0, help="end after so many events; 0 when the cache has synced")
    parser.add_argument("--trace-memory", action="store_true", help="count bytes of the heap (slow)")
    parser.add_argument("--profile", type=Path, help="write a profile of cProfile there (slow)")
    arguments = parser.parse_args()
    logs.setup()
    if arguments.trace_memory:
        tracemalloc.start()
    if not arguments.profile:
        uvloop.run(read(arguments))
        return
    profile = cProfile.Profile()
    try:
        profile.runcall(uvloop.run, read(arguments))
    finally:
        profile.dump_stats(arguments.profile)


if __name__ == "__main__":
    main()
