"""Stories of machines that Cluster API has updated in place by runtime hooks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment
from espalier.api.eksa.upgrades import UPDATE_IN_PROGRESS, FrontEnd, NodeUpgrade
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.resource import Resource
from espalier.kube.objects import Object
from espalier.runtime.virtual import Simulation, run
from espalier.upgrades.hooks.registration import Extension
from tests.support.environments.in_place_environment import EPOCH, generations, machines, spec, until_so
from tests.support.environments.managed_environment import ManagedEnvironment, managed_environment
from tests.support.environments.upgraders import Upgraders
from tests.support.histories.hook_calls import PAUSED, accept, ask, discover, mark, stands_aside

Story = Callable[[ManagedEnvironment, Upgraders], Awaitable[None]]


def journey(story: Story, control_planes: int = 3, *, discovered: bool = True, **more: Any) -> None:
    """Tell a story of a cluster of 1.35 whose machines are upgraded in place by hooks."""

    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock, front_end=FrontEnd.HOOKS) as env:
            await Extension(env.manager.client, {"url": "https://127.0.0.1:9443"}).trust(b"authority")
            if discovered:
                await discover(env)
            await env.apply(**spec(control_planes, 2, **more))
            await env.until_ready()
            await story(env, Upgraders(env.workloads))

    run(main, epoch=EPOCH, seed=1)


async def update(env: ManagedEnvironment, machine: Object) -> list[str]:
    """Have one machine updated as Cluster API does: written to the end first, then asked about until it is done."""
    if UPDATE_IN_PROGRESS not in machine.metadata.annotations:
        await accept(env, machine)
    messages = []
    async with asyncio.timeout(600):
        while (answer := await ask(env, machine.name)).get("retryAfterSeconds"):
            messages.append(answer["message"])
            await asyncio.sleep(answer["retryAfterSeconds"])
    assert answer["status"] == "Success"
    await mark(env, machine, Machine.resource, {"metadata": {"annotations": {UPDATE_IN_PROGRESS: None}}})
    return messages


async def asked_of(env: ManagedEnvironment, resource: Resource, name: str, generation: int) -> None:
    """A change has reached a control plane or worker node group."""
    await until_so(env, resource, name, lambda tree: tree["metadata"]["generation"] > generation)


async def everything(env: ManagedEnvironment, **change: Any) -> dict[str, NodeUpgrade]:
    """A change is made on all machines, one after the other. The NodeUpgrades that were made."""
    await stands_aside(env)
    seen: dict[str, NodeUpgrade] = {}
    cache = env.manager.caches.of(NodeUpgrade.resource, SYSTEM_NAMESPACE)
    stop = cache.subscribe(lambda _old, new, _first: seen.update({new.name: new.decode(NodeUpgrade)}) if new else None)
    before = await generations(env)
    await env.change(**change)
    for resource, name in ((KubeadmControlPlane.resource, "garden"), (MachineDeployment.resource, "garden-md-0")):
        await asked_of(env, resource, name, before[name])
        for machine in await machines(env, control_plane=resource is KubeadmControlPlane.resource):
            messages = await update(env, machine)
            assert f" of 8 on node {machine.name}" in " ".join(messages), (
                "it is asked now and then, so it may hear of any"
            )
        if resource is KubeadmControlPlane.resource:  # it tells that all are up to date, for workers to follow
            owner = await env.client.get(resource, name, SYSTEM_NAMESPACE)
            await mark(env, owner, resource, {"metadata": {"annotations": {PAUSED: None}}})
    await asyncio.sleep(10)
    stop()
    return seen
