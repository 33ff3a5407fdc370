"""The specifics of a cluster on bare metal: workflows, hardware to spare or none, a single machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from espalier.api.capi import cluster as capi
from espalier.api.capi.machine import Machine
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.providers.tinkerbell.cluster_api import (
    TinkerbellCluster,
    TinkerbellMachine,
    TinkerbellMachineTemplate,
)
from espalier.providers.tinkerbell.kinds import TinkerbellTemplateConfig
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.managed_environment import NAMESPACE, ManagedEnvironment, managed_environment
from tests.support.providers import hardware
from tests.support.providers.tinkerbell import MACHINES, of, template
from tests.support.providers.tinkerbell_steps import EPOCH, FORGE, Forge

pytestmark = pytest.mark.embedded

CONTROL_PLANE, WORKERS = "", "forge-md-0"


async def workflows(forge: Forge) -> None:
    """A workflow of its own replaces machines when it is named, and when it changes."""
    forge.trees.append(template(NAMESPACE))
    of(forge.trees, MACHINES)["templateRef"] = {"kind": "TinkerbellTemplateConfig", "name": "forge"}
    await forge.step(WORKERS)
    of(forge.trees, "TinkerbellTemplateConfig")["template"]["tasks"][0]["actions"][1]["timeout"] = 91
    await forge.step(WORKERS)


async def names(env: ManagedEnvironment, kind: type[Any]) -> list[str]:
    return [item.name for item in (await env.client.list(kind.resource)).items]


async def delete(env: ManagedEnvironment) -> None:
    """Nothing is left."""
    await env.client.delete(Cluster.resource, "forge", NAMESPACE)
    await env.until_gone(FORGE)
    for made in (TinkerbellCluster, TinkerbellMachine, TinkerbellMachineTemplate, TinkerbellTemplateConfig):
        assert await names(env, made) == []


def told_as(simulate: Callable[[ManagedEnvironment], Any], *, planes: int = 1, workers: int = 1) -> None:
    """With so much hardware for the control plane and for workers."""

    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as env:
            await hardware.put(env.client, [*hardware.rack(planes, workers), *hardware.pieces("big-worker", workers)])
            await simulate(env)

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.soak
def test_machines_of_a_workflow_carry_their_pool() -> None:
    async def life(env: ManagedEnvironment) -> None:
        forge = Forge(env)
        await forge.make()
        nodes = await env.nodes(FORGE)
        assert len(nodes) == 2
        assert all(node["spec"]["providerID"].startswith("tinkerbell://eksa-system/") for node in nodes)
        made = (await env.client.get(capi.Cluster.resource, "forge", SYSTEM_NAMESPACE)).tree
        assert made["spec"]["controlPlaneEndpoint"] == {"host": "192.0.2.13", "port": 6443}
        machines = (await env.client.list(Machine.resource, SYSTEM_NAMESPACE)).items
        assert sorted(machine.metadata.labels.get("pool", "") for machine in machines) == ["", "md-0"]
        await workflows(forge)
        await delete(env)

    told_as(life, workers=3)


@pytest.mark.demand(U3="on bare metal", U55="on bare metal")
def test_machines_without_spare_hardware_are_upgraded() -> None:
    async def life(env: ManagedEnvironment) -> None:
        forge = Forge(env)
        await forge.make()
        await forge.in_place()
        before = await env.machine_names("forge")
        forge.kubernetes("1.36")
        await forge.step()
        assert {version.split("-")[0] for version in await env.versions(FORGE)} == {"v1.36.3"}
        assert await env.machine_names("forge") == before
        await workflows_are_for_new_machines(forge)
        of(forge.trees, MACHINES)["hardwareSelector"] = {"type": "big-worker"}
        preview = await env.preview(FORGE, forge.trees)
        assert preview.stops.startswith("InPlaceUpgradeRefused: infrastructure.hardwareAffinity")

    told_as(life)


@pytest.mark.demand(U5="on bare metal")
@pytest.mark.soak
def test_single_machine_cluster_is_upgraded_in_place() -> None:
    async def life(env: ManagedEnvironment) -> None:
        forge = Forge(env)
        forge.spec["workerNodeGroupConfigurations"] = []
        await forge.make()
        (node,) = await env.nodes(FORGE)
        assert not node["spec"].get("taints")
        preview = await env.preview(FORGE, forge.trees)
        assert preview.is_empty
        assert preview.settled
        await forge.in_place()
        before = await env.machine_names("forge")
        forge.kubernetes("1.36")
        await forge.step()
        assert {version.split("-")[0] for version in await env.versions(FORGE)} == {"v1.36.3"}
        assert await env.machine_names("forge") == before

    told_as(life)


async def workflows_are_for_new_machines(forge: Forge) -> None:
    """Machines that run need none."""
    forge.trees.append(template(NAMESPACE))
    of(forge.trees, MACHINES)["templateRef"] = {"kind": "TinkerbellTemplateConfig", "name": "forge"}
    await forge.step()
