"""Requests to the embedded API server with its objects in SQLite and in etcd, and to etcd alone; all durable.

    python benchmarks/bench_apiserver_stores.py [--count 1500] [--runs 3]

In one process, without HTTP: what a store costs. Runs alternate; etcd is real, on this machine's disk, with fsync.
"""

from __future__ import annotations

import asyncio
import platform
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.measure import arguments, report, size
from espalier.api.core import CONFIG_MAP
from espalier.apiserver.builtin.builtin import KINDS
from espalier.apiserver.server import Server
from espalier.apiserver.storage.etcd_keys import Keys
from espalier.apiserver.storage.etcd_store import EtcdStore
from espalier.apiserver.storage.sqlite import SqliteStore
from espalier.apiserver.storage.store import Store
from espalier.assets.recipes import ETCD
from espalier.etcd.client import Client as EtcdClient
from espalier.etcd.requests import Put, Txn, mod_revision
from espalier.kube.client import Client
from espalier.kube.transports.inprocess import InProcessTransport
from tests.support.etcd.real_etcd import RealEtcd, built, real_etcd

VALUE = "x" * 1000
Operation = Callable[[int], Awaitable[Any]]
Rates = dict[tuple[str, str, int], list[tuple[float, float]]]
"""What, which operation, how many clients -> per run: operations a second, median milliseconds."""


async def measured(operation: Operation, count: int, clients: int) -> tuple[float, float]:
    numbers, latencies = iter(range(count)), []

    async def client() -> None:
        for number in numbers:
            started = time.perf_counter()
            await operation(number)
            latencies.append(time.perf_counter() - started)

    started = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    return count / (time.perf_counter() - started), statistics.median(latencies) * 1000


async def of_server(name: str, store: Store, count: int, rates: Rates) -> None:
    server = Server(store, now=lambda: datetime.now(UTC), random=random.Random(1))
    await server.start()
    client = Client(InProcessTransport(server), user_agent="benchmark")
    for clients in (1, 16):

        async def create(number: int, clients: int = clients) -> None:
            metadata = {"name": f"n{clients}-{number}", "namespace": "default"}
            await client.create(CONFIG_MAP, {"metadata": metadata, "data": {"k": VALUE}})

        async def get(number: int, clients: int = clients) -> None:
            await client.get(CONFIG_MAP, f"n{clients}-{number}", "default")

        for verb, operation in (("create", create), ("get", get)):
            rates.setdefault((name, verb, clients), []).append(await measured(operation, count, clients))
    await client.close()
    await server.close()


async def of_etcd(etcd: RealEtcd, run: int, count: int, rates: Rates) -> None:
    async with etcd.client() as client:
        for clients in (1, 16):

            async def create(number: int, clients: int = clients, client: EtcdClient = client) -> None:
                key = f"/alone/{run}/{clients}/{number}".encode()
                await client.do(Txn((mod_revision(key, "=", 0),), (Put(key, VALUE.encode()),)))

            async def get(number: int, clients: int = clients, client: EtcdClient = client) -> None:
                await client.get(f"/alone/{run}/{clients}/{number}".encode())

            for verb, operation in (("create", create), ("get", get)):
                rates.setdefault(("etcd alone", verb, clients), []).append(await measured(operation, count, clients))


async def main(count: int, runs: int) -> int:
    programs = built(ETCD)
    if programs is None:
        report("the embedded API server's stores", f"not measured: no etcd {ETCD.version}; run make real-assets")
        return 0
    rates: Rates = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        async with real_etcd(programs, folder, durable=True) as etcd:
            for run in range(runs):
                await of_server("SQLite", SqliteStore(folder / f"{run}.db"), count, rates)
                await of_server("etcd", EtcdStore(etcd.client(), Keys(KINDS, f"/registry-{run}")), count, rates)
                await of_etcd(etcd, run, count, rates)
    print(f"Python {platform.python_version()}, etcd {ETCD.version}, {count} operations, {runs} runs: median (lowest)")
    for (name, verb, clients), item in rates.items():
        each = [rate for rate, _ in item]
        rate, middle = statistics.median(each), statistics.median(milliseconds for _, milliseconds in item)
        print(f"{name:12}{verb:8}{clients:3} clients {rate:8.0f}/s ({min(each):.0f}) p50 {middle:.2f} ms")
    return 0


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--count", type=int, default=size(1500, 64))
    parser.add_argument("--runs", type=int, default=size(3, 1))
    asked = parser.parse_args()
    sys.exit(uvloop.run(main(asked.count, asked.runs)))
