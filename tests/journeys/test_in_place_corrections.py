"""Corrections and changes by people during the upgrade of a node are followed, and none is left half-reported."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import Machine
from espalier.api.core import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, CONFIG_MAP, POD, SERVICE_ACCOUNT
from espalier.api.eksa.upgrades import ControlPlaneUpgrade, NodeUpgrade
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.eksa.vocabulary.upgrade_keys import RETRY_ANNOTATION
from espalier.api.meta import Tree
from espalier.kube.client import PatchType
from espalier.kube.transports.wire import Request, Response, Transport
from espalier.runtime.virtual import Simulation, run
from espalier.simulator.workload_clusters.workload_cluster import WorkloadCluster
from espalier.upgrades.node.containers import STEPS
from tests.support.environments import in_place_environment as in_place
from tests.support.environments.in_place_environment import NEW, until_so
from tests.support.environments.managed_environment import ManagedEnvironment, managed_environment
from tests.support.environments.upgraders import Moment, Upgraders
from tests.support.sampling import sampled
from tests.support.servers.faults import Interceptor, is_of_manager

pytestmark = pytest.mark.embedded

RIGHT = "registry.example/upgrader:right"


async def by_hand(env: ManagedEnvironment, machine: str, name: str = "by-hand") -> None:
    spec = {"machine": {"name": machine}, "kubernetesVersion": NEW, "nodeType": "Worker"}
    metadata = {"name": name, "namespace": SYSTEM_NAMESPACE}
    await env.client.create(NodeUpgrade.resource, {"metadata": metadata, "spec": spec})


async def name_image(env: ManagedEnvironment, image: str) -> None:
    patch = {"data": {NEW: image}}
    await env.client.patch(CONFIG_MAP, "in-place-upgrade", SYSTEM_NAMESPACE, patch=patch, type=PatchType.MERGE)


def reasons(*names: str) -> Callable[[Tree], bool]:
    return lambda tree: in_place.ready(tree)["reason"] in names


@pytest.mark.soak
def test_pod_without_its_image_gets_the_corrected_one() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        worker = (await in_place.machines(env, control_plane=False))[0].name
        pulling = await stuck_in_pulling(env, upgraders, worker)
        await name_image(env, RIGHT)
        pulling.cancel()
        upgraders.happening = None
        await until_so(env, NodeUpgrade.resource, "by-hand", lambda tree: bool(tree["status"].get("completed")))

    in_place.journey(story)


async def stuck_in_pulling(env: ManagedEnvironment, upgraders: Upgraders, worker: str) -> asyncio.Future[None]:
    forever: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def happening(workload: WorkloadCluster, node: str, container: str, moment: Moment) -> None:
        waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
        status = {"phase": "Pending", "initContainerStatuses": [{"name": container, "state": waiting}]}
        name = f"{node}-node-upgrader"
        patch = {"status": status}
        await workload.client.patch(
            POD, name, SYSTEM_NAMESPACE, patch=patch, type=PatchType.MERGE, subresource="status"
        )
        await forever

    upgraders.happening = happening
    await by_hand(env, worker)
    await until_so(env, NodeUpgrade.resource, "by-hand", reasons("PodNotStarting"))
    return forever


@pytest.mark.soak
def test_failed_step_restarts_with_a_corrected_image() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        worker = (await in_place.machines(env, control_plane=False))[0].name
        upgraders.failing[worker, "components-copier"] = "the upgrader image has Kubernetes v1.30.0"
        await by_hand(env, worker)
        await until_so(env, NodeUpgrade.resource, "by-hand", reasons("CopyingComponentsFailed"))
        upgraders.failing.clear()
        await asyncio.sleep(600)
        assert upgraders.ran == [(worker, "components-copier")], "by itself nothing is being retried"
        await name_image(env, RIGHT)
        await until_so(env, NodeUpgrade.resource, "by-hand", lambda tree: bool(tree["status"].get("completed")))

    in_place.journey(story)


@pytest.mark.parametrize(
    "image", sampled(["", "registry.example/upgrader:v1\nprivileged: true", "https://registry.example/x"], 1)
)
def test_invalid_image_is_reported_and_not_run_on_node(image: str) -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        worker = (await in_place.machines(env, control_plane=False))[0].name
        await name_image(env, image)
        await by_hand(env, worker)
        wanted = "UpgraderImageInvalid" if image else "UpgraderImageMissing"
        tree = await until_so(env, NodeUpgrade.resource, "by-hand", reasons(wanted))
        assert "eksa-system/in-place-upgrade" in in_place.ready(tree)["message"]
        assert "\n" not in in_place.ready(tree)["message"]
        assert upgraders.ran == []
        await name_image(env, RIGHT)
        await until_so(env, NodeUpgrade.resource, "by-hand", lambda tree: bool(tree["status"].get("completed")))

    in_place.journey(story)


Change = Callable[[ManagedEnvironment], Awaitable[None]]


async def set_time_servers(env: ManagedEnvironment, ntp: Tree | None) -> None:
    """Edit the control plane by hand, in a field that is nobody's: a Cluster would be refused."""
    patch: Tree = {"spec": {"kubeadmConfigSpec": {"ntp": ntp}}}
    resource = KubeadmControlPlane.resource
    await env.client.patch(resource, "garden", SYSTEM_NAMESPACE, patch=patch, type=PatchType.MERGE)


