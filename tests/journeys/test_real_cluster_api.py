"""T2: clusters through their lives under the real Cluster API controllers, which decide what happens to machines."""

from __future__ import annotations

import pytest

from espalier.api import capi
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.docker import DockerDatacenterConfig
from espalier.api.eksa.group import SYSTEM_NAMESPACE
from tests.journeys.asking import GARDEN, NAMESPACE
from tests.support.cluster_api import RealClusterApi
from tests.support.cluster_api_fixture import real

__all__ = ["real"]

pytestmark = [pytest.mark.capi, pytest.mark.asyncio(loop_scope="session")]

KUBERNETES = {"1.35": "v1.35.4-eks-1-35-1", "1.36": "v1.36.3-eks-1-36-1"}


def groups(count: int) -> list[dict[str, object]]:
    return [{"name": "md-0", "count": count}]


async def left(world: RealClusterApi, name: str) -> list[str]:
    """Everything in the system's namespace that is a cluster's."""
    found = []
    for kind in capi.KINDS:
        listed = await world.client.list(kind.resource, SYSTEM_NAMESPACE)
        found += [f"{kind.resource.kind} {object_.name}" for object_ in listed.items if object_.name.startswith(name)]
    return found


async def test_a_manifest_becomes_a_cluster_that_grows_shrinks_is_upgraded_and_goes(real: RealClusterApi) -> None:
    import time

    t = time.time()

    def lap(what: str) -> None:
        print("LAP", what, time.time() - t, flush=True)

    await real.provide_etcd("garden")
    await real.apply()
    cluster = await real.until_ready()
    lap("ready")
    assert {one.status for one in cluster.status.conditions} == {"True"}
    assert cluster.status.phase == "Running"
    assert await real.versions() == [KUBERNETES["1.35"]] * 3

    for count in (4, 1):
        await real.change(workerNodeGroupConfigurations=groups(count))
        await real.until_ready()
        lap(f"scaled {count}")
        assert len(await real.nodes()) == 1 + count

    await real.change(kubernetesVersion="1.36")
    await real.until_ready()
    lap("upgraded")
    assert await real.versions() == [KUBERNETES["1.36"]] * 2

    await real.client.delete(DockerDatacenterConfig.resource, "garden", NAMESPACE)
    await real.client.delete(Cluster.resource, "garden", NAMESPACE)
    await real.until_gone(GARDEN)
    lap("gone")
    assert await left(real, "garden") == []
