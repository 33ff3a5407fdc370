"""Objects that belong together are rolled out together, however they are written one by one."""

from __future__ import annotations

import asyncio
import copy
import itertools
import random
from collections.abc import Sequence

import pytest

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.core import SECRET
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.upgrades import MachineDeploymentUpgrade
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.apiserver.storage.store import MemoryStore
from espalier.clusters.observe.settling import LONGEST, SETTLE_TIME
from espalier.kube.objects import Object
from espalier.runtime.virtual import Simulation, run
from espalier.simulator.workload_clusters.stores import MemoryStores
from tests.support.environments.managed_environment import CALM, NAMESPACE, ManagedEnvironment, managed_environment
from tests.support.histories.changes_in_parts import (
    CHANGES,
    EPOCH,
    VINEYARD,
    Made,
    change,
    five_objects,
    pause,
    put,
    tell,
    vineyard,
    warnings,
)
from tests.support.providers import vsphere
from tests.support.providers.provider_lives import LIVES, ProviderLife
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded

PAUSES = (0.0, 0.02, 0.5, SETTLE_TIME - 0.1)
"""Seconds between two writes of one change."""


async def planned_and_made(
    env: ManagedEnvironment, made: Made, trees: Sequence[Tree], writes: Sequence[tuple[Tree, float]]
) -> int:
    """Write these objects, with a pause after each; the machines of the plan are made, and no others."""
    preview = await env.preview(VINEYARD, copy.deepcopy(list(trees)))
    assert (preview.refusals, preview.stops) == ((), "")
    made.begin()
    for tree, seconds in writes:
        await put(env, tree)
        await asyncio.sleep(seconds)
    await asyncio.sleep(CALM)
    await env.until_ready(VINEYARD)
    coming = {group.name: group.coming for group in preview.groups if group.coming}
    going = {group.name: len(group.going) for group in preview.groups if group.going}
    assert (made.coming, made.going) == (coming, going), [tree["kind"] for tree, _ in writes]
    return sum(coming.values())


@pytest.mark.parametrize("etcd", [False, True], ids=["stacked", "external-etcd"])
@pytest.mark.parametrize(
    ("seed", "changes"), [(0, 5), *(pytest.param(seed, 60, marks=pytest.mark.soak) for seed in range(1, 9))]
)
def test_planned_change_is_the_same_however_written(seed: int, changes: int, etcd: bool) -> None:
    """Changes of one to five objects, in any order, with any pause in between that is shorter than the settle time."""
    rng = random.Random(seed)

    async def story(env: ManagedEnvironment, made: Made, trees: list[Tree]) -> None:
        before, machines = await warnings(env), 0
        for number in range(changes):
            chosen = rng.sample(trees, number % 5 + 1)
            for tree in chosen:
                CHANGES[tree["kind"]](tree["spec"], number)
            machines += await planned_and_made(env, made, trees, [(item, rng.choice(PAUSES)) for item in chosen])
        assert machines >= changes, "what is counted must be worth counting"
        assert await warnings(env) == before

    tell(story, etcd=etcd)


ORDERS = list(itertools.permutations(range(5)))


@pytest.mark.soak
@pytest.mark.parametrize("seconds", sampled(PAUSES, 0))
def test_in_every_order_five_objects_are_one_rollout(seconds: float) -> None:
    async def story(env: ManagedEnvironment, made: Made, trees: list[Tree]) -> None:
        for number, order in enumerate(ORDERS):
            for tree in trees:
                CHANGES[tree["kind"]](tree["spec"], 4 * number + 1)
            assert await planned_and_made(env, made, trees, [(trees[at], seconds) for at in order]) == 3

    tell(story)


async def ready(env: ManagedEnvironment) -> tuple[str, str]:
    """Status and reason of condition Ready."""
    cluster = (await env.client.get(Cluster.resource, VINEYARD.name, NAMESPACE)).decode(Cluster)
    (condition,) = [condition for condition in cluster.status.conditions if condition.type == "Ready"]
    return condition.status, condition.reason


async def message(env: ManagedEnvironment) -> str:
    cluster = (await env.client.get(Cluster.resource, VINEYARD.name, NAMESPACE)).decode(Cluster)
    return next(condition.message for condition in cluster.status.conditions if condition.type == "Ready")


