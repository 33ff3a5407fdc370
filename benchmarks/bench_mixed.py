"""Clusters of all providers applied at once: until all their Cluster API objects exist, and until all are Ready.

    python -m benchmarks.bench_mixed [--clusters 1000]

One process with the embedded API server, the manager and simulated machines, on virtual time: machines boot in no time
of ours, so that what is measured is the control plane's own work. Afterwards an hour of nothing is listened to.
"""

from __future__ import annotations

import asyncio
import json
import resource
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from ipaddress import IPv4Address
from typing import Any

from benchmarks.measure import arguments, report, size
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment
from espalier.api.eksa.cluster import Cluster
from espalier.api.meta import Tree
from espalier.kube.transports.wire import Request, Response, Stream, Transport
from espalier.providers.kinds import CATALOG
from espalier.runtime import logs
from espalier.runtime.caches.cache import Cache
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.managed_environment import NAMESPACE, ManagedEnvironment, managed_environment
from tests.support.providers import hardware
from tests.support.providers.provider_lives import LIVES, ProviderLife, spare_hardware
from tests.support.servers.faults import is_of_manager

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
FIRST_ENDPOINT = IPv4Address("10.64.0.1")
AT_ONCE = 20
HOUR = 3600.0


@dataclass
class Counted:
    """A transport that counts the requests of the manager."""

    transport: Transport
    asked: Counter[str] = field(default_factory=Counter)

    async def request(self, request: Request) -> Response:
        if is_of_manager(request):
            self.asked["reads" if request.method == "GET" else "writes"] += 1
        return await self.transport.request(request)

    async def stream(self, request: Request) -> Stream | Response:
        if is_of_manager(request):
            self.asked["watches"] += 1
        return await self.transport.stream(request)

    async def close(self) -> None:
        await self.transport.close()


@dataclass(frozen=True)
class Start:
    """Where a measurement began."""

    asked: Counter[str]
    cpu: float = field(default_factory=time.process_time)
    wall: float = field(default_factory=time.monotonic)


def documents(life: ProviderLife, number: int) -> list[Tree]:
    """The example of a provider under a name, and with an endpoint, of its own."""
    trees = life.manifest(NAMESPACE)
    name = trees[0]["metadata"]["name"]
    text = json.dumps(trees).replace(f'"{name}', f'"{name}-{number:04}')
    renamed: list[Tree] = json.loads(text)
    plane = renamed[0]["spec"]["controlPlaneConfiguration"]
    plane["count"] = 1
    if "endpoint" in plane:
        plane["endpoint"]["host"] = str(FIRST_ENDPOINT + number)
    return renamed


def of_all(count: int) -> Iterator[list[Tree]]:
    """The documents of so many clusters, the providers taking turns."""
    for number in range(count):
        yield documents(LIVES[number % len(LIVES)], number)


async def put_hardware(env: ManagedEnvironment, count: int) -> None:
    """A machine for the control plane and one for the workers of each cluster on bare metal."""
    lines = []
    for number in range(count):
        for lane, type_ in enumerate((hardware.PLANE, hardware.WORKER)):
            at, mac = f"{lane}.{number // 250}.{number % 250 + 1}", f"{number // 256:02x}:{number % 256:02x}"
            lines.append(
                f"{type_}-{number},3c:ec:ef:0{lane}:{mac},10.{at},255.0.0.0,10.9.0.1,10.9.0.2,type={type_},/dev/sda,"
                f"11.{at},admin,password"
            )
    await hardware.put(env.client, hardware.of_csv(lines))


async def apply(env: ManagedEnvironment, count: int) -> None:
    """Apply all, several at a time; a Cluster after what it names."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def apply_cluster(trees: list[Tree]) -> None:
        async with gate:
            for tree in (*trees[1:], trees[0]):
                await env.client.apply(CATALOG.resource_of(tree["apiVersion"], tree["kind"]), tree)

    await asyncio.gather(*(apply_cluster(trees) for trees in of_all(count)))


async def until(cache: Cache, count: int, is_so: Any) -> None:
    """Wait until so many objects are as asked for."""
    result, enough = set(), asyncio.Event()

    def changed(_old: object, new: Any, _first: bool) -> None:
        if new is not None and is_so(new):
            result.add(new.key)
            if len(result) >= count:
                enough.set()

    stop = cache.subscribe(changed)
    for item in cache.list():
        changed(None, item, True)
    await enough.wait()
    stop()


def is_ready(value: Any) -> bool:
    """A Cluster that was made here, and is Ready."""
    return value.name[-4:].isdigit() and bool(value.decode(Cluster).status.ready)


async def simulate(simulation: Simulation, count: int) -> None:
    """Measure."""
    counted: list[Counted] = []

    def wrap(transport: Transport) -> Transport:
        counted.append(Counted(transport))
        return counted[-1]

    def asked() -> Counter[str]:
        return sum((item.asked for item in counted), Counter())

    async with managed_environment(simulation.clock, wrap=wrap) as env:
        for life in LIVES:
            if life.before is not spare_hardware:
                await life.before(env)
        await put_hardware(env, count // len(LIVES) + 1)
        start = Start(asked())
        applying = asyncio.create_task(apply(env, count))
        made = asyncio.gather(
            until(env.capi_objects.of(KubeadmControlPlane.resource), count, lambda _object: True),
            until(env.capi_objects.of(MachineDeployment.resource), count, lambda _object: True),
        )
        await asyncio.gather(applying, made)
        title = f"{count} clusters of {len(LIVES)} providers, until all Cluster API objects exist"
        tell(title, count, start, asked())
        await until(env.clusters, count, is_ready)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        tell("... until all are Ready", count, start, asked(), f"peak {peak} MiB for the whole world")
        await asyncio.sleep(HOUR)
        start = Start(asked())
        await asyncio.sleep(HOUR)
        tell("an hour in which nothing changes", count, start, asked())


def tell(title: str, count: int, start: Start, after: Counter[str], *more: str) -> None:
    """Print what was used since `start`."""
    used = {name: after[name] - start.asked[name] for name in ("reads", "writes", "watches")}
    report(
        title,
        f"{time.monotonic() - start.wall:.1f} s, {(spent := time.process_time() - start.cpu):.1f} CPU seconds "
        f"({1000 * spent / count:.0f} ms each)",
        "the manager's requests for a cluster: " + ", ".join(f"{used[name] / count:.1f} {name}" for name in used),
        *more,
    )


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--clusters", type=int, default=size(1000, 6))
    count = parser.parse_args().clusters
    logs.setup(level="error")
    run(lambda simulation: simulate(simulation, count), epoch=EPOCH, seed=1)


if __name__ == "__main__":
    main()
