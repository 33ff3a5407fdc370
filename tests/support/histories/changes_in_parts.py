"""A cluster of five objects, changes of each of them, and the Machines that come and go meanwhile."""

from __future__ import annotations

import asyncio
import copy
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from espalier.api.capi.machine import Machine
from espalier.api.core import EVENT, SECRET
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import PAUSED_ANNOTATION
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.clusterapi import external_etcd
from espalier.clusterapi import names as labels
from espalier.clusters.effects.machines import ETCD
from espalier.kube.client import PatchType
from espalier.kube.objects import Object
from espalier.providers.kinds import CATALOG
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.managed_environment import CALM, NAMESPACE, ManagedEnvironment, managed_environment
from tests.support.providers import vsphere

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
VINEYARD = Key(NAMESPACE, vsphere.VINEYARD)

Change = Callable[[Tree, int], None]
"""Changes the spec of an object of the manifest; the number makes the value differ from earlier ones."""


def five_objects(*, etcd: bool = False) -> list[Tree]:
    """A cluster with a machine config for the control plane (and for etcd), and for each of two worker groups."""
    trees = vsphere.manifest(NAMESPACE)
    cluster, other = trees[0]["spec"], copy.deepcopy(trees[-1])
    other["metadata"]["name"] = "vineyard-2"
    reference = {"kind": "VSphereMachineConfig", "name": "vineyard-2"}
    cluster["controlPlaneConfiguration"]["count"] = 1
    cluster["workerNodeGroupConfigurations"][0]["count"] = 1
    cluster["workerNodeGroupConfigurations"].append({"name": "md-1", "count": 1, "machineGroupRef": reference})
    if etcd:
        machines = cluster["controlPlaneConfiguration"]["machineGroupRef"]
        cluster["externalEtcdConfiguration"] = {"count": 1, "machineGroupRef": machines}
    return [*trees, other]


def change_cluster(spec: Tree, number: int) -> None:
    groups = spec["workerNodeGroupConfigurations"]
    match number % 4:
        case 0:
            groups[0]["count"] = 3 - groups[0]["count"]
        case 1:
            groups[1]["labels"] = {"row": f"row-{number}"}
        case 2:
            spec["controlPlaneConfiguration"]["certSans"] = [f"api-{number}.example.com"]
        case 3:
            groups[0]["labels"] = {"row": f"row-{number}"}
            groups[1]["count"] = 3 - groups[1]["count"]


def change_datacenter(spec: Tree, number: int) -> None:
    spec["thumbprint"] = ":".join([f"{number % 256:02X}"] * 20)


def change_machines(spec: Tree, number: int) -> None:
    spec["memoryMiB"] = 8192 + 256 * (number + 1)


CHANGES: dict[str, Change] = {
    "Cluster": change_cluster,
    "VSphereDatacenterConfig": change_datacenter,
    "VSphereMachineConfig": change_machines,
}


class Made:
    """The Machines that appeared and went, by group as in previews (empty: the control plane)."""

    def __init__(self, env: ManagedEnvironment) -> None:
        self.coming: Counter[str] = Counter()
        self.going: Counter[str] = Counter()
        env.capi_objects.of(Machine.resource).subscribe(self._changed)

    def _changed(self, old: Object | None, new: Object | None, first: bool) -> None:
        result = new or old
        assert result is not None
        is_etcd = external_etcd.MACHINE_LABEL in result.metadata.labels
        group = ETCD if is_etcd else result.metadata.labels.get(labels.DEPLOYMENT, "")
        if old is None and not first:
            self.coming[group] += 1
        if new is None:
            self.going[group] += 1

    def begin(self) -> None:
        self.coming.clear()
        self.going.clear()


@asynccontextmanager
async def vineyard(env: ManagedEnvironment, trees: Sequence[Tree]) -> AsyncIterator[Made]:
    await env.client.apply(SECRET, vsphere.credentials(namespace=NAMESPACE))
    for tree in trees:
        await put(env, tree)
    await asyncio.sleep(CALM)
    await env.until_ready(VINEYARD)
    yield Made(env)


async def put(env: ManagedEnvironment, tree: Tree) -> None:
    """As `kubectl apply` does."""
    await env.client.apply(CATALOG.resource_of(tree["apiVersion"], tree["kind"]), tree, field_manager="kubectl")


async def warnings(env: ManagedEnvironment) -> list[str]:
    events = (await env.client.list(EVENT)).items
    return [f"{event.tree['reason']}: {event.tree.get('note')}" for event in events if event.tree["type"] == "Warning"]


async def change(env: ManagedEnvironment, trees: Sequence[Tree], number: int, *places: int) -> None:
    for at in places:
        CHANGES[trees[at]["kind"]](trees[at]["spec"], number)
        await put(env, trees[at])


async def pause(env: ManagedEnvironment, value: str | None) -> None:
    patch = {"metadata": {"annotations": {PAUSED_ANNOTATION: value}}}
    await env.client.patch(Cluster.resource, VINEYARD.name, NAMESPACE, patch=patch, type=PatchType.MERGE)


def tell(story: Callable[[ManagedEnvironment, Made, list[Tree]], Awaitable[None]], *, etcd: bool = False) -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as env:
            trees = five_objects(etcd=etcd)
            async with vineyard(env, trees) as made:
                await story(env, made, trees)

    run(main, epoch=EPOCH, seed=1)
