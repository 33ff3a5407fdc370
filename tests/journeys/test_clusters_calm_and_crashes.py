"""A settled environment is quiet, and a manager that died is followed by one that goes on."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.apiserver.storage.store import Change, MemoryStore
from espalier.providers.docker.cluster_api import DockerMachineTemplate
from espalier.providers.kinds import CLUSTER_API_KINDS
from espalier.runtime.virtual import Simulation, run
from espalier.simulator.workload_clusters.stores import MemoryStores
from tests.support.environments.cluster_lives import EPOCH, KUBERNETES, groups, journey, left
from tests.support.environments.managed_environment import NAMESPACE, ManagedEnvironment, managed_environment
from tests.support.environments.shared_caches import shared
from tests.support.sampling import sampled
from tests.support.servers.faults import Crash

pytestmark = pytest.mark.embedded


@pytest.mark.soak
def test_same_seed_gives_same_history_bit_by_bit() -> None:
    def history(seed: int) -> list[bytes]:
        changes: list[bytes] = []

        async def main(simulation: Simulation) -> None:
            store = MemoryStore()

            def noted(change: Change) -> None:
                changes.append(change.after.raw)

            store.follow(noted)
            async with managed_environment(simulation.clock, seed=seed, store=store) as env:
                await env.apply()
                await env.until_ready()
                await env.client.delete(Cluster.resource, "garden", NAMESPACE)
                await env.until_gone()

        run(main, epoch=EPOCH, seed=seed)
        return changes

    first, second, other = history(7), history(7), history(8)
    assert first == second
    assert first != other


@pytest.mark.demand("L18")
@pytest.mark.soak
def test_a_settled_environment_is_quiet() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await env.apply()
        await env.until_ready()
        await asyncio.sleep(10)
        revision = env.store.revision
        await asyncio.sleep(3600)
        assert env.store.revision == revision

    journey(story)


@pytest.mark.demand("L18")
def test_scaling_a_group_writes_one_cluster_api_object() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await env.apply()
        await env.until_ready()
        before = applies(env)
        await env.change(workerNodeGroupConfigurations=groups(3))
        await env.until_ready()
        assert applies(env) - before == Counter({"machinedeployments": 1})

    journey(story)


def applies(env: ManagedEnvironment) -> Counter[str]:
    """How often the specs of Cluster API's objects were applied by the Cluster controller."""
    result: Counter[str] = Counter()
    for kind in CLUSTER_API_KINDS:
        for object_ in shared(env.capi_objects, kind.resource).list():
            result[kind.resource.plural] += object_.metadata.generation
    kinds = ("machinedeployments", "kubeadmcontrolplanes", "dockermachinetemplates", "kubeadmconfigtemplates")
    return Counter({name: count for name, count in result.items() if name in kinds})


@pytest.mark.soak
@pytest.mark.parametrize("writes", sampled([1, 3, 7, 11, 18, 40, 80], 2, 4))
def test_manager_killed_after_a_write_reaches_the_end(writes: int) -> None:
    async def main(simulation: Simulation) -> None:
        store, stores = MemoryStore(), MemoryStores()
        crash = Crash(writes)

        async with managed_environment(simulation.clock, store=store, stores=stores, wrap=crash) as env:
            await env.apply()
            await crash.died.wait()
        async with managed_environment(simulation.clock, seed=2, store=store, stores=stores) as env:
            await env.until_ready()
            assert await env.versions() == [KUBERNETES["1.35"]] * 3
            assert len(await left(env)) == 9 + len(["Machine", "KubeadmConfig", "DockerMachine"]) * 3 + 1
            await env.client.delete(Cluster.resource, "garden", NAMESPACE)
            await env.until_gone()
            assert await left(env) == []

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.demand("I10")
@pytest.mark.soak
@pytest.mark.parametrize("writes", sampled([1, 3, 10, 40], 2))
def test_a_manager_that_died_in_an_upgrade_finishes_it(writes: int) -> None:
    async def main(simulation: Simulation) -> None:
        store, stores = MemoryStore(), MemoryStores()
        crash = Crash(writes)

        async with managed_environment(simulation.clock, store=store, stores=stores) as env:
            await env.apply()
            await env.until_ready()
        async with managed_environment(simulation.clock, seed=2, store=store, stores=stores, wrap=crash) as env:
            await env.change(kubernetesVersion="1.36")
            await crash.died.wait()
        async with managed_environment(simulation.clock, seed=3, store=store, stores=stores) as env:
            await env.until_ready()
            assert await env.versions() == [KUBERNETES["1.36"]] * 3
            templates = await env.client.list(DockerMachineTemplate.resource, SYSTEM_NAMESPACE)
            assert {item.name for item in templates.items} == {"garden-control-plane-2", "garden-md-0-2"}

    run(main, epoch=EPOCH, seed=1)
