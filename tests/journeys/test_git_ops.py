"""The configuration of GitOps: a cluster can get one later, it is the management cluster's, and is counted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest

from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.gitops import FluxConfig
from espalier.api.meta import Tree
from espalier.clusters import names
from espalier.kube.client import PatchType
from espalier.kube.errors import Invalid
from espalier.providers.docker.kinds import DockerDatacenterConfig
from espalier.runtime.virtual import Simulation, run
from tests.journeys.isolation_stories import ANNOTATION, STATUS, machines, made_for
from tests.journeys.managed import CALM, GARDEN, ManagedLaptop, managed_laptop
from tests.journeys.test_management import invalid, said, without_webhooks

pytestmark = pytest.mark.embedded

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
REFERENCE = {"kind": "FluxConfig", "name": "fleet"}


def story(tell: Callable[[ManagedLaptop], Awaitable[None]]) -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_laptop(simulation.clock) as world:
            await tell(world)

    run(main, epoch=EPOCH, seed=1)


async def flux(world: ManagedLaptop, name: str = "fleet", branch: str = "main") -> None:
    spec = {"branch": branch, "git": {"repositoryUrl": "ssh://git@git.example.com/fleet"}}
    body: Tree = {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
    await world.client.apply(FluxConfig.resource, body)


async def of_the_management_cluster(world: ManagedLaptop, name: str = "fleet") -> None:
    patch = {"spec": {"gitOpsRef": REFERENCE | {"name": name}}}
    await world.client.patch(Cluster.resource, "laptop", "default", patch=patch, type=PatchType.MERGE)
    await asyncio.sleep(1)


async def generations(world: ManagedLaptop) -> int:
    found = [
        await world.client.get(FluxConfig.resource, "fleet", "default"),
        await world.client.get(DockerDatacenterConfig.resource, "garden", "default"),
    ]
    return sum(one.metadata.generation for one in found)


def test_a_cluster_is_put_under_gitops_later_and_nothing_of_it_changes() -> None:
    async def tell(world: ManagedLaptop) -> None:
        await world.apply()
        await world.until_ready()
        await asyncio.sleep(CALM)
        before, made, written = await machines(world.client), await made_for(world, GARDEN), world.written()
        with pytest.raises(
            Invalid, match="a workload cluster shares the GitOps configuration of its management cluster"
        ):
            await world.change(gitOpsRef=REFERENCE)
        await flux(world)
        await of_the_management_cluster(world)
        await world.change(gitOpsRef=REFERENCE)
        found = await world.until_ready()
        assert found.status.children_observed_generation == await generations(world)
        await flux(world, branch="next")
        expected = await generations(world)
        await world.until(lambda cluster: cluster.status.children_observed_generation == expected)
        await asyncio.sleep(CALM)
        assert await machines(world.client) == before
        assert await made_for(world, GARDEN) == made
        assert (world.written() - written).keys() <= {STATUS, ANNOTATION}
        assert (await world.client.get(FluxConfig.resource, "fleet", "default")).metadata.owner_references == []
        with pytest.raises(Invalid, match="it can't be changed in an existing cluster"):
            await world.change(gitOpsRef=None)

    story(tell)


def test_a_configuration_that_is_missing_is_waited_for_and_a_made_cluster_goes_on_without_it() -> None:
    async def tell(world: ManagedLaptop) -> None:
        await of_the_management_cluster(world)
        await world.apply(gitOpsRef=REFERENCE)
        found = await world.until(lambda cluster: cluster.status.failure_reason == names.MISSING_DEPENDENT_OBJECTS)
        sentence = "spec.gitOpsRef: waiting for FluxConfig fleet in namespace default, which does not exist"
        assert sentence in invalid(found)
        await asyncio.sleep(CALM)
        assert await made_for(world, GARDEN) == {}
        await flux(world)
        await world.until_ready()
        await asyncio.sleep(CALM)
        before = await made_for(world, GARDEN)
        await world.client.delete(FluxConfig.resource, "fleet", "default")
        found = await world.until(lambda cluster: cluster.status.spec_valid is False)
        assert sentence in invalid(found)
        assert found.status.ready
        assert said(found, names.SYNCED).status == "True"
        await flux(world)
        await world.until(lambda cluster: bool(cluster.status.spec_valid))
        await asyncio.sleep(CALM)
        assert await made_for(world, GARDEN) == before

    story(tell)


def test_gitops_of_its_own_is_found_whoever_came_first() -> None:
    """The record gets its configuration after the cluster, and nobody asks a webhook."""

    async def tell(world: ManagedLaptop) -> None:
        await without_webhooks(world)
        await flux(world)
        await flux(world, "other")
        await world.apply(gitOpsRef=REFERENCE)
        failed = await world.until(lambda cluster: cluster.status.failure_reason == names.CLUSTER_INVALID)
        assert "a workload cluster shares the GitOps configuration of its management cluster" in invalid(failed)
        assert await made_for(world, GARDEN) == {}
        await of_the_management_cluster(world)
        await world.until_ready()
        await asyncio.sleep(CALM)
        before = await made_for(world, GARDEN)
        await of_the_management_cluster(world, "other")
        found = await world.until(lambda cluster: cluster.status.spec_valid is False)
        assert "found FluxConfig fleet; allowed: FluxConfig other" in invalid(found)
        assert found.status.ready
        assert await made_for(world, GARDEN) == before

    story(tell)
