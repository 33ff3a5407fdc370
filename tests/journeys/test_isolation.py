"""A manager of a later build, a restore, a move, a status edited by hand: nobody's machines move, and changes do.

The later build renders what machines are made of in another way, or these tests would prove nothing; that they can
fail is shown with isolation switched off.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime

import pytest

from espalier.api import capi
from espalier.api.capi.docker import DockerMachineTemplate, Mount
from espalier.api.capi.kubeadm import KubeadmConfigSpec, KubeadmConfigTemplate, KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment
from espalier.api.core import MUTATING_WEBHOOK_CONFIGURATION, SECRET, VALIDATING_WEBHOOK_CONFIGURATION
from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.docker import DockerDatacenterConfig
from espalier.api.eksa.group import SYSTEM_NAMESPACE
from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.apiserver.server import Server
from espalier.apiserver.store import MemoryStore
from espalier.clusters import Isolation, gate, names
from espalier.clusters.design import Components, Design, Provider
from espalier.clusters.render import docker
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import Unreachable
from espalier.kube.inprocess import InProcessTransport
from espalier.kube.objects import Object
from espalier.kube.wire import Request, Response, Stream, Transport
from espalier.local.management import prepare
from espalier.local.stores import MemoryStores
from espalier.releases import Releases
from espalier.runtime.virtual import Simulation, run
from tests.journeys.managed import GARDEN, NAMESPACE, ManagedLaptop, managed_laptop
from tests.journeys.test_quiet import all_ready, apply
from tests.journeys.test_simulated_machines import CrashingTransport
from tests.support.control_plane import READING_VERBS

pytestmark = pytest.mark.embedded

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
CLUSTERS = 200
CALM = 600.0
RESYNC = 60.0
MANAGER = "espalier"
"""User agent of the manager; the machines' controllers have another."""
STATUS = ("patch", "clusters", "status")
ANNOTATION = ("patch", "clusters", "")


class NextDocker:
    """Provider docker as a later build might have it: every machine is made of something else."""

    def infrastructure_cluster(self, design: Design) -> KubeObject:
        return docker.infrastructure_cluster(design)

    def control_plane_config(self, design: Design) -> KubeadmConfigSpec:
        return docker.control_plane_config(design)

    def worker_config(self, design: Design, group: eksa.WorkerNodeGroupConfiguration) -> KubeadmConfigSpec:
        return docker.worker_config(design, group)

    def machine_template(self, design: Design, components: Components, name: str) -> KubeObject:
        template = docker.machine_template(design, components, name)
        template.spec.template.spec.extra_mounts.append(Mount(host_path="/lib/modules", container_path="/lib/modules"))
        return template


NEXT: Mapping[str, Provider] = {DockerDatacenterConfig.resource.kind: NextDocker()}


class WrittenPerObject:
    """Counts the manager's writes by path, and lets them pass."""

    def __init__(self, transport: Transport, written: Counter[str]) -> None:
        self._transport = transport
        self._written = written

    async def request(self, request: Request) -> Response:
        if request.method != "GET" and request.headers.get("user-agent") == MANAGER:
            self._written[request.path] += 1
        return await self._transport.request(request)

    async def stream(self, request: Request) -> Stream | Response:
        return await self._transport.stream(request)

    async def close(self) -> None:
        await self._transport.close()


def writes(server: Server) -> Counter[tuple[str, str, str]]:
    """What the manager wrote to this server, but for Leases and events."""
    found: Counter[tuple[str, str, str]] = Counter()
    for (verb, plural, subresource, agent), count in server.requests.items():
        if agent == MANAGER and verb not in READING_VERBS and plural not in ("leases", "events"):
            found[verb, plural, subresource] += count
    return found


async def machines(world: ManagedLaptop, name: str = "") -> dict[str, str]:
    """Machines by uid, each with its cluster; of one cluster, or all."""
    labels = f"cluster.x-k8s.io/cluster-name={name}" if name else ""
    found = await world.client.list(Machine.resource, SYSTEM_NAMESPACE, labels=labels)
    return {one.metadata.uid: one.metadata.labels["cluster.x-k8s.io/cluster-name"] for one in found.items}


async def mark(world: ManagedLaptop, key: Key = GARDEN) -> str | None:
    """The gate's mark on a Cluster."""
    found = await world.client.get(Cluster.resource, key.name, key.namespace)
    return found.metadata.annotations.get(names.GATE_ANNOTATION)


async def annotate(world: ManagedLaptop, value: str | None, key: Key = GARDEN) -> None:
    patch = {"metadata": {"annotations": {names.GATE_ANNOTATION: value}}}
    await world.client.patch(Cluster.resource, key.name, key.namespace, patch=patch, type=PatchType.MERGE)


