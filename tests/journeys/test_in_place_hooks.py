"""Upgrades in place by runtime hooks on simulated nodes; the story asks the hooks, as Cluster API does on real ones."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import cache, partial
from typing import Any

import msgspec
import pytest

from espalier.api.capi.kubeadm import KubeadmConfig, KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment
from espalier.api.capi.runtime import ExtensionConfig
from espalier.api.eksa.group import SYSTEM_NAMESPACE
from espalier.api.eksa.upgrades import (
    IN_PLACE_HOOKS,
    RUNTIME_EXTENSION,
    UPDATE_IN_PROGRESS,
    FrontEnd,
    NodeUpgrade,
)
from espalier.api.meta import Tree
from espalier.apiserver.store import MemoryStore
from espalier.cli import manifests
from espalier.clusters.in_place import NOT_ASKED, TOO_FEW
from espalier.kube.client import PatchType
from espalier.kube.objects import Object
from espalier.runtime.virtual import Simulation, run
from espalier.simulator.stores import MemoryStores
from espalier.upgrades import progress
from espalier.upgrades.hooks import wire
from espalier.upgrades.hooks.registration import Extension
from espalier.upgrades.node_steps import STEPS
from tests.journeys.in_place import EPOCH, NEW, OLD, identities, machines, marks, spec
from tests.journeys.in_place_watch import Watcher
from tests.journeys.managed import ManagedEnvironment, managed_environment
from tests.support.audit import grants
from tests.support.faults import Writes
from tests.support.recording import Kept, Recording
from tests.support.sampling import sampled
from tests.support.upgraders import Upgraders

pytestmark = pytest.mark.embedded

Story = Callable[[ManagedEnvironment, Upgraders], Awaitable[None]]


def journey(story: Story, control_planes: int = 3, *, discovered: bool = True) -> None:
    """Tell a story of a cluster of 1.35 whose machines are upgraded in place by hooks."""

    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock, front_end=FrontEnd.HOOKS) as env:
            await Extension(env.manager.client, {"url": "https://127.0.0.1:9443"}).trust(b"authority")
            if discovered:
                await discover(env)
            await env.apply(**spec(control_planes, 2))
            await env.until_ready()
            await story(env, Upgraders(env.workloads))

    run(main, epoch=EPOCH, seed=1)


async def discover(env: ManagedEnvironment) -> None:
    """What Cluster API says when it has asked which hooks there are."""
    found = {"type": "Discovered", "status": "True", "reason": "Discovered", "message": ""}
    patch = {"status": {"conditions": [found | {"lastTransitionTime": "2026-01-01T00:00:00Z"}]}}
    await env.client.patch(
        ExtensionConfig.resource, RUNTIME_EXTENSION, patch=patch, type=PatchType.MERGE, subresource="status"
    )


async def ask(env: ManagedEnvironment, machine: str) -> dict[str, Any]:
    """UpdateMachine, once."""
    found = await env.client.get(Machine.resource, machine, SYSTEM_NAMESPACE)
    config = found.decode(Machine).spec.bootstrap.config_ref
    assert config is not None
    bootstrap = await env.client.get(KubeadmConfig.resource, config.name, SYSTEM_NAMESPACE)
    body = msgspec.json.encode({"desired": {"machine": found.tree, "bootstrapConfig": bootstrap.tree}})
    answer: dict[str, Any] = msgspec.json.decode(await env.webhooks.call(wire.path_of(wire.UPDATE_MACHINE), body))
    return answer


async def mark(env: ManagedEnvironment, object_: Object, resource: Any, patch: Tree) -> None:
    await env.client.patch(resource, object_.name, SYSTEM_NAMESPACE, patch=patch, type=PatchType.MERGE)


async def update(env: ManagedEnvironment, machine: Object) -> list[str]:
    """Have one machine updated as Cluster API does: written to the end first, then asked about until it is done."""
    written = {"metadata": {"annotations": {UPDATE_IN_PROGRESS: ""}}, "spec": {"version": NEW}}
    await mark(env, machine, Machine.resource, written)
    said = []
    async with asyncio.timeout(600):
        while (answer := await ask(env, machine.name)).get("retryAfterSeconds"):
            said.append(answer["message"])
            await asyncio.sleep(answer["retryAfterSeconds"])
    assert answer["status"] == "Success"
    await mark(env, machine, Machine.resource, {"metadata": {"annotations": {UPDATE_IN_PROGRESS: None}}})
    return said


async def stands_aside(env: ManagedEnvironment) -> None:
    """The simulated Cluster API does nothing about machines: the story is Cluster API."""
    for resource in (KubeadmControlPlane.resource, MachineDeployment.resource):
        for owner in (await env.client.list(resource, SYSTEM_NAMESPACE)).items:
            await mark(env, owner, resource, {"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}})


async def everything(env: ManagedEnvironment) -> dict[str, NodeUpgrade]:
    """All machines are updated, one after the other. The NodeUpgrades that were made."""
    await stands_aside(env)
    seen: dict[str, NodeUpgrade] = {}
    cache = env.manager.caches.of(NodeUpgrade.resource, SYSTEM_NAMESPACE)
    stop = cache.subscribe(lambda _old, new, _first: seen.update({new.name: new.decode(NodeUpgrade)}) if new else None)
    for machine in await machines(env, control_plane=True) + await machines(env, control_plane=False):
        said = await update(env, machine)
        assert f" of 8 on node {machine.name}" in " ".join(said), "it is asked now and then, so it may hear of any step"
    await asyncio.sleep(10)
    stop()
    return seen


def test_machines_are_marked_for_the_hooks_and_never_more_than_asked_for() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        control_plane = (await env.client.get(KubeadmControlPlane.resource, "garden", SYSTEM_NAMESPACE)).tree
        group = (await env.client.get(MachineDeployment.resource, "garden-md-0", SYSTEM_NAMESPACE)).tree
        for owner, limits in ((control_plane, {"maxSurge": 0}), (group, {"maxSurge": 0, "maxUnavailable": 1})):
            assert owner["metadata"]["annotations"][IN_PLACE_HOOKS] == "Fail"
            assert owner["spec"]["rollout"]["strategy"]["rollingUpdate"] == limits

    journey(story)


def test_every_machine_is_updated_by_a_node_upgrade_that_goes_when_cluster_api_took_note() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        before = await identities(env)
        seen = await everything(env)
        assert await identities(env) == before
        assert await env.versions() == [NEW] * 5
        assert (len(seen), all(one.status.completed for one in seen.values())) == (5, True)
        first = [one.spec.machine.name for one in seen.values() if one.spec.first_node_to_be_upgraded]
        assert first == [(await machines(env, control_plane=True))[0].name]
        assert (await env.client.list(NodeUpgrade.resource, SYSTEM_NAMESPACE)).items == []
        assert [one for one in await marks(env) if not one.endswith("/paused")] == []

    journey(story)


def test_a_step_that_fails_is_told_to_cluster_api_and_goes_on_when_it_is_repaired() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        worker = (await machines(env, control_plane=False))[0]
        await stands_aside(env)
        upgraders.failing[worker.name, "kubeadm-upgrader"] = "no space left on device"
        updating = asyncio.create_task(update(env, worker))
        await asyncio.sleep(60)
        answer = await ask(env, worker.name)
        assert (answer["status"], answer["retryAfterSeconds"]) == ("Success", 5)
        assert "step kubeadm-upgrader failed" in answer["message"]
        assert "no space left on device" in answer["message"]
        upgraders.failing.clear()
        retry = {"metadata": {"annotations": {"anywhere.eks.amazonaws.com/retry": "now"}}}
        found = await env.client.get(NodeUpgrade.resource, f"{worker.name}-node-upgrader", SYSTEM_NAMESPACE)
        await mark(env, found, NodeUpgrade.resource, retry)
        await updating
        assert NEW in await env.versions()

    journey(story, 1)


def test_nothing_is_asked_of_cluster_api_before_it_knows_the_hooks() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        before = await identities(env)
        await env.change(kubernetesVersion="1.36")
        cluster = await env.until(lambda one: any(c.reason == NOT_ASKED for c in one.status.conditions))
        (said,) = {one.message for one in cluster.status.conditions if one.reason == NOT_ASKED}
        assert "--feature-gates=RuntimeSDK=true,InPlaceUpdates=true" in said
        await asyncio.sleep(60)
        assert await identities(env) == before
        await discover(env)
        await env.until(lambda one: not any(c.reason == NOT_ASKED for c in one.status.conditions))
        found = await env.client.get(KubeadmControlPlane.resource, "garden", SYSTEM_NAMESPACE)
        assert found.tree["spec"]["version"] == NEW

    journey(story, discovered=False)


def test_a_control_plane_of_one_is_refused_with_what_helps() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        before = await identities(env)
        await env.change(kubernetesVersion="1.36")
        cluster = await env.until(lambda one: any(c.reason == TOO_FEW for c in one.status.conditions))
        (said,) = {one.message for one in cluster.status.conditions if one.reason == TOO_FEW}
        assert "run the manager with --in-place annotations" in said
        await asyncio.sleep(60)
        assert await identities(env) == before

    journey(story, 1)


def test_every_right_that_hooks_need_beside_the_others_is_used() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        await everything(env)
        url = {"url": "https://127.0.0.1:9444"}
        await Extension(env.manager.client, url).trust(b"another")
        more = set(grants(manifests.installed((), FrontEnd.HOOKS))) - set(grants(manifests.installed()))
        assert {str(one) for one in more - env.ledger.used(more)} == set()
        assert {one.resource for one in more} == {"extensionconfigs"}

    journey(story)


@cache
def updated() -> Recording:
    """A worker is updated, and Cluster API does nothing else. Writes of the manager are marked."""
    store, stores = MemoryStore(), MemoryStores()
    begun: list[Recording] = []
    writes = Writes(landed=lambda: begun[0].mark() if begun else None)

    async def main(simulation: Simulation) -> None:
        kept = partial(managed_environment, simulation.clock, store=store, stores=stores, front_end=FrontEnd.HOOKS)
        async with kept(wrap=writes) as env:
            await env.apply(**spec(1, 1))
            await env.until_ready()
            await stands_aside(env)
            Upgraders(env.workloads)
            begun.append(Recording(store, stores, simulation.clock))
            await update(env, (await machines(env, control_plane=False))[0])
            await asyncio.sleep(10)

    run(main, epoch=EPOCH, seed=1)
    return begun[0]


@pytest.mark.parametrize("share", sampled(range(4), 1))
def test_a_manager_that_died_after_any_write_is_followed_by_one_that_cluster_api_asks(share: int) -> None:
    assert len(updated().marked) > 15
    for number in [*updated().marked][share::4]:
        kept = updated().after(number)

        async def main(simulation: Simulation, kept: Kept = kept) -> None:
            store, stores = kept.opened()
            watcher = Watcher(store, stores)
            again = partial(managed_environment, simulation.clock, store=store, stores=stores, front_end=FrontEnd.HOOKS)
            async with again(seed=2) as env:
                upgraders, done = Upgraders(env.workloads), await steps_done(env)
                worker = (await machines(env, control_plane=False))[0]
                if worker.tree["spec"]["version"] == OLD or UPDATE_IN_PROGRESS in worker.metadata.annotations:
                    await update(env, worker)
                await asyncio.sleep(10)
                assert not watcher.broken
                assert watcher.identities() == watcher.before
                assert await env.versions() == [OLD, NEW]
                assert [one for one in watcher.left() if not one.endswith("/paused")] == []
                assert [step for _, step in upgraders.ran if step in done] == []

        run(main, epoch=kept.at, seed=1)


async def steps_done(env: ManagedEnvironment) -> set[str]:
    """Containers of the steps that NodeUpgrades tell to be done."""
    found = [one.decode(NodeUpgrade) for one in (await env.client.list(NodeUpgrade.resource, SYSTEM_NAMESPACE)).items]
    return {step.container for one in found for step in STEPS if step.condition in progress.done(one.status.conditions)}
