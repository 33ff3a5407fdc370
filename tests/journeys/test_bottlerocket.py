"""Machines with Bottlerocket, as EKS Anywhere's build of Cluster API makes them; on stock they are refused by name."""

from __future__ import annotations

import asyncio
import base64
import copy
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

import pytest

from espalier.api.capi import cluster as capi
from espalier.api.capi.etcdadm import EtcdadmCluster
from espalier.api.capi.machine import Machine
from espalier.api.core import CUSTOM_RESOURCE_DEFINITION, SECRET, Secret
from espalier.api.definitions.crd import crd_of
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.resource import Key
from espalier.clusters.design import names
from espalier.kube.errors import Forbidden
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.managed_environment import CALM, NAMESPACE, ManagedEnvironment, managed_environment
from tests.support.histories.planned_steps import PlannedSteps
from tests.support.providers import snow, vsphere
from tests.support.providers import snow_steps as glaciers
from tests.support.providers import vsphere_steps as vineyards
from tests.support.providers.bottlerocket import CONNECTED, SETTINGS, on_bottlerocket
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
CONTROL_PLANE = ""
Story = Callable[[ManagedEnvironment], Coroutine[Any, Any, None]]


def told_as(tell: Story) -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as env:
            await vineyards.put_credentials(env)
            await glaciers.put_credentials(env)
            await tell(env)

    run(main, epoch=EPOCH, seed=1)


def vineyard(env: ManagedEnvironment) -> PlannedSteps:
    return PlannedSteps(env, vineyards.VINEYARD, vsphere.with_bottlerocket(NAMESPACE))


def glacier(env: ManagedEnvironment) -> PlannedSteps:
    return PlannedSteps(env, glaciers.GLACIER, snow.with_bottlerocket(NAMESPACE))


PLACES: dict[str, tuple[Callable[[ManagedEnvironment], PlannedSteps], str]] = {
    "vsphere": (vineyard, "template"),
    "snow": (glacier, "amiID"),
}


async def formats(env: ManagedEnvironment, key: Key) -> set[str]:
    """Of the data that machines boot with."""
    listed = await env.client.list(SECRET, SYSTEM_NAMESPACE, labels=f"{capi.CLUSTER_NAME_LABEL}={key.name}")
    secrets = [item.decode(Secret) for item in listed.items]
    return {secret.data["format"].decode() for secret in secrets if "format" in secret.data}


async def change(steps: PlannedSteps, image: str) -> None:
    """Whatever is changed, one thing after the other; the plan says which machines are replaced."""
    spec, name = steps.spec, steps.key.name
    workers = f"{name}-md-0"
    groups = spec["workerNodeGroupConfigurations"]
    groups[0]["count"] = 3
    await steps.step()
    groups[0]["count"] = 1
    await steps.step()
    groups[0]["labels"] = {"slope": "south"}
    await steps.step(workers)
    groups[0]["taints"] = [{"key": "frost", "value": "late", "effect": "PreferNoSchedule"}]
    await steps.step(workers)
    nodes = await steps.env.nodes(steps.key)
    assert [node["spec"]["taints"][0]["key"] for node in nodes if node["metadata"]["labels"].get("slope")] == ["frost"]
    groups[0]["kubeletConfiguration"] = {"maxPods": 50}
    await steps.step(workers)
    on_bottlerocket(steps.trees, hostOSConfiguration=SETTINGS)
    await steps.step(CONTROL_PLANE, workers)
    spec["proxyConfiguration"]["httpsProxy"] = "http://ann:canary@proxy:3129"
    assert "canary" not in str(await steps.env.preview(steps.key, steps.trees))
    await steps.step(CONTROL_PLANE, workers)
    spec["kubernetesVersion"] = "1.36"
    on_bottlerocket(steps.trees, **{image: "bottlerocket-1-36"})
    await steps.step(CONTROL_PLANE, workers)
    assert {version.split("-")[0] for version in await steps.env.versions(steps.key)} == {"v1.36.3"}


@pytest.mark.soak
@pytest.mark.parametrize("place", sampled(PLACES, 0))
def test_a_cluster_with_bottlerocket_lives_and_ends(place: str) -> None:
    async def life(env: ManagedEnvironment) -> None:
        make, image = PLACES[place]
        steps = make(env)
        steps.spec.update(copy.deepcopy(CONNECTED))
        await steps.make()
        assert await formats(env, steps.key) == {"bottlerocket"}
        await change(steps, image)
        await asyncio.sleep(CALM)
        steady = await env.until_ready(steps.key)
        assert {condition.type: condition.reason for condition in steady.status.conditions}[
            names.SYNCED
        ] == "AsRendered"
        await env.client.delete(Cluster.resource, steps.key.name, NAMESPACE)
        await env.until_gone(steps.key)
        assert (await env.client.list(Machine.resource, SYSTEM_NAMESPACE)).items == []

    told_as(life)


