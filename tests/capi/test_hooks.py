"""T2: machines upgraded where they stand by the real Cluster API, which asks our runtime hooks over TLS."""

from __future__ import annotations

import pytest

from espalier.api.capi.machine import Machine
from espalier.api.core import NODE
from espalier.api.eksa.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Key
from tests.journeys.asking import NAMESPACE
from tests.journeys.machine_stories import KUBERNETES
from tests.support.cluster_api import RealClusterApi
from tests.support.upgraders import Upgraders

pytestmark = [pytest.mark.capi, pytest.mark.asyncio(loop_scope="session")]

IN_PLACE = {"upgradeRolloutStrategy": {"type": "InPlace"}}


async def made(world: RealClusterApi, name: str, control_planes: int, workers: int, how: Tree = IN_PLACE) -> Key:
    """A cluster of 1.35 that is ready."""
    await world.provide_etcd(name)
    await world.head_start(name, KUBERNETES["1.35"])
    groups = [{"name": "md-0", "count": workers, **how}]
    await world.apply(
        name=name,
        kubernetesVersion="1.35",
        controlPlaneConfiguration={"count": control_planes, **how},
        workerNodeGroupConfigurations=groups,
    )
    key = Key(NAMESPACE, name)
    await world.until_ready(key)
    await world.without_pods_to_drain(name)
    return key


async def identities(world: RealClusterApi, key: Key) -> dict[str, str]:
    """Uids of machines and nodes, by name."""
    labels = f"cluster.x-k8s.io/cluster-name={key.name}"
    machines = (await world.client.list(Machine.resource, SYSTEM_NAMESPACE, labels=labels)).items
    nodes = (await (await world.workload(key)).list(NODE)).items
    return {f"{one.kind} {one.name}": one.metadata.uid for one in [*machines, *nodes]}


async def test_three_control_planes_and_two_workers_are_upgraded_where_they_stand(real: RealClusterApi) -> None:
    hedge = await made(real, "hedge", 3, 2)
    before = await identities(real, hedge)
    Upgraders(real.workloads)
    await real.change(hedge, kubernetesVersion="1.36")
    await real.until_ready(hedge)
    assert await identities(real, hedge) == before
    assert await real.versions(hedge) == [KUBERNETES["1.36"]] * 5
