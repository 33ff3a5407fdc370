"""The stand-in for Flux refuses what it does not know, and leaves alone what is suspended or gone."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping

import pytest

from espalier.api.core import CONFIG_MAP, NAMESPACE
from espalier.api.flux import GIT_REPOSITORY, KINDS, KUSTOMIZATION, GitRepositorySpec
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.apiserver.server import Server
from espalier.apiserver.storage.store import MemoryStore
from espalier.cli.local.environment.management import install_definitions
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import NotFound
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.runtime.component import assemble
from espalier.runtime.manager import Manager
from espalier.runtime.virtual import Simulation, run
from espalier.simulator.flux import setup
from espalier.simulator.flux.sources import Fetched
from tests.support.environments.cluster_lives import EPOCH
from tests.support.environments.managing import led_by

SPEC: Tree = {"interval": "1m", "prune": True, "path": "./", "sourceRef": {"kind": "GitRepository", "name": "fleet"}}
FILES: dict[str, bytes] = {
    "a.yaml": b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: made, namespace: flux}\ndata: {a: b}\n"
}


class Flux:
    """A stand-in, and the commits that it fetched."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.files = FILES
        self.fetches = 0

    async def fetch(self, _spec: GitRepositorySpec, _secret: Mapping[str, bytes]) -> Fetched:
        self.fetches += 1
        return Fetched(f"commit{self.fetches}", self.files)

    async def put(self, resource: Resource, name: str, spec: Tree) -> None:
        await self.client.apply(resource, {"metadata": {"name": name, "namespace": "flux"}, "spec": spec})
        await asyncio.sleep(5)

    async def ready(self, resource: Resource, name: str) -> tuple[str, str]:
        """Status and message of condition Ready."""
        tree = (await self.client.get(resource, name, "flux")).tree
        conditions = (tree.get("status") or {}).get("conditions") or [{"status": "", "message": ""}]
        return conditions[0]["status"], conditions[0]["message"]


def with_flux(story: Callable[[Flux], Awaitable[None]]) -> None:
    """A stand-in that has fetched repository `fleet`."""

    async def main(simulation: Simulation) -> None:
        server = Server(MemoryStore(), now=simulation.clock.now, random=simulation.random)
        await server.start()
        client = Client(InProcessTransport(server))
        try:
            await client.apply(NAMESPACE, {"metadata": {"name": "flux"}})
            await install_definitions(KINDS, client)
            manager = Manager(client, clock=simulation.clock, rng=random.Random(1))
            flux = Flux(client)
            assemble(manager, [setup.component(flux.fetch)])
            async with led_by(manager):
                await flux.put(GIT_REPOSITORY, "fleet", {"interval": "1m", "url": "ssh://git@example.com/fleet"})
                await story(flux)
        finally:
            await server.close()

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"sourceRef": {"kind": "OCIRepository", "name": "a"}}, "spec.sourceRef.kind: OCIRepository; allowed: GitRep"),
        ({"deletionPolicy": "WaitForTermination"}, "spec.deletionPolicy: WaitForTermination; its stand-in here allows"),
        ({"force": True}, "spec.force: true; it makes Flux delete clusters"),
        ({"wait": True}, "found spec.wait, which Flux knows and its stand-in here does not"),
        ({"interval": "soon"}, "spec.interval: "),
    ],
)
def test_a_kustomization_it_does_not_know_is_refused(spec: Tree, words: str) -> None:
    async def story(flux: Flux) -> None:
        await flux.put(KUSTOMIZATION, "a", SPEC | spec)
        status, message = await flux.ready(KUSTOMIZATION, "a")
        assert (status, words in message) == ("False", True), message
        with pytest.raises(NotFound):
            await flux.client.get(CONFIG_MAP, "made", "flux")

    with_flux(story)


def test_an_object_without_a_namespace_is_refused() -> None:
    async def story(flux: Flux) -> None:
        flux.files = {"a.yaml": FILES["a.yaml"].replace(b", namespace: flux", b"")}
        await flux.put(GIT_REPOSITORY, "other", {"interval": "1m", "url": "ssh://git@example.com/other"})
        await flux.put(KUSTOMIZATION, "a", SPEC | {"sourceRef": {"kind": "GitRepository", "name": "other"}})
        status, message = await flux.ready(KUSTOMIZATION, "a")
        assert (status, "ConfigMap/made: namespace not specified" in message) == ("False", True), message

    with_flux(story)


def test_folder_that_lists_an_unlisted_one_is_refused() -> None:
    async def story(flux: Flux) -> None:
        flux.files = {"kustomization.yaml": b"resources: [deep]\n", "deep/a.yaml": FILES["a.yaml"]}
        await flux.put(GIT_REPOSITORY, "other", {"interval": "1m", "url": "ssh://git@example.com/other"})
        await flux.put(KUSTOMIZATION, "a", SPEC | {"sourceRef": {"kind": "GitRepository", "name": "other"}})
        status, message = await flux.ready(KUSTOMIZATION, "a")
        assert (status, "deep: no kustomization.yaml in it" in message) == ("False", True), message

    with_flux(story)


def test_a_suspended_repository_is_not_fetched() -> None:
    async def story(flux: Flux) -> None:
        await asyncio.sleep(90)
        patch: Tree = {"spec": {"suspend": True}}
        await flux.client.patch(GIT_REPOSITORY, "fleet", "flux", patch=patch, type=PatchType.MERGE)
        await asyncio.sleep(5)
        before = flux.fetches
        await asyncio.sleep(300)
        assert flux.fetches == before > 1
        await flux.put(KUSTOMIZATION, "a", SPEC)
        assert (await flux.ready(KUSTOMIZATION, "a"))[0] == "True", "what was fetched last is applied"

    with_flux(story)


def test_a_deleted_repository_is_applied_no_more() -> None:
    async def story(flux: Flux) -> None:
        await flux.client.delete(GIT_REPOSITORY, "fleet", "flux")
        await asyncio.sleep(90)
        before = flux.fetches
        await flux.put(KUSTOMIZATION, "a", SPEC)
        status, message = await flux.ready(KUSTOMIZATION, "a")
        assert (status, "has not been fetched yet" in message) == ("False", True), message
        assert flux.fetches == before

    with_flux(story)
