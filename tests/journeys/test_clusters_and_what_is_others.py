"""Names, machinery and finalizers of a cluster that somebody else has, or took away."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from espalier.api.capi import cluster as capi_cluster
from espalier.api.capi.machine import MachineDeployment
from espalier.api.core import (
    MUTATING_WEBHOOK_CONFIGURATION,
    SECRET,
    VALIDATING_WEBHOOK_CONFIGURATION,
)
from espalier.api.core import NAMESPACE as NAMESPACES
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.group import CLUSTER_FINALIZER, SYSTEM_NAMESPACE
from espalier.api.resource import Key
from espalier.kube.client import PatchType
from espalier.kube.errors import ApiError
from espalier.kube.objects import Object
from espalier.providers.docker.cluster_api import DockerMachineTemplate
from espalier.runtime.virtual import Simulation, run
from tests.journeys.cluster_lives import EPOCH, KUBERNETES, conditions, journey, left
from tests.journeys.managed import GARDEN, NAMESPACE, ManagedLaptop, managed_laptop

pytestmark = pytest.mark.embedded


def test_a_second_cluster_of_the_name_waits_until_the_first_is_gone() -> None:
    """Admission refuses it; who came past admission (webhooks were away) is held by the controller."""

    async def story(world: ManagedLaptop) -> None:
        await world.client.create(NAMESPACES, {"metadata": {"name": "other"}})
        await world.allow_copies("other")
        await world.apply()
        await world.until_ready()
        with pytest.raises(ApiError, match="there is a cluster of this name in another namespace"):
            await world.apply(namespace="other")
        for resource in (VALIDATING_WEBHOOK_CONFIGURATION, MUTATING_WEBHOOK_CONFIGURATION):
            for found in (await world.client.list(resource)).items:
                await world.client.delete(resource, found.name)
        await world.apply(namespace="other", kubernetesVersion="1.36")
        second = Key("other", "garden")
        await world.until(lambda cluster: cluster.status.failure_reason == "ClusterNameTaken", second)
        assert await world.versions() == [KUBERNETES["1.35"]] * 3
        await world.client.delete(Cluster.resource, "garden", NAMESPACE)
        await world.until_gone()
        await world.until_ready(second)

    journey(story)


def test_what_goes_is_not_ready_again() -> None:
    async def story(world: ManagedLaptop) -> None:
        await world.apply()
        await world.until_ready()
        seen: list[Mapping[str, str]] = []

        def look(_old: Object | None, new: Object | None, _first: bool) -> None:
            if new is not None and new.metadata.deletion_timestamp is not None and new.key == GARDEN:
                seen.append(conditions(new.decode(Cluster)))

        world.clusters.subscribe(look)
        await world.client.delete(Cluster.resource, GARDEN.name, GARDEN.namespace)
        await world.until_gone()
        for type_ in ("ControlPlaneReady", "WorkersReady", "Ready"):
            told = [one[type_] for one in seen]
            assert told[-1] == "False"
            assert "True" not in told[told.index("False") :], type_
            assert told.index("False") <= [one["Ready"] for one in seen].index("False") + 1

    journey(story)


def test_a_cluster_goes_when_the_last_secret_of_its_machinery_is_gone() -> None:
    """One that comes again at once under the name would take the Secrets for its own, until they are collected."""

    async def main(simulation: Simulation) -> None:
        async with managed_laptop(simulation.clock) as world:
            await world.apply()
            await world.until_ready()
            held = {"metadata": {"finalizers": ["example.com/held"]}}
            secret = ("garden-ca", SYSTEM_NAMESPACE)
            await world.client.patch(SECRET, *secret, patch=held, type=PatchType.MERGE)
            await world.client.delete(Cluster.resource, "garden", NAMESPACE)
            waiting = "waiting for Secret garden-ca to be gone"
            await world.until(lambda cluster: any(waiting in one.message for one in cluster.status.conditions))
            held["metadata"]["finalizers"] = []
            await world.client.patch(SECRET, *secret, patch=held, type=PatchType.MERGE)
            async with asyncio.timeout(5):
                await world.until_gone()

    run(main, epoch=EPOCH, seed=1)


def test_a_machinery_of_others_is_not_taken_over_nor_deleted() -> None:
    async def story(world: ManagedLaptop) -> None:
        theirs = {"metadata": {"name": "garden", "namespace": SYSTEM_NAMESPACE}, "spec": {"paused": True}}
        await world.client.create(capi_cluster.Cluster.resource, theirs)
        await world.apply()
        cluster = await world.until(lambda cluster: cluster.status.failure_reason == "ClusterNameTaken")
        assert "was not made for this cluster" in (cluster.status.failure_message or "")
        await world.client.delete(Cluster.resource, "garden", NAMESPACE)
        await world.until_gone()
        assert await left(world) == ["Cluster garden"]

    journey(story)


def test_a_finalizer_that_was_taken_away_is_put_back() -> None:
    async def story(world: ManagedLaptop) -> None:
        await world.apply()
        await world.until_ready()
        patch = {"metadata": {"finalizers": None}}
        await world.client.patch(Cluster.resource, "garden", NAMESPACE, patch=patch, type=PatchType.MERGE)
        await world.until(lambda cluster: CLUSTER_FINALIZER in cluster.metadata.finalizers, seconds=60)
        await world.client.delete(Cluster.resource, "garden", NAMESPACE)
        await world.until_gone()
        assert await left(world) == []

    journey(story)


@pytest.mark.parametrize("name", ["garden-md-0", "garden-md-0-1"])
def test_once_an_object_of_others_is_gone_the_cluster_that_needs_its_name_goes_on(name: str) -> None:
    """Of any kind: whoever waits for a name is told when it is free."""
    resource = MachineDeployment.resource if name == "garden-md-0" else DockerMachineTemplate.resource
    machines = {"apiGroup": DockerMachineTemplate.resource.group, "kind": "DockerMachineTemplate", "name": "x"}
    template = {"clusterName": "other", "bootstrap": {"dataSecretName": "x"}, "infrastructureRef": machines}
    specs = {
        MachineDeployment.resource: {"clusterName": "other", "selector": {}, "template": {"spec": template}},
        DockerMachineTemplate.resource: {"template": {"spec": {}}},
    }

    async def story(world: ManagedLaptop) -> None:
        body = {"metadata": {"name": name, "namespace": SYSTEM_NAMESPACE}, "spec": specs[resource]}
        await world.client.create(resource, body)
        await world.apply()
        cluster = await world.until(lambda cluster: cluster.status.failure_reason == "ClusterNameTaken")
        assert f"{SYSTEM_NAMESPACE}/{name}" in (cluster.status.failure_message or "")
        assert await left(world) == [f"{resource.kind} {name}"]
        await asyncio.sleep(600)
        await world.client.delete(resource, name, SYSTEM_NAMESPACE)
        await world.until(lambda cluster: cluster.status.failure_reason is None, seconds=10)
        await world.until_ready()

    journey(story)