async def set_status(world: ManagedLaptop, status: Tree, key: Key = GARDEN) -> None:
    await world.client.patch(
        Cluster.resource,
        key.name,
        key.namespace,
        patch={"status": status},
        type=PatchType.MERGE,
        subresource="status",
    )


def numbered(number: int) -> Key:
    return Key(NAMESPACE, f"garden-{number:03}")


def upgrade_of_the_manager(count: int, isolation: Isolation) -> None:
    """So many steady clusters, a manager of a later build, and the assertions that hold if it is isolated."""

    async def main(simulation: Simulation) -> None:
        store, stores = MemoryStore(), MemoryStores()
        async with managed_laptop(simulation.clock, store=store, stores=stores) as world:
            await apply(world.client, count)
            await all_ready(world.clusters, count, seconds=900)
            await asyncio.sleep(CALM)
            before = await machines(world)
        per_object: Counter[str] = Counter()
        async with managed_laptop(
            simulation.clock,
            seed=2,
            store=store,
            stores=stores,
            wrap=lambda transport: WrittenPerObject(transport, per_object),
            providers=NEXT,
            isolation=isolation,
            resync=RESYNC,
        ) as world:
            await asyncio.sleep(10 * 1.1 * RESYNC)
            assert writes(world.server).keys() <= {STATUS}, "the later manager wrote more than statuses"
            assert max(per_object.values(), default=0) <= 1
            assert await machines(world) == before
            await scaling_rolls_exactly_one(world, before)
            await world.client.delete(Cluster.resource, numbered(0).name, NAMESPACE)
            await world.until_gone(numbered(0))

    run(main, epoch=EPOCH, seed=1)


async def scaling_rolls_exactly_one(world: ManagedLaptop, before: dict[str, str]) -> None:
    """The price of the gate alone: the first change of a cluster brings what the later build does otherwise."""
    scaled = numbered(1)
    await world.change(scaled, workerNodeGroupConfigurations=[{"name": "md-0", "count": 3}])
    await world.until_ready(scaled)
    after = await machines(world)
    assert Counter(after.values())[scaled.name] == 1 + 3
    replaced = {uid for uid, cluster in before.items() if uid not in after}
    assert replaced == {uid for uid, cluster in before.items() if cluster == scaled.name}


def test_a_later_manager_writes_nothing_but_statuses_to_two_hundred_steady_clusters() -> None:
    upgrade_of_the_manager(CLUSTERS, Isolation.GATE)


def test_the_same_without_isolation_fails() -> None:
    """The proof that the test above can fail."""
    with pytest.raises(AssertionError, match="the later manager wrote more than statuses"):
        upgrade_of_the_manager(3, Isolation.OFF)


def later(
    before: Callable[[ManagedLaptop], Awaitable[None]],
    after: Callable[[ManagedLaptop], Awaitable[None]],
) -> None:
    """A steady garden whose manager stopped: `before` is done while there is none, `after` with a later one."""

    async def main(simulation: Simulation) -> None:
        store, stores = MemoryStore(), MemoryStores()
        async with managed_laptop(simulation.clock, store=store, stores=stores) as world:
            await world.apply()
            await world.until_ready()
            await asyncio.sleep(CALM)
            # What comes now is not seen by a manager before the later one.
            world.manager.stop()
            await asyncio.sleep(CALM)
            await before(world)
        async with managed_laptop(simulation.clock, seed=2, store=store, stores=stores, providers=NEXT) as world:
            await after(world)

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.parametrize("older", [None, "v0:5eed"])
def test_a_cluster_of_an_older_manager_is_adopted(older: str | None) -> None:
    """Without a mark, or with one of another format: the mark is written, and nothing else."""
    uids: dict[str, str] = {}

    async def before(world: ManagedLaptop) -> None:
        await annotate(world, older)
        uids.update(await machines(world))

    async def after(world: ManagedLaptop) -> None:
        await asyncio.sleep(CALM)
        assert writes(world.server) == {ANNOTATION: 1}
        assert (await mark(world) or "").startswith("v1:")
        assert await machines(world) == uids

    later(before, after)


def test_a_cluster_without_a_mark_whose_generations_differ_is_reconciled() -> None:
    async def before(world: ManagedLaptop) -> None:
        await annotate(world, None)
        await world.change(workerNodeGroupConfigurations=[{"name": "md-0", "count": 3}])

    async def after(world: ManagedLaptop) -> None:
        await world.until_ready()
        assert len(await world.nodes()) == 4

    later(before, after)


