"""Clusters that are exported, deleted and applied again, with whatever stood in their objects."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from espalier.api.core import (
    CUSTOM_RESOURCE_DEFINITION,
    MUTATING_WEBHOOK_CONFIGURATION,
    VALIDATING_WEBHOOK_CONFIGURATION,
)
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.group import PAUSED_ANNOTATION
from espalier.api.meta import Tree
from espalier.kube.client import PatchType
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.managed_environment import GARDEN, managed_environment
from tests.support.objects.exported import KINDS, delete, exported
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.soak
@pytest.mark.parametrize("when", sampled(["settled", "upgrading", "creating"], 1))
def test_exported_cluster_can_be_created_again(when: str) -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as env:
            await env.apply(kubernetesVersion="1.35")
            if when == "creating":
                await env.until(lambda item: item.status.phase == "Creating")
            else:
                await env.until_ready()
            if when == "upgrading":
                await env.change(kubernetesVersion="1.36")
                await env.until(lambda item: item.status.phase == "Upgrading")
            trees = await exported(env)
            await delete(env)
            for resource, tree in zip(KINDS, trees, strict=True):
                await env.client.create(resource, tree)
            await env.until_ready()
            assert len(await env.nodes()) == 3

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.soak
def test_cluster_of_another_manager_is_made_once() -> None:
    """Its machines may be running there."""

    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as env:
            await env.apply()
            await env.until_ready()
            trees = await exported(env)
        async with managed_environment(simulation.clock, seed=2) as env:
            for resource, tree in zip(KINDS, trees, strict=True):
                await env.client.create(resource, tree)
            cluster = await env.until(lambda item: bool(item.status.failure_reason))
            assert (cluster.status.failure_reason, cluster.status.phase) == ("ClusterAPIObjectsMissing", "Failed")
            assert metadata_keys.GATE_ANNOTATION in (cluster.status.failure_message or "")
            away = {"metadata": {"annotations": {metadata_keys.GATE_ANNOTATION: None}}}
            await env.client.patch(Cluster.resource, GARDEN.name, GARDEN.namespace, patch=away, type=PatchType.MERGE)
            await env.until_ready()  # as it was told

    run(main, epoch=EPOCH, seed=1)


def test_cluster_adopts_its_remaining_objects() -> None:
    """Somebody took the finalizer away: all that was made is there, and the exported Cluster fits it."""

    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as env:
            await env.apply()
            await env.until_ready()
            trees = await exported(env)
            before = await env.machine_names(GARDEN.name)
            paused = {"metadata": {"annotations": {PAUSED_ANNOTATION: "true"}, "finalizers": []}}
            await env.client.patch(Cluster.resource, GARDEN.name, GARDEN.namespace, patch=paused, type=PatchType.MERGE)
            await env.client.delete(Cluster.resource, GARDEN.name, GARDEN.namespace)
            await env.until_gone()
            await asyncio.sleep(60)  # the datacenter goes with it
            for resource, tree in zip(KINDS, trees, strict=True):
                await env.client.create(resource, tree)
            await env.until_ready()
            assert await env.machine_names(GARDEN.name) == before

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.soak
def test_invalid_cluster_says_so_until_it_is_valid() -> None:
    """Another schema than ours let it pass: that of an earlier or later manager, or of somebody's hand."""

    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as env:
            await env.apply()
            await env.until_ready()
            name = Cluster.resource.group_resource
            defined = (await env.client.get(CUSTOM_RESOURCE_DEFINITION, name)).tree
            served = defined["spec"]["versions"][0]
            anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
            served["schema"] = {"openAPIV3Schema": anything}
            loose = {"spec": {"versions": [served]}}
            await env.client.patch(CUSTOM_RESOURCE_DEFINITION, name, patch=loose, type=PatchType.MERGE)
            for webhooks in (MUTATING_WEBHOOK_CONFIGURATION, VALIDATING_WEBHOOK_CONFIGURATION):
                for item in (await env.client.list(webhooks)).items:
                    await env.client.delete(webhooks, item.name)

            async def status_after(version: object) -> Tree:
                patch = {"spec": {"kubernetesVersion": version}}
                await env.client.patch(
                    Cluster.resource, GARDEN.name, GARDEN.namespace, patch=patch, type=PatchType.MERGE
                )
                await asyncio.sleep(60)
                status: Tree = (await env.client.get(Cluster.resource, GARDEN.name, GARDEN.namespace)).tree["status"]
                return status

            status = await status_after(1.35)
            assert (status["failureReason"], status["phase"], status["ready"]) == ("ClusterInvalid", "Failed", False)
            assert "kubernetesVersion" in status["failureMessage"]
            assert [condition["reason"] for condition in status["conditions"] if condition["type"] == "Ready"] == [
                "ClusterInvalid"
            ]
            status = await status_after("1.35")
            assert (status.get("failureReason"), status["phase"], status["ready"]) == (None, "Running", True)

    run(main, epoch=EPOCH, seed=1)
