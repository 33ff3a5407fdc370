"""Where nothing goes wrong nothing alarms: no Warning event, no failure in a status, no error in the log."""

from __future__ import annotations

import asyncio
import itertools
from datetime import UTC, datetime

import pytest

from espalier.api.core import CONFIG_MAP, ConfigMap
from espalier.clusters.design.names import MANAGEMENT_CLUSTER
from espalier.clusters.observe.management import GRACE
from espalier.kube.client import PatchType
from espalier.providers.kinds import CATALOG
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.managed_environment import CALM, managed_environment
from tests.support.objects.warnings_of import Alarms
from tests.support.providers.provider_lives import LIVES, ProviderLife, delete, live
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
PAUSE = 1.0
"""Seconds between two objects of a manifest: slower than kubectl with an API server far away."""
ORDERS = ("as in the file", "the Cluster last", "backwards")


def short(value: ProviderLife | str) -> str:
    return value if isinstance(value, str) else value.datacenter.removesuffix("DatacenterConfig")


@pytest.mark.parametrize(("life", "order"), sampled(itertools.product(LIVES, ORDERS), 0), ids=short)
def test_a_manifest_is_applied_in_any_order(life: ProviderLife, order: str) -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as env:
            await life.before(env)
            steps = life.steps(env)
            cluster, *linked = steps.trees
            trees = {"as in the file": steps.trees, "the Cluster last": [*linked, cluster]}
            with Alarms(env.clusters).listening() as alarms:
                for tree in trees.get(order, steps.trees[::-1]):
                    resource = CATALOG.resource_of(tree["apiVersion"], tree["kind"])
                    await env.client.apply(resource, tree, field_manager="kubectl")
                    await asyncio.sleep(PAUSE)
                await env.until_ready(steps.key)
                await asyncio.sleep(CALM)
                assert await alarms.raised(env.client) == []

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.soak
@pytest.mark.parametrize("life", LIVES, ids=short)
def test_a_cluster_lives_and_ends_without_an_alarm(life: ProviderLife) -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as env:
            await life.before(env)
            steps = life.steps(env)
            with Alarms(env.clusters).listening() as alarms:
                await live(life, steps)
                await delete(steps)
                assert await alarms.raised(env.client) == []

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.parametrize("life", sampled(LIVES, 0), ids=short)
def test_machines_are_upgraded_in_place_without_alarm(life: ProviderLife) -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as env:
            await life.before(env)
            steps = life.steps(env)
            with Alarms(env.clusters).listening() as alarms:
                await steps.make()
                await steps.in_place()
                life.kubernetes(steps, "1.36")
                await steps.step()
                assert await alarms.raised(env.client) == []

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.parametrize("comes", [True, False], ids=["comes", "never comes"])
def test_record_comes_after_configmap_that_names_it(comes: bool) -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as env:
            name, namespace = MANAGEMENT_CLUSTER.name, MANAGEMENT_CLUSTER.namespace
            known = (await env.client.get(CONFIG_MAP, name, namespace)).decode(ConfigMap)
            await env.client.delete(CONFIG_MAP, name, namespace)
            with Alarms(env.clusters).listening() as alarms:
                metadata = {"name": name, "namespace": namespace}
                await env.client.create(CONFIG_MAP, {"metadata": metadata, "data": {**known.data, "name": "hub"}})
                await asyncio.sleep(GRACE / 2)
                if comes:
                    data = {"data": known.data}
                    await env.client.patch(CONFIG_MAP, name, namespace, patch=data, type=PatchType.MERGE)
                await asyncio.sleep(CALM)
                raised = [
                    item.partition(":")[0] for item in await alarms.raised(env.client) if item.startswith("ConfigMap")
                ]
                assert raised == ([] if comes else ["ConfigMap ManagementClusterInvalid"])

    run(main, epoch=EPOCH, seed=1)
