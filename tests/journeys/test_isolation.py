"""A manager of a later build, a restore, a move, a status edited by hand: nobody's machines move, and changes do.

The later build has a layer that makes machines of something else, or these tests would prove nothing; that they can
fail is shown with isolation switched off. What drift is, and its correction, is told in test_drift.py.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import pytest
import semver
import structlog

from espalier.api import capi
from espalier.api.capi.docker import DockerMachineTemplate, Mount
from espalier.api.capi.kubeadm import KubeadmConfigTemplate, KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment
from espalier.api.catalog import resource_of
from espalier.api.core import MUTATING_WEBHOOK_CONFIGURATION, SECRET, VALIDATING_WEBHOOK_CONFIGURATION
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.docker import DockerDatacenterConfig
from espalier.api.eksa.group import SYSTEM_NAMESPACE
from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.apiserver.server import Server
from espalier.apiserver.store import MemoryStore
from espalier.clusterapi.contract import CLUSTER_NAME_LABEL, DEPLOYMENT_NAME_LABEL
from espalier.clusters import Isolation, drift, gate, names, plan
from espalier.clusters.layers import LAYERS, Layer
from espalier.clusters.layers.pieces import changed
from espalier.clusters.observe import WRITTEN, Observer
from espalier.clusters.rendered import Rendered
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import Unreachable
from espalier.kube.inprocess import InProcessTransport
from espalier.kube.objects import Object
from espalier.kube.wire import Request, Response, Stream, Transport
from espalier.local.management import prepare
from espalier.local.stores import MemoryStores
from espalier.releases import Releases
from espalier.runtime.cache import Caches
from espalier.runtime.virtual import Simulation, run
from tests.journeys.managed import GARDEN, NAMESPACE, ManagedLaptop, managed_laptop
from tests.journeys.test_quiet import all_ready, manifests
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


def with_another_mount(rendered: Rendered) -> Rendered:
    return replace(
        rendered,
        machine_template=_mounted(rendered.machine_template),
        groups=tuple(replace(group, machine_template=_mounted(group.machine_template)) for group in rendered.groups),
    )


def _mounted(template: KubeObject) -> KubeObject:
    assert isinstance(template, DockerMachineTemplate)
    spec = template.spec.template.spec
    mounts = [*spec.extra_mounts, Mount(host_path="/lib/modules", container_path="/lib/modules")]
    inner = changed(template.spec.template, spec=changed(spec, extra_mounts=mounts))
    return changed(template, spec=changed(template.spec, template=inner))


NEXT: Sequence[Layer] = (
    *LAYERS,
    Layer("modules", semver.Version(0, 27, 0), "Machines see the modules.", functions=(with_another_mount,)),
    Layer("quieter", semver.Version(0, 27, 0), "An urgent fix.", is_patch=True),
)
"""The table of a later build: every machine of its own release is made of something else, and it has a patch to offer,
so that there is something to be said to every cluster."""


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


async def machines(world: ManagedLaptop) -> dict[str, str]:
    """Machines by uid, each with its cluster."""
    found = await world.client.list(Machine.resource, SYSTEM_NAMESPACE)
    return {one.metadata.uid: one.metadata.labels[CLUSTER_NAME_LABEL] for one in found.items}


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


RELEASES = ("v0.26.0", "v0.25.1")


async def apply(client: Client, count: int, **annotations: str) -> None:
    """So many clusters, of two releases in turn."""
    for number, tree in enumerate(manifests(count)):
        if tree["kind"] == Cluster.resource.kind:
            groups = [{"name": "md-0", "count": 1}]
            tree["spec"] |= {"eksaVersion": RELEASES[number % 2], "workerNodeGroupConfigurations": groups}
            tree["metadata"]["annotations"] = annotations
        await client.apply(resource_of(tree["apiVersion"], tree["kind"]), tree, field_manager="kubectl")


async def steady_clusters(world: ManagedLaptop, count: int, **annotations: str) -> None:
    """So many clusters that are ready and left alone for a while."""
    await apply(world.client, count, **annotations)
    await all_ready(world.clusters, count, seconds=900)
    await asyncio.sleep(CALM)


def upgrade_of_the_manager(
    count: int, isolation: Isolation, then: Callable[[ManagedLaptop], Awaitable[None]], **annotations: str
) -> None:
    """So many steady clusters, a manager of a later build, and the assertions that hold if it is isolated."""

    async def main(simulation: Simulation) -> None:
        store, stores = MemoryStore(), MemoryStores()
        async with managed_laptop(simulation.clock, store=store, stores=stores, isolation=_before(isolation)) as world:
            await steady_clusters(world, count, **annotations)
            before = await machines(world)
        per_object: Counter[str] = Counter()
        async with managed_laptop(
            simulation.clock,
            seed=2,
            store=store,
            stores=stores,
            wrap=lambda transport: WrittenPerObject(transport, per_object),
            layers=NEXT,
            isolation=isolation,
            resync=RESYNC,
        ) as world:
            await asyncio.sleep(10 * 1.1 * RESYNC)
            assert writes(world.server).keys() <= {STATUS}, "the later manager wrote more than statuses"
            assert max(per_object.values(), default=0) <= 1
            assert await machines(world) == before
            await then(world)
            await world.client.delete(Cluster.resource, numbered(0).name, NAMESPACE)
            await world.until_gone(numbered(0))

    run(main, epoch=EPOCH, seed=1)


def _before(isolation: Isolation) -> Isolation:
    """How the earlier manager was set: with `off`, clusters are made as by the gate alone."""
    return Isolation.LAYERS if isolation is Isolation.LAYERS else Isolation.GATE


def is_synced(found: Object) -> bool:
    status = found.decode(Cluster).status
    return any(one.type == names.SYNCED and one.status == "True" for one in status.conditions)


async def scale(world: ManagedLaptop, key: Key) -> tuple[set[str], set[str], list[str]]:
    """Scale the workers of a cluster to three: the machines (by name) that should be replaced, and those that were,
    and all fields that were written."""
    before = {found.name: found for found in (await world.client.list(Machine.resource, SYSTEM_NAMESPACE)).items}
    generations = await made_for(world, key)
    await world.change(key, workerNodeGroupConfigurations=[{"name": "md-0", "count": 3}])
    await world.until_ready(key)
    after = {found.name for found in (await world.client.list(Machine.resource, SYSTEM_NAMESPACE)).items}
    assert sum(name.startswith(f"{key.name}-") for name in after) == 1 + 3
    grown = [what for what, number in (await made_for(world, key)).items() if generations.get(what) != number]
    all_of_it = {name for name in before if name.startswith(f"{key.name}-")}
    return all_of_it, before.keys() - after, sorted(grown)


async def made_for(world: ManagedLaptop, key: Key) -> dict[str, int]:
    """The objects of Cluster API that are made for a cluster, with their generations."""
    found = {}
    for resource in WRITTEN:
        for object_ in (await world.client.list(resource, SYSTEM_NAMESPACE)).items:
            if names.cluster_of(object_.metadata.labels) == key:
                found[f"{resource.kind} {object_.name}"] = object_.metadata.generation
    return found


async def scaling_replaces_no_machine(world: ManagedLaptop) -> None:
    """A cluster keeps the ways of its own release through its first change as well: nothing but replicas changes."""
    for key in (numbered(0), numbered(1)):
        _, replaced, written = await scale(world, key)
        assert replaced == set()
        assert written == [f"MachineDeployment {key.name}-md-0"]


async def scaling_replaces_all_of_its_machines_and_no_others(world: ManagedLaptop) -> None:
    """The price of the gate alone: the first change of a cluster brings what the later build does otherwise."""
    for key in (numbered(0), numbered(1)):
        foreseen = await machines_that_a_change_replaces(world, key)
        all_of_it, replaced, _ = await scale(world, key)
        assert replaced == all_of_it == foreseen


@pytest.fixture
def without_the_story_of_every_pass() -> Iterator[None]:
    """Debug logs of two hundred clusters are a sixth of the time, and nobody could read them."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))
    yield
    structlog.reset_defaults()


