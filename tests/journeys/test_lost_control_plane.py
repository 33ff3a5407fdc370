"""The only control plane machine goes, and the process dies meanwhile: its successor serves what was stored.

A simulated API server runs in the process, and its objects outlive it: whatever happens, they are served again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import cache

import pytest

from espalier.api.capi.cluster import Cluster
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment
from espalier.api.core import NODE
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.apiserver.storage.store import MemoryStore
from espalier.clusterapi.contract import PAUSED_ANNOTATION
from espalier.kube.errors import Unreachable
from espalier.kube.transports.wire import Request, Response, Transport
from espalier.providers.docker.cluster_api import DockerCluster, DockerMachine
from espalier.runtime import virtual
from espalier.runtime.virtual import Simulation
from espalier.simulator.capi.draining import EXCLUDED
from espalier.simulator.workload_clusters.stores import MemoryStores
from tests.support.environments.recording import EnvironmentState
from tests.support.environments.simulated_environment import (
    EPOCH,
    OLD,
    Environment,
    condition,
    environment,
    is_settled,
    machines,
)
from tests.support.sampling import sampled
from tests.support.servers.faults import Crash, Interceptor

pytestmark = pytest.mark.embedded

CALM = 60.0
"""Simulated seconds in which everything that was asked for has happened."""
GARDEN = Key(SYSTEM_NAMESPACE, "garden")


def control_plane_machines(env: Environment) -> list[str]:
    return [
        machine.metadata.name
        for machine in machines(env, "garden")
        if "cluster.x-k8s.io/control-plane" in machine.metadata.labels
    ]


async def delete(env: Environment, names: Sequence[str]) -> None:
    for name in names:
        await env.client.delete(Machine.resource, name, SYSTEM_NAMESPACE)


async def all_is_well(env: Environment, doomed: Sequence[str]) -> None:
    """The cluster has the machines it should have, and each of their nodes, and no other."""
    await asyncio.sleep(CALM)
    results = {machine.metadata.name: machine for machine in machines(env, "garden")}
    assert not results.keys() & set(doomed)
    assert {machine.status.phase for machine in results.values()} == {"Running"}
    await env.until(
        KubeadmControlPlane.resource, "garden", lambda kubeadm_control_plane: is_settled(kubeadm_control_plane, 1, OLD)
    )
    await env.until_rolled_out("garden-md-0", 2)
    await env.until(Cluster.resource, "garden", lambda cluster: condition(cluster, "Available") == "True")
    workload = await env.connect("garden")
    nodes = (await workload.list(NODE)).items
    assert {node.name for node in nodes} == results.keys()
    assert {condition(node, "Ready") for node in nodes} == {"True"}


@cache
def garden() -> EnvironmentState:
    """A cluster that is ready, with one control plane machine and two workers."""

    async def main(simulation: Simulation) -> EnvironmentState:
        store, stores = MemoryStore(), MemoryStores()
        async with environment(simulation.clock, store=store, stores=stores) as env:
            await env.create("garden")
            await asyncio.sleep(CALM)
            return EnvironmentState.of(store, stores, simulation.clock)

    return virtual.run(main, epoch=EPOCH, seed=1)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("writes", "workers_too"),
    sampled(
        [*((writes, False) for writes in (*range(1, 16), 21)), *((writes, True) for writes in (4, 11, 13, 18, 25))],
        9,
    ),
)
def test_killed_process_goes_on_after_any_write(writes: int, workers_too: bool) -> None:
    async def story(simulation: Simulation) -> None:
        (store, stores), crash = garden().opened(), Crash(writes, counts=False)
        async with environment(simulation.clock, store=store, stores=stores, wrap=crash) as env:
            everybody = [machine.metadata.name for machine in machines(env, "garden")]
            doomed = everybody if workers_too else control_plane_machines(env)
            crash.counts = True
            await delete(env, doomed)
            async with asyncio.timeout(CALM):
                await crash.died.wait()
        async with environment(simulation.clock, seed=2, store=store, stores=stores) as env:
            await all_is_well(env, doomed)

    virtual.run(story, epoch=garden().at, seed=1)


@pytest.mark.soak
@pytest.mark.parametrize("seconds", sampled([0.0, 0.5, 1.5, 3.0], 1))
def test_process_stopped_during_a_boot_goes_on(seconds: float) -> None:
    async def story(simulation: Simulation) -> None:
        store, stores = garden().opened()
        async with environment(simulation.clock, store=store, stores=stores) as env:
            doomed = control_plane_machines(env)
            await delete(env, doomed)
            await asyncio.sleep(seconds)
        async with environment(simulation.clock, seed=2, store=store, stores=stores) as env:
            await all_is_well(env, doomed)

    virtual.run(story, epoch=garden().at, seed=1)


def test_replacement_never_serves_an_empty_cluster() -> None:
    async def story(simulation: Simulation) -> None:
        store, stores = garden().opened()
        async with environment(simulation.clock, store=store, stores=stores) as env:
            doomed = control_plane_machines(env)
            await delete(env, doomed)
        async with environment(simulation.clock, seed=2, store=store, stores=MemoryStores()) as env:
            await asyncio.sleep(CALM)
            (successor,) = control_plane_machines(env)
            assert successor not in doomed
            value = env.cache(DockerMachine.resource).get(Key(SYSTEM_NAMESPACE, successor))
            assert value is not None
            ready = next(item for item in value.tree["status"]["conditions"] if item["type"] == "Ready")
            assert ready["reason"] == "ControlPlaneUnreachable"
            assert "is lost" in ready["message"]
            assert env.workloads.reach(GARDEN) is None

    virtual.run(story, epoch=garden().at, seed=1)


class Undeletable(Interceptor):
    """An API server that deletes no node."""

    async def request(self, transport: Transport, request: Request) -> Response:
        if request.method == "DELETE":
            raise Unreachable("refused")
        return await transport.request(request)


async def stops(env: Environment) -> None:
    """Nobody serves, although the control plane machine stays: the infrastructure of the cluster is paused."""
    pause = {"metadata": {"annotations": {PAUSED_ANNOTATION: ""}}}
    await env.change(DockerCluster.resource, "garden", pause)
    await env.workloads.close()


async def refuses(env: Environment) -> None:
    """The API server answers, and deletes no node."""
    workload = env.workloads.reach(GARDEN)
    assert workload is not None
    workload.client.transport = Undeletable()(workload.client.transport)


@pytest.mark.soak
@pytest.mark.parametrize("happens", sampled([stops, refuses], 0))
@pytest.mark.parametrize(
    ("deletion", "gone_after"),
    [({}, 10.0), ({"nodeDeletionTimeoutSeconds": 40}, 40.0), ({"nodeDeletionTimeoutSeconds": 0}, None)],
    ids=["10 seconds unless asked otherwise", "as long as is asked", "for ever"],
)
def test_machine_waits_for_its_node_until_the_timeout(
    deletion: Tree, gone_after: float | None, happens: Callable[[Environment], Awaitable[None]]
) -> None:
    async def story(simulation: Simulation) -> None:
        store, stores = garden().opened()
        async with environment(simulation.clock, store=store, stores=stores) as env:
            undrained = {"annotations": {EXCLUDED: ""}}
            template = {"spec": {"template": {"metadata": undrained, "spec": {"deletion": deletion}}}}
            await env.change(MachineDeployment.resource, "garden-md-0", template)
            await asyncio.sleep(CALM)
            name = next(
                machine.metadata.name for machine in machines(env, "garden") if "-md-0" in machine.metadata.name
            )
            await happens(env)
            await delete(env, [name])
            key = Key(SYSTEM_NAMESPACE, name)
            await asyncio.sleep(5.0 if gone_after is None else gone_after - 2.0)
            value = env.cache(Machine.resource).get(key)
            assert value is not None
            deleting = next(item for item in value.tree["status"]["conditions"] if item["type"] == "Deleting")
            assert deleting["status"] == "True"
            assert f"node {name}" in deleting["message"]
            await asyncio.sleep(600.0 if gone_after is None else 4.0)
            assert (env.cache(Machine.resource).get(key) is None) is (gone_after is not None)

    virtual.run(story, epoch=garden().at, seed=1)


@pytest.mark.soak
def test_undrainable_node_keeps_machine_until_timeout() -> None:
    async def story(simulation: Simulation) -> None:
        store, stores = garden().opened()
        async with environment(simulation.clock, store=store, stores=stores) as env:
            template = {"spec": {"template": {"spec": {"deletion": {"nodeDrainTimeoutSeconds": 300}}}}}
            await env.change(MachineDeployment.resource, "garden-md-0", template)
            await asyncio.sleep(CALM)
            name = next(
                machine.metadata.name for machine in machines(env, "garden") if "-md-0" in machine.metadata.name
            )
            await stops(env)
            await delete(env, [name])
            key = Key(SYSTEM_NAMESPACE, name)
            await asyncio.sleep(290)
            value = env.cache(Machine.resource).get(key)
            assert value is not None
            deleting = next(item for item in value.tree["status"]["conditions"] if item["type"] == "Deleting")
            assert deleting["reason"] == "DrainingNode"
            assert deleting["message"] == f"waiting for the cluster's API server to drain node {name}"
            await asyncio.sleep(30)
            assert env.cache(Machine.resource).get(key) is None

    virtual.run(story, epoch=garden().at, seed=1)
