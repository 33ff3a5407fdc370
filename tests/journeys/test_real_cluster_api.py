"""T2: clusters through their lives under the real Cluster API controllers, which decide what happens to machines."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from espalier.api import capi
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.docker import DockerDatacenterConfig
from espalier.api.eksa.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.clusters.preview.previews import Preview
from tests.journeys.asking import GARDEN, NAMESPACE
from tests.support.cluster_api import RealClusterApi
from tests.support.cluster_api_fixture import real

__all__ = ["real"]

pytestmark = [pytest.mark.capi, pytest.mark.asyncio(loop_scope="session")]

KUBERNETES = {"1.34": "v1.34.4-eks-1-34-1", "1.35": "v1.35.4-eks-1-35-1", "1.36": "v1.36.3-eks-1-36-1"}
ORCHARD = Key(NAMESPACE, "orchard")


def groups(count: int) -> list[dict[str, object]]:
    return [{"name": "md-0", "count": count}]


async def left(world: RealClusterApi, name: str) -> list[str]:
    """Everything in the system's namespace that is a cluster's."""
    found = []
    for kind in capi.KINDS:
        listed = await world.client.list(kind.resource, SYSTEM_NAMESPACE)
        found += [f"{kind.resource.kind} {object_.name}" for object_ in listed.items if object_.name.startswith(name)]
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def life(real: RealClusterApi) -> AsyncIterator[asyncio.Task[None]]:
    """The whole life of a cluster, lived beside the other tests: it mostly waits."""
    task = asyncio.create_task(live(real))
    yield task
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def live(world: RealClusterApi) -> None:
    """Nothing is prepared but the etcd: Cluster API makes authority and kubeconfig itself."""
    await world.provide_etcd("garden")
    await world.apply()
    cluster = await world.until_ready()
    assert {one.status for one in cluster.status.conditions} == {"True"}
    assert cluster.status.phase == "Running"
    assert await world.versions() == [KUBERNETES["1.35"]] * 3
    await world.without_pods_to_drain("garden")

    for count in (3, 1):
        await world.change(workerNodeGroupConfigurations=groups(count))
        await world.until_ready()
        assert len(await world.nodes()) == 1 + count

    await world.change(kubernetesVersion="1.36")
    await world.until_ready()
    await world.until_machines_rest("garden")
    assert await world.versions() == [KUBERNETES["1.36"]] * 2

    await world.client.delete(DockerDatacenterConfig.resource, "garden", NAMESPACE)
    await world.client.delete(Cluster.resource, "garden", NAMESPACE)
    await world.until_gone(GARDEN)
    assert await left(world, "garden") == []


Change = Callable[[Tree, random.Random], None]


def control_plane(spec: Tree) -> Tree:
    found: Tree = spec.setdefault("controlPlaneConfiguration", {"count": 1})
    return found


def group(spec: Tree) -> Tree:
    found: Tree = spec["workerNodeGroupConfigurations"][0]
    return found


def scales(spec: Tree, draw: random.Random) -> None:
    group(spec)["count"] = draw.choice([count for count in (1, 2, 3) if count != group(spec)["count"]])


def labels_workers(spec: Tree, draw: random.Random) -> None:
    group(spec)["labels"] = {"disk": draw.choice(["fast", "slow"]), "draw": str(draw.randrange(1000))}


def taints_workers(spec: Tree, draw: random.Random) -> None:
    group(spec)["taints"] = [{"key": "dedicated", "value": f"n{draw.randrange(1000)}", "effect": "PreferNoSchedule"}]


def configures_kubelets(spec: Tree, draw: random.Random) -> None:
    group(spec)["kubeletConfiguration"] = {"maxPods": 60 + draw.randrange(50)}


def watches_health(spec: Tree, draw: random.Random) -> None:
    spec["machineHealthCheck"] = {"nodeStartupTimeout": f"{10 + draw.randrange(50)}m0s"}


def rolls_otherwise(spec: Tree, draw: random.Random) -> None:
    rolling = {"maxSurge": draw.choice([1, 2]), "maxUnavailable": draw.choice([0, 1])}
    group(spec)["upgradeRolloutStrategy"] = {"type": "RollingUpdate", "rollingUpdate": rolling}


def names_api_server(spec: Tree, draw: random.Random) -> None:
    control_plane(spec)["certSans"] = [f"api-{draw.randrange(1000)}.example"]


def labels_control_plane(spec: Tree, draw: random.Random) -> None:
    control_plane(spec)["labels"] = {"draw": str(draw.randrange(1000))}


def adds_group(spec: Tree, draw: random.Random) -> None:
    name = f"extra-{draw.randrange(1000)}"
    spec["workerNodeGroupConfigurations"] = [*spec["workerNodeGroupConfigurations"][:1], {"name": name, "count": 1}]


def removes_group(spec: Tree, _draw: random.Random) -> None:
    del spec["workerNodeGroupConfigurations"][1:]


def upgrades(spec: Tree, _draw: random.Random) -> None:
    spec["kubernetesVersion"] = {"1.34": "1.35", "1.35": "1.36"}.get(spec["kubernetesVersion"], "1.36")


CHANGES: tuple[Change, ...] = (
    scales,
    labels_workers,
    taints_workers,
    configures_kubelets,
    watches_health,
    rolls_otherwise,
    names_api_server,
    labels_control_plane,
    adds_group,
    removes_group,
    upgrades,
)


async def test_what_was_planned_is_what_the_real_controllers_do(real: RealClusterApi, life: asyncio.Task[None]) -> None:
    draw = random.Random(20261121)
    await real.provide_etcd("orchard")
    await real.head_start("orchard", KUBERNETES["1.34"])
    await real.apply(name_of="orchard", kubernetesVersion="1.34")
    await real.until_ready(ORCHARD)
    await real.without_pods_to_drain("orchard")
    order = list(CHANGES)
    draw.shuffle(order)
    for change in order:
        await happens_as_planned(real, change, draw)


async def happens_as_planned(world: RealClusterApi, change: Change, draw: random.Random) -> None:
    live = (await world.client.get(Cluster.resource, ORCHARD.name, ORCHARD.namespace)).tree
    spec = live["spec"]
    change(spec, draw)
    metadata = {"name": ORCHARD.name, "namespace": ORCHARD.namespace}
    preview = await world.preview(ORCHARD, [{**live, "metadata": metadata, "spec": spec}])
    assert not preview.refusals
    before = world.machine_names("orchard")
    await world.change(ORCHARD, **spec)
    await world.until_ready(ORCHARD)
    await world.until_machines_rest("orchard")
    after = world.machine_names("orchard")
    assert (change.__name__, happened(before, after)) == (change.__name__, planned(preview))


Happened = dict[str, tuple[set[str], int]]
"""By group: names of the machines that go, and how many come."""


def happened(before: dict[str, set[str]], after: dict[str, set[str]]) -> Happened:
    found = {}
    for name in before.keys() | after.keys():
        gone, come = before.get(name, set()) - after.get(name, set()), after.get(name, set()) - before.get(name, set())
        if gone or come:
            found[name] = (gone, len(come))
    return found


def planned(preview: Preview) -> Happened:
    return {
        one.name: ({going.name for going in one.going}, one.coming) for one in preview.groups if one.going or one.coming
    }


async def test_a_manifest_becomes_a_cluster_that_grows_shrinks_is_upgraded_and_goes(life: asyncio.Task[None]) -> None:
    await life
