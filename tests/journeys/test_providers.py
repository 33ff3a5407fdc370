"""A cluster of each provider is created, changed and deleted; machines are replaced exactly where the plan says so."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime

import pytest

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION
from espalier.api.meta import Tree
from espalier.providers.kinds import CATALOG
from espalier.providers.registry import PROVIDERS
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.managed_environment import CALM, NAMESPACE, managed_environment
from tests.support.histories.planned_steps import PlannedSteps
from tests.support.providers.provider_lives import LIVES, ProviderLife, delete, in_system, live
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def told_of(lives: Iterable[ProviderLife], *often: int) -> pytest.MarkDecorator:
    """Of lives at these places in every run."""
    return pytest.mark.parametrize(
        "life", sampled(lives, *often), ids=lambda item: item.datacenter.removesuffix("DatacenterConfig").lower()
    )


def tell(life: ProviderLife, simulate: Callable[[PlannedSteps], Awaitable[None]]) -> None:
    """Tell a story of the provider's example, once an administrator did what it needs."""

    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as env:
            await life.before(env)
            await simulate(life.steps(env))

    run(main, epoch=EPOCH, seed=1)


def test_every_provider_has_a_life() -> None:
    assert {item.datacenter for item in LIVES} == set(PROVIDERS)
    assert {item.datacenter for item in LIVES if item.external_etcd} == {
        kind for kind, provider in PROVIDERS.items() if provider.etcd
    }


@pytest.mark.demand(I3="each kind of machine config of other providers")
@pytest.mark.soak
@told_of(LIVES, 1)
def test_a_cluster_lives_and_ends(life: ProviderLife) -> None:
    async def story(steps: PlannedSteps) -> None:
        before = await in_system(steps.env.client)
        await live(life, steps)
        await delete(steps)
        assert await in_system(steps.env.client) == before, "what was made for the cluster is gone with it"

    tell(life, story)


@pytest.mark.soak
@told_of(LIVES, *range(len(LIVES)))
def test_waiting_cluster_is_deleted_with_its_objects(life: ProviderLife) -> None:
    """Also those that it names: another attempt would meet them, and be refused for what can't be changed in them."""

    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as env:
            steps = life.steps(env)
            await steps.apply()
            await asyncio.sleep(CALM)
            await delete(steps)
            await asyncio.sleep(CALM)
            kinds = {CATALOG.resource_of(tree["apiVersion"], tree["kind"]) for tree in steps.trees}
            results = [item for kind in kinds for item in (await env.client.list(kind, NAMESPACE)).items]
            assert [item.key for item in results if item.name != "laptop"] == []

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.demand(U55="on each provider")
@pytest.mark.soak
@told_of(LIVES, 1)
def test_machines_are_upgraded_in_place_or_refuse(life: ProviderLife) -> None:
    async def story(steps: PlannedSteps) -> None:
        await steps.make()
        await steps.in_place()
        before = await steps.env.machine_names(steps.key.name)
        life.kubernetes(steps, "1.36")
        await steps.step()
        assert {version.split("-")[0] for version in await steps.env.versions(steps.key)} == {"v1.36.3"}
        assert await steps.env.machine_names(steps.key.name) == before
        if life.refused:
            life.change_machines(steps)
            preview = await steps.env.preview(steps.key, steps.trees)
            assert preview.stops.startswith(f"InPlaceUpgradeRefused: infrastructure.{life.refused} of ")

    tell(life, story)


@pytest.mark.soak
@told_of((item for item in LIVES if item.external_etcd), 0)
def test_a_cluster_has_an_etcd_of_its_own(life: ProviderLife) -> None:
    async def story(steps: PlannedSteps) -> None:
        env = steps.env
        before = await in_system(env.client)
        steps.spec["externalEtcdConfiguration"] = life.external_etcd
        await steps.make()
        infrastructure = PROVIDERS[life.datacenter].infrastructure
        there = {name for kind, name in await in_system(env.client) if kind == infrastructure.machine_template}
        assert f"{steps.key.name}-etcd-1" in there
        machines = [name for kind, name in await in_system(env.client) if kind == infrastructure.machine]
        assert len(machines) == 1 + len(await env.nodes(steps.key))
        await delete(steps)
        assert await in_system(env.client) == before

    tell(life, story)


@pytest.mark.soak
@told_of(LIVES, 0)
def test_cluster_waits_for_its_provider(life: ProviderLife) -> None:
    kind = PROVIDERS[life.datacenter].infrastructure.cluster
    name = f"{kind.plural}.{kind.group}"

    async def story(steps: PlannedSteps) -> None:
        env = steps.env
        definition: Tree = (await env.client.get(CUSTOM_RESOURCE_DEFINITION, name)).tree
        await env.client.delete(CUSTOM_RESOURCE_DEFINITION, name)
        await asyncio.sleep(CALM)
        await steps.apply()
        waits = await env.until(lambda value: name in (value.status.failure_message or ""), steps.key)
        assert "is not installed in the management cluster" in (waits.status.failure_message or "")
        fields = {"apiVersion": definition["apiVersion"], "kind": definition["kind"], "spec": definition["spec"]}
        metadata = {"name": name, "labels": definition["metadata"].get("labels", {})}
        await env.client.create(CUSTOM_RESOURCE_DEFINITION, fields | {"metadata": metadata})
        await env.until_ready(steps.key)

    tell(life, story)