def test_a_change_is_noticed_when_the_generations_say_that_there_is_none() -> None:
    """What deletion and re-creation, sums that stay equal, or an edited status come to."""

    async def before(world: ManagedLaptop) -> None:
        await world.change(workerNodeGroupConfigurations=[{"name": "md-0", "count": 3}])
        present = await world.client.get(Cluster.resource, "garden", NAMESPACE)
        await set_status(world, {"observedGeneration": present.metadata.generation, "childrenObservedGeneration": 1})

    async def after(world: ManagedLaptop) -> None:
        await world.until(lambda cluster: cluster.status.phase == "Upgrading")
        await world.until(lambda cluster: bool(cluster.status.ready) and cluster.status.phase == "Running")
        assert len(await world.nodes()) == 4

    later(before, after)


def test_a_reference_that_is_moved_to_another_child_is_noticed() -> None:
    """The other has the generation of the first, so the sum over the children stays as it was."""
    marks: list[str | None] = []

    async def before(world: ManagedLaptop) -> None:
        marks.append(await mark(world))
        other = {"metadata": {"name": "other", "namespace": NAMESPACE}, "spec": {}}
        await world.client.create(DockerDatacenterConfig.resource, other)
        for resource in (VALIDATING_WEBHOOK_CONFIGURATION, MUTATING_WEBHOOK_CONFIGURATION):
            for found in (await world.client.list(resource)).items:
                await world.client.delete(resource, found.name)  # admission refuses it to a cluster that isn't paused
        await world.change(datacenterRef={"kind": "DockerDatacenterConfig", "name": "other"})

    async def after(world: ManagedLaptop) -> None:
        cluster = await world.until_ready()
        assert cluster.metadata.annotations[names.GATE_ANNOTATION] not in marks
        template = (await world.client.list(DockerMachineTemplate.resource)).items[0].decode(DockerMachineTemplate)
        assert len(template.spec.template.spec.extra_mounts) == 2

    later(before, after)


def test_a_child_that_is_made_again_with_equal_content_is_no_change() -> None:
    async def before(world: ManagedLaptop) -> None:
        datacenter = await world.client.get(DockerDatacenterConfig.resource, "garden", NAMESPACE)
        await world.client.delete(DockerDatacenterConfig.resource, "garden", NAMESPACE)
        again = {"metadata": {"name": "garden", "namespace": NAMESPACE}, "spec": datacenter.tree["spec"]}
        await world.client.create(DockerDatacenterConfig.resource, again)

    async def after(world: ManagedLaptop) -> None:
        await asyncio.sleep(CALM)
        # It has to go with the Cluster again.
        assert writes(world.server) == {("patch", "dockerdatacenterconfigs", ""): 1}

    later(before, after)


@pytest.mark.parametrize("writes", [1, 2, 3, 6])
def test_changing_back_in_the_middle_does_not_close_the_gate_on_a_half_changed_world(writes: int) -> None:
    """The manager died after so many writes of a change, and when the next one comes nothing seems to be asked for."""

    async def main(simulation: Simulation) -> None:
        store, stores = MemoryStore(), MemoryStores()
        died = asyncio.Event()
        async with managed_laptop(simulation.clock, store=store, stores=stores) as world:
            await world.apply()
            await world.until_ready()
            closed = await mark(world)
            present = await world.client.get(Cluster.resource, "garden", NAMESPACE)
            groups = present.tree["spec"]["workerNodeGroupConfigurations"]
        async with managed_laptop(
            simulation.clock,
            seed=2,
            store=store,
            stores=stores,
            wrap=lambda transport: CrashingTransport(transport, writes, died),
        ) as world:
            await world.change(workerNodeGroupConfigurations=[groups[0] | {"labels": {"tier": "slow"}}])
            await died.wait()
            assert await mark(world) == gate.OPENED
            await world.change(workerNodeGroupConfigurations=groups)
            present = await world.client.get(Cluster.resource, "garden", NAMESPACE)
            await set_status(world, {"observedGeneration": present.metadata.generation})
        async with managed_laptop(simulation.clock, seed=3, store=store, stores=stores) as world:
            await world.until(lambda found: found.metadata.annotations.get(names.GATE_ANNOTATION) == closed)
            await world.until_ready()
            assert not [node for node in await world.nodes() if "tier" in node["metadata"]["labels"]]
            templates = await world.client.list(KubeadmConfigTemplate.resource, SYSTEM_NAMESPACE)
            assert len(templates.items) == 1

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.parametrize("edited", [{}, {"observedGeneration": 77, "phase": "Failed", "ready": False}])
def test_a_status_that_was_wiped_or_edited_is_put_right_at_once_and_nothing_else_is_written(
    edited: Tree,
) -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_laptop(simulation.clock) as world:
            await world.apply()
            await world.until_ready()
            await asyncio.sleep(CALM)
            good = (await world.client.get(Cluster.resource, "garden", NAMESPACE)).tree["status"]
            before = writes(world.server)
            await set_status(world, dict.fromkeys(good) | edited)
            async with asyncio.timeout(5):
                await world.until(lambda cluster: cluster.status.phase == "Running" and bool(cluster.status.ready))
            await asyncio.sleep(CALM)
            restored = (await world.client.get(Cluster.resource, "garden", NAMESPACE)).tree["status"]
            assert _without_times(restored) == _without_times(good)
            assert writes(world.server) - before == {STATUS: 1}

    run(main, epoch=EPOCH, seed=1)


