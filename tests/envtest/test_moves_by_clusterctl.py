"""The real clusterctl moves a cluster of ours between two real API servers, and is killed: no machine is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from espalier.api.core import NAMESPACE, NODE, SECRET, Secret
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import PAUSED_ANNOTATION, SYSTEM_NAMESPACE
from espalier.api.resource import Key
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import NotFound
from espalier.simulator.workload_clusters.stores import MemoryStores
from tests.support.environments.control_plane import ControlPlane
from tests.support.environments.real_api_server import CALM, OnRealApiServer, managed_on
from tests.support.environments.two_management_clusters import objects
from tests.support.servers import real_clusterctl as clusterctl
from tests.support.servers.clusterctl import node_versions

pytestmark = [
    pytest.mark.envtest,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(
        clusterctl.PROGRAM is None, reason="clusterctl was not built: run make real-assets REAL=clusterctl"
    ),
]

APART = Key("apart", "garden")
"""A cluster in a namespace without the record of the management cluster, which would be moved along."""
LINES = 60
"""Lines that clusterctl prints of the move of Cluster API's objects, about."""


@dataclass(frozen=True)
class Target:
    """Where a cluster is moved to; the machines of all are its own."""

    source: ControlPlane
    plane: ControlPlane
    env: OnRealApiServer
    folder: Path

    @asynccontextmanager
    async def begun(self) -> AsyncIterator[tuple[dict[str, str], set[str]]]:
        """Nodes and objects of a settled cluster at the source, where a manager and Cluster API run; it is paused as
        `docs/moving.md` says.
        """
        async with managed_on(self.source, MemoryStores(), machines_of=self.env.workloads) as here:
            for env in (here, self.env):
                await env.client.apply(NAMESPACE, {"metadata": {"name": APART.namespace}})
                await clusterctl.make_discoverable(env.client)
            await here.apply(namespace=APART.namespace)
            await here.until_ready(APART)
            await here.until_machines_rest(APART.name)
            await pause(here.client, "true")
            yield await self.nodes(here.client), await objects(here)

    async def moved(self, namespace: str, *, killed_after: int | None = None) -> clusterctl.Ended:
        """Move what is in a namespace, as far as it goes."""
        ends = ("--kubeconfig", str(self.source.kubeconfig), "--to-kubeconfig", str(self.plane.kubeconfig))
        return await clusterctl.run(self.folder, "move", *ends, "-n", namespace, "-v", "1", killed_after=killed_after)

    async def ended(self, nodes: dict[str, str], before: set[str]) -> None:
        """Move our own objects, too, and compare all with what the source had."""
        ended = await self.moved(APART.namespace)
        assert ended.code == 0, ended.lines
        await pause(self.env.client, None)
        await self.env.until_ready(APART)
        await self.env.until_it_rests()
        written = self.env.written()
        await asyncio.sleep(CALM)
        assert self.env.written() == written
        assert (await objects(self.env), await self.nodes(self.env.client)) == (before, nodes)

    async def nodes_now(self) -> set[str]:
        """The uids of the nodes, whoever has the kubeconfig."""
        workload = self.env.workloads.reach(Key(SYSTEM_NAMESPACE, APART.name))
        assert workload is not None
        return {item.metadata.uid for item in (await workload.client.list(NODE)).items}

    async def nodes(self, client: Client) -> dict[str, str]:
        """The nodes, by the kubeconfig that Cluster API made."""
        secret = await client.get(SECRET, f"{APART.name}-kubeconfig", SYSTEM_NAMESPACE)
        return await node_versions(self.env.workloads.connect(secret.decode(Secret).data["value"]))


async def pause(client: Client, value: str | None) -> None:
    patch = {"metadata": {"annotations": {PAUSED_ANNOTATION: value}}}
    await client.patch(Cluster.resource, APART.name, APART.namespace, patch=patch, type=PatchType.MERGE)


@pytest_asyncio.fixture(loop_scope="session")
async def target(
    control_plane: ControlPlane, other_control_plane: ControlPlane, tmp_path: Path
) -> AsyncIterator[Target]:
    """One that runs throughout; the cluster is deleted there in the end."""
    async with managed_on(other_control_plane, MemoryStores()) as env:
        yield Target(control_plane, other_control_plane, env, tmp_path)
        with suppress(NotFound):
            await env.client.delete(Cluster.resource, APART.name, APART.namespace)
            await env.until_gone(APART)


async def test_a_cluster_moved_by_clusterctl_is_settled(target: Target) -> None:
    async with target.begun() as (nodes, before):
        ended = await target.moved(SYSTEM_NAMESPACE)
        assert ended.code == 0, ended.lines
        assert ended.printed("Creating ") == ended.printed("Deleting ") >= len(before)
        await target.ended(nodes, before)


@pytest.mark.parametrize(
    "lines", [25, 50, *(pytest.param(at, marks=pytest.mark.soak) for at in clusterctl.moments(1, 10, LINES))]
)
async def test_clusterctl_killed_and_given_again_moves_it(target: Target, lines: int) -> None:
    """Killed (-9) once it has printed so many lines; manager and Cluster API go on at both ends. Before the next run
    those of the source are stopped, for it demands that the Cluster is resumed.
    """
    async with target.begun() as (nodes, before):
        killed = await target.moved(SYSTEM_NAMESPACE, killed_after=lines)
        assert killed.code == -9, killed.lines
        await asyncio.sleep(CALM)
        assert await target.nodes_now() == set(nodes.values())
    async with target.source.connected() as client:
        is_there = await clusterctl.unpause(client, APART.name)
    if is_there:
        ended = await target.moved(SYSTEM_NAMESPACE)
        assert ended.code == 0, ended.lines
    else:
        assert await clusterctl.unpause(target.env.client, APART.name)
    await target.ended(nodes, before)
