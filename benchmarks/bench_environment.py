"""`espalier up` to the first answer, one cluster to Ready, and two hundred at once: its cost."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import yaml

from benchmarks.measure import arguments, cpu_seconds, log_of, peak_memory, report, size, spread, start_environment
from espalier.api.core import NAMESPACE
from espalier.api.eksa.cluster import Cluster
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.errors import KubeError
from espalier.kube.transports.http import HttpTransport
from espalier.providers.docker.kinds import DockerDatacenterConfig
from tests.support.environments.control_plane import find_assets

EXAMPLE = Path(__file__).parents[1] / "examples" / "docker.yaml"
RUNS, MANY = size(5, 1), size(200, 2)


@asynccontextmanager
async def env(folder: Path) -> AsyncIterator[tuple[Client, subprocess.Popen[bytes], float]]:
    """A running environment: client, process, and seconds until it first answered."""
    began = time.monotonic()
    process = start_environment(folder)
    client: Client | None = None
    try:
        while client is None:
            try:
                client = Client(HttpTransport(Kubeconfig.load([folder / "kubeconfig"]).context()))
                await client.list(NAMESPACE)
            except (KubeError, FileNotFoundError, ValueError):
                if client:
                    await client.close()
                client = None
                if process.poll() is not None:
                    raise RuntimeError(log_of(folder).read_text()) from None
                await asyncio.sleep(0.02)
        yield client, process, time.monotonic() - began
    finally:
        if client:
            await client.close()
        process.terminate()
        process.wait()


async def kubectl_seconds(folder: Path, kubectl: Path) -> float:
    """What `kubectl get ns` takes against a running environment."""
    began = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        kubectl, "--kubeconfig", folder / "kubeconfig", "get", "ns", stdout=subprocess.DEVNULL
    )
    if await process.wait():
        raise RuntimeError("kubectl get ns failed")
    return time.monotonic() - began


async def create(client: Client, names: list[str]) -> float:
    """Seconds from the first apply until every named cluster is Ready."""
    documents = list(yaml.safe_load_all(EXAMPLE.read_text()))
    began = time.monotonic()
    version = (await client.list(Cluster.resource)).resource_version
    gate = asyncio.Semaphore(20)

    async def apply(name: str) -> None:
        for document in sorted(documents, key=lambda item: item["kind"] == "Cluster"):
            resource = Cluster.resource if document["kind"] == "Cluster" else DockerDatacenterConfig.resource
            tree = {**document, "metadata": {"name": name, "namespace": "default"}}
            if document["kind"] == "Cluster":
                tree["spec"] = {**document["spec"], "datacenterRef": {"kind": "DockerDatacenterConfig", "name": name}}
            async with gate:
                await client.apply(resource, tree)

    applying = asyncio.gather(*(apply(name) for name in names))
    waiting = set(names)
    async for event in client.watch(Cluster.resource, resource_version=version):
        if event.type == "BOOKMARK":
            continue
        status = event.object.tree.get("status", {})
        if any(item["type"] == "Ready" and item["status"] == "True" for item in status.get("conditions", [])):
            waiting.discard(event.object.name)
        if not waiting:
            break
    await applying
    return time.monotonic() - began


async def main() -> None:
    arguments(__doc__).parse_args()
    assets = find_assets()
    kubectl = assets / "kubectl" if assets else None
    starts: list[float] = []
    firsts: list[float] = []
    ones: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for run in range(RUNS):
            async with env(Path(folder) / f"one-{run}") as (client, _, seconds):
                starts.append(seconds)
                if kubectl:
                    firsts.append(seconds + await kubectl_seconds(Path(folder) / f"one-{run}", kubectl))
                ones.append(await create(client, ["garden"]))
        report("espalier up to the first answer of its API server", spread(starts))
        first = spread(firsts) if firsts else "not measured: no kubectl; run make real-assets"
        report("espalier up to the end of the first kubectl get ns", first, "aim: <= 2 s")
        report("one simulated cluster (1 control plane, 2 workers), apply to Ready", spread(ones), "aim: <= 3 s")
        async with env(Path(folder) / "many") as (client, process, _):
            before = cpu_seconds(process.pid)
            seconds = await create(client, [f"garden-{number}" for number in range(MANY)])
            cpu, memory = cpu_seconds(process.pid) - before, peak_memory(process.pid)
        report(
            f"{MANY} clusters applied at once, to all Ready",
            f"{seconds:.1f} s, {cpu:.1f} CPU seconds ({1000 * cpu / MANY:.0f} ms each)",
            f"peak {memory} MiB for the whole world",
            "aim: <= 60 s, <= 1536 MiB",
        )


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
