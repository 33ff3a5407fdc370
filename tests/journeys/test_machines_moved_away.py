"""T0: machines whose objects go to another management cluster go on running, whenever their controllers look."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime

import pytest

from espalier.api.capi.cluster import Cluster
from espalier.api.capi.machine import Machine
from espalier.api.core import NODE
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.resource import Key, Resource
from espalier.apiserver.storage.store import MemoryStore
from espalier.kube.client import Client
from espalier.providers.docker.cluster_api import DockerMachine
from espalier.providers.registry import LOCAL
from espalier.runtime.controllers.writer import Writer
from espalier.runtime.virtual import Simulation, run
from espalier.simulator.capi.inventory import Inventory, Scheme
from espalier.simulator.infrastructure import InfrastructureMachines
from espalier.simulator.workload_clusters.stores import MemoryStores
from tests.support.environments.simulated_environment import CLUSTER_LABEL, Environment, environment, machines
from tests.support.servers import clusterctl

pytestmark = pytest.mark.embedded

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
MACHINE = DockerMachine.resource
CALM = 60.0


async def pause(env: Environment, value: bool) -> None:
    await env.change(Cluster.resource, "garden", {"spec": {"paused": value}})


async def move_away(env: Environment, resource: Resource, name: str) -> None:
    await clusterctl.take_away(env.client, resource, name, SYSTEM_NAMESPACE, pause=lambda: asyncio.sleep(0))


def worker(env: Environment) -> str:
    return next(machine.metadata.name for machine in machines(env, "garden") if "-md-0-" in machine.metadata.name)


async def node_names(workload: Client) -> list[str]:
    return [item.name for item in (await workload.list(NODE)).items]


def test_reconciles_after_a_move_delete_no_node() -> None:
    """A key may be reconciled more than once after its object is gone, and by a controller that never saw it."""

    async def main(simulation: Simulation) -> None:
        async with environment(simulation.clock) as env:
            workload = await env.create("garden")
            nodes, moved = await node_names(workload), worker(env)
            await pause(env, True)
            await move_away(env, MACHINE, moved)
            await asyncio.sleep(CALM)
            inventory = Inventory.of(env.caches, [LOCAL.infrastructure])
            writer = Writer(env.client, {MACHINE: env.cache(MACHINE)})
            scheme = Scheme(inventory, writer, env.workloads, simulation.clock, random.Random(1))
            controller = InfrastructureMachines(scheme, env.workloads, LOCAL.infrastructure, boot_seconds=1)
            for _ in range(2):
                await controller.reconcile(Key(SYSTEM_NAMESPACE, moved))
            assert await node_names(workload) == nodes

    run(main, epoch=EPOCH, seed=1)


def test_restart_in_a_move_deletes_no_moved_node() -> None:
    """Both the machines' API server and their controllers stop when some objects are moved away already."""
    store, stores = MemoryStore(), MemoryStores()

    async def main(simulation: Simulation) -> None:
        async with environment(simulation.clock, store=store, stores=stores) as env:
            nodes, moved = await node_names(await env.create("garden")), worker(env)
            await pause(env, True)
            for resource in (MACHINE, Machine.resource):
                await move_away(env, resource, moved)
        async with environment(simulation.clock, store=store, stores=stores) as env:
            await asyncio.sleep(CALM)
            assert await node_names(await env.connect("garden")) == nodes

    run(main, epoch=EPOCH, seed=1)


def test_marked_machine_under_deletion_keeps_its_node() -> None:
    """clusterctl was killed between its deletion and the removal of finalizers."""

    async def main(simulation: Simulation) -> None:
        async with environment(simulation.clock) as env:
            workload = await env.create("garden")
            nodes, moved = await node_names(workload), worker(env)
            await clusterctl.mark(env.client, MACHINE, moved, SYSTEM_NAMESPACE)
            await env.client.delete(MACHINE, moved, SYSTEM_NAMESPACE)
            await asyncio.sleep(CALM)
            assert (await env.client.get(MACHINE, moved, SYSTEM_NAMESPACE)).metadata.deletion_timestamp
            assert await node_names(workload) == nodes

    run(main, epoch=EPOCH, seed=1)


def test_deletion_waits_while_the_cluster_is_paused() -> None:
    async def main(simulation: Simulation) -> None:
        async with environment(simulation.clock) as env:
            workload = await env.create("garden")
            nodes, deleted = await node_names(workload), worker(env)
            await pause(env, True)
            await env.client.delete(MACHINE, deleted, SYSTEM_NAMESPACE)
            await asyncio.sleep(CALM)
            assert await node_names(workload) == nodes
            await pause(env, False)
            await env.until(MACHINE, deleted, lambda value: value is None)
            await asyncio.sleep(CALM)
            assert deleted not in await node_names(workload)

    run(main, epoch=EPOCH, seed=1)


def test_machine_without_its_cluster_is_not_touched() -> None:
    """At the target of a move objects may be seen before the Cluster that pauses them."""

    async def main(simulation: Simulation) -> None:
        async with environment(simulation.clock) as env:
            metadata = {"name": "early", "namespace": SYSTEM_NAMESPACE, "labels": {CLUSTER_LABEL: "unseen"}}
            body = {"apiVersion": MACHINE.api_version, "kind": MACHINE.kind, "metadata": metadata, "spec": {}}
            created = await env.client.create(MACHINE, body)
            await asyncio.sleep(CALM)
            machine = await env.client.get(MACHINE, "early", SYSTEM_NAMESPACE)
            assert machine.resource_version == created.resource_version

    run(main, epoch=EPOCH, seed=1)