@pytest.mark.soak
@pytest.mark.parametrize("container", sampled(["components-copier", "kubeadm-upgrader", "done"], 1))
def test_new_node_is_noted_despite_edited_spec(container: str) -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        plane = (await in_place.machines(env, control_plane=True))[0].name

        async def happening(_: WorkloadCluster, node: str, what: str, when: Moment) -> None:
            if (node, what, when) == (plane, container, Moment.RUNS):
                upgraders.happening = None
                await set_time_servers(env, {"enabled": True})

        upgraders.happening = happening
        await env.change(kubernetesVersion="1.36")
        await until_so(env, Machine.resource, plane, lambda tree: bool(tree["spec"]["version"] == NEW))
        await asyncio.sleep(60)
        upgrade = await until_so(
            env, ControlPlaneUpgrade.resource, "garden-cp-upgrade", reasons("FieldsNotChangeableInPlace")
        )
        assert "FieldsNotChangeableInPlace" in in_place.ready(upgrade)["reason"]
        await set_time_servers(env, None)
        await env.until_ready()
        assert await in_place.marks(env) == []

    in_place.journey(story)


@pytest.mark.soak
@pytest.mark.parametrize("when", sampled(["while a step runs", "after a step failed"], 0))
def test_no_right_stays_when_a_machine_goes_midway(when: str) -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        worker = (await in_place.machines(env, control_plane=False))[0].name
        if when == "while a step runs":
            upgraders.hanging.add((worker, "kubeadm-upgrader"))
        else:
            upgraders.failing[worker, "kubeadm-upgrader"] = "no"
        await by_hand(env, worker)
        await asyncio.sleep(20)
        assert len(await rights(env)) == 3
        await env.client.delete(Machine.resource, worker, SYSTEM_NAMESPACE)
        await asyncio.sleep(300)
        assert await rights(env) == []
        await env.client.delete(NodeUpgrade.resource, "by-hand", SYSTEM_NAMESPACE)
        await asyncio.sleep(60)
        assert await rights(env) == []

    in_place.journey(story)


@pytest.mark.soak
def test_next_upgrade_removes_rights_of_earlier_one() -> None:
    async def story(env: ManagedEnvironment, _: Upgraders) -> None:
        worker = (await in_place.machines(env, control_plane=False))[0].name
        body = {"metadata": {"name": "gone-node-upgrader", "labels": {"eks-d-upgrader": "true"}}, "rules": []}
        await in_place.reach(env).client.create(CLUSTER_ROLE, body)
        await by_hand(env, worker)
        await asyncio.sleep(5)
        await env.client.delete(Machine.resource, worker, SYSTEM_NAMESPACE)
        await asyncio.sleep(300)
        assert await rights(env) == []

    in_place.journey(story)


