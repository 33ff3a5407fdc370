"""T2: machines upgraded in place by the real Cluster API, which asks our runtime hooks over TLS.

The tests change one cluster after the other: a control plane of three takes long to make.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import Machine
from espalier.api.core import NODE
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.upgrades import NodeUpgrade
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.kube.client import PatchType
from espalier.kube.errors import ApiError
from espalier.kube.objects import Object
from tests.support.environments.cluster_api import RealClusterApi
from tests.support.environments.managed_clusters import NAMESPACE
from tests.support.environments.upgraders import Upgraders
from tests.support.histories.machine_stories import KUBERNETES

pytestmark = [pytest.mark.capi, pytest.mark.asyncio(loop_scope="session")]

IN_PLACE = {"type": "InPlace"}
PROTECTED = "cluster.x-k8s.io/skip-remediation"


def control_plane(**more: object) -> Tree:
    return {"count": 3, "upgradeRolloutStrategy": IN_PLACE, **more}


def group(strategy: Tree | None = None, **more: object) -> list[Tree]:
    return [{"name": "md-0", "count": 2, "upgradeRolloutStrategy": strategy or IN_PLACE, **more}]


async def made(env: RealClusterApi, name: str, control_planes: Tree, workers: list[Tree]) -> Key:
    """A cluster of 1.35 that is ready."""
    await env.provide_etcd(name)
    await env.head_start(name, KUBERNETES["1.35"])
    await env.apply(
        name=name,
        kubernetesVersion="1.35",
        controlPlaneConfiguration=control_planes,
        workerNodeGroupConfigurations=workers,
    )
    key = Key(NAMESPACE, name)
    await env.until_ready(key)
    await env.without_pods_to_drain(name)
    return key


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def upgraders(real: RealClusterApi) -> Upgraders:
    """The runner of the upgrader pods of all clusters."""
    return Upgraders(real.workloads)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def hedge(real: RealClusterApi, upgraders: Upgraders) -> Key:
    """Three control plane machines and two workers, all of them to be upgraded in place."""
    return await made(real, "hedge", control_plane(), group())


@pytest_asyncio.fixture(loop_scope="session")
async def seen(real: RealClusterApi) -> AsyncIterator[list[Object]]:
    """Every NodeUpgrade as it was while the test ran, and every Machine, each as often as it changed."""
    caches = [real.manager.caches.of(NodeUpgrade.resource, SYSTEM_NAMESPACE), real.capi_objects.of(Machine.resource)]
    results: list[Object] = []
    stops = [cache.subscribe(lambda old, new, first: results.append(new) if new else None) for cache in caches]
    yield results
    for stop in stops:
        stop()


async def identities(env: RealClusterApi, key: Key) -> dict[str, str]:
    """Uids of machines and nodes, by name."""
    labels = f"cluster.x-k8s.io/cluster-name={key.name}"
    machines = (await env.client.list(Machine.resource, SYSTEM_NAMESPACE, labels=labels)).items
    nodes = (await (await env.workload(key)).list(NODE)).items
    return {f"{item.kind} {item.name}": item.metadata.uid for item in [*machines, *nodes]}


def condition(cluster: Cluster, type_: str) -> tuple[str, str]:
    """Reason and message."""
    return next(((item.reason, item.message) for item in cluster.status.conditions if item.type == type_), ("", ""))


@pytest.mark.demand("U26")
@pytest.mark.soak
async def test_impossible_change_in_place_replaces_nothing(
    real: RealClusterApi, hedge: Key, upgraders: Upgraders
) -> None:
    """A Cluster is refused at once; an edit of its control plane by hand, when Cluster API asks."""
    before = await identities(real, hedge)
    changed = control_plane(certSans=["hedge.example"])
    with pytest.raises(ApiError, match=r"bootstrap\.clusterConfiguration\.apiServer\.certSANs of the control plane"):
        await real.change(hedge, kubernetesVersion="1.36", controlPlaneConfiguration=changed)
    await set_time_servers(real, hedge, {"enabled": True})
    cluster = await real.until(
        lambda item: condition(item, "ControlPlaneReady")[0] == Reason.IN_PLACE_UPGRADE_REFUSED, hedge
    )
    _, message = condition(cluster, "ControlPlaneReady")
    assert message.startswith("bootstrap.ntp.enabled of Machine hedge-")
    assert "set upgradeRolloutStrategy.fallback to RollingUpdate" in message
    assert await identities(real, hedge) == before
    assert upgraders.ran == []
    await set_time_servers(real, hedge, None)
    await real.until_ready(hedge)


async def set_time_servers(env: RealClusterApi, key: Key, ntp: Tree | None) -> None:
    """Edit the control plane by hand, in a field that is nobody's."""
    patch: Tree = {"spec": {"kubeadmConfigSpec": {"ntp": ntp}}}
    resource = KubeadmControlPlane.resource
    await env.client.patch(resource, key.name, SYSTEM_NAMESPACE, patch=patch, type=PatchType.MERGE)