@pytest.mark.usefixtures("without_the_story_of_every_pass")
def test_a_later_manager_writes_nothing_but_statuses_to_two_hundred_steady_clusters() -> None:
    """On two releases; and it says of each cluster that it is as its own release renders it."""

    async def then(world: ManagedLaptop) -> None:
        steady = [found for found in world.clusters.list() if found.name != "laptop"]
        assert len(steady) == CLUSTERS
        assert all(map(is_synced, steady))
        await scaling_replaces_no_machine(world)

    upgrade_of_the_manager(CLUSTERS, Isolation.LAYERS, then)


def test_the_same_holds_with_the_gate_alone_until_a_cluster_is_changed() -> None:
    upgrade_of_the_manager(10, Isolation.GATE, scaling_replaces_all_of_its_machines_and_no_others)


def test_the_same_holds_while_all_drift_is_corrected() -> None:
    """So the proof does not rest on nobody looking at what was made."""

    async def then(world: ManagedLaptop) -> None:
        await scaling_replaces_no_machine(world)

    upgrade_of_the_manager(10, Isolation.LAYERS, then, **{names.DRIFT_ANNOTATION: "correct-machines"})


def test_the_same_without_isolation_fails() -> None:
    """The proof that the tests above can fail."""
    with pytest.raises(AssertionError, match="the later manager wrote more than statuses"):
        upgrade_of_the_manager(3, Isolation.OFF, scaling_replaces_no_machine)


