"""`espalier move` between two real API servers, killed at its steps: nothing is lost, and there is one active copy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio

from espalier.api.capi import cluster as capi
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import MOVE_ANNOTATION, SYSTEM_NAMESPACE
from espalier.api.resource import Key
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.errors import NotFound, Unreachable
from espalier.kube.objects import Object
from espalier.kube.transports.http import HttpTransport
from espalier.moving.record import HANDED_OVER
from espalier.simulator.workload_clusters.stores import MemoryStores
from tests.support.environments.control_plane import ControlPlane
from tests.support.environments.managed_clusters import GARDEN
from tests.support.environments.real_api_server import CALM, OnRealApiServer, managed_on
from tests.support.environments.two_management_clusters import back_up, mover, objects, restoring
from tests.support.killed_commands import printed
from tests.support.servers.clusterctl import move_away, node_versions
from tests.support.servers.dying import Dying

pytestmark = [pytest.mark.envtest, pytest.mark.asyncio(loop_scope="session")]

CAPI_KEY = Key(SYSTEM_NAMESPACE, GARDEN.name)


@dataclass
class End:
    """A management cluster, and whether it acts on the cluster."""

    plane: ControlPlane
    env: OnRealApiServer

    @property
    def state(self) -> str:
        """The reason why it acts; empty if it does not."""
        cluster = self.env.clusters.get(GARDEN)
        made = self.env.capi_objects.of(capi.Cluster.resource).get(CAPI_KEY)
        if made is not None and not made.decode(capi.Cluster).spec.paused:
            return "Cluster API is not paused"
        return "" if cluster is None or MOVE_ANNOTATION in cluster.metadata.annotations else "the Cluster has no record"

    def client(self, dying: Dying) -> Client:
        """One of a command that dies."""
        transport = HttpTransport(Kubeconfig.load([self.plane.kubeconfig]).context(), environment={})
        return Client(dying(transport), user_agent="move").without_repeats()


@dataclass
class Ends:
    """Source and target, both of which are watched."""

    source: End
    target: End
    both: list[tuple[str, str]] = field(default_factory=list)
    """Moments at which both acted on the cluster."""
    seen: set[tuple[bool, bool]] = field(default_factory=set)
    """The combinations of those that acted."""
    nodes: dict[str, str] = field(default_factory=dict)
    before: set[str] = field(default_factory=set)

    def changed(self, _old: Object | None, _new: Object | None, _first: bool) -> None:
        states = self.source.state, self.target.state
        self.seen.add((bool(states[0]), bool(states[1])))
        if all(states):
            self.both.append(states)

    async def killed_after(self, writes: int, *, once: bool = False) -> bool:
        """Run the move until it dies after so many writes; True if it ended before."""
        dying = Dying(writes)
        while True:
            dying.is_dead = False
            source, target = self.source.client(dying), self.target.client(dying)
            try:
                await (await mover(source, target)).move([GARDEN])
            except Unreachable:
                if once:
                    return False
            else:
                return True
            finally:
                await source.close()
                await target.close()

    async def compare(self, at: End, other: End) -> None:
        """One end has all, as it was, and writes nothing; the other has nothing."""
        await at.env.until_ready()
        await at.env.until_it_rests()
        written = at.env.written()
        await asyncio.sleep(CALM)
        assert at.env.written() == written
        assert (await objects(at.env), await objects(other.env)) == (self.before, set())
        assert await node_versions(await at.env.workload()) == self.nodes
        assert self.both == []
        assert {(True, False), (at is self.source, at is self.target)} <= self.seen


@pytest_asyncio.fixture(loop_scope="session")
async def ends(control_plane: ControlPlane, other_control_plane: ControlPlane) -> AsyncIterator[Ends]:
    """The source has a settled cluster; it is deleted in the end, wherever it is."""
    async with (
        managed_on(other_control_plane, MemoryStores()) as there,
        managed_on(control_plane, MemoryStores(), machines_of=there.workloads) as here,
    ):
        await here.apply()
        await here.until_ready()
        await here.until_machines_rest(GARDEN.name)
        await here.until_it_rests()
        result = Ends(End(control_plane, here), End(other_control_plane, there))
        result.nodes, result.before = await node_versions(await here.workload()), await objects(here)
        stops: list[Callable[[], None]] = []
        for env in (here, there):
            for cache in (env.clusters, env.capi_objects.of(capi.Cluster.resource)):
                stops.append(cache.subscribe(result.changed))
        yield result
        for stop in stops:
            stop()
        for env in (here, there):
            try:
                await env.client.delete(Cluster.resource, GARDEN.name, GARDEN.namespace)
            except NotFound:
                continue
            await env.until_gone()


class Died(Exception):
    """The command died when it said so."""


async def test_a_move_that_dies_after_each_write_ends(ends: Ends) -> None:
    """From the copy to the hand-over. kube-apiserver keeps its times in `managedFields` where nothing else differs, so
    a move that compares them writes in each run what it can't change.
    """

    def die(sentence: str) -> None:
        if "copied" in sentence:
            raise Died

    first = await mover(ends.source.env.client, ends.target.env.client)
    first.say = die
    with pytest.raises(Died):
        await first.move([GARDEN])
    for _ in range(12):
        await ends.killed_after(1, once=True)
        moved = await ends.source.env.client.get(Cluster.resource, GARDEN.name, GARDEN.namespace)
        if HANDED_OVER in moved.metadata.annotations[MOVE_ANNOTATION]:
            break
    else:
        pytest.fail("the move does not come to its hand-over")
    await (await mover(ends.source.env.client, ends.target.env.client)).move([GARDEN])
    await ends.compare(ends.target, ends.source)


@pytest.mark.parametrize("writes", [pytest.param(2, marks=pytest.mark.soak), 11])
async def test_a_move_that_dies_after_writes_goes_on(ends: Ends, writes: int) -> None:
    """The answer to the last write before each death is lost."""
    assert await ends.killed_after(writes)
    await ends.compare(ends.target, ends.source)


@pytest.mark.parametrize("writes", [55, *(pytest.param(item, marks=pytest.mark.soak) for item in (1, 2, 10, 30, 70))])
async def test_a_move_that_died_is_taken_back(ends: Ends, writes: int) -> None:
    assert not await ends.killed_after(writes, once=True)
    await asyncio.sleep(CALM)
    await (await mover(ends.source.env.client, ends.target.env.client)).take_back([GARDEN])
    await ends.compare(ends.source, ends.target)


async def test_a_cluster_is_restored_after_a_loss(
    control_plane: ControlPlane, other_control_plane: ControlPlane, tmp_path: Path
) -> None:
    """The drill: its management cluster is backed up into a folder, and lost; the restore dies after some writes."""
    saved = tmp_path / "saved"
    async with managed_on(other_control_plane, MemoryStores()) as there:
        async with managed_on(control_plane, MemoryStores(), machines_of=there.workloads) as here:
            await here.apply()
            await here.until_ready()
            await here.until_machines_rest(GARDEN.name)
            await here.until_it_rests()
            nodes, before = await node_versions(await here.workload()), await objects(here)
            written = here.written()
            assert (await back_up(here.client, saved)).left_out == {}
            assert here.written() == written
        end, dying = End(other_control_plane, there), Dying(11)
        while True:
            dying.is_dead = False
            client = end.client(dying)
            try:
                await (await restoring(saved, client)).restore([GARDEN])
            except Unreachable:
                assert end.state == "" or await objects(there) == before
            else:
                break
            finally:
                await client.close()
        await there.until_ready()
        await there.until_it_rests()
        written = there.written()
        await asyncio.sleep(CALM)
        assert there.written() == written
        assert (await objects(there), await node_versions(await there.workload())) == (before, nodes)
        async with control_plane.connected() as client:  # nothing of it is left for other tests
            await move_away(client, pause=lambda: asyncio.sleep(0))
        await there.client.delete(Cluster.resource, GARDEN.name, GARDEN.namespace)
        await there.until_gone()


async def test_the_killed_command_goes_on(ends: Ends) -> None:
    """As a process, killed (-9) at each line that it prints."""
    told: list[str] = []
    for lines in range(1, 10):
        code, told = await command(ends, lines)
        if code == 0 or "is moved" in told[-1]:  # its last line: it may have been killed after it
            break
        assert code == -9, told
    assert "is moved" in told[-1]
    await ends.compare(ends.target, ends.source)


async def command(ends: Ends, killed_after: int) -> tuple[int, list[str]]:
    ways = ("--kubeconfig", str(ends.source.plane.kubeconfig), "--to-kubeconfig", str(ends.target.plane.kubeconfig))
    return await printed("move", *ways, home=ends.source.plane.folder, killed_after=killed_after)
