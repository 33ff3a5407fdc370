"""A workload cluster with one simulated node, whose pods run as processes of this machine."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from espalier.api.core import NODE, POD
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.clusterapi.machines.network import Network
from espalier.kube.connection.pki import Authority
from espalier.kube.transports.wire import ADMIN, Request
from espalier.runtime.clock import SystemClock
from espalier.simulator.pods.controller import Pods
from espalier.simulator.pods.runtimes.process_runtime import ProcessRuntime
from espalier.simulator.pods.runtimes.program import Programs
from espalier.simulator.workload_clusters.stores import MemoryStores
from espalier.simulator.workload_clusters.workload_cluster import WorkloadCluster
from espalier.simulator.workload_clusters.workloads import Workloads
from espalier.simulator.workload_controllers.controller import WorkloadControllers

CLUSTER = Key("eksa-system", "garden")
AUTHORITY = Authority.create("kubernetes", now=datetime.now(UTC))
NODE_NAME = "node-1"
PATIENCE = 300


@dataclass
class Environment:
    """A workload cluster of one node, whose pods run."""

    workload: WorkloadCluster
    pods: Pods
    runtime: ProcessRuntime
    home: Path
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def make(self, name: str, inits: Sequence[Tree], main: Tree, **spec: Any) -> None:
        """Make a pod of these containers on the node."""
        pod_spec = {"nodeName": NODE_NAME, "restartPolicy": "Never", "initContainers": [*inits], "containers": [main]}
        metadata = {"name": name, "namespace": "default"}
        body: Tree = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**pod_spec, **spec}}
        await self.workload.client.create(POD, body)

    async def until(self, name: str, holds: Callable[[Tree], bool]) -> Tree:
        """The pod, once something holds of it."""
        result = None
        try:
            async with asyncio.timeout(PATIENCE):
                while True:
                    self.changed.clear()
                    result = self.workload.object(POD, Key("default", name))
                    if result is not None and holds(result.tree):
                        return result.tree
                    await self.changed.wait()
        except TimeoutError:
            raise AssertionError(f"after {PATIENCE} s: {result and result.tree.get('status')}") from None

    async def ended(self, name: str) -> Tree:
        """The status of a pod that has ended."""
        pod = await self.until(name, lambda pod: phase(pod) in ("Succeeded", "Failed"))
        status: Tree = pod["status"]
        return status

    async def shoot(self, name: str, *, after: float) -> None:
        """Kill all processes of a pod some seconds after its container has started, unless it has ended by then."""
        pod = await self.until(name, lambda pod: phase(pod) in ("Running", "Succeeded", "Failed"))
        await asyncio.sleep(after)
        for process in processes(self.home, pod["metadata"]["uid"]):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    async def log(self, name: str, container: str = "", **options: str) -> str:
        """The output of `kubectl logs`."""
        query = {**({"container": container} if container else {}), **options}
        path = f"/api/v1/namespaces/default/pods/{name}/log"
        return (await self.workload.server.serve(Request("GET", path, query), ADMIN)).body.decode()


@asynccontextmanager
async def running_pods(home: Path, programs: Programs) -> AsyncIterator[Environment]:
    """Everything that the pods of one node need; it ends with the block."""
    clock = SystemClock()
    workloads = Workloads(clock=clock, rng=random.Random(1), stores=MemoryStores())
    runtime = ProcessRuntime(programs, home, clock)
    pods = Pods(workloads, [runtime], clock)
    kubelets = WorkloadControllers(workloads, clock=clock, rng=random.Random(2), runs=pods.runs)
    due = asyncio.Event()
    async with asyncio.TaskGroup() as group:

        async def drive() -> None:
            while True:
                await due.wait()
                due.clear()
                await pods.reconcile(CLUSTER)
                await kubelets.reconcile(CLUSTER)

        driving = group.create_task(drive())
        workload = await workloads.open(
            CLUSTER, workloads.reserve(CLUSTER), authority=AUTHORITY, version="v1.35.4", network=Network()
        )
        made = Environment(workload, pods, runtime, home)

        def changed(_cluster: Key, _object: object) -> None:
            due.set()
            made.changed.set()

        workloads.subscribe(changed)
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": NODE_NAME},
            "status": {
                "nodeInfo": {"kubeletVersion": "v1.35.4", "containerRuntimeVersion": "containerd://2.1.5"},
                "addresses": [{"type": "InternalIP", "address": "172.16.0.9"}],
            },
        }
        await workload.client.create(NODE, node)
        try:
            yield made
        finally:
            driving.cancel()
            await pods.close()
            await workloads.close()


def phase(pod: Tree) -> str:
    """The phase of a pod; empty when it has none yet."""
    return str(pod.get("status", {}).get("phase", ""))


def processes(home: Path, uid: str) -> list[int]:
    """Processes that run in a folder of the pod below `home`: uids repeat, those of other tests have the same."""
    results = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            cwd = (place / "cwd").readlink()
            if uid in cwd.parts and cwd.is_relative_to(home):
                results.append(int(place.name))
        except OSError:
            continue
    return results
