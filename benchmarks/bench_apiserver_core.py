"""Cost of one request in the embedded API server's core: CPU time and requests per second, in memory, no sockets.

    python benchmarks/bench_apiserver_core.py [--count 2000]

An object is a Machine-like custom resource of about 3 KB with a schema, a status and managed fields.
"""

from __future__ import annotations

import asyncio
import os
import platform
import random
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from benchmarks.measure import arguments, size
from espalier.api.capi.machine import Machine
from espalier.api.core import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, LEASE
from espalier.api.definitions.crd import crd_of
from espalier.apiserver.server import Server
from espalier.apiserver.storage.store import MemoryStore
from espalier.kube.client import Client, PatchType
from espalier.kube.transports.inprocess import InProcessTransport

NAMESPACE = "default"
Operation = Callable[[int], Awaitable[Any]]


def config_map(index: int) -> dict[str, Any]:
    return {"metadata": {"name": f"c{index}", "namespace": NAMESPACE}, "data": {"a": "b" * 100}}


def machine(index: int, version: str = "v1.35.4") -> dict[str, Any]:
    return {
        "metadata": {
            "name": f"m{index}",
            "namespace": NAMESPACE,
            "labels": {f"example.com/label-{number}": f"value-{number}" for number in range(6)},
            "annotations": {f"example.com/annotation-{number}": "x" * 100 for number in range(4)},
        },
        "spec": {
            "clusterName": f"cluster-{index % 200}",
            "version": version,
            "bootstrap": {
                "configRef": {"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfig", "name": "b"}
            },
            "infrastructureRef": {
                "apiGroup": "infrastructure.cluster.x-k8s.io",
                "kind": "DockerMachine",
                "name": f"m{index}",
            },
        },
    }


def status(index: int, ready: str) -> dict[str, Any]:
    conditions = [
        {
            "type": f"Condition{number}",
            "status": ready,
            "reason": "Because",
            "message": "x" * 60,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        for number in range(6)
    ]
    return {"metadata": {"name": f"m{index}", "namespace": NAMESPACE}, "status": {"conditions": conditions}}


def operations(client: Client) -> dict[str, Operation]:
    resource = Machine.resource
    return {
        "create ConfigMap": lambda i: client.create(CONFIG_MAP, config_map(i)),
        "get ConfigMap": lambda i: client.get(CONFIG_MAP, f"c{i}", NAMESPACE),
        "merge patch ConfigMap": lambda i: client.patch(
            CONFIG_MAP, f"c{i}", NAMESPACE, patch={"data": {"a": f"c{i}"}}, type=PatchType.MERGE
        ),
        "apply Machine (new)": lambda i: client.apply(resource, machine(i)),
        "apply Machine (no change)": lambda i: client.apply(resource, machine(i)),
        "apply Machine (version)": lambda i: client.apply(resource, machine(i, "v1.36.3")),
        "apply Machine status": lambda i: client.apply(resource, status(i, "True"), subresource="status"),
        "patch Machine status": lambda i: client.patch(
            resource, f"m{i}", NAMESPACE, patch={"status": {"phase": "x"}}, type=PatchType.MERGE, subresource="status"
        ),
        "get Machine": lambda i: client.get(resource, f"m{i}", NAMESPACE),
        "create Lease": lambda i: client.create(LEASE, {"metadata": {"name": f"l{i}", "namespace": NAMESPACE}}),
        "delete ConfigMap": lambda i: client.delete(CONFIG_MAP, f"c{i}", NAMESPACE),
    }


async def measure(count: int) -> None:
    server = Server(MemoryStore(), now=lambda: datetime.now(UTC), random=random.Random(1))
    await server.start()
    client = Client(InProcessTransport(server))
    await client.create(CUSTOM_RESOURCE_DEFINITION, crd_of(Machine))
    for name, operation in operations(client).items():
        before = time.process_time()
        for index in range(count):
            await operation(index)
        spent = time.process_time() - before
        print(f"{name:28} {spent / count * 1e3:8.3f} ms CPU {count / spent:10.0f}/s")
    before = time.process_time()
    listed = await client.list(Machine.resource, NAMESPACE)
    print(f"{'list Machines':28} {(time.process_time() - before) * 1e3:8.1f} ms CPU for {len(listed.items)}")
    await server.close()


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--count", type=int, default=size(2000, 2))
    count = parser.parse_args().count
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {count} objects of each kind")
    asyncio.run(measure(count))


if __name__ == "__main__":
    main()
