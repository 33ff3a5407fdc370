"""Somebody acts at any step of an upgrade in place: it ends, or says how to go on, and that is done here and works."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment, MachineSet
from espalier.api.core import POD
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.upgrades import ControlPlaneUpgrade, MachineDeploymentUpgrade, NodeUpgrade
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.eksa.vocabulary.upgrade_keys import IN_PLACE_CONTROL_PLANE, IN_PLACE_DEPLOYMENT
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.kube.client import PatchType
from espalier.kube.errors import Forbidden, KubeError
from espalier.simulator.workload_clusters.workload_cluster import WorkloadCluster
from espalier.upgrades.names import upgrader
from espalier.upgrades.node.containers import STEPS
from tests.support.environments.in_place_environment import NEW, OLD, machines, ready_cluster
from tests.support.environments.in_place_watcher import CALM, HOURS, Watcher, tell
from tests.support.environments.managed_environment import NAMESPACE, ManagedEnvironment
from tests.support.environments.upgraders import GARDEN, Moment, Upgraders
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded

PAUSED = "anywhere.eks.amazonaws.com/paused"
CONTAINERS = [step.container for step in STEPS]
ALL = [(container, at) for container in CONTAINERS for at in Moment]
MOMENTS = sampled([(moment,) for moment in ALL], ALL.index(("kubeadm-upgrader", Moment.ENDED)))
"""In every run: when kubeadm is through, and no way leads back. All of them in `make soak`."""
PLACES = sampled(
    [(moment, worker) for worker in (False, True) for moment in ALL],
    ALL.index(("kubeadm-upgrader", Moment.ENDED)),
)
"""The same, and a worker on which nothing was changed yet."""

Act = Callable[[ManagedEnvironment, Upgraders, str], Awaitable[None]]
"""A change made to a cluster while the node of this name is being upgraded."""


class Once:
    """Has something done once, at one moment of the first control plane node or worker that comes to it."""

    def __init__(self, act: Callable[[str], Awaitable[None]], where: tuple[str, Moment], *, worker: bool) -> None:
        self.done = asyncio.Event()
        self.node = ""
        self._act, self._where, self._worker = act, where, worker
        self._acting: set[asyncio.Task[None]] = set()

    async def __call__(self, _workload: WorkloadCluster, node: str, container: str, moment: Moment) -> None:
        if self.node or (container, moment) != self._where or ("-md-" in node) is not self._worker:
            return
        self.node = node
        # Beside the pod, as a person acts: what is done may end the pod that this was called from.
        task = asyncio.create_task(self._do(node))
        self._acting.add(task)

    async def _do(self, node: str) -> None:
        await self._act(node)
        self.done.set()


def acted(
    act: Act,
    where: tuple[str, Moment],
    *,
    worker: bool,
    end: Callable[[ManagedEnvironment, Watcher], Awaitable[None]] | None = None,
    expected: tuple[str, ...] = (),
) -> None:
    """A cluster of three control plane nodes and two workers is upgraded, and this is done to it at that moment.

    `expected` are patterns of what the watcher of all writes may see here, and does not in other stories.
    """

    async def story(env: ManagedEnvironment, upgraders: Upgraders, watcher: Watcher) -> None:
        upgraders.happening = once = Once(partial(act, env, upgraders), where, worker=worker)
        await env.change(kubernetesVersion="1.36")
        async with asyncio.timeout(HOURS):
            await once.done.wait()
        await (end or is_upgraded)(env, watcher)
        assert [what for what in watcher.broken if not any(re.match(item, what) for item in expected)] == []

    tell(ready_cluster(3, 2), story)


async def is_upgraded(env: ManagedEnvironment, watcher: Watcher, version: str = NEW) -> None:
    """It ends by itself, whole, and leaves nothing."""
    asked = (await env.client.get(Cluster.resource, GARDEN.name, NAMESPACE)).metadata.generation
    await env.until(lambda item: bool(item.status.ready) and item.status.observed_generation >= asked, seconds=HOURS)
    await asyncio.sleep(CALM)
    assert (watcher.left(), watcher.versions()) == ([], {version})


@pytest.mark.soak
@pytest.mark.parametrize(("where", "worker"), PLACES, ids=str)
def test_its_machine_is_deleted(where: tuple[str, Moment], *, worker: bool) -> None:
    async def delete(env: ManagedEnvironment, _upgraders: Upgraders, node: str) -> None:
        await env.client.delete(Machine.resource, node, SYSTEM_NAMESPACE)

    async def end(env: ManagedEnvironment, watcher: Watcher) -> None:
        await is_upgraded(env, watcher)
        planes = await machines(env, control_plane=True)
        assert (len(planes), len(await machines(env))) == (3, 5)

    acted(delete, where, worker=worker, end=end, expected=("Machine ", "nodes "))


@pytest.mark.demand("U46")
@pytest.mark.soak
@pytest.mark.parametrize("where", MOMENTS, ids=str)
def test_its_node_is_rebooted(where: tuple[str, Moment]) -> None:
    """The pod went down with it: the kubelet says so when it is back."""

    async def reboot(env: ManagedEnvironment, upgraders: Upgraders, node: str) -> None:
        workload = env.workloads.reach(GARDEN)
        assert workload is not None
        upgraders.silence(node)
        lost = {"phase": "Failed", "reason": "Terminated", "message": "Pod was terminated in response to node shutdown"}
        patch: Tree = {"status": lost}
        await workload.client.patch(
            POD, upgrader(node), SYSTEM_NAMESPACE, patch=patch, type=PatchType.MERGE, subresource="status"
        )
        await asyncio.sleep(30)
        upgraders.wake(node)

    acted(reboot, where, worker=False)


@pytest.mark.soak
@pytest.mark.parametrize(("where", "worker"), PLACES, ids=str)
def test_the_cluster_is_paused_and_goes_on(where: tuple[str, Moment], *, worker: bool) -> None:
    async def pause(env: ManagedEnvironment, _upgraders: Upgraders, _node: str) -> None:
        patch: Tree = {"metadata": {"annotations": {PAUSED: "true"}}}
        await env.client.patch(Cluster.resource, GARDEN.name, NAMESPACE, patch=patch, type=PatchType.MERGE)
        await asyncio.sleep(600)
        ran = {node for node, _ in _upgraders.ran}
        await asyncio.sleep(600)
        assert {node for node, _ in _upgraders.ran} == ran, "no further node is begun with"
        patch = {"metadata": {"annotations": {PAUSED: None}}}
        await env.client.patch(Cluster.resource, GARDEN.name, NAMESPACE, patch=patch, type=PatchType.MERGE)

    acted(pause, where, worker=worker)


@pytest.mark.soak
@pytest.mark.parametrize(("where", "worker"), PLACES, ids=str)
def test_workers_are_scaled(where: tuple[str, Moment], *, worker: bool) -> None:
    async def scale(env: ManagedEnvironment, _upgraders: Upgraders, _node: str) -> None:
        cluster = await env.client.get(Cluster.resource, GARDEN.name, NAMESPACE)
        groups = cluster.tree["spec"]["workerNodeGroupConfigurations"]
        await env.change(workerNodeGroupConfigurations=[{**groups[0], "count": 3}])

    async def end(env: ManagedEnvironment, watcher: Watcher) -> None:
        await is_upgraded(env, watcher)
        assert len(await machines(env, control_plane=False)) == 3

    acted(scale, where, worker=worker, end=end, expected=("Machine ",))


@pytest.mark.soak
@pytest.mark.parametrize(("where", "worker"), PLACES, ids=str)
def test_the_cluster_is_deleted(where: tuple[str, Moment], *, worker: bool) -> None:
    async def delete(env: ManagedEnvironment, _upgraders: Upgraders, _node: str) -> None:
        await env.client.delete(Cluster.resource, GARDEN.name, NAMESPACE)

    async def end(env: ManagedEnvironment, _watcher: Watcher) -> None:
        async with asyncio.timeout(HOURS):
            await env.until_gone()
        for resource in (Machine.resource, NodeUpgrade.resource, ControlPlaneUpgrade.resource):
            assert (await env.client.list(resource, SYSTEM_NAMESPACE)).items == []

    acted(delete, where, worker=worker, end=end, expected=("Machine ", "nodes "))


@pytest.mark.demand("U15")
@pytest.mark.soak
@pytest.mark.parametrize("where", MOMENTS, ids=str)
def test_node_upgrades_for_other_nodes_can_be_written(where: tuple[str, Moment]) -> None:
    """Both writers want the same; the watcher sees to it that never two nodes are in work."""

    async def write(env: ManagedEnvironment, _upgraders: Upgraders, node: str) -> None:
        for machine in await machines(env, control_plane=True):
            if machine.name != node:
                metadata = {"name": f"hand-{machine.name}", "namespace": SYSTEM_NAMESPACE}
                spec = {"machine": {"name": machine.name}, "kubernetesVersion": NEW, "nodeType": "ControlPlane"}
                await env.client.create(NodeUpgrade.resource, {"metadata": metadata, "spec": spec})

    async def end(env: ManagedEnvironment, watcher: Watcher) -> None:
        asked = (await env.client.get(Cluster.resource, GARDEN.name, NAMESPACE)).metadata.generation
        await env.until(
            lambda item: bool(item.status.ready) and item.status.observed_generation >= asked, seconds=HOURS
        )
        for node_upgrade in (await env.client.list(NodeUpgrade.resource, SYSTEM_NAMESPACE)).items:
            assert node_upgrade.name.startswith("hand-")
            assert node_upgrade.tree["status"]["completed"], node_upgrade.tree["status"]
            await env.client.delete(NodeUpgrade.resource, node_upgrade.name, SYSTEM_NAMESPACE)
        await is_upgraded(env, watcher)

    beside_workers = ("pods .*-md-.* run", "nodes .*-md-.* are cordoned", "nodes .*-md-.* are out of service")
    acted(write, where, worker=False, end=end, expected=beside_workers)


@pytest.mark.soak
@pytest.mark.parametrize(("where", "worker"), PLACES, ids=str)
def test_the_change_is_taken_back(where: tuple[str, Moment], *, worker: bool) -> None:
    """It is refused, and goes on; or it is accepted: then all goes back, or a sentence says to ask for it again."""
    refusals: list[str] = []

    async def take_back(env: ManagedEnvironment, _upgraders: Upgraders, _node: str) -> None:
        try:
            await env.change(kubernetesVersion="1.35")
        except Forbidden as error:
            refusals.append(str(error))

    async def end(env: ManagedEnvironment, watcher: Watcher) -> None:
        if refusals:
            assert "reverted" in refusals[0]
            return await is_upgraded(env, watcher)
        advice = f"set {NEW} again"
        result = await env.until(
            lambda item: (
                bool(item.status.ready) or any(advice in condition.message for condition in item.status.conditions)
            ),
            seconds=HOURS,
        )
        if not result.status.ready:
            await env.change(kubernetesVersion="1.36")
        return await is_upgraded(env, watcher, OLD if result.status.ready else NEW)

    acted(take_back, where, worker=worker, end=end)


OWNERS: dict[bool, tuple[Resource, str, str]] = {
    False: (KubeadmControlPlane.resource, "garden", IN_PLACE_CONTROL_PLANE),
    True: (MachineDeployment.resource, "garden-md-0", IN_PLACE_DEPLOYMENT),
}
"""Of control plane and workers: what is upgraded, and the annotation that says so."""


@pytest.mark.soak
@pytest.mark.parametrize(("where", "worker"), PLACES, ids=str)
def test_its_annotation_is_removed(where: tuple[str, Moment], *, worker: bool) -> None:
    """No machine is replaced as long as the Cluster asks for an upgrade in place."""

    async def remove(env: ManagedEnvironment, _upgraders: Upgraders, _node: str) -> None:
        resource, name, mark = OWNERS[worker]
        patch: Tree = {"metadata": {"annotations": {mark: None}}}
        await env.client.patch(resource, name, SYSTEM_NAMESPACE, patch=patch, type=PatchType.MERGE)

    acted(remove, where, worker=worker)


@pytest.mark.soak
@pytest.mark.parametrize("worker", sampled([False, True], 0))
def test_its_removed_annotation_marks_for_replacement(*, worker: bool) -> None:
    """Annotations that were written anew stand in nobody's way."""

    async def remove(env: ManagedEnvironment, upgraders: Upgraders, node: str) -> None:
        upgraders.hanging.add((node, "kubeadm-upgrader"))
        resource, name, mark = OWNERS[worker]
        patch: Tree = {"metadata": {"annotations": {mark: None}}}
        await env.client.patch(resource, name, SYSTEM_NAMESPACE, patch=patch, type=PatchType.MERGE)
        await asyncio.sleep(600)
        upgraders.hanging.clear()
        spec = (await env.client.get(Cluster.resource, GARDEN.name, NAMESPACE)).tree["spec"]
        group = spec["workerNodeGroupConfigurations"][0] | {"upgradeRolloutStrategy": None}
        plane = {"upgradeRolloutStrategy": None}
        await env.change(
            **({"workerNodeGroupConfigurations": [group]} if worker else {"controlPlaneConfiguration": plane})
        )

    async def end(env: ManagedEnvironment, watcher: Watcher) -> None:
        await is_upgraded(env, watcher)

    where = ("components-copier", Moment.ENDED)
    acted(remove, where, worker=worker, end=end, expected=("Machine ", "nodes "))