@pytest.mark.soak
def test_endless_edits_do_not_starve_a_change() -> None:
    async def story(env: ManagedEnvironment, made: Made, trees: list[Tree]) -> None:
        loop = asyncio.get_running_loop()
        before, began = await warnings(env), loop.time()
        for number in itertools.count(1):
            await change(env, trees, number, -1)
            await asyncio.sleep(SETTLE_TIME - 1)
            if made.coming:
                break
            assert await ready(env) == ("False", "Settling")
            assert await message(env) == (
                "a change was requested; it begins when the Cluster and the objects that it names have not changed "
                "for 3 s, after 60 s at the latest"
            )
        assert SETTLE_TIME * LONGEST <= loop.time() - began < SETTLE_TIME * (LONGEST + 2)
        await asyncio.sleep(CALM)
        assert await ready(env) == ("True", "ClusterReady")
        assert await warnings(env) == before

    tell(story)


@pytest.mark.soak
def test_a_change_that_is_taken_back_in_time_was_none() -> None:
    async def story(env: ManagedEnvironment, made: Made, trees: list[Tree]) -> None:
        before = copy.deepcopy(trees)
        await change(env, trees, 1, 0, -1)
        await asyncio.sleep(1)
        assert await ready(env) == ("False", "Settling")
        written = env.written()
        for tree in before:
            await put(env, tree)
        await asyncio.sleep(CALM)
        assert await ready(env) == ("True", "ClusterReady")
        assert (made.coming, made.going) == ({}, {})
        assert {what for what in env.written() if what[1] != "clusters"} <= written.keys(), "only the status is written"

    tell(story)


@pytest.mark.soak
def test_change_in_a_rollout_settles_too() -> None:
    async def story(env: ManagedEnvironment, made: Made, trees: list[Tree]) -> None:
        await change(env, trees, 2, 0)  # rolls the control plane
        await asyncio.sleep(SETTLE_TIME + 5)
        assert made.coming == {"": 1}
        for at in (4, 1, 3):
            await change(env, trees, 5, at)
            await asyncio.sleep(SETTLE_TIME - 0.5)
        await asyncio.sleep(CALM)
        await env.until_ready(VINEYARD)
        assert made.coming["vineyard-md-0"] == made.coming["vineyard-md-1"] == 1

    tell(story)


@pytest.mark.soak
def test_a_pause_settles_what_is_written_in_it() -> None:
    """Nobody has to wait for the settle time after a pause in which everything was written long ago."""

    async def story(env: ManagedEnvironment, made: Made, trees: list[Tree]) -> None:
        await pause(env, "true")
        await change(env, trees, 1, 0, -1)
        await asyncio.sleep(CALM)
        assert await ready(env) == ("True", "ClusterReady")
        await pause(env, None)
        await asyncio.sleep(SETTLE_TIME / 2)
        assert made.coming == {"vineyard-md-1": 1}
        await asyncio.sleep(CALM)
        await pause(env, "true")
        await change(env, trees, 5, -1)
        await pause(env, None)
        await asyncio.sleep(SETTLE_TIME / 2)
        assert await ready(env) == ("False", "Settling"), "the last write may have been the first of several"
        await change(env, trees, 5, 0)
        await asyncio.sleep(CALM)
        assert made.coming == {"vineyard-md-1": 2}

    tell(story)


def test_manager_that_starts_in_middle_waits_for_rest() -> None:
    async def main(simulation: Simulation) -> None:
        store, stores, trees = MemoryStore(), MemoryStores(), five_objects()
        async with managed_environment(simulation.clock, store=store, stores=stores) as env, vineyard(env, trees):
            await change(env, trees, 1, -1)
        async with managed_environment(simulation.clock, seed=2, store=store, stores=stores) as env:
            made = Made(env)
            await asyncio.sleep(SETTLE_TIME - 1)
            await change(env, trees, 1, 0)
            await asyncio.sleep(CALM)
            await env.until_ready(VINEYARD)
            assert made.coming == {"vineyard-md-1": 1}

    run(main, epoch=EPOCH, seed=1)


