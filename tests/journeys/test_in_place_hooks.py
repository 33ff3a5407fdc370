"""Upgrades in place by runtime hooks on simulated nodes; the story asks the hooks, as Cluster API does on real ones."""

from __future__ import annotations

import asyncio
from functools import cache, partial

import pytest

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment
from espalier.api.core import CORE_EVENT
from espalier.api.eksa.upgrades import (
    UPDATE_IN_PROGRESS,
    ControlPlaneUpgrade,
    FrontEnd,
    MachineDeploymentUpgrade,
    NodeUpgrade,
)
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.eksa.vocabulary.upgrade_keys import IN_PLACE_CONTROL_PLANE, IN_PLACE_DEPLOYMENT, IN_PLACE_HOOKS
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.apiserver.storage.store import MemoryStore
from espalier.cli.install import manifests
from espalier.kube.objects import Object
from espalier.providers.registry import PROVIDERS
from espalier.runtime.virtual import Simulation, run
from espalier.simulator.workload_clusters.stores import MemoryStores
from espalier.upgrades.hooks.registration import Extension
from espalier.upgrades.node import status as progress
from espalier.upgrades.node.containers import STEPS
from tests.support.environments.in_place_environment import EPOCH, NEW, OLD, identities, machines, marks, spec
from tests.support.environments.in_place_watcher import Watcher
from tests.support.environments.managed_environment import ManagedEnvironment, managed_environment
from tests.support.environments.recording import EnvironmentState, Recording
from tests.support.environments.upgraders import Upgraders
from tests.support.histories.hook_calls import ask, discover, mark, stands_aside
from tests.support.histories.in_place_hooks import everything, journey, update
from tests.support.sampling import sampled
from tests.support.servers.audit import grants
from tests.support.servers.faults import Writes

pytestmark = pytest.mark.embedded


async def outdated_worker(env: ManagedEnvironment) -> Object:
    """A worker whose group is to have the new version, by hand: its control plane has no machine to spare."""
    await stands_aside(env)
    group = await env.client.get(MachineDeployment.resource, "garden-md-0", SYSTEM_NAMESPACE)
    wanted = {"template": {"spec": {"version": NEW}}}
    await mark(env, group, MachineDeployment.resource, {"spec": wanted})
    return (await machines(env, control_plane=False))[0]


@pytest.mark.soak
def test_machines_are_annotated_for_hooks_as_requested() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        control_plane = (await env.client.get(KubeadmControlPlane.resource, "garden", SYSTEM_NAMESPACE)).tree
        group = (await env.client.get(MachineDeployment.resource, "garden-md-0", SYSTEM_NAMESPACE)).tree
        for owner, limits in ((control_plane, {"maxSurge": 0}), (group, {"maxSurge": 0, "maxUnavailable": 1})):
            assert owner["metadata"]["annotations"][IN_PLACE_HOOKS] == "Fail"
            assert owner["spec"]["rollout"]["strategy"]["rollingUpdate"] == limits

    journey(story)


@pytest.mark.soak
def test_node_upgrade_for_hooks_goes_once_noted() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        before = await identities(env)
        seen = await everything(env, kubernetesVersion="1.36")
        assert await identities(env) == before
        assert await env.versions() == [NEW] * 5
        assert (len(seen), all(item.status.completed for item in seen.values())) == (5, True)
        first = [item.spec.machine.name for item in seen.values() if item.spec.first_node_to_be_upgraded]
        assert first == [(await machines(env, control_plane=True))[0].name]
        assert (await env.client.list(NodeUpgrade.resource, SYSTEM_NAMESPACE)).items == []
        assert [item for item in await marks(env) if not item.endswith("/paused")] == []

    journey(story)


@pytest.mark.demand("U11")
@pytest.mark.parametrize("resource", sampled([(KubeadmControlPlane.resource,), (MachineDeployment.resource,)], 0))
def test_annotation_of_the_other_way_begins_nothing(resource: Resource) -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        (owner,) = (await env.client.list(resource, SYSTEM_NAMESPACE)).items
        name = IN_PLACE_CONTROL_PLANE if resource is KubeadmControlPlane.resource else IN_PLACE_DEPLOYMENT
        spec: Tree = {"kubeadmConfigSpec": {"clusterConfiguration": {"featureGates": {"NodeLocalCRISocket": True}}}}
        if resource is MachineDeployment.resource:
            spec = {"template": {"spec": {"version": NEW}}}
        made: list[str] = []
        kinds = (ControlPlaneUpgrade.resource, MachineDeploymentUpgrade.resource, NodeUpgrade.resource)
        stops = [
            env.manager.caches.of(kind, SYSTEM_NAMESPACE).subscribe(lambda _old, new, _first: made.append(str(new)))
            for kind in kinds
        ]
        await stands_aside(env)
        await mark(env, owner, resource, {"metadata": {"annotations": {name: "true"}}, "spec": spec})
        await asyncio.sleep(60)
        for stop in stops:
            stop()
        assert made == []
        system_namespace = await env.client.get(resource, owner.name, SYSTEM_NAMESPACE)
        assert name not in system_namespace.metadata.annotations
        events = [item.tree for item in (await env.client.list(CORE_EVENT, SYSTEM_NAMESPACE)).items]
        (message,) = [event["message"] for event in events if event["reason"] == "MarkIgnored"]
        assert message.startswith(f"removing annotation {name}: ")

    journey(story)