@pytest.mark.soak
@pytest.mark.parametrize("where", MOMENTS, ids=str)
def test_its_machine_set_is_deleted(where: tuple[str, Moment]) -> None:
    """Cluster API makes another one, with other machines, once it goes on."""

    async def delete(env: ManagedEnvironment, _upgraders: Upgraders, _node: str) -> None:
        [machine_set] = (await env.client.list(MachineSet.resource, SYSTEM_NAMESPACE)).items
        await env.client.delete(MachineSet.resource, machine_set.name, SYSTEM_NAMESPACE)

    async def end(env: ManagedEnvironment, watcher: Watcher) -> None:
        await is_upgraded(env, watcher)
        assert len(await machines(env, control_plane=False)) == 2

    acted(delete, where, worker=True, end=end, expected=("Machine ", "nodes "))


@pytest.mark.soak
@pytest.mark.parametrize(("where", "worker"), PLACES, ids=str)
def test_labels_of_its_upgrades_are_removed(where: tuple[str, Moment], *, worker: bool) -> None:
    async def strip(env: ManagedEnvironment, _upgraders: Upgraders, _node: str) -> None:
        for kind in (ControlPlaneUpgrade.resource, MachineDeploymentUpgrade.resource, NodeUpgrade.resource):
            for item in (await env.client.list(kind, SYSTEM_NAMESPACE)).items:
                patch: Tree = {"metadata": {"labels": None}}
                await env.client.patch(kind, item.name, SYSTEM_NAMESPACE, patch=patch, type=PatchType.MERGE)

    acted(strip, where, worker=worker)


