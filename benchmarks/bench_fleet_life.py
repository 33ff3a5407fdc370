"""The life of thirty clusters in the local environment, all processes counted: CPU to create, upgrade and delete each.

    python -m benchmarks.bench_fleet_life [--clusters 30]

Half of them are upgraded by replacing machines, the other half in place; each part is done to all at once. Counted are
the environment's process, the programs that it has started and waited for, and this client. Two builds are compared by
running it with each `PYTHONPATH` in turn.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import yaml

from benchmarks.bench_environment import EXAMPLE, env
from benchmarks.measure import arguments, cpu_seconds, peak_memory, report, size
from espalier.api.eksa.cluster import Cluster
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import NotFound
from espalier.providers.docker.kinds import DockerDatacenterConfig

CLUSTERS = size(30, 2)
NAMESPACE = "default"
CONCURRENT = 10
IN_PLACE = {"upgradeRolloutStrategy": {"type": "InPlace"}}


def used(pid: int) -> float:
    """CPU seconds of a process, of the programs it has waited for, and of this client."""
    return cpu_seconds(pid, waited_for=True) + time.process_time()


async def at_once(act: Callable[[str], Awaitable[object]], names: list[str]) -> None:
    gate = asyncio.Semaphore(CONCURRENT)

    async def act_on(name: str) -> None:
        async with gate:
            await act(name)

    await asyncio.gather(*map(act_on, names))


async def until(client: Client, names: list[str], is_reached: Callable[[dict[str, Any] | None], bool]) -> None:
    """Wait until it is reached for all named clusters; None is one that is gone."""
    listed = await client.list(Cluster.resource, NAMESPACE)
    trees: dict[str, dict[str, Any] | None] = dict.fromkeys(names)
    trees |= {item.name: item.tree for item in listed.items}
    waiting = {name for name in names if not is_reached(trees[name])}
    events = client.watch(Cluster.resource, NAMESPACE, resource_version=listed.resource_version)
    while waiting:
        event = await anext(events)
        if event.type != "BOOKMARK" and is_reached(None if event.type == "DELETED" else event.object.tree):
            waiting.discard(event.object.name)
    await events.aclose()


def is_ready(tree: dict[str, Any] | None) -> bool:
    """True if the last change of a cluster is done."""
    if tree is None:
        return False
    status = tree.get("status", {})
    ready = any(item["type"] == "Ready" and item["status"] == "True" for item in status.get("conditions", []))
    return ready and status.get("observedGeneration") == tree["metadata"]["generation"]


async def main(count: int) -> None:
    documents = {document["kind"]: document for document in yaml.safe_load_all(EXAMPLE.read_text())}
    names = [f"garden-{number}" for number in range(count)]
    rolling, in_place = names[: count // 2], names[count // 2 :]
    workers = documents["Cluster"]["spec"]["workerNodeGroupConfigurations"]

    async def create(name: str) -> None:
        metadata = {"name": name, "namespace": NAMESPACE}
        spec = {**documents["Cluster"]["spec"], "datacenterRef": {"kind": "DockerDatacenterConfig", "name": name}}
        await client.apply(
            DockerDatacenterConfig.resource, {**documents["DockerDatacenterConfig"], "metadata": metadata}
        )
        await client.apply(Cluster.resource, {**documents["Cluster"], "metadata": metadata, "spec": spec})

    async def change(name: str, **spec: object) -> None:
        await client.patch(Cluster.resource, name, NAMESPACE, patch={"spec": spec}, type=PatchType.MERGE)

    async def roll(name: str) -> None:
        await change(name, kubernetesVersion="1.36")

    async def upgrade_in_place(name: str) -> None:
        groups = [{**group, **IN_PLACE} for group in workers]
        await change(
            name,
            kubernetesVersion="1.36",
            controlPlaneConfiguration={"count": 1, **IN_PLACE},
            workerNodeGroupConfigurations=groups,
        )

    async def delete(name: str) -> None:
        try:
            await client.delete(Cluster.resource, name, NAMESPACE)
        except NotFound:
            return

    with tempfile.TemporaryDirectory() as folder:
        async with env(Path(folder) / "home") as (client, process, _):
            await create("first")  # imports, schemas and the like are not a cluster's
            await until(client, ["first"], is_ready)
            figures = []
            for act, part, is_reached in (
                (create, names, is_ready),
                (roll, rolling, is_ready),
                (upgrade_in_place, in_place, is_ready),
                (delete, names, lambda tree: tree is None),
            ):
                before = used(process.pid)
                await at_once(act, part)
                await until(client, part, is_reached)
                each = 1000 * (used(process.pid) - before) / len(part)
                figures.append(f"{act.__name__.replace('_', ' ')} {each:.0f} ms")
            memory = peak_memory(process.pid)
    report(f"{count} clusters of 1 + 2 machines, CPU of each", ", ".join(figures), f"peak memory: {memory} MiB")


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--clusters", type=int, default=CLUSTERS)
    asyncio.run(main(parser.parse_args().clusters))
