"""A change while a cluster to be upgraded in place is still being created waits until it is, and can be taken back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.upgrades import PAUSED_FOR_UPGRADE
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.eksa.vocabulary.upgrade_keys import IN_PLACE_CONTROL_PLANE
from espalier.api.meta import Tree
from espalier.clusterapi.contract import PAUSED_ANNOTATION
from espalier.kube.client import PatchType
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.in_place_environment import EPOCH, NEW, OLD, identities, machines, marks, spec
from tests.support.environments.managed_environment import GARDEN, NAMESPACE, ManagedEnvironment, managed_environment
from tests.support.environments.upgraders import Upgraders
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded


def creation(
    story: Callable[[ManagedEnvironment], Awaitable[None]], *, control_planes: int = 1, workers: int = 1
) -> None:
    """Tell a story of a cluster that nobody has waited for."""

    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock, settle_time=0) as env:  # changes begin in the creation
            Upgraders(env.workloads)
            await env.apply(**spec(control_planes, workers))
            await story(env)

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("seconds", "control_planes"),
    sampled([(0.05, 1), (0.5, 1), (0.8, 1), (1.0, 1), (1.5, 1), (0.2, 3), (1.2, 3)], 3),
)
def test_version_changed_in_creation_follows_in_place(seconds: float, control_planes: int) -> None:
    async def story(env: ManagedEnvironment) -> None:
        await asyncio.sleep(seconds)
        before = {machine.name for machine in await machines(env)}
        await env.change(kubernetesVersion="1.36")
        await env.until_ready()
        assert await env.versions() == [NEW] * (control_planes + 1)
        assert before <= (await identities(env)).keys(), "no machine is replaced"
        assert await marks(env) == []

    creation(story, control_planes=control_planes)


def test_cluster_tells_that_its_new_version_waits() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await asyncio.sleep(0.5)
        await env.change(kubernetesVersion="1.36")
        await asyncio.sleep(0.1)
        cluster = (await env.client.get(Cluster.resource, GARDEN.name, NAMESPACE)).decode(Cluster)
        messages = {condition.type: condition.message for condition in cluster.status.conditions}
        assert f"Kubernetes {NEW} follows" in messages["ControlPlaneReady"]
        assert f"Kubernetes {NEW} follows" in messages["Ready"]
        assert await marks(env) == []

    creation(story)


@pytest.mark.soak
def test_version_changed_in_creation_can_be_reverted() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await asyncio.sleep(0.5)
        await env.change(kubernetesVersion="1.36")
        await asyncio.sleep(0.1)
        await env.change(kubernetesVersion="1.35")
        await env.until_ready()
        assert await env.versions() == [OLD] * 2
        assert await marks(env) == []

    creation(story)


@pytest.mark.soak
def test_a_rollout_by_replacement_need_not_wait() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await asyncio.sleep(0.5)
        await env.change(kubernetesVersion="1.36")
        await asyncio.sleep(0.1)
        await env.change(controlPlaneConfiguration={"count": 1, "upgradeRolloutStrategy": None})
        await env.until_ready()
        assert await env.versions() == [NEW] * 2
        assert await marks(env) == []

    creation(story)


@pytest.mark.soak
def test_paused_creation_goes_on_when_reverted() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await asyncio.sleep(0.5)
        await env.change(kubernetesVersion="1.36")
        annotations = {PAUSED_ANNOTATION: PAUSED_FOR_UPGRADE, IN_PLACE_CONTROL_PLANE: "true"}
        held: Tree = {"metadata": {"annotations": annotations}, "spec": {"version": NEW}}
        resource = KubeadmControlPlane.resource
        await env.client.patch(resource, "garden", SYSTEM_NAMESPACE, patch=held, type=PatchType.MERGE)
        await asyncio.sleep(60)
        assert await marks(env), "it is held"
        await env.change(kubernetesVersion="1.35")
        await env.until_ready()
        assert await env.versions() == [OLD] * 2
        assert await marks(env) == []

    creation(story)