async def machines_that_a_change_replaces(world: ManagedLaptop, key: Key) -> set[str]:
    """By name, from what the later manager would write: the pure functions say so, before anything is changed."""
    caches = Caches(world.client)
    observer = Observer(caches, Releases.load(), layers=NEXT, isolation=Isolation.GATE)
    for cache in caches.all:
        source = cache.source
        cache.begin_list()
        for share in source.shares:
            cache.listed((await world.client.list(source.resource, share, labels=source.labels)).items)
        cache.end_list("1")
    scope = observer.scope(key)
    assert scope is not None
    assert scope.design is not None
    machinery = scope.machinery
    wanted = [*plan.control_plane(scope.design, machinery), *plan.worker_groups(scope.design, machinery)]
    replaced = set()
    for change in plan.changes(wanted, machinery):
        name = change.body["metadata"]["name"]
        live = machinery.of(change.resource).get(name)
        if live is not None and drift.replaces_machines(change, live):
            is_group = change.resource == MachineDeployment.resource
            which = f"{DEPLOYMENT_NAME_LABEL}={name}" if is_group else f"!{DEPLOYMENT_NAME_LABEL}"
            labels = f"{CLUSTER_NAME_LABEL}={key.name},{which}"
            replaced |= {one.name for one in (await world.client.list(Machine.resource, labels=labels)).items}
    return replaced


gated = partial(managed_laptop, isolation=Isolation.GATE)
"""With the gate alone: what a later manager does is then seen in the machines, once the gate opens."""


def later(
    before: Callable[[ManagedLaptop], Awaitable[None]],
    after: Callable[[ManagedLaptop], Awaitable[None]],
) -> None:
    """A steady garden whose manager stopped: `before` is done while there is none, `after` with a later one."""

    async def main(simulation: Simulation) -> None:
        store, stores = MemoryStore(), MemoryStores()
        async with gated(simulation.clock, store=store, stores=stores) as world:
            await world.apply()
            await world.until_ready()
            await asyncio.sleep(CALM)
            # What comes now is not seen by a manager before the later one.
            world.manager.stop()
            await asyncio.sleep(CALM)
            await before(world)
        async with managed_laptop(
            simulation.clock, seed=2, store=store, stores=stores, layers=NEXT, isolation=Isolation.GATE
        ) as world:
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
        async with gated(simulation.clock, stores=stores) as world:
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
        async with managed_laptop(
            simulation.clock, seed=2, store=empty, stores=stores, layers=NEXT, isolation=Isolation.GATE
        ) as world:
            cluster = await world.until(lambda cluster: bool(cluster.status.ready))
            await asyncio.sleep(CALM)
            assert cluster.metadata.generation < generation
            assert cluster.status.observed_generation == cluster.metadata.generation
            assert await mark(world) == closed
            assert (await machines(world)).keys() == machines_then
            assert sorted(node["metadata"]["uid"] for node in await world.nodes()) == nodes
            # The copy of the kubeconfig follows the uid of its Cluster; nothing else was lacking.
            # Which images upgrade nodes is written for all clusters at once, and is nothing of any.
            upgraders = ("create", "configmaps", "")
            assert writes(world.server).keys() <= {STATUS, ANNOTATION, ("patch", "secrets", ""), upgraders}
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
