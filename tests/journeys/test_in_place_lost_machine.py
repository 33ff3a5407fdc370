"""A control plane machine is lost while the others are upgraded in place: it is replaced, and the upgrade goes on."""

from __future__ import annotations

import pytest

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import Machine
from espalier.api.eksa.upgrades import ControlPlaneUpgrade
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.eksa.vocabulary.upgrade_keys import REPLACING
from espalier.clusterapi.contract import PAUSED_ANNOTATION
from espalier.kube.client import PatchType
from espalier.simulator.workload_clusters.workload_cluster import WorkloadCluster
from tests.support.environments.in_place_environment import (
    IN_PLACE,
    NEW,
    identities,
    journey,
    machines,
    marks,
    ready,
    until_machines,
    until_so,
)
from tests.support.environments.in_place_watcher import say_ready
from tests.support.environments.managed_environment import ManagedEnvironment
from tests.support.environments.upgraders import Moment, Upgraders
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded

UPGRADE = (ControlPlaneUpgrade.resource, "garden-cp-upgrade")


async def annotated(env: ManagedEnvironment) -> dict[str, str]:
    kubeadm_control_plane = await env.client.get(KubeadmControlPlane.resource, "garden", SYSTEM_NAMESPACE)
    return dict(kubeadm_control_plane.metadata.annotations)


async def arrives(env: ManagedEnvironment, *, lost: str, survivors: dict[str, str]) -> None:
    """The upgrade ends: one machine is another, all others are the same ones."""
    await env.until_ready(seconds=7200)
    after = await identities(env)
    assert lost not in after
    assert {name: uid for name, uid in survivors.items() if lost not in name}.items() <= after.items()
    assert len(await machines(env, control_plane=True)) == 3
    assert set(await env.versions()) == {NEW}
    assert await marks(env) == []
    assert REPLACING not in await annotated(env)


@pytest.mark.demand("U17")
@pytest.mark.soak
@pytest.mark.parametrize("step", sampled(["components-copier", "containerd-upgrader", "kubeadm-upgrader"], 2))
def test_the_first_machine_fails_and_is_deleted(step: str) -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        before = await identities(env)
        planes = [machine.name for machine in await machines(env, control_plane=True)]
        upgraders.failing[planes[0], step] = "the disk is broken"
        await env.change(kubernetesVersion="1.36")
        await until_so(env, *UPGRADE, lambda item: "the disk is broken" in ready(item)["message"])
        await env.client.delete(Machine.resource, planes[0], SYSTEM_NAMESPACE)
        await arrives(env, lost=planes[0], survivors=before)

    journey(story, control_planes=3, workers=1)


@pytest.mark.soak
def test_deleted_machine_is_replaced_before_the_next() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        before = await identities(env)
        planes = [machine.name for machine in await machines(env, control_plane=True)]
        told = []

        async def delete(_: WorkloadCluster, node: str, container: str, moment: Moment) -> None:
            if (node, container, moment) == (planes[0], "kubeadm-upgrader", Moment.RUNS):
                upgraders.happening = None
                await env.client.delete(Machine.resource, planes[2], SYSTEM_NAMESPACE)

        upgraders.happening = delete
        await env.change(kubernetesVersion="1.36")
        result = await until_so(env, *UPGRADE, lambda item: ready(item)["reason"] == "ReplacingMachine")
        told.append(ready(result)["message"])
        assert REPLACING in await annotated(env)
        assert PAUSED_ANNOTATION not in await annotated(env)
        await until_so(
            env,
            KubeadmControlPlane.resource,
            "garden",
            lambda kubeadm_control_plane: PAUSED_ANNOTATION in kubeadm_control_plane["metadata"]["annotations"],
        )
        assert planes[1] not in {node for node, _ in upgraders.ran}, "the next one waits for the new one"
        await arrives(env, lost=planes[2], survivors=before)
        assert "before the next" in told[0]

    journey(story, control_planes=3, workers=1)


@pytest.mark.soak
def test_false_report_of_a_replacement_replaces_none() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        before = await identities(env)

        async def say_so(_: WorkloadCluster, _node: str, container: str, moment: Moment) -> None:
            if (container, moment) == ("components-copier", Moment.RUNS):
                upgraders.happening = None
                patch = {"metadata": {"annotations": {REPLACING: "so"}}}
                resource = KubeadmControlPlane.resource
                await env.client.patch(resource, "garden", SYSTEM_NAMESPACE, patch=patch, type=PatchType.MERGE)
                await env.change(kubernetesVersion="1.36")

        upgraders.happening = say_so
        await env.change(
            controlPlaneConfiguration={"count": 1, "apiServerExtraArgs": {"v": "5"}, "upgradeRolloutStrategy": IN_PLACE}
        )
        await env.until_ready(seconds=7200)
        assert set(await env.versions()) == {NEW}
        assert await identities(env) == before
        assert await marks(env) == []

    journey(story, control_planes=1, workers=1)


@pytest.mark.soak
def test_lost_machine_leads_to_replacement_of_the_rest() -> None:
    """The pause that came back for the upgrade goes with it."""

    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        planes = [machine.name for machine in await machines(env, control_plane=True)]
        upgraders.failing[planes[0], "components-copier"] = "the disk is broken"
        await env.change(kubernetesVersion="1.36")
        await until_so(env, *UPGRADE, lambda item: "the disk is broken" in ready(item)["message"])
        upgraders.failing["garden", "components-copier"] = "this one is broken, too"
        await env.client.delete(Machine.resource, planes[0], SYSTEM_NAMESPACE)
        await until_so(env, *UPGRADE, lambda item: "this one is broken, too" in ready(item)["message"], seconds=3600)
        how = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}
        await env.change(controlPlaneConfiguration={"count": 3, "upgradeRolloutStrategy": how})
        upgraders.failing.clear()
        await env.until_ready(seconds=7200)
        assert set(await env.versions()) == {NEW}
        assert await marks(env) == []

    journey(story, control_planes=3, workers=1)