def _without_times(status: Tree) -> Tree:
    return status | {"conditions": [one | {"lastTransitionTime": ""} for one in status["conditions"]]}


RESTORED: tuple[Resource, ...] = (
    DockerDatacenterConfig.resource,
    Cluster.resource,
    *(kind.resource for kind in capi.KINDS),
    SECRET,
)


async def restore(objects: Iterable[tuple[Resource, Object]], client: Client) -> None:
    """Make all of these anew, owners first; the status of our own kinds is lost, as in most backups.

    Uids and generations are the server's, and references to owners follow their uids.
    """
    waiting = list(objects)
    uids: dict[str, str] = {}
    while waiting:
        ready = [one for one in waiting if all(ref.uid in uids for ref in one[1].metadata.owner_references)]
        assert ready, "somebody's owner is not among what is restored"
        for resource, object_ in ready:
            made = await client.create(resource, _anew(object_.tree, uids))
            uids[object_.metadata.uid] = made.metadata.uid
            status = object_.tree.get("status")
            if status and resource not in (Cluster.resource, DockerDatacenterConfig.resource):
                patch = {"status": status}
                await client.patch(
                    resource, made.name, made.namespace, patch=patch, type=PatchType.MERGE, subresource="status"
                )
        waiting = [one for one in waiting if one not in ready]


def _anew(tree: Tree, uids: Mapping[str, str]) -> Tree:
    kept = ("name", "namespace", "labels", "annotations", "finalizers", "ownerReferences")
    metadata = {name: value for name, value in tree["metadata"].items() if name in kept}
    for reference in metadata.get("ownerReferences", []):
        reference["uid"] = uids[reference["uid"]]
    return {name: value for name, value in tree.items() if name != "status"} | {"metadata": metadata}


def test_a_restore_of_everything_into_an_empty_api_server_opens_no_gate_and_moves_no_machine() -> None:
    """Also what a move to another management cluster comes to, whose manager is of a later build."""

    async def main(simulation: Simulation) -> None:
        stores, empty, releases = MemoryStores(), MemoryStore(), Releases.load()
        async with managed_laptop(simulation.clock, stores=stores) as world:
            await world.apply()
            await world.until_ready()
            await world.change(workerNodeGroupConfigurations=[{"name": "md-0", "count": 1}])
            await world.until_ready()
            await asyncio.sleep(CALM)
            backup = [
                (resource, found)
                for resource in RESTORED
                for found in (await world.client.list(resource)).items
                if found.name != "laptop"
            ]
            closed = await mark(world)
            generation = (await world.client.get(Cluster.resource, "garden", NAMESPACE)).metadata.generation
            nodes = sorted(node["metadata"]["uid"] for node in await world.nodes())
        server = Server(empty, now=simulation.clock.now, random=simulation.random)
        await server.start()
        client = Client(InProcessTransport(server))
        await prepare(client, releases)
        await restore(backup, client)
        machines_then = {found.metadata.uid for found in (await client.list(Machine.resource)).items}
        await server.close()
        async with managed_laptop(simulation.clock, seed=2, store=empty, stores=stores, providers=NEXT) as world:
            cluster = await world.until(lambda cluster: bool(cluster.status.ready))
            await asyncio.sleep(CALM)
            assert cluster.metadata.generation < generation
            assert cluster.status.observed_generation == cluster.metadata.generation
            assert await mark(world) == closed
            assert (await machines(world)).keys() == machines_then
            assert sorted(node["metadata"]["uid"] for node in await world.nodes()) == nodes
            # The copy of the kubeconfig follows the uid of its Cluster; nothing else was lacking.
            assert writes(world.server).keys() <= {STATUS, ANNOTATION, ("patch", "secrets", "")}
            assert writes(world.server)[ANNOTATION] <= 1

    run(main, epoch=EPOCH, seed=1)


