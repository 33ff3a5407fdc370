"""A manager alone that makes a thousand new clusters: CPU and writes for each, memory, and what waiting costs.

    python -m benchmarks.bench_creation [--clusters 1000] [--idle 20]

The API server is the embedded one, in another process, and nothing else runs: no Cluster API, no machines. So each
cluster gets its objects and then waits for its control plane. What is measured is the manager's process. Two builds are
compared by running it with each `PYTHONPATH` in turn.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import yaml

from benchmarks.bench_manager import EXAMPLE, NEVER, fleet, managing, one_steady_cluster
from benchmarks.measure import arguments, cpu_seconds, peak_memory, report, size
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment
from espalier.api.eksa.cluster import Cluster
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.transports.http import HttpTransport
from espalier.providers.docker.kinds import DockerDatacenterConfig

PAUSE = 1.0
"""Seconds between two looks at the API server."""
CONCURRENT = 20


async def apply(client: Client, count: int) -> None:
    """Apply so many clusters, the object that each names after it."""
    documents = sorted(yaml.safe_load_all(EXAMPLE.read_text()), key=lambda document: document["kind"] != "Cluster")
    gate = asyncio.Semaphore(CONCURRENT)

    async def apply_cluster(name: str) -> None:
        for document in documents:
            is_cluster = document["kind"] == "Cluster"
            tree = {**document, "metadata": {"name": name, "namespace": "default"}}
            if is_cluster:
                tree["spec"] = {**document["spec"], "datacenterRef": {"kind": "DockerDatacenterConfig", "name": name}}
            async with gate:
                await client.apply(Cluster.resource if is_cluster else DockerDatacenterConfig.resource, tree)

    await asyncio.gather(*(apply_cluster(f"new-{number:05}") for number in range(count)))


async def until_made(client: Client, count: int, pid: int) -> None:
    """Wait until each cluster has its control plane and workers, and the manager is calm."""
    for kind in (KubeadmControlPlane.resource, MachineDeployment.resource):
        while len((await client.list(kind)).items) < count:  # noqa: ASYNC110 - the API server is in another process
            await asyncio.sleep(PAUSE)
    used = -1.0
    while cpu_seconds(pid) - used > PAUSE / 100:
        used = cpu_seconds(pid)
        await asyncio.sleep(PAUSE)


async def main(count: int, idle: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        await one_steady_cluster(home)
        with fleet(home, 1), managing(home, "layers", NEVER) as pid:
            client = Client(HttpTransport(Kubeconfig.load([home / "fleet.kubeconfig"]).context()))
            await until_made(client, 1, pid)
            before, empty = cpu_seconds(pid), peak_memory(pid)
            await apply(client, count)
            await until_made(client, count + 1, pid)
            used, memory = cpu_seconds(pid) - before, peak_memory(pid)
            waiting = cpu_seconds(pid)
            await asyncio.sleep(idle)
            waiting = cpu_seconds(pid) - waiting
            await client.close()
    report(
        f"{count} clusters applied, until each has its objects",
        f"{1000 * used / count:.1f} ms of the manager's CPU each",
        f"memory: {memory} MiB at most, {empty} MiB before",
        f"waiting for {idle:g} s: {waiting:.2f} CPU seconds",
    )


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--clusters", type=int, default=size(1000, 2))
    parser.add_argument("--idle", type=float, default=size(20.0, 1.0))
    asked = parser.parse_args()
    asyncio.run(main(asked.clusters, asked.idle))