@pytest.mark.soak
def test_failed_step_is_reported_to_cluster_api() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        worker = await outdated_worker(env)
        upgraders.failing[worker.name, "kubeadm-upgrader"] = "no space left on device"
        updating = asyncio.create_task(update(env, worker))
        await asyncio.sleep(60)
        answer = await ask(env, worker.name)
        assert (answer["status"], answer["retryAfterSeconds"]) == ("Success", 5)
        assert "step kubeadm-upgrader failed" in answer["message"]
        assert "no space left on device" in answer["message"]
        upgraders.failing.clear()
        retry = {"metadata": {"annotations": {"anywhere.eks.amazonaws.com/retry": "now"}}}
        node_upgrade = await env.client.get(NodeUpgrade.resource, f"{worker.name}-node-upgrader", SYSTEM_NAMESPACE)
        await mark(env, node_upgrade, NodeUpgrade.resource, retry)
        await updating
        assert NEW in await env.versions()

    journey(story, 1)


@pytest.mark.soak
def test_nothing_is_asked_before_the_hooks_are_known() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        before = await identities(env)
        await env.change(kubernetesVersion="1.36")
        cluster = await env.until(
            lambda item: any(c.reason == Reason.RUNTIME_HOOKS_NOT_DISCOVERED for c in item.status.conditions)
        )
        (message,) = {
            condition.message
            for condition in cluster.status.conditions
            if condition.reason == Reason.RUNTIME_HOOKS_NOT_DISCOVERED
        }
        assert "--feature-gates=RuntimeSDK=true,InPlaceUpdates=true" in message
        await asyncio.sleep(60)
        assert await identities(env) == before
        await discover(env)
        await env.until(
            lambda item: not any(c.reason == Reason.RUNTIME_HOOKS_NOT_DISCOVERED for c in item.status.conditions)
        )
        kubeadm_control_plane = await env.client.get(KubeadmControlPlane.resource, "garden", SYSTEM_NAMESPACE)
        assert kubeadm_control_plane.tree["spec"]["version"] == NEW

    journey(story, discovered=False)


@pytest.mark.soak
def test_control_plane_of_one_is_refused_with_advice() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        before = await identities(env)
        await env.change(kubernetesVersion="1.36")
        cluster = await env.until(
            lambda item: any(c.reason == Reason.TOO_FEW_MACHINES_FOR_HOOKS for c in item.status.conditions)
        )
        (message,) = {
            condition.message
            for condition in cluster.status.conditions
            if condition.reason == Reason.TOO_FEW_MACHINES_FOR_HOOKS
        }
        assert "run the manager with --in-place annotations" in message
        await asyncio.sleep(60)
        assert await identities(env) == before

    journey(story, 1)


@pytest.mark.soak
def test_rights_that_hooks_need_are_all_used() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        await everything(env, kubernetesVersion="1.36")
        url = {"url": "https://127.0.0.1:9444"}
        await Extension(env.manager.client, url).trust(b"another")
        more = set(grants(manifests.installed(PROVIDERS, (), FrontEnd.HOOKS))) - set(
            grants(manifests.installed(PROVIDERS))
        )
        assert {item.resource for item in more} == {"extensionconfigs", "machines/finalizers"}
        # Only admission plugin OwnerReferencesPermissionEnforcement asks for the latter.
        assert {item.resource for item in more - env.ledger.used(more)} == {"machines/finalizers"}

    journey(story)


@cache
def updated() -> Recording:
    """A worker is updated, and Cluster API does nothing else. Writes of the manager are marked."""
    store, stores = MemoryStore(), MemoryStores()
    begun: list[Recording] = []
    writes = Writes(landed=lambda: begun[0].mark() if begun else None)

    async def main(simulation: Simulation) -> None:
        environment = partial(
            managed_environment, simulation.clock, store=store, stores=stores, front_end=FrontEnd.HOOKS
        )
        async with environment(wrap=writes) as env:
            await env.apply(**spec(1, 1))
            await env.until_ready()
            worker = await outdated_worker(env)
            Upgraders(env.workloads)
            begun.append(Recording(store, stores, simulation.clock))
            await update(env, worker)
            await asyncio.sleep(10)

    run(main, epoch=EPOCH, seed=1)
    return begun[0]


@pytest.mark.soak
@pytest.mark.parametrize("share", sampled(range(4), 1))
def test_killed_manager_is_succeeded_with_hooks(share: int) -> None:
    assert len(updated().marked) > 15
    for number in [*updated().marked][share::4]:
        state = updated().after(number)

        async def main(simulation: Simulation, state: EnvironmentState = state) -> None:
            store, stores = state.opened()
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
                assert [item for item in watcher.left() if not item.endswith("/paused")] == []
                assert [step for _, step in upgraders.ran if step in done] == []

        run(main, epoch=state.at, seed=1)


async def steps_done(env: ManagedEnvironment) -> set[str]:
    """Containers of the steps that NodeUpgrades tell to be done."""
    node_upgrades = [
        item.decode(NodeUpgrade) for item in (await env.client.list(NodeUpgrade.resource, SYSTEM_NAMESPACE)).items
    ]
    return {
        step.container
        for item in node_upgrades
        for step in STEPS
        if step.condition in progress.done(item.status.conditions)
    }
