"""A manager of a later build, a restore, a move, a status edited by hand: nobody's machines move, and changes do.

The later build has a layer that makes machines of something else, or these tests would prove nothing; that they can
fail is shown with isolation switched off. What drift is, and its correction, is told in test_drift.py.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import pytest

from espalier.api.capi import cluster as capi
from espalier.api.capi.kubeadm import KubeadmConfigTemplate, KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment
from espalier.api.eksa.cluster import NEVER_OBSERVED, Cluster
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.apiserver.storage.store import MemoryStore
from espalier.clusters import Isolation
from espalier.clusters.design import names
from espalier.clusters.design.drift import gate
from espalier.clusters.design.layers import LAYERS
from espalier.kube.client import PatchType
from espalier.kube.objects import Object
from espalier.kube.transports.wire import Request, Response, Transport
from espalier.providers.docker.kinds import DockerDatacenterConfig
from espalier.runtime.virtual import Simulation, run
from espalier.simulator.workload_clusters.stores import MemoryStores
from tests.support.environments.embedded_gardens import EPOCH, Garden
from tests.support.environments.managed_environment import (
    CALM,
    GARDEN,
    NAMESPACE,
    ManagedEnvironment,
    managed_environment,
)
from tests.support.environments.many_clusters import heard
from tests.support.environments.steady_clusters import Steady, steady
from tests.support.environments.stores import CopiedStores, copied
from tests.support.histories.isolation_stories import (
    NEXT,
    STATUS,
    STORIES,
    anew,
    annotate,
    back_up,
    is_synced,
    machines,
    made_for,
    mark,
    numbered,
    plant,
    scaling_replaces_all_of_its_machines_and_no_others,
    scaling_replaces_no_machine,
    set_status,
)
from tests.support.sampling import sampled
from tests.support.servers.faults import Blocked, Crash, Interceptor, is_of_account, is_of_manager

pytestmark = pytest.mark.embedded

CLUSTERS = [4, pytest.param(200, marks=pytest.mark.soak)]
RESYNC = 60.0


class WrittenPerObject(Interceptor):
    """Counts the manager's writes by path; the first one to Cluster API's objects sets `more`."""

    def __init__(self) -> None:
        self.written: Counter[str] = Counter()
        self.more = asyncio.Event()

    async def request(self, transport: Transport, request: Request) -> Response:
        if request.method != "GET" and is_of_manager(request) and not is_of_account(request):
            self.written[request.path] += 1
            if "cluster.x-k8s.io" in request.path:
                self.more.set()
        return await transport.request(request)


@pytest.fixture(scope="module", params=CLUSTERS)
def many(request: pytest.FixtureRequest) -> Steady:
    """They look the same whether their manager rendered them by layers or by the gate alone."""
    return steady(request.param, since=EPOCH)


@pytest.mark.soak
def test_many_steady_clusters_are_quiet(many: Steady) -> None:
    """Nobody writes anything but Leases, neither to the management cluster nor to theirs."""

    async def main(simulation: Simulation) -> None:
        store, stores = copied(many.store), CopiedStores(many.stores)
        async with managed_environment(simulation.clock, seed=2, store=store, stores=stores) as env:
            await asyncio.sleep(CALM)
            assert await heard(env, many.count) == {}

    run(main, epoch=many.at, seed=1)


def upgrade_of_the_manager(
    before: Steady, isolation: Isolation, then: Callable[[ManagedEnvironment], Awaitable[None]]
) -> None:
    """A manager of a later build finds steady clusters; the assertions hold if it is isolated."""

    async def main(simulation: Simulation) -> None:
        per_object = WrittenPerObject()
        async with managed_environment(
            simulation.clock,
            seed=2,
            store=copied(before.store),
            stores=CopiedStores(before.stores),
            wrap=per_object,
            layers=NEXT,
            isolation=isolation,
            resync=RESYNC,
        ) as env:
            with suppress(TimeoutError):
                async with asyncio.timeout(10 * 1.1 * RESYNC):
                    await per_object.more.wait()
            written = set(env.written())
            assert written <= {STATUS}, "the later manager wrote more than statuses"
            assert max(per_object.written.values(), default=0) <= 1
            assert await machines(env.client) == before.machines
            await then(env)
            await env.client.delete(Cluster.resource, numbered(0).name, NAMESPACE)
            await env.until_gone(numbered(0))

    run(main, epoch=before.at, seed=1)


@pytest.mark.demand("I1", "I2", "I6", "I7", "I20", "I23", "I27", "I33")
def test_later_manager_writes_statuses_only(many: Steady) -> None:
    """On two releases; and it says of each cluster that it is as its own release renders it."""

    async def then(env: ManagedEnvironment) -> None:
        steady = [cluster for cluster in env.clusters.list() if cluster.name != "laptop"]
        assert len(steady) == many.count
        assert all(map(is_synced, steady))
        await scaling_replaces_no_machine(env)

    upgrade_of_the_manager(many, Isolation.LAYERS, then)


@pytest.mark.demand("I19", "I20", "I29")
@pytest.mark.soak
def test_gate_alone_holds_until_a_cluster_changes(many: Steady) -> None:
    upgrade_of_the_manager(many, Isolation.GATE, scaling_replaces_all_of_its_machines_and_no_others)


@pytest.mark.demand("I29")
def test_the_same_without_isolation_fails(many: Steady) -> None:
    """The proof that the tests above can fail."""
    with pytest.raises(AssertionError, match="the later manager wrote more than statuses"):
        upgrade_of_the_manager(many, Isolation.OFF, scaling_replaces_no_machine)


@pytest.mark.demand("I30")
@pytest.mark.parametrize("clusters", sampled([3, 10], 0))
def test_the_same_holds_while_all_drift_is_corrected(clusters: int) -> None:
    """So the proof does not rest on nobody looking at what was made."""
    upgrade_of_the_manager(
        steady(clusters, since=EPOCH, annotations={metadata_keys.DRIFT_ANNOTATION: "correct-machines"}),
        Isolation.LAYERS,
        scaling_replaces_no_machine,
    )


@pytest.mark.soak
def test_the_gate_alone_holds_for_what_it_made_itself() -> None:
    """Clusters whose manager had no layers before either."""
    upgrade_of_the_manager(
        steady(3, since=EPOCH, isolation=Isolation.GATE),
        Isolation.GATE,
        scaling_replaces_all_of_its_machines_and_no_others,
    )


garden = Garden(partial(managed_environment, isolation=Isolation.GATE), plant, back_up)


@pytest.mark.demand("I6", "I13")
@pytest.mark.soak
@pytest.mark.parametrize("name", sampled(STORIES, 2))
def test_changes_without_a_manager_are_seen_by_next(name: str) -> None:
    garden.tell(STORIES[name]())


@pytest.mark.demand("I27")
@pytest.mark.parametrize("writes", sampled([2, 3, 4, 7], 1))
def test_change_taken_back_halfway_keeps_gate_open(writes: int) -> None:
    """The manager died after so many writes (the first says that it waits), and then nothing seems to be asked for."""

    async def main(simulation: Simulation) -> None:
        store, stores = MemoryStore(), MemoryStores()
        crash = Crash(writes)
        async with managed_environment(simulation.clock, store=store, stores=stores) as env:
            await env.apply()
            await env.until_ready()
            closed = await mark(env)
            present = await env.client.get(Cluster.resource, "garden", NAMESPACE)
            groups = present.tree["spec"]["workerNodeGroupConfigurations"]
        async with managed_environment(
            simulation.clock,
            seed=2,
            store=store,
            stores=stores,
            wrap=crash,
        ) as env:
            await env.change(workerNodeGroupConfigurations=[groups[0] | {"labels": {"tier": "slow"}}])
            await crash.died.wait()
            assert gate.is_open(await mark(env) or "")
            await env.change(workerNodeGroupConfigurations=groups)
            present = await env.client.get(Cluster.resource, "garden", NAMESPACE)
            await set_status(env, {"observedGeneration": present.metadata.generation})
        async with managed_environment(simulation.clock, seed=3, store=store, stores=stores) as env:
            await env.until(lambda value: value.metadata.annotations.get(metadata_keys.GATE_ANNOTATION) == closed)
            await env.until_ready()
            assert not [node for node in await env.nodes() if "tier" in node["metadata"]["labels"]]
            templates = await env.client.list(KubeadmConfigTemplate.resource, SYSTEM_NAMESPACE)
            assert len(templates.items) == 1

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.soak
@pytest.mark.parametrize("edited", [{}, {"observedGeneration": 77, "phase": "Failed", "ready": False}])
def test_edited_status_is_corrected_alone(
    edited: Tree,
) -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as env:
            await env.apply()
            await env.until_ready()
            await asyncio.sleep(CALM)
            good = (await env.client.get(Cluster.resource, "garden", NAMESPACE)).tree["status"]
            before = env.written()
            await set_status(env, dict.fromkeys(good) | edited)
            async with asyncio.timeout(5):
                await env.until(lambda cluster: cluster.status.phase == "Running" and bool(cluster.status.ready))
            await asyncio.sleep(CALM)
            restored = (await env.client.get(Cluster.resource, "garden", NAMESPACE)).tree["status"]
            assert _without_times(restored) == _without_times(good)
            assert env.written() - before == {STATUS: 1}

    run(main, epoch=EPOCH, seed=1)


def _without_times(status: Tree) -> Tree:
    return status | {"conditions": [condition | {"lastTransitionTime": ""} for condition in status["conditions"]]}


@pytest.mark.soak
def test_restore_into_empty_api_server_opens_no_gate() -> None:
    async def main(simulation: Simulation) -> None:
        async with garden.restored(simulation) as (env, backup):
            await backup.is_left_alone(env)

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.soak
def test_restore_without_managed_fields_is_drift() -> None:
    """Nothing but ownership changes: no generation, and no machine."""

    async def main(simulation: Simulation) -> None:
        async with garden.restored(simulation, layers=LAYERS, isolation=Isolation.LAYERS) as (env, backup):
            told = synced(await env.until(lambda cluster: "False" in synced(cluster)))
            assert "DockerCluster eksa-system/garden: metadata.managedFields" in told["False"]
            generations = await made_for(env, GARDEN)
            patch = {"metadata": {"annotations": {metadata_keys.DRIFT_ANNOTATION: "correct"}}}
            await env.client.patch(Cluster.resource, "garden", NAMESPACE, patch=patch, type=PatchType.MERGE)
            await env.until(lambda cluster: "True" in synced(cluster))
            await asyncio.sleep(CALM)
            assert await made_for(env, GARDEN) == generations
            assert (await machines(env.client)).keys() == backup.machines

    run(main, epoch=EPOCH, seed=1)


def synced(cluster: Cluster) -> dict[str, str]:
    """The message about drift, by the status of condition Synced; empty before there is one."""
    return {
        condition.status: condition.message for condition in cluster.status.conditions if condition.type == names.SYNCED
    }


@pytest.mark.soak
@pytest.mark.parametrize("is_changed", sampled([False, True], 0), ids=["settled", "while it was changed"])
def test_cluster_restored_without_objects_is_recreated(*, is_changed: bool) -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as env:
            await env.apply()
            await env.until_ready()
            if is_changed:
                await env.change(kubernetesVersion="1.36")
                await env.until(
                    lambda value: value.metadata.annotations[metadata_keys.GATE_ANNOTATION] == gate.CHANGING
                )
            tree = (await env.client.get(Cluster.resource, "garden", NAMESPACE)).tree
        async with managed_environment(simulation.clock, seed=2) as env:
            datacenter = {"metadata": {"name": "garden", "namespace": NAMESPACE}, "spec": {}}
            await env.client.create(DockerDatacenterConfig.resource, datacenter)
            await env.client.create(Cluster.resource, anew(tree, {}))
            cluster = await env.until(lambda cluster: bool(cluster.status.conditions))
            ready = next(condition for condition in cluster.status.conditions if condition.type == "Ready")
            assert (ready.status, ready.reason) == ("False", "ClusterAPIObjectsMissing")
            assert cluster.status.observed_generation == NEVER_OBSERVED
            assert (await env.client.list(KubeadmControlPlane.resource)).items == []
            await annotate(env, None)
            await env.until_ready()
            assert len((await env.client.list(MachineDeployment.resource)).items) == 1

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.soak
def test_objects_deleted_in_change_are_reported() -> None:
    """It would be Ready, with nothing in it."""

    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as env:
            await env.apply()
            await env.until_ready()
            await env.change(kubernetesVersion="1.36")
            await env.until(lambda value: value.metadata.annotations[metadata_keys.GATE_ANNOTATION] == gate.CHANGING)
            await env.client.delete(capi.Cluster.resource, "garden", SYSTEM_NAMESPACE)
            await asyncio.sleep(CALM)
            value = (await env.client.get(Cluster.resource, "garden", NAMESPACE)).decode(Cluster)
            ready = next(condition for condition in value.status.conditions if condition.type == "Ready")
            assert (ready.status, ready.reason) == ("False", "ClusterAPIObjectsMissing")
            assert (await env.client.list(Machine.resource)).items == []
            await annotate(env, None)
            await env.until_ready()

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.demand("I9")
def test_generations_are_written_at_the_end() -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as env:
            seen: list[tuple[bool, int, str | None]] = []

            def look(_old: Object | None, new: Object | None, _first: bool) -> None:
                if new is not None and new.name == "garden":
                    cluster = new.decode(Cluster)
                    value = cluster.metadata.annotations.get(metadata_keys.GATE_ANNOTATION)
                    seen.append((bool(cluster.status.ready), cluster.status.observed_generation, value))

            env.clusters.subscribe(look)
            await env.apply()
            await env.until_ready()
            before = [item for item in seen if not item[0]]
            assert len(before) > 5
            assert {generation for _, generation, _ in before} == {NEVER_OBSERVED}
            assert seen[-1][1] > 0
            values = list(dict.fromkeys(value for *_, value in seen))
            assert values == [None, gate.OPENED, await mark(env)]

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.demand("I4")
def test_gate_opened_by_hand_undoes_other_writes() -> None:
    """Also what was deleted there; what is as it should be keeps its uid."""

    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as env:
            await env.apply()
            await env.until_ready()
            closed = await mark(env)
            control_plane = await env.client.get(KubeadmControlPlane.resource, "garden", SYSTEM_NAMESPACE)
            await env.client.delete(MachineDeployment.resource, "garden-md-0", SYSTEM_NAMESPACE)
            await asyncio.sleep(CALM)
            assert (await env.client.list(MachineDeployment.resource)).items == []
            assert await mark(env) == closed
            await annotate(env, gate.OPENED)
            await env.until(lambda cluster: cluster.metadata.annotations[metadata_keys.GATE_ANNOTATION] == closed)
            assert len(await env.nodes()) == 3
            live = await env.client.get(KubeadmControlPlane.resource, "garden", SYSTEM_NAMESPACE)
            assert live.metadata.uid == control_plane.metadata.uid

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.demand("I10")
def test_failed_reconcile_is_finished_without_change() -> None:
    async def main(simulation: Simulation) -> None:
        shut = asyncio.Event()
        async with managed_environment(simulation.clock, wrap=Blocked("/machinedeployments", shut)) as env:
            await env.apply()
            generation = (await env.until_ready()).status.observed_generation
            shut.set()
            await env.change(workerNodeGroupConfigurations=[{"name": "md-0", "count": 3}])
            await asyncio.sleep(CALM)
            cluster = await env.until(lambda cluster: not cluster.status.ready)
            assert cluster.status.observed_generation == generation < cluster.metadata.generation
            assert gate.is_open(cluster.metadata.annotations[metadata_keys.GATE_ANNOTATION])
            shut.clear()
            await env.until_ready()
            assert len(await env.nodes()) == 4

    run(main, epoch=EPOCH, seed=1)