@pytest.mark.soak
@pytest.mark.parametrize("place", sampled(PLACES, 1))
def test_bottlerocket_machines_have_their_own_etcd(place: str) -> None:
    async def life(env: ManagedEnvironment) -> None:
        make, _ = PLACES[place]
        steps = make(env)
        reference = dict(steps.spec["controlPlaneConfiguration"]["machineGroupRef"])
        steps.spec["externalEtcdConfiguration"] = {"count": 3, "machineGroupRef": reference}
        await steps.make()
        etcdadm_cluster = (
            await env.client.get(EtcdadmCluster.resource, f"{steps.key.name}-etcd", SYSTEM_NAMESPACE)
        ).decode(EtcdadmCluster)
        assert etcdadm_cluster.status.ready
        assert etcdadm_cluster.spec.etcdadm_config_spec.format == "bottlerocket"
        assert etcdadm_cluster.spec.etcdadm_config_spec.cloud_init_config is None

    told_as(life)


@pytest.mark.soak
def test_bottlerocket_waits_for_the_other_build() -> None:
    async def life(env: ManagedEnvironment) -> None:
        definition = crd_of(capi.Cluster)
        stock = copy.deepcopy(definition)
        versions = stock["spec"]["versions"]
        del versions[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["managedExternalEtcdRef"]
        await env.client.apply(CUSTOM_RESOURCE_DEFINITION, stock, force=True)
        await asyncio.sleep(1)
        steps = vineyard(env)
        await steps.apply()
        waits = await env.until(lambda item: "RequiresEKS" in (item.status.failure_reason or ""), steps.key)
        assert "machines with Bottlerocket need EKS Anywhere's build" in (waits.status.failure_message or "")
        preview = await env.preview(steps.key, steps.trees)
        assert preview.stops.startswith("RequiresEKSAnywhereClusterAPI: ")
        assert (await env.client.list(capi.Cluster.resource, SYSTEM_NAMESPACE)).items == []
        await env.client.apply(CUSTOM_RESOURCE_DEFINITION, definition, force=True)
        await env.until_ready(steps.key)

    told_as(life)


@pytest.mark.demand(U72="machines with Bottlerocket")
@pytest.mark.soak
def test_bottlerocket_in_place_is_refused_by_name() -> None:
    async def life(env: ManagedEnvironment) -> None:
        steps = vineyard(env)
        await steps.make()
        before = await env.machine_names(steps.key.name)
        steps.spec["controlPlaneConfiguration"]["upgradeRolloutStrategy"] = {"type": "InPlace"}
        steps.spec["kubernetesVersion"] = "1.36"
        preview = await env.preview(steps.key, steps.trees)
        assert ["Bottlerocket is not upgraded in place" in refusal.message for refusal in preview.refusals] == [True]
        with pytest.raises(Forbidden, match="Bottlerocket is not upgraded in place, because its image"):
            await steps.apply()
        del steps.spec["controlPlaneConfiguration"]["upgradeRolloutStrategy"]
        await steps.step(CONTROL_PLANE, "vineyard-md-0")
        assert not before[CONTROL_PLANE] & (await env.machine_names(steps.key.name))[CONTROL_PLANE]

    told_as(life)


@pytest.mark.soak
def test_mirror_password_is_permitted_before_machines() -> None:
    """The Secret may come after the manifest, and permits nothing until it says so."""

    async def life(env: ManagedEnvironment) -> None:
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "registry-credentials", "namespace": SYSTEM_NAMESPACE, "annotations": {}},
            "data": {name: base64.b64encode(b"canary").decode() for name in ("username", "password")},
        }
        await env.client.apply(SECRET, secret, field_manager="administrator")
        steps = glacier(env)
        steps.spec["registryMirrorConfiguration"] = {"endpoint": "mirror.example.com", "port": "5000"}
        await steps.apply()
        await env.until(lambda item: "registry-credentials" in (item.status.failure_message or ""), steps.key)
        assert (await env.client.list(capi.Cluster.resource, SYSTEM_NAMESPACE)).items == []
        await env.client.delete(SECRET, "registry-credentials", SYSTEM_NAMESPACE)
        await env.until_ready(steps.key)

    told_as(life)