EDITS: dict[str, Tree] = {
    "kept-from-pods": {"spec": {"machine": {"name": "another"}}},
    "completed": {"status": {"completed": True}},
    "without-finalizer": {"metadata": {"finalizers": None}},
}


@pytest.mark.soak
@pytest.mark.parametrize("edit", sampled(EDITS, 2))
@pytest.mark.parametrize("where", MOMENTS, ids=str)
def test_its_node_upgrade_is_edited(where: tuple[str, Moment], edit: str) -> None:
    """A refused edit changes nothing; an accepted one is not believed."""

    async def change(env: ManagedEnvironment, _upgraders: Upgraders, node: str) -> None:
        subresource = "status" if "status" in EDITS[edit] else None
        try:
            await env.client.patch(
                NodeUpgrade.resource,
                f"{node}-node-upgrader",
                SYSTEM_NAMESPACE,
                patch=EDITS[edit],
                type=PatchType.MERGE,
                subresource=subresource,
            )
        except KubeError:
            assert edit == "kept-from-pods"

    async def end(env: ManagedEnvironment, watcher: Watcher) -> None:
        advice = "delete the NodeUpgrade to have the node upgraded"
        while True:
            result = await env.until(
                lambda item: (
                    bool(item.status.ready) or any(advice in condition.message for condition in item.status.conditions)
                ),
                seconds=HOURS,
            )
            if result.status.ready:
                return await is_upgraded(env, watcher)
            upgrade = await env.client.get(ControlPlaneUpgrade.resource, "garden-cp-upgrade", SYSTEM_NAMESPACE)
            message = next(
                condition["message"]
                for condition in upgrade.tree["status"]["conditions"]
                if advice in condition["message"]
            )
            await env.client.delete(NodeUpgrade.resource, message.split()[1], SYSTEM_NAMESPACE)
            await asyncio.sleep(CALM)

    acted(change, where, worker=False, end=end)