async def rights(env: ManagedEnvironment) -> list[str]:
    client = in_place.reach(env).client
    kinds = (CLUSTER_ROLE, CLUSTER_ROLE_BINDING, SERVICE_ACCOUNT)
    results = [await client.list(kind, labels="eks-d-upgrader") for kind in kinds]
    return [f"{item.kind} {item.name}" for listed in results for item in listed.items]


class Refused(Interceptor):
    """The manager's writes that an API server refused."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def request(self, transport: Transport, request: Request) -> Response:
        response = await transport.request(request)
        if response.status == 409 and is_of_manager(request):
            self.seen.append(f"{request.method} {request.path}")
        return response


@pytest.mark.soak
@pytest.mark.parametrize("kind", sampled(["NodeUpgrade", "ControlPlaneUpgrade"], 0))
def test_upgrade_by_hand_is_taken_up_without_conflict(kind: str) -> None:
    refused = Refused()

    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock, wrap=refused) as env:
            await env.apply(**in_place.spec(1, 1))
            await env.until_ready()
            Upgraders(env.workloads)
            worker = (await in_place.machines(env, control_plane=False))[0].name
            if kind == "NodeUpgrade":
                await by_hand(env, worker)
                await until_so(
                    env,
                    NodeUpgrade.resource,
                    "by-hand",
                    lambda tree: bool((tree.get("status") or {}).get("completed")),
                )
            else:
                spec = {
                    "controlPlane": {"name": "garden"},
                    "machinesRequireUpgrade": [{"name": "nobody"}],
                    "kubernetesVersion": NEW,
                    "controlPlaneSpecData": "e30=",
                }
                metadata = {"name": "by-hand", "namespace": SYSTEM_NAMESPACE}
                await env.client.create(ControlPlaneUpgrade.resource, {"metadata": metadata, "spec": spec})
                await until_so(env, ControlPlaneUpgrade.resource, "by-hand", reasons("VersionDiffers"))
            assert refused.seen == []

    run(main, epoch=in_place.EPOCH, seed=1)


@pytest.mark.soak
def test_retry_replaces_a_pod_that_can_not_continue() -> None:
    """Steps before it have run; what it needs, a Secret for example, is made with the next pod."""

    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        worker = (await in_place.machines(env, control_plane=False))[0].name
        forever: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def happening(workload: WorkloadCluster, node: str, container: str, moment: Moment) -> None:
            if container != "kubeadm-upgrader":
                return
            before = [step.container for step in STEPS][: [step.container for step in STEPS].index(container)]
            ended = {"terminated": {"exitCode": 0, "reason": "Completed"}}
            waiting = {"waiting": {"reason": "CreateContainerConfigError", "message": 'secret "x" not found'}}
            states = [{"name": name, "state": ended} for name in before] + [{"name": container, "state": waiting}]
            status = {"status": {"phase": "Pending", "initContainerStatuses": states}}
            pod = f"{node}-node-upgrader"
            await workload.client.patch(
                POD, pod, SYSTEM_NAMESPACE, patch=status, type=PatchType.MERGE, subresource="status"
            )
            await forever

        upgraders.happening = happening
        await by_hand(env, worker)
        await until_so(env, NodeUpgrade.resource, "by-hand", reasons("PodNotStarting"))
        upgraders.happening = None
        asked: Tree = {"metadata": {"annotations": {RETRY_ANNOTATION: "now"}}}
        await env.client.patch(NodeUpgrade.resource, "by-hand", SYSTEM_NAMESPACE, patch=asked, type=PatchType.MERGE)
        await until_so(env, NodeUpgrade.resource, "by-hand", lambda tree: bool(tree["status"].get("completed")))

    in_place.journey(story)
