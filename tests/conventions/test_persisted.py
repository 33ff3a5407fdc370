"""Names that outlive a process never change: objects, files and dashboards of earlier versions have them.

`persisted.golden` lists them. A name that is missing was renamed or removed: bring it back, or read the earlier one as
well and say so in a decision. A name that is new gets a line there, by hand: from then on it stays.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from espalier.api.capi.machine import MachineDeployment
from espalier.api.core import DAEMON_SET
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.apiserver.storage.store import MemoryStore, Store
from espalier.etcdbackup.snapshotter.schedule import Schedule
from espalier.kube.client import PatchType
from espalier.runtime.virtual import Simulation, run
from espalier.simulator.workload_clusters.stores import MemoryStores
from tests.support.environments.in_place_environment import EPOCH, spec
from tests.support.environments.managed_environment import CALM, GARDEN, managed_environment
from tests.support.environments.upgraders import Upgraders
from tests.support.etcd.backing_up import backing_up
from tests.support.etcd.snapshotting import Setting, simulated
from tests.support.objects.persisted import Written, of_metrics, of_the_code

pytestmark = pytest.mark.embedded

GOLDEN = Path(__file__).with_name("persisted.golden")


def persisted() -> list[str]:
    """The lines of the golden file."""
    return [line for line in GOLDEN.read_text().splitlines() if line and not line.startswith("#")]


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> frozenset[str]:
    return frozenset({*of_the_code(tmp_path_factory.mktemp("database")), *written(), *measured_by_an_agent()})


class FollowedStores(MemoryStores):
    """Those of workload clusters, each of which is followed from its beginning."""

    def __init__(self, seen: Written) -> None:
        super().__init__()
        self._seen = seen

    def open(self, key: Key) -> Store:
        store = super().open(key)
        store.follow(self._seen.wrote)
        return store


def written() -> set[str]:
    """Everything written in the life of a cluster: made, scaled, upgraded in place, drifted, rolled and deleted."""
    seen = Written()

    async def main(simulation: Simulation) -> set[str]:
        store, stores = MemoryStore(), FollowedStores(seen)
        store.follow(seen.wrote)
        async with managed_environment(simulation.clock, store=store, stores=stores, resync=300.0) as env:
            Upgraders(env.workloads)

            async def patch(resource: Resource, key: Key, body: Tree) -> None:
                await env.client.patch(resource, key.name, key.namespace, patch=body, type=PatchType.MERGE)

            drift = {"metadata": {"annotations": {metadata_keys.DRIFT_ANNOTATION: "correct"}}}
            await env.apply(**spec(1, 1))
            await env.until_ready()
            await env.change(workerNodeGroupConfigurations=spec(1, 2)["workerNodeGroupConfigurations"])
            await env.until_ready()
            await env.change(kubernetesVersion="1.36")
            await env.until_ready()
            await patch(Cluster.resource, GARDEN, drift)
            edit = {"spec": {"rollout": {"strategy": {"rollingUpdate": {"maxSurge": 3}}}}}
            await patch(MachineDeployment.resource, Key(SYSTEM_NAMESPACE, "garden-md-0"), edit)
            await (await env.workload()).delete(DAEMON_SET, "kindnet", "kube-system")
            await asyncio.sleep(CALM)
            measured = {*of_metrics(env.manager.metrics.registry)}  # while there are machines
            await env.client.delete(Cluster.resource, GARDEN.name, GARDEN.namespace)
            await env.until_gone()
            await env.apply(datacenterRef={"kind": "DockerDatacenterConfig", "name": "nobody"})
            await asyncio.sleep(CALM)
            return {*seen.lines(), *measured, *of_metrics(env.manager.metrics.registry)}

    return run(main, epoch=EPOCH, seed=1)


def measured_by_an_agent() -> set[str]:
    """Metrics of an agent of etcd that has taken, stored and deleted snapshots."""

    async def story(setting: Setting) -> set[str]:
        async with backing_up(setting):
            for _ in range(5):
                await setting.write()
                await asyncio.sleep(3600)
        setting.measures.of_store(lambda: 0.0, lambda: 0.0)
        return set(of_metrics(setting.measures.registry))

    return simulated(story, Schedule(defragmentation="15 * * * *"))


def test_nothing_that_is_stored_was_renamed(collected: frozenset[str]) -> None:
    """When this fails: whoever wrote these before does not find them any more."""
    assert [line for line in persisted() if line not in collected] == []


def test_all_that_is_stored_is_listed(collected: frozenset[str]) -> None:
    """When this fails: choose well, for the name stays; then add the line to the golden file."""
    assert sorted(collected - set(persisted())) == []


def test_each_is_listed_once_in_order() -> None:
    assert persisted() == sorted(set(persisted()))
