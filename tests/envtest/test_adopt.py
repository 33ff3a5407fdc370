"""Clusters of EKS Anywhere are taken over and given back on a real API server, with the CRDs of all providers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio

from espalier.api.core import (
    CUSTOM_RESOURCE_DEFINITION,
    DEPLOYMENT,
    MUTATING_WEBHOOK_CONFIGURATION,
    VALIDATING_WEBHOOK_CONFIGURATION,
)
from espalier.api.meta import Tree
from espalier.apiserver.storage.store import MemoryStore
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.errors import Unreachable
from espalier.kube.transports.http import HttpTransport
from espalier.management.adoption.plan import Outcome, State, plan
from espalier.management.adoption.site import read
from espalier.management.steps import Refused
from espalier.providers.kinds import EKSA_KINDS
from espalier.providers.registry import PROVIDERS
from espalier.simulator.workload_clusters.stores import MemoryStores
from tests.support.environments.control_plane import ControlPlane, find_assets, why_no_assets
from tests.support.environments.of_eks_anywhere import adopter, grows, of_every_provider, undoing
from tests.support.environments.real_api_server import managed_on
from tests.support.environments.real_eks_anywhere import LOADED, load
from tests.support.environments.stores import CopiedStores, copied
from tests.support.environments.tenants_of_every_provider import key_of, settled
from tests.support.killed_commands import printed
from tests.support.objects import eks_anywhere
from tests.support.providers.every_provider import KINDS
from tests.support.servers.dying import Dying

pytestmark = [pytest.mark.envtest, pytest.mark.asyncio(loop_scope="session")]

KEYS = [key_of(kind) for kind in KINDS]
OF_SITE = (
    CUSTOM_RESOURCE_DEFINITION,
    DEPLOYMENT,
    MUTATING_WEBHOOK_CONFIGURATION,
    VALIDATING_WEBHOOK_CONFIGURATION,
)
SERVERS = ("resourceVersion", "uid", "creationTimestamp", "managedFields", "generation")
REVISION = "deployment.kubernetes.io/revision"


@dataclass(frozen=True)
class Site:
    """A management cluster of EKS Anywhere, and the machines of its clusters."""

    plane: ControlPlane
    stores: MemoryStores

    def connected(self, dying: Dying | None = None) -> Client:
        """A command, which may die."""
        transport = HttpTransport(Kubeconfig.load([self.plane.kubeconfig]).context(), environment={})
        client = Client(dying(transport) if dying is not None else transport, user_agent="adopt")
        return client.without_repeats() if dying is not None else client

    async def until_it_ends(self, after: int, act: Callable[[Client], Awaitable[None]]) -> None:
        """Give a command again and again: each time it dies after so many writes, whose last answer is lost."""
        for _ in range(200):
            dying = Dying(after)
            client = self.connected(dying)
            try:
                await act(client)
            except Unreachable:
                continue
            finally:
                await client.close()
            if not dying.is_dead:
                return
        pytest.fail("it never ends")

    async def killed(self, *command: str) -> list[str]:
        """Give a command until it ends: killed at its first line, then at its second one, and so on. All lines."""
        told: list[str] = []
        for number in range(1, 30):
            code, lines = await self._run(command, killed_after=number)
            told += lines
            if code != -9:
                assert code == 0 or "nothing to give back" in lines[-1], lines
                return told
        pytest.fail(f"it never ends: {told}")

    async def _run(self, command: Sequence[str], killed_after: int) -> tuple[int, list[str]]:
        ways = ("--kubeconfig", str(self.plane.kubeconfig))
        return await printed("adopt", *command, *ways, home=self.plane.folder, killed_after=killed_after)


@pytest.fixture(scope="module")
def made() -> tuple[MemoryStore, MemoryStores]:
    """As of an hour ago, so that no certificate is of the future."""
    if find_assets() is None:
        pytest.skip(why_no_assets())
    since = datetime.now(UTC) - timedelta(hours=1)
    store = copied(of_every_provider(since))
    eks_anywhere.make_site(store)
    return store, CopiedStores(settled(since=since).stores)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(control_plane: ControlPlane, made: tuple[MemoryStore, MemoryStores]) -> AsyncIterator[Site]:
    async with control_plane.connected() as client:
        await load(control_plane, client, made[0])
    yield Site(control_plane, made[1])


async def content(client: Client) -> dict[str, Tree]:
    """All objects, without what a server adds."""
    results: dict[str, Tree] = {}
    for resource in (*LOADED, *OF_SITE):
        for object_ in (await client.list(resource)).items:
            tree = object_.tree
            if resource in OF_SITE:
                tree.pop("status", None)
            metadata = {name: value for name, value in tree["metadata"].items() if name not in SERVERS}
            metadata["annotations"] = {
                name: value for name, value in object_.metadata.annotations.items() if name != REVISION
            }
            tree["metadata"] = metadata
            results[f"{resource.kind} {object_.key}"] = tree
    return results


async def of_cluster_api(client: Client) -> dict[str, str]:
    """The versions of the objects of Cluster API and of its providers."""
    return {
        f"{resource.kind} {object_.key}": object_.resource_version
        for resource in LOADED
        if resource.group.endswith("cluster.x-k8s.io")
        for object_ in (await client.list(resource)).items
    }


async def test_take_over_and_undo_write_no_cluster_api(site: Site) -> None:
    async with site.plane.connected() as client:
        before, untouched = await content(client), await of_cluster_api(client)
        planned = plan(await read(client, PROVIDERS), KEYS, stops=True)
        assert planned.blocks == ()
        results = {cluster.key: (cluster.state, cluster.blocks) for cluster in planned.clusters}
        assert results == dict.fromkeys(KEYS, (State.READY, ()))
        assert any(row.outcome is Outcome.STAYS for cluster in planned.clusters for row in cluster.rows)
        await adopter(client, stops=True).apply(None)
        assert await of_cluster_api(client) == untouched
        planned = plan(await read(client, PROVIDERS), KEYS)
        assert {cluster.state for cluster in planned.clusters} == {State.ADOPTED}
        await undoing(client).undo(None)
        assert await content(client) == before
        assert await of_cluster_api(client) == untouched


@pytest.mark.parametrize("after", [1, pytest.param(4, marks=pytest.mark.soak)])
async def test_take_over_that_dies_after_writes_goes_on(site: Site, after: int) -> None:
    """The answer to the last write before each death is lost; with 1, it dies at each write."""
    async with site.plane.connected() as client:
        before, untouched = await content(client), await of_cluster_api(client)
        await site.until_it_ends(after, lambda mortal: adopter(mortal, stops=True).apply(None))
        planned = plan(await read(client, PROVIDERS), KEYS)
        assert {cluster.state for cluster in planned.clusters} == {State.ADOPTED}
        await site.until_it_ends(after, undone)
        assert await content(client) == before
        assert await of_cluster_api(client) == untouched


async def undone(client: Client) -> None:
    with suppress(Refused):  # the last write was made, and its answer lost: nothing is left to give back
        await undoing(client).undo(None)


@pytest.mark.soak
async def test_killed_commands_go_on(site: Site) -> None:
    """As processes, killed (-9) at each line that they print."""
    async with site.plane.connected() as client:
        before, untouched = await content(client), await of_cluster_api(client)
        told = await site.killed("apply", "--all", "--stop-controller")
        assert sum("is taken over" in line for line in told) >= len(KEYS)
        planned = plan(await read(client, PROVIDERS), KEYS)
        assert {cluster.state for cluster in planned.clusters} == {State.ADOPTED}
        told = await site.killed("undo", "--all")
        assert sum("is given back" in line for line in told) == len(KEYS)
        assert await content(client) == before
        assert await of_cluster_api(client) == untouched


async def test_adopted_clusters_scale_and_replace_nothing(site: Site) -> None:
    """It changes them: no other test comes after it."""
    async with site.plane.connected() as client:
        untouched = await of_cluster_api(client)
        await adopter(client, stops=True).apply(None)
        async with managed_on(site.plane, site.stores, defined=EKSA_KINDS) as env:
            for key in KEYS:
                await env.until_ready(key)
            await env.until_it_rests()
            written = {plural for _, plural, subresource in env.written() if subresource != "status"}
            assert written <= {"clusters", "configmaps", "secrets"}
            assert await of_cluster_api(client) == untouched
            await asyncio.gather(*(grows(env, key) for key in KEYS))