@pytest.mark.soak
def test_machine_lost_just_before_is_replaced_first() -> None:
    async def story(env: ManagedEnvironment, _upgraders: Upgraders) -> None:
        planes = [machine.name for machine in await machines(env, control_plane=True)]
        await env.client.delete(Machine.resource, planes[0], SYSTEM_NAMESPACE)
        await env.change(kubernetesVersion="1.36")
        await env.until_ready(seconds=7200)
        assert set(await env.versions()) == {NEW}
        assert len(await machines(env, control_plane=True)) == 3

    journey(story, control_planes=3, workers=1)


@pytest.mark.soak
def test_dead_node_is_replaced_and_the_upgrade_goes_on() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        before = await identities(env)
        planes = [machine.name for machine in await machines(env, control_plane=True)]

        async def die(workload: WorkloadCluster, node: str, container: str, moment: Moment) -> None:
            if (node, container, moment) == (planes[0], "done", Moment.ENDED):
                upgraders.happening = None
                await say_ready(env, workload, planes[1], "Unknown")

        upgraders.happening = die
        await env.change(kubernetesVersion="1.36")
        await arrives(env, lost=planes[1], survivors=before)

    journey(story, control_planes=3, workers=1)


@pytest.mark.soak
def test_shrinking_control_plane_is_upgraded_first() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        planes = [machine.name for machine in await machines(env, control_plane=True)]

        async def scale(_: WorkloadCluster, node: str, container: str, moment: Moment) -> None:
            if (node, container, moment) == (planes[0], "kubeadm-upgrader", Moment.RUNS):
                upgraders.happening = None
                await env.change(controlPlaneConfiguration={"count": 1, "upgradeRolloutStrategy": IN_PLACE})

        upgraders.happening = scale
        await env.change(kubernetesVersion="1.36")
        await until_so(env, *UPGRADE, lambda item: bool(item.get("status")))
        await env.until_ready(seconds=7200)
        assert len(await machines(env, control_plane=True)) == 1
        assert set(await env.versions()) == {NEW}

    journey(story, control_planes=3, workers=1)


@pytest.mark.soak
def test_machine_added_without_pause_is_reported() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        plane = (await machines(env, control_plane=True))[0].name
        upgraders.failing[plane, "components-copier"] = "the disk is full"
        await env.change(kubernetesVersion="1.36")
        await until_so(env, *UPGRADE, lambda item: "the disk is full" in ready(item)["message"])
        unpaused = {"metadata": {"annotations": {PAUSED_ANNOTATION: None}}}
        await env.client.patch(
            KubeadmControlPlane.resource, "garden", SYSTEM_NAMESPACE, patch=unpaused, type=PatchType.MERGE
        )
        await until_machines(env, lambda value: len(value) == 3)
        await env.change(controlPlaneConfiguration={"count": 1, "upgradeRolloutStrategy": None})
        await env.until_ready(seconds=7200)
        assert len(await machines(env, control_plane=True)) == 1
        assert set(await env.versions()) == {NEW}

    journey(story, workers=1)


@pytest.mark.soak
def test_growing_groups_are_upgraded_first() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        before = await identities(env)
        planes = [machine.name for machine in await machines(env, control_plane=True)]

        async def scale(_: WorkloadCluster, node: str, container: str, moment: Moment) -> None:
            if (node, container, moment) == (planes[0], "kubeadm-upgrader", Moment.RUNS):
                upgraders.happening = None
                group = {"name": "md-0", "count": 3, "upgradeRolloutStrategy": IN_PLACE}
                larger = {"count": 5, "upgradeRolloutStrategy": IN_PLACE}
                await env.change(controlPlaneConfiguration=larger, workerNodeGroupConfigurations=[group])

        upgraders.happening = scale
        await env.change(kubernetesVersion="1.36")
        await until_so(env, *UPGRADE, lambda item: bool(item.get("status")))
        await env.until_ready(seconds=7200)
        assert before.items() <= (await identities(env)).items()
        assert len(await machines(env, control_plane=True)) == 5
        assert len(await machines(env, control_plane=False)) == 3
        assert set(await env.versions()) == {NEW}

    journey(story, control_planes=3, workers=2)


@pytest.mark.soak
def test_next_worker_waits_for_a_deleted_one() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        workers = [machine.name for machine in await machines(env, control_plane=False)]
        begun: list[bool] = []

        async def delete(_: WorkloadCluster, node: str, container: str, moment: Moment) -> None:
            if (node, container, moment) == (workers[0], "kubeadm-upgrader", Moment.RUNS):
                await env.client.delete(Machine.resource, workers[0], SYSTEM_NAMESPACE)
            if (node, container, moment) == (workers[1], "components-copier", Moment.RUNS):
                begun.append(all(machine.decode(Machine).status.node_ref for machine in await machines(env)))

        upgraders.happening = delete
        await env.change(kubernetesVersion="1.36")
        await until_so(env, *UPGRADE, lambda item: bool(item.get("status")))
        await env.until_ready(seconds=7200)
        assert begun == [True], "the machine in its place is a node by then"
        assert set(await env.versions()) == {NEW}

    journey(story, control_planes=1, workers=2)
