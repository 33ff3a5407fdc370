"""No controller sleeps through what concerns it: in a settled environment, one that is woken has nothing to do.

Controllers are not woken by every change (`simulator/capi/predicates.py`). Whatever is left undone because a view lacks
what a controller reads shows here, as soon as all of them are made to look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import pytest

from espalier.api.capi.cluster import Cluster
from espalier.api.capi.kubeadm import KubeadmConfig, KubeadmConfigTemplate, KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment, MachineHealthCheck, MachineSet
from espalier.api.core import DAEMON_SET
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.providers.docker.cluster_api import DockerCluster, DockerMachine, DockerMachineTemplate
from espalier.runtime import virtual
from espalier.runtime.virtual import Simulation
from tests.support.environments.pod_network import pod_network
from tests.support.environments.simulated_environment import (
    EPOCH,
    NEW,
    Environment,
    condition,
    environment,
    machines,
    manifest,
)
from tests.support.sampling import sampled

KINDS: tuple[Resource, ...] = (
    Cluster.resource,
    DockerCluster.resource,
    DockerMachine.resource,
    DockerMachineTemplate.resource,
    KubeadmConfig.resource,
    KubeadmConfigTemplate.resource,
    KubeadmControlPlane.resource,
    Machine.resource,
    MachineDeployment.resource,
    MachineHealthCheck.resource,
    MachineSet.resource,
)
TOUCHED = "journey/touched"
PAUSE: Tree = {"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}}
GO_ON: Tree = {"metadata": {"annotations": {"cluster.x-k8s.io/paused": None}}}


def simulate(story: Callable[[Environment], Awaitable[None]]) -> None:
    async def main(simulation: Simulation) -> None:
        async with environment(simulation.clock) as env:
            await story(env)

    virtual.run(main, epoch=EPOCH, seed=1)


async def state(env: Environment) -> dict[str, Tree]:
    """All objects of Cluster API without what says only when, or for which generation, something was written."""
    results: dict[str, Tree] = {}
    for resource in KINDS:
        for object_ in (await env.client.list(resource, SYSTEM_NAMESPACE)).items:
            tree = object_.tree
            for name in ("resourceVersion", "managedFields", "annotations"):
                tree["metadata"].pop(name, None)
            for statement in tree.get("status", {}).get("conditions", []):
                statement.pop("observedGeneration", None)
            results[f"{resource.kind} {object_.name}"] = tree
    return results


async def nobody_slept(env: Environment) -> None:
    """Wake every controller for every object, once the environment is settled: nothing comes of it."""
    await asyncio.sleep(60)
    before = await state(env)
    for resource in KINDS:
        for object_ in (await env.client.list(resource, SYSTEM_NAMESPACE)).items:
            await env.change(resource, object_.name, {"metadata": {"annotations": {TOUCHED: object_.resource_version}}})
    await asyncio.sleep(60)
    assert await state(env) == before


def objects_of(name: str) -> list[tuple[Resource, Tree]]:
    """A cluster with a health check of its workers."""
    selector = {"matchLabels": {"cluster.x-k8s.io/deployment-name": f"{name}-md-0"}}
    check = {"clusterName": name, "selector": selector, "checks": {"nodeStartupTimeoutSeconds": 0}}
    metadata = {"name": name, "namespace": SYSTEM_NAMESPACE, "labels": {"cluster.x-k8s.io/cluster-name": name}}
    resource = MachineHealthCheck.resource
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": check}
    return [*manifest(name, 1, 2), (resource, body)]


async def made(env: Environment, objects: Iterable[tuple[Resource, Tree]]) -> None:
    for resource, body in objects:
        await env.client.create(resource, body)


@pytest.mark.soak
@pytest.mark.embedded
@pytest.mark.parametrize("first", sampled(range(8), 0, 3, 6))
def test_incomplete_cluster_does_all_it_can(first: int) -> None:
    async def story(env: Environment) -> None:
        objects = objects_of("garden")
        for object_ in objects[first:] + objects[:first]:
            await made(env, [object_])
            await nobody_slept(env)
        workload = await env.connect("garden")
        await workload.create(DAEMON_SET, pod_network())
        await nobody_slept(env)
        cluster = env.cache(Cluster.resource).list()[0]
        assert condition(cluster, "Available") == "True"

    simulate(story)


@pytest.mark.soak
@pytest.mark.embedded
def test_upgrade_scaling_and_pause_wake_up_all() -> None:
    async def story(env: Environment) -> None:
        await env.create("garden", workers=2)
        await nobody_slept(env)
        await env.change(Cluster.resource, "garden", PAUSE)
        await env.change(KubeadmControlPlane.resource, "garden", {"spec": {"replicas": 3}})
        await env.change(MachineDeployment.resource, "garden-md-0", {"spec": {"replicas": 3}})
        await nobody_slept(env)
        assert len(machines(env, "garden")) == 3
        await env.change(Cluster.resource, "garden", GO_ON)
        await nobody_slept(env)
        assert len(machines(env, "garden")) == 6
        await env.upgrade("garden", control_planes=3, workers=3)
        await nobody_slept(env)
        assert {machine.spec.version for machine in machines(env, "garden")} == {NEW}

    simulate(story)


@pytest.mark.soak
@pytest.mark.embedded
@pytest.mark.parametrize("resource", [KubeadmConfig.resource, DockerMachine.resource], ids=lambda item: str(item.kind))
def test_removed_parts_of_a_waiting_machine_return(resource: Resource) -> None:
    async def story(env: Environment) -> None:
        await made(env, [item for item in objects_of("garden") if item[0] != KubeadmControlPlane.resource])
        await asyncio.sleep(60)
        part = env.cache(resource).list()[0]
        await env.client.delete(resource, part.name, SYSTEM_NAMESPACE)
        await asyncio.sleep(60)
        again = env.cache(resource).get(part.key)
        assert again is not None
        assert again.metadata.uid != part.metadata.uid
        await nobody_slept(env)

    simulate(story)


@pytest.mark.embedded
def test_api_server_has_the_version_of_its_machine() -> None:
    async def story(env: Environment) -> None:
        await env.create("garden")
        await env.change(KubeadmControlPlane.resource, "garden", PAUSE)
        [machine] = [machine for machine in machines(env, "garden") if "-md-" not in machine.metadata.name]
        await env.change(Machine.resource, machine.metadata.name, {"spec": {"version": NEW}})
        await asyncio.sleep(60)
        workload = env.workloads.reach(Key(SYSTEM_NAMESPACE, "garden"))
        assert workload is not None
        assert workload.version == NEW
        await nobody_slept(env)

    simulate(story)


@pytest.mark.soak
@pytest.mark.embedded
def test_machine_with_edited_bootstrap_is_replaced() -> None:
    async def story(env: Environment) -> None:
        await env.create("garden")
        [machine] = [machine for machine in machines(env, "garden") if "-md-" not in machine.metadata.name]
        await env.change(KubeadmConfig.resource, machine.metadata.name, {"spec": {"preKubeadmCommands": ["true"]}})
        await nobody_slept(env)
        [another] = [machine for machine in machines(env, "garden") if "-md-" not in machine.metadata.name]
        assert another.metadata.uid != machine.metadata.uid

    simulate(story)
