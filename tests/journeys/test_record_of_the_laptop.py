"""The record of a laptop's management cluster: it stays while it manages clusters, and a lost one comes again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from espalier.api.eksa.cluster import Cluster
from espalier.api.manifests import read_manifests
from espalier.cli.home import Home
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import NotFound
from espalier.kube.http import HttpTransport
from espalier.kube.kubeconfig import Kubeconfig
from espalier.providers.kinds import CATALOG
from tests.support.managing import unasked
from tests.support.world import LaptopWorld, laptop_world

pytestmark = pytest.mark.embedded

EXAMPLE = (Path(__file__).parents[2] / "examples" / "docker.yaml").read_text()
FLAGS = ("--boot-seconds", "0.05")
RELEASE = ("get", "clusters", "garden", "-o", "jsonpath={.spec.eksaVersion}")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LaptopWorld]:
    with laptop_world(tmp_path_factory.mktemp("world"), *FLAGS) as running:
        old = EXAMPLE.replace('kubernetesVersion: "1.35"', 'eksaVersion: v0.25.1\n  kubernetesVersion: "1.35"')
        assert "v0.25.1" in old
        do(running, lambda client: create(client, old))
        yield running


def do(world: LaptopWorld, work: Callable[[Client], Awaitable[None]]) -> None:
    async def main() -> None:
        client = Client(HttpTransport(Kubeconfig.load([Home(world.home).kubeconfig]).context(), environment={}))
        try:
            await work(client)
        finally:
            await client.close()

    asyncio.run(main())


async def create(client: Client, text: str) -> None:
    for document in read_manifests(text.encode(), source="test"):
        tree = document.tree
        tree["metadata"]["namespace"] = "default"
        await client.create(CATALOG.resource_of(document.api_version, document.kind), tree)


def test_a_change_does_not_move_a_cluster_to_another_release_unasked(world: LaptopWorld) -> None:
    grown = EXAMPLE.replace("count: 2", "count: 3")
    assert grown != EXAMPLE
    told = world.apply(grown, "upgrade", "--no-wait")
    assert told.code == 2
    assert "cluster default/garden has release v0.25.1, and would be moved to release v0.26.0" in " ".join(
        told.err.split()
    )
    assert world.espalier(*RELEASE).out == "v0.25.1"
    kept = world.apply(grown, "upgrade", "--keep-release", "--no-wait")
    assert kept.code == 0, kept.err
    assert world.espalier(*RELEASE).out == "v0.25.1"
    moved = world.apply(grown, "upgrade", "--move-release", "--timeout", "60s")
    assert moved.code == 0, moved.err
    assert world.espalier(*RELEASE).out == "v0.26.0"


def test_the_record_is_not_deleted_while_it_manages_clusters(world: LaptopWorld) -> None:
    told = world.espalier("delete", "cluster", "laptop", "--timeout", "5s")
    assert told.code == 1
    assert "it manages clusters: default/garden; delete those first" in " ".join(told.err.split())
    assert "cluster.anywhere.eks.amazonaws.com/laptop" in world.names("get", "clusters")


def test_a_world_that_lost_its_record_starts_and_has_it_again(world: LaptopWorld) -> None:
    async def lose(client: Client) -> None:
        async with unasked(client):
            await client.delete(Cluster.resource, "laptop", "default")
            patch = {"metadata": {"finalizers": None}}
            with suppress(NotFound):
                await client.patch(Cluster.resource, "laptop", "default", patch=patch, type=PatchType.MERGE)

    do(world, lose)
    world.down()
    world.up(*FLAGS)
    assert "cluster.anywhere.eks.amazonaws.com/laptop" in world.names("get", "clusters")
    assert world.apply(EXAMPLE.replace("count: 2", "count: 1"), "upgrade", "--timeout", "60s").code == 0
    assert world.espalier("delete", "cluster", "garden", "--timeout", "60s").code == 0
    assert world.espalier("delete", "cluster", "laptop", "--timeout", "60s").code == 0
    world.down()
    world.up(*FLAGS)
    assert "cluster.anywhere.eks.amazonaws.com/laptop" in world.names("get", "clusters")
