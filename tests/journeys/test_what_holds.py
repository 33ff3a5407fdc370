"""A change that goes on for ever says what holds it: the object, its condition, since when, and what helps."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest

from espalier.api import conditions as condition_list
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment, MachineSet
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Condition, Tree
from espalier.api.resource import Resource
from espalier.clusterapi import contract
from espalier.clusters.design import names
from espalier.kube.client import PatchType
from espalier.kube.objects import Object
from espalier.providers.docker.cluster_api import DockerCluster
from espalier.runtime.virtual import Simulation, run
from espalier.simulator.controller import Timing
from tests.support.environments.managed_clusters import BrokenImages
from tests.support.environments.managed_environment import (
    CALM,
    GARDEN,
    MANAGER_AGENT,
    ManagedEnvironment,
    managed_environment,
)
from tests.support.objects.unguarded_clusters import the_cluster
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = 3600.0


def journey(story: Callable[[ManagedEnvironment], Awaitable[None]], timing: Timing = Timing()) -> None:  # noqa: B008  frozen
    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock, timing=timing) as env:
            await env.apply()
            await env.until_ready()
            await story(env)

    run(main, epoch=EPOCH, seed=1)


async def those(env: ManagedEnvironment, resource: Resource, *, is_worker: bool = True) -> list[Object]:
    items = (await env.client.list(resource, SYSTEM_NAMESPACE)).items
    if resource != Machine.resource:
        return items
    return [item for item in items if (contract.CONTROL_PLANE_LABEL not in item.metadata.labels) == is_worker]


async def edit(env: ManagedEnvironment, object_: Object, resource: Resource, patch: Tree) -> None:
    await env.client.patch(resource, object_.name, object_.namespace, patch=patch, type=PatchType.MERGE)


async def condition_of(env: ManagedEnvironment, type_: str) -> Condition:
    value = condition_list.get((await the_cluster(env)).status.conditions, type_)
    assert value is not None
    return value


PAUSE: Tree = {"metadata": {"annotations": {contract.PAUSED_ANNOTATION: "true"}}}
RESUME: Tree = {"metadata": {"annotations": {contract.PAUSED_ANNOTATION: None}}}
BY_SPEC: tuple[Tree, Tree] = ({"spec": {"paused": True}}, {"spec": {"paused": False}})

PAUSED = {
    "a MachineSet": (MachineSet.resource, True, PAUSE, RESUME),
    "a worker": (Machine.resource, True, PAUSE, RESUME),
    "a control plane machine": (Machine.resource, False, PAUSE, RESUME),
    "a MachineDeployment": (MachineDeployment.resource, True, PAUSE, RESUME),
    "a MachineDeployment, by its spec": (MachineDeployment.resource, True, *BY_SPEC),
    "the control plane": (KubeadmControlPlane.resource, True, PAUSE, RESUME),
    "the infrastructure": (DockerCluster.resource, True, PAUSE, RESUME),
}
"""All that is paused: an upgrade waits for ever, or does not depend on it."""


@pytest.mark.parametrize("what", sampled([*PAUSED], 1))
def test_upgrade_held_by_a_pause_names_it_and_resumes(what: str) -> None:
    resource, is_worker, pause, resume = PAUSED[what]

    async def story(env: ManagedEnvironment) -> None:
        held = await those(env, resource, is_worker=is_worker)
        for item in held:
            await edit(env, item, resource, pause)
        await env.change(kubernetesVersion="1.36")
        await asyncio.sleep(CALM)
        status = (await the_cluster(env)).status
        if not status.ready:
            assert status.failure_reason == "ClusterAPIPaused"
            assert f"{resource.kind} {held[0].key} is paused: " in (status.failure_message or "")
        else:
            assert resource == DockerCluster.resource
        for element in held:
            await edit(env, element, resource, resume)
        await env.until_ready()

    journey(story)


LABELS = {
    "the cluster of a MachineSet": (MachineSet.resource, True, contract.CLUSTER_NAME_LABEL, "other"),
    "the group of a MachineSet": (MachineSet.resource, True, contract.DEPLOYMENT_NAME_LABEL, "other"),
    "no group of a MachineSet": (MachineSet.resource, True, contract.DEPLOYMENT_NAME_LABEL, None),
    "the cluster of a worker": (Machine.resource, True, contract.CLUSTER_NAME_LABEL, "other"),
    "the cluster of a control plane machine": (Machine.resource, False, contract.CLUSTER_NAME_LABEL, "other"),
    "the role of a control plane machine": (Machine.resource, False, contract.CONTROL_PLANE_LABEL, None),
}


@pytest.mark.parametrize("what", sampled([*LABELS], 0))
def test_upgrade_that_edited_label_holds_names_it(what: str) -> None:
    resource, is_worker, label, value = LABELS[what]

    async def story(env: ManagedEnvironment) -> None:
        edited = (await those(env, resource, is_worker=is_worker))[0]
        await edit(env, edited, resource, {"metadata": {"labels": {label: value}}})
        await env.change(kubernetesVersion="1.36")
        await asyncio.sleep(HOUR)
        status = (await the_cluster(env)).status
        if not status.ready:
            assert status.failure_reason == "LabelsChanged"
            assert f"label {label} of {resource.kind} {edited.key}" in (status.failure_message or "")
            was = edited.metadata.labels[label]
            assert f'set it to "{was}"' in (status.failure_message or "")
            await edit(env, edited, resource, {"metadata": {"labels": {label: was}}})
        await env.until_ready(seconds=2 * HOUR)

    journey(story)


@pytest.mark.soak
def test_scale_up_without_boots_says_so_in_half_hour() -> None:
    """Their MachineHealthCheck replaces them again and again, so that none of them is old."""
    images = BrokenImages()

    async def story(env: ManagedEnvironment) -> None:
        group = (await those(env, MachineDeployment.resource))[0]
        images.add((GARDEN.name, group.decode(MachineDeployment).spec.template.spec.version))
        await env.change(workerNodeGroupConfigurations=[await group_of(env, count=3)])
        await asyncio.sleep(CALM)
        before = await condition_of(env, names.WORKERS_READY)
        assert before.message == "2 of 3 worker nodes are ready"
        await asyncio.sleep(HOUR)
        after = await condition_of(env, names.WORKERS_READY)
        held = f"MachineDeployment {group.key} has condition MachinesReady False since 2026-01-01T00:0"
        assert after.message.startswith(f"{before.message}; {held}")
        assert "espalier describe cluster" in after.message
        assert (await condition_of(env, names.READY)).message == after.message

    journey(story, Timing(boots=images.boots))


def test_change_that_waits_for_ever_is_not_polled() -> None:
    async def story(env: ManagedEnvironment) -> None:
        for item in await those(env, Machine.resource):
            await edit(
                env, item, Machine.resource, {"metadata": {"finalizers": [*item.metadata.finalizers, "a.com/b"]}}
            )
        await env.change(workerNodeGroupConfigurations=[await group_of(env, count=1)])
        await asyncio.sleep(CALM)
        before = await condition_of(env, names.WORKERS_READY)
        assert "since" not in before.message
        await asyncio.sleep(HOUR)
        result = await the_cluster(env)
        after = await condition_of(env, names.WORKERS_READY)
        assert after.message.startswith(f"{before.message}; Machine ")
        assert "is being deleted since 2026-01-01T00:0" in after.message
        before_requests = env.server.requests.copy()
        await asyncio.sleep(HOUR / 2)
        asked = env.server.requests - before_requests
        assert (await the_cluster(env)).metadata.resource_version == result.metadata.resource_version
        ours = {(verb, plural) for verb, plural, _, agent in asked if agent == MANAGER_AGENT}
        # The copy of the kubeconfig is looked for once an hour.
        assert {verb for verb, _ in ours - {("create", "secrets")}} == {"watch"}

    journey(story)


async def group_of(env: ManagedEnvironment, **fields: object) -> Tree:
    result = (await env.client.get(Cluster.resource, GARDEN.name, GARDEN.namespace)).tree
    first: Tree = result["spec"]["workerNodeGroupConfigurations"][0]
    return {**first, **fields}