def test_a_cluster_that_was_restored_without_its_machinery_says_so_and_is_made_anew_on_demand() -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_laptop(simulation.clock) as world:
            await world.apply()
            await world.until_ready()
            tree = (await world.client.get(Cluster.resource, "garden", NAMESPACE)).tree
        async with managed_laptop(simulation.clock, seed=2) as world:
            datacenter = {"metadata": {"name": "garden", "namespace": NAMESPACE}, "spec": {}}
            await world.client.create(DockerDatacenterConfig.resource, datacenter)
            await world.client.create(Cluster.resource, _anew(tree, {}))
            cluster = await world.until(lambda cluster: bool(cluster.status.conditions))
            ready = next(one for one in cluster.status.conditions if one.type == "Ready")
            assert (ready.status, ready.reason) == ("False", "MachineryMissing")
            assert cluster.status.observed_generation == 0
            assert (await world.client.list(KubeadmControlPlane.resource)).items == []
            await annotate(world, None)
            await world.until_ready()
            assert len((await world.client.list(MachineDeployment.resource)).items) == 1

    run(main, epoch=EPOCH, seed=1)


def test_the_generations_are_written_when_all_is_done_and_not_before() -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_laptop(simulation.clock) as world:
            seen: list[tuple[bool, int, str | None]] = []

            def look(_old: Object | None, new: Object | None, _first: bool) -> None:
                if new is not None and new.name == "garden":
                    cluster = new.decode(Cluster)
                    value = cluster.metadata.annotations.get(names.GATE_ANNOTATION)
                    seen.append((bool(cluster.status.ready), cluster.status.observed_generation, value))

            world.clusters.subscribe(look)
            await world.apply()
            await world.until_ready()
            before = [one for one in seen if not one[0]]
            assert len(before) > 5
            assert {generation for _, generation, _ in before} == {0}
            assert seen[-1][1] > 0
            values = list(dict.fromkeys(value for *_, value in seen))
            assert values == [None, gate.OPENED, await mark(world)]

    run(main, epoch=EPOCH, seed=1)


def test_a_gate_that_is_opened_by_hand_undoes_what_was_done_to_the_machinery() -> None:
    """Also what was deleted there; what is as it should be keeps its uid."""

    async def main(simulation: Simulation) -> None:
        async with managed_laptop(simulation.clock) as world:
            await world.apply()
            await world.until_ready()
            closed = await mark(world)
            control_plane = await world.client.get(KubeadmControlPlane.resource, "garden", SYSTEM_NAMESPACE)
            await world.client.delete(MachineDeployment.resource, "garden-md-0", SYSTEM_NAMESPACE)
            await asyncio.sleep(CALM)
            assert (await world.client.list(MachineDeployment.resource)).items == []
            assert await mark(world) == closed
            await annotate(world, gate.OPENED)
            await world.until(lambda cluster: cluster.metadata.annotations[names.GATE_ANNOTATION] == closed)
            assert len(await world.nodes()) == 3
            kept = await world.client.get(KubeadmControlPlane.resource, "garden", SYSTEM_NAMESPACE)
            assert kept.metadata.uid == control_plane.metadata.uid

    run(main, epoch=EPOCH, seed=1)


class Blocked:
    """Lets no write of MachineDeployments pass as long as it is shut."""

    def __init__(self, transport: Transport, shut: asyncio.Event) -> None:
        self._transport = transport
        self._shut = shut

    async def request(self, request: Request) -> Response:
        if request.method != "GET" and "machinedeployments" in request.path and self._shut.is_set():
            raise Unreachable("no answer")
        return await self._transport.request(request)

    async def stream(self, request: Request) -> Stream | Response:
        return await self._transport.stream(request)

    async def close(self) -> None:
        await self._transport.close()


def test_a_reconcile_that_fails_leaves_the_generations_and_is_finished_without_a_further_change() -> None:
    async def main(simulation: Simulation) -> None:
        shut = asyncio.Event()
        async with managed_laptop(simulation.clock, wrap=lambda transport: Blocked(transport, shut)) as world:
            await world.apply()
            generation = (await world.until_ready()).status.observed_generation
            shut.set()
            await world.change(workerNodeGroupConfigurations=[{"name": "md-0", "count": 3}])
            await asyncio.sleep(CALM)
            cluster = await world.until(lambda cluster: not cluster.status.ready)
            assert cluster.status.observed_generation == generation < cluster.metadata.generation
            assert cluster.metadata.annotations[names.GATE_ANNOTATION] == gate.OPENED
            shut.clear()
            await world.until_ready()
            assert len(await world.nodes()) == 4

    run(main, epoch=EPOCH, seed=1)