@pytest.mark.demand("U1", "U11")
@pytest.mark.soak
async def test_two_workers_are_upgraded_in_place_without_it(
    real: RealClusterApi, hedge: Key, upgraders: Upgraders, seen: list[Object]
) -> None:
    before = await identities(real, hedge)
    await real.change(hedge, kubernetesVersion="1.36")
    told = await real.until(
        lambda item: condition(item, "ControlPlaneReady")[0] == Reason.IN_PLACE_UPGRADE_IN_PROGRESS, hedge
    )
    assert "of KubeadmControlPlane hedge are being upgraded in place: " in condition(told, "ControlPlaneReady")[1]
    await real.until_ready(hedge)
    assert await identities(real, hedge) == before
    assert await real.versions(hedge) == [KUBERNETES["1.36"]] * 5

    made = {item.name: item.decode(NodeUpgrade) for item in seen if item.kind == "NodeUpgrade"}
    of_control_plane = [item for item in made.values() if item.spec.node_type == "ControlPlane"]
    assert (len(made), len(of_control_plane)) == (5, 3)
    assert sum(item.spec.first_node_to_be_upgraded for item in made.values()) == 1
    order = list(dict.fromkeys(node for node, _ in upgraders.ran))
    assert [("md-0" in node) for node in order] == [False] * 3 + [True] * 2, "the control plane comes first"
    assert upgraders.at_once == 1
    machines = [item for item in seen if item.kind == "Machine" and item.name in {name.split()[1] for name in before}]
    protected = {machine.name for machine in machines if PROTECTED in machine.metadata.annotations}
    assert len(protected) == 5, "health checks leave a machine alone while its node is upgraded"
    await real.until_all(NodeUpgrade.resource, hedge.name, lambda tree: "left over")
    await real.until_all(Machine.resource, hedge.name, lambda tree: PROTECTED in str(tree["metadata"]))


@pytest.mark.demand("U71")
async def test_fallback_replaces_workers_for_such_a_change(real: RealClusterApi, hedge: Key) -> None:
    before = await identities(real, hedge)
    tainted: dict[str, object] = {"taints": [{"key": "a", "value": "b", "effect": "PreferNoSchedule"}]}
    with pytest.raises(ApiError, match=r"nodeRegistration\.taints of worker node group md-0"):
        await real.change(hedge, workerNodeGroupConfigurations=group(None, **tainted))
    falls_back = {"type": "InPlace", "fallback": "RollingUpdate"}
    await real.change(hedge, workerNodeGroupConfigurations=group(falls_back, **tainted))
    await real.until_ready(hedge)
    await real.until_machines_rest(hedge.name)
    after = await identities(real, hedge)
    assert {name for name in before if name not in after} == {name for name in before if "md-0" in name}
    assert len(after) == len(before)
