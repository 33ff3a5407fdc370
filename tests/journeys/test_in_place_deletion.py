"""Objects deleted during an upgrade in place: they are not awaited for ever, and nothing of them remains."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.upgrades import ControlPlaneUpgrade, MachineDeploymentUpgrade, NodeUpgrade
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.eksa.vocabulary.upgrade_keys import IN_PLACE_CONTROL_PLANE
from espalier.clusterapi.contract import CLUSTER_NAME_LABEL, PAUSED_ANNOTATION
from espalier.kube.client import PatchType
from espalier.kube.transports.wire import Request, Response, Stream, Transport
from espalier.runtime.virtual import Simulation, run
from espalier.simulator.workload_clusters.workload_cluster import WorkloadCluster
from tests.support.environments import in_place_environment as in_place
from tests.support.environments.managed_environment import GARDEN, NAMESPACE, ManagedEnvironment, managed_environment
from tests.support.environments.upgraders import Moment, Upgraders
from tests.support.sampling import sampled
from tests.support.servers.faults import Interceptor, is_of_workload

pytestmark = pytest.mark.embedded

HOUR = 3600.0


class Asked(Interceptor):
    """Counts what the manager asks of workload clusters."""

    def __init__(self) -> None:
        self.count: Counter[str] = Counter()

    def concerns(self, transport: Transport) -> bool:
        return is_of_workload(transport)

    async def request(self, transport: Transport, request: Request) -> Response:
        self.count[f"{request.method} {request.path}"] += 1
        return await transport.request(request)

    async def stream(self, transport: Transport, request: Request) -> Stream | Response:
        self.count[f"WATCH {request.path}"] += 1
        return await transport.stream(request)


def followed() -> list[str]:
    """The nodes that are followed now."""
    return sorted(task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("follow "))


async def left(env: ManagedEnvironment) -> list[str]:
    results = [await env.client.list(kind.resource) for kind in (ControlPlaneUpgrade, MachineDeploymentUpgrade)]
    results.append(await env.client.list(NodeUpgrade.resource))
    return [f"{item.kind} {item.name}" for listed in results for item in listed.items]


async def lose_owners(env: ManagedEnvironment) -> None:
    """Somebody takes the finalizers away and deletes: there is no moment at which they are seen to be deleted."""
    for resource in (KubeadmControlPlane.resource, MachineDeployment.resource):
        for item in (await env.client.list(resource, SYSTEM_NAMESPACE)).items:
            bare = {"metadata": {"finalizers": None}}
            await env.client.patch(resource, item.name, item.namespace, patch=bare, type=PatchType.MERGE)
            await env.client.delete(resource, item.name, item.namespace)


MOMENTS = [
    ("garden-", "components-copier", Moment.RUNS),
    ("garden-", "kubeadm-upgrader", Moment.ENDED),
    ("garden-md-", "done", Moment.ENDED),
]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("node", "container", "moment", "owners"),
    sampled([(*moment, owners) for owners in ("in order", "at once") for moment in MOMENTS], 1),
    ids=lambda item: getattr(item, "value", item),
)
def test_deleted_cluster_is_not_asked_any_more(node: str, container: str, moment: Moment, owners: str) -> None:
    """Control plane and worker node groups go when Cluster API is done with them; or before anybody saw them go."""
    asked = Asked()

    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock, wrap=asked) as env:
            await env.apply(**in_place.spec(1, 2))
            await env.until_ready()
            upgraders = Upgraders(env.workloads)

            async def delete(_: WorkloadCluster, at: str, what: str, when: Moment) -> None:
                if at.startswith(node) and (what, when) == (container, moment):
                    upgraders.happening = None
                    if owners == "at once":
                        await lose_owners(env)
                    await env.client.delete(Cluster.resource, "garden", NAMESPACE)

            upgraders.happening = delete
            await env.change(kubernetesVersion="1.36")
            await env.until_gone(GARDEN)
            await asyncio.sleep(60)
            asked.count.clear()
            await asyncio.sleep(HOUR)
            assert asked.count == {}
            assert followed() == []
            assert await left(env) == []

    run(main, epoch=in_place.EPOCH, seed=1)


@pytest.mark.soak
def test_cluster_is_not_followed_after_its_upgrade() -> None:
    async def story(env: ManagedEnvironment, _: Upgraders) -> None:
        await env.change(kubernetesVersion="1.36")
        await env.until(lambda item: bool(followed()))
        await env.until_ready()
        await asyncio.sleep(60)
        assert followed() == []

    in_place.journey(story)


@pytest.mark.soak
def test_deleted_owner_is_not_followed() -> None:
    async def story(env: ManagedEnvironment, _: Upgraders) -> None:
        live = await env.client.get(KubeadmControlPlane.resource, "garden", SYSTEM_NAMESPACE)
        for name in ("lost", "other"):
            marks = {IN_PLACE_CONTROL_PLANE: "true", PAUSED_ANNOTATION: "true"}
            metadata = {"name": name, "namespace": SYSTEM_NAMESPACE, "annotations": marks}
            labels = {CLUSTER_NAME_LABEL: name}
            body = {"metadata": metadata | {"labels": labels}, "spec": live.tree["spec"]}
            await env.client.create(KubeadmControlPlane.resource, body)
            async with asyncio.timeout(60):
                while f"follow {name}" not in followed():  # noqa: ASYNC110  nothing tells of it
                    await asyncio.sleep(0)
            await env.client.delete(KubeadmControlPlane.resource, name, SYSTEM_NAMESPACE)
            await asyncio.sleep(60)
            assert followed() == []

    in_place.journey(story)


def test_upgrade_of_a_wrong_cluster_leaves_the_first() -> None:
    async def story(env: ManagedEnvironment, _: Upgraders) -> None:
        spec = {"machine": {"name": "nobody"}, "kubernetesVersion": in_place.NEW, "nodeType": "Worker"}
        metadata = {"name": "by-hand", "namespace": SYSTEM_NAMESPACE, "labels": {CLUSTER_NAME_LABEL: "one"}}
        await env.client.create(NodeUpgrade.resource, {"metadata": metadata, "spec": spec})
        await asyncio.sleep(60)
        assert followed() == ["follow one"]
        other = {"metadata": {"labels": {CLUSTER_NAME_LABEL: "other"}}}
        await env.client.patch(NodeUpgrade.resource, "by-hand", SYSTEM_NAMESPACE, patch=other, type=PatchType.MERGE)
        await asyncio.sleep(60)
        assert followed() == ["follow other"]
        await env.client.delete(NodeUpgrade.resource, "by-hand", SYSTEM_NAMESPACE)
        await asyncio.sleep(60)
        assert followed() == []

    in_place.journey(story)


@pytest.mark.soak
def test_upgrade_that_outlives_cluster_can_be_deleted() -> None:
    asked = Asked()

    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock, wrap=asked) as env:
            await env.apply(**in_place.spec(1, 1))
            await env.until_ready()
            upgraders = Upgraders(env.workloads)
            worker = (await in_place.machines(env, control_plane=False))[0].name
            upgraders.hanging.add((worker, "kubeadm-upgrader"))
            spec = {"machine": {"name": worker}, "kubernetesVersion": in_place.NEW, "nodeType": "Worker"}
            metadata = {"name": "by-hand", "namespace": SYSTEM_NAMESPACE}
            await env.client.create(NodeUpgrade.resource, {"metadata": metadata, "spec": spec})
            await asyncio.sleep(60)
            assert (worker, "kubeadm-upgrader") in upgraders.ran
            await env.client.delete(Cluster.resource, "garden", NAMESPACE)
            await env.until_gone(GARDEN)
            await asyncio.sleep(60)
            asked.count.clear()
            await asyncio.sleep(HOUR)
            assert asked.count == {}
            await env.client.delete(NodeUpgrade.resource, "by-hand", SYSTEM_NAMESPACE)
            await asyncio.sleep(60)
            assert (await left(env), followed()) == ([], [])

    run(main, epoch=in_place.EPOCH, seed=1)
