"""Names, Cluster API objects and finalizers of a cluster that somebody else has, or took away."""

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
from espalier.api.eksa.vocabulary.group import CLUSTER_FINALIZER, SYSTEM_NAMESPACE
from espalier.api.resource import Key
from espalier.kube.client import PatchType
from espalier.kube.errors import ApiError
from espalier.kube.objects import Object
from espalier.providers.docker.cluster_api import DockerMachineTemplate
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.cluster_lives import EPOCH, KUBERNETES, conditions, journey, left
from tests.support.environments.managed_environment import GARDEN, NAMESPACE, ManagedEnvironment, managed_environment

pytestmark = pytest.mark.embedded


@pytest.mark.demand(L58="names are unique in all namespaces, so a second one of a name is refused")
@pytest.mark.soak
def test_second_cluster_of_the_name_waits_for_first() -> None:
    """Admission refuses it; who came past admission (webhooks were away) is held by the controller."""

    async def story(env: ManagedEnvironment) -> None:
        await env.client.create(NAMESPACES, {"metadata": {"name": "other"}})
        await env.allow_copies("other")
        await env.apply()
        await env.until_ready()
        with pytest.raises(ApiError, match="there is a cluster of this name in another namespace"):
            await env.apply(namespace="other")
        for resource in (VALIDATING_WEBHOOK_CONFIGURATION, MUTATING_WEBHOOK_CONFIGURATION):
            for item in (await env.client.list(resource)).items:
                await env.client.delete(resource, item.name)
        await env.apply(namespace="other", kubernetesVersion="1.36")
        second = Key("other", "garden")
        await env.until(lambda cluster: cluster.status.failure_reason == "ClusterNameTaken", second)
        assert await env.versions() == [KUBERNETES["1.35"]] * 3
        await env.client.delete(Cluster.resource, "garden", NAMESPACE)
        await env.until_gone()
        await env.until_ready(second)

    journey(story)


@pytest.mark.soak
def test_objects_being_deleted_stay_unready() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await env.apply()
        await env.until_ready()
        seen: list[Mapping[str, str]] = []

        def look(_old: Object | None, new: Object | None, _first: bool) -> None:
            if new is not None and new.metadata.deletion_timestamp is not None and new.key == GARDEN:
                seen.append(conditions(new.decode(Cluster)))

        env.clusters.subscribe(look)
        await env.client.delete(Cluster.resource, GARDEN.name, GARDEN.namespace)
        await env.until_gone()
        for type_ in ("ControlPlaneReady", "WorkersReady", "Ready"):
            told = [item[type_] for item in seen]
            assert told[-1] == "False"
            assert "True" not in told[told.index("False") :], type_
            assert told.index("False") <= [item["Ready"] for item in seen].index("False") + 1

    journey(story)


@pytest.mark.soak
def test_cluster_goes_with_its_last_secret() -> None:
    """One that comes again at once under the name would take the Secrets for its own, until they are collected."""

    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as env:
            await env.apply()
            await env.until_ready()
            held = {"metadata": {"finalizers": ["example.com/held"]}}
            secret = ("garden-ca", SYSTEM_NAMESPACE)
            await env.client.patch(SECRET, *secret, patch=held, type=PatchType.MERGE)
            await env.client.delete(Cluster.resource, "garden", NAMESPACE)
            waiting = "waiting for Secret garden-ca to be deleted"
            await env.until(
                lambda cluster: any(waiting in condition.message for condition in cluster.status.conditions)
            )
            held["metadata"]["finalizers"] = []
            await env.client.patch(SECRET, *secret, patch=held, type=PatchType.MERGE)
            async with asyncio.timeout(5):
                await env.until_gone()

    run(main, epoch=EPOCH, seed=1)


def test_objects_of_others_are_not_adopted_nor_deleted() -> None:
    async def story(env: ManagedEnvironment) -> None:
        theirs = {"metadata": {"name": "garden", "namespace": SYSTEM_NAMESPACE}, "spec": {"paused": True}}
        await env.client.create(capi_cluster.Cluster.resource, theirs)
        await env.apply()
        cluster = await env.until(lambda cluster: cluster.status.failure_reason == "ClusterNameTaken")
        assert "exists without the labels of this cluster" in (cluster.status.failure_message or "")
        await env.client.delete(Cluster.resource, "garden", NAMESPACE)
        await env.until_gone()
        assert await left(env) == ["Cluster garden"]

    journey(story)


@pytest.mark.soak
def test_a_finalizer_that_was_taken_away_is_put_back() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await env.apply()
        await env.until_ready()
        patch = {"metadata": {"finalizers": None}}
        await env.client.patch(Cluster.resource, "garden", NAMESPACE, patch=patch, type=PatchType.MERGE)
        await env.until(lambda cluster: CLUSTER_FINALIZER in cluster.metadata.finalizers, seconds=60)
        await env.client.delete(Cluster.resource, "garden", NAMESPACE)
        await env.until_gone()
        assert await left(env) == []

    journey(story)


@pytest.mark.soak
@pytest.mark.parametrize("name", ["garden-md-0", "garden-md-0-1"])
def test_cluster_goes_on_once_the_taken_name_is_free(name: str) -> None:
    """Of any kind: whoever waits for a name is told when it is free."""
    resource = MachineDeployment.resource if name == "garden-md-0" else DockerMachineTemplate.resource
    machines = {"apiGroup": DockerMachineTemplate.resource.group, "kind": "DockerMachineTemplate", "name": "x"}
    template = {"clusterName": "other", "bootstrap": {"dataSecretName": "x"}, "infrastructureRef": machines}
    specs = {
        MachineDeployment.resource: {"clusterName": "other", "selector": {}, "template": {"spec": template}},
        DockerMachineTemplate.resource: {"template": {"spec": {}}},
    }

    async def story(env: ManagedEnvironment) -> None:
        body = {"metadata": {"name": name, "namespace": SYSTEM_NAMESPACE}, "spec": specs[resource]}
        await env.client.create(resource, body)
        await env.apply()
        cluster = await env.until(lambda cluster: cluster.status.failure_reason == "ClusterNameTaken")
        assert f"{SYSTEM_NAMESPACE}/{name}" in (cluster.status.failure_message or "")
        assert await left(env) == [f"{resource.kind} {name}"]
        await asyncio.sleep(600)
        await env.client.delete(resource, name, SYSTEM_NAMESPACE)
        await env.until(lambda cluster: cluster.status.failure_reason is None, seconds=10)
        await env.until_ready()

    journey(story)