def test_new_cluster_waits_for_nothing_but_its_objects() -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as env:
            await env.client.apply(SECRET, vsphere.credentials(namespace=NAMESPACE))
            reasons = set()
            env.clusters.subscribe(lambda _old, new, _first: reasons.update(_reasons(new)))
            trees = five_objects()
            for tree in trees:
                await put(env, tree)
                await asyncio.sleep(0.5)
            assert (await env.client.list(KubeadmControlPlane.resource, SYSTEM_NAMESPACE)).items
            await env.until_ready(VINEYARD)
            assert "Settling" not in reasons

    run(main, epoch=EPOCH, seed=1)


def _reasons(value: Object | None) -> set[str]:
    return {condition.reason for condition in value.decode(Cluster).status.conditions} if value is not None else set()


def test_cluster_is_not_created_from_leftovers() -> None:
    """The objects of a manifest are applied again, the Cluster first; others still have their earlier content."""

    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as env:
            await env.client.apply(SECRET, vsphere.credentials(namespace=NAMESPACE))
            trees = five_objects()
            for tree in trees[1:]:
                await put(env, tree)
            await asyncio.sleep(CALM)
            made = Made(env)
            await change(env, trees, 0, *range(5))
            await asyncio.sleep(CALM)
            await env.until_ready(VINEYARD)
            assert made.coming == {"": 1, "vineyard-md-0": 2, "vineyard-md-1": 1}

    run(main, epoch=EPOCH, seed=1)


UPGRADES = [(life, is_first) for life in LIVES for is_first in (True, False)]


@pytest.mark.parametrize(("life", "is_first"), sampled(UPGRADES, 4))
def test_upgrade_of_several_objects_warns_of_nothing(life: ProviderLife, is_first: bool) -> None:
    """The version is in the Cluster, images are in other objects: on bare metal, neither is valid without the other."""

    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as env:
            await life.before(env)
            steps = life.steps(env)
            await steps.make()
            before, made = await warnings(env), Made(env)
            life.kubernetes(steps, "1.36")
            planned = await env.preview(steps.key, copy.deepcopy(steps.trees))
            for tree in steps.trees if is_first else reversed(steps.trees):
                await put(env, tree)
                await asyncio.sleep(SETTLE_TIME / 4)
            await asyncio.sleep(CALM)
            await env.until_ready(steps.key)
            assert made.coming == {group.name: group.coming for group in planned.groups}
            assert len(made.coming) == 2
            assert await warnings(env) == before
            if life.datacenter == "TinkerbellDatacenterConfig":
                life.images(steps.trees, "1.35")  # nothing follows that would make this valid, and it is told as ever
                await put(env, steps.trees[1])
                await asyncio.sleep(CALM)
                assert len(await warnings(env)) > len(before)

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.parametrize(("first", "second"), sampled([(3, 0), (0, 3)], 0))
def test_in_place_does_not_begin_before_a_replacement(first: int, second: int) -> None:
    async def story(env: ManagedEnvironment, made: Made, trees: list[Tree]) -> None:
        spec = trees[0]["spec"]
        groups = spec["workerNodeGroupConfigurations"]
        for part in (spec["controlPlaneConfiguration"], *groups):
            part["upgradeRolloutStrategy"] = {"type": "InPlace"}
        await put(env, trees[0])
        await asyncio.sleep(CALM)
        reasons: set[str] = set()
        env.clusters.subscribe(lambda _old, new, _first: reasons.update(_reasons(new)))
        upgrades = env.capi_objects.of(MachineDeploymentUpgrade.resource)
        begun: list[str] = []
        upgrades.subscribe(lambda _old, new, _first: begun.append(new.name) if new is not None else None)
        await upgrades.wait_synced()
        for part in (spec["controlPlaneConfiguration"], *groups):
            part["upgradeRolloutStrategy"] = {"type": "RollingUpdate"}
        trees[3]["spec"] |= {"memoryMiB": 16384, "template": "ubuntu-1-35-b"}
        before = await warnings(env)
        for at in (first, second):
            await put(env, trees[at])
            await asyncio.sleep(SETTLE_TIME - 0.5)
        await asyncio.sleep(CALM)
        await env.until_ready(VINEYARD)
        assert (made.coming, begun) == ({"vineyard-md-0": 1}, [])
        assert "InPlaceUpgradeRefused" not in reasons
        assert await warnings(env) == before

    tell(story)
