"""The specifics of a cluster on Snow: devices, pools of addresses, and credentials for each device."""

from __future__ import annotations

import asyncio
import base64
import copy
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from espalier.api.core import CONFIG_MAP, SECRET, Secret
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import PAUSED_ANNOTATION, SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.kube.client import Client, PatchType
from espalier.providers.kinds import CATALOG
from espalier.providers.snow.cluster_api import AWSSnowCluster, AWSSnowIPPool, AWSSnowMachine, AWSSnowMachineTemplate
from espalier.providers.snow.kinds import SnowIPPool, SnowMachineConfig
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.managed_environment import CALM, NAMESPACE, ManagedEnvironment, managed_environment
from tests.support.providers.snow import AUTHORITY, MACHINES, OTHER_DEVICE, PROFILES, another_pool, of
from tests.support.providers.snow_steps import EPOCH, GLACIER, Glacier, put_credentials

pytestmark = pytest.mark.embedded

CONTROL_PLANE, WORKERS = "", "glacier-md-0"


async def other_addresses(glacier: Glacier) -> None:
    """Workers get addresses of another pool; the one before stays for the control plane, and goes when unused."""
    env = glacier.env
    assert await names(env.client, AWSSnowIPPool) == ["glacier-glacier"]
    glacier.trees.append(another_pool(NAMESPACE))
    pools = {name: of(glacier.trees, MACHINES, name)["network"] for name in ("glacier", "glacier-cp")}
    pools["glacier"]["directNetworkInterfaces"][0]["ipPoolRef"]["name"] = "crevasse"
    await glacier.step(WORKERS)
    assert await names(env.client, AWSSnowIPPool) == ["glacier-crevasse", "glacier-glacier"]
    pools["glacier-cp"]["directNetworkInterfaces"][0]["ipPoolRef"]["name"] = "crevasse"
    await glacier.step(CONTROL_PLANE)
    await asyncio.sleep(CALM)
    assert await names(env.client, AWSSnowIPPool) == ["glacier-crevasse"]


async def rotate(env: ManagedEnvironment) -> None:
    """New credentials reach the Secret that needs them, nothing in the workload cluster, and replace no machine."""
    before = await env.machine_names("glacier")
    templates = await names(env.client, AWSSnowMachineTemplate)
    await put_credentials(env, {"credentials": PROFILES + "# another-canary", "ca-bundle": AUTHORITY})
    await asyncio.sleep(CALM)
    await env.until_ready(GLACIER)
    made = (await env.client.get(SECRET, "glacier-snow-credentials", SYSTEM_NAMESPACE)).decode(Secret)
    assert made.data == {"credentials": (PROFILES + "# another-canary").encode(), "ca-bundle": AUTHORITY.encode()}
    assert await env.machine_names("glacier") == before
    assert await names(env.client, AWSSnowMachineTemplate) == templates
    workload = await env.workload(GLACIER)
    raws = [item.raw for kind in (SECRET, CONFIG_MAP) for item in (await workload.list(kind)).items]
    canary = base64.b64encode(made.data["credentials"])
    assert not [raw for raw in raws if canary in raw or b"canary" in raw]


async def names(client: Client, kind: type[Any]) -> list[str]:
    return [item.name for item in (await client.list(kind.resource)).items]


async def delete(env: ManagedEnvironment) -> None:
    """Nothing is left."""
    await env.client.delete(Cluster.resource, "glacier", NAMESPACE)
    await env.until_gone(GLACIER)
    for made in (AWSSnowCluster, AWSSnowMachine, AWSSnowMachineTemplate, AWSSnowIPPool):
        assert await names(env.client, made) == []
    assert "glacier-snow-credentials" not in await names(env.client, Secret)


def told_as(simulate: Callable[[ManagedEnvironment], Any]) -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as env:
            await put_credentials(env)
            await simulate(env)

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.demand(L67="none of Snow at all")
@pytest.mark.soak
def test_new_device_or_credentials_replace_no_machine() -> None:
    async def life(env: ManagedEnvironment) -> None:
        glacier = Glacier(env)
        await glacier.make()
        of(glacier.trees, MACHINES)["devices"].append(OTHER_DEVICE)
        await glacier.step(WORKERS)
        await other_addresses(glacier)
        await rotate(env)
        await delete(env)

    told_as(life)


@pytest.mark.soak
def test_credentials_go_to_no_device_unpermitted() -> None:
    async def life(env: ManagedEnvironment) -> None:
        await put_credentials(env, servers=OTHER_DEVICE)
        glacier = Glacier(env)
        await glacier.apply()
        waits = await env.until(lambda value: "credentials-servers" in (value.status.failure_message or ""), GLACIER)
        assert "SnowMachineConfig glacier-cp: spec.devices" in (waits.status.failure_message or "")
        assert "glacier-snow-credentials" not in await names(env.client, Secret)
        await put_credentials(env)
        await env.until_ready(GLACIER)

    told_as(life)


@pytest.mark.soak
def test_a_pool_is_of_the_cluster_that_named_it_first() -> None:
    async def life(env: ManagedEnvironment) -> None:
        glacier = Glacier(env)
        await glacier.make()
        moraine = copy.deepcopy(glacier.trees[0])
        moraine["metadata"]["name"] = "moraine"
        moraine["spec"]["controlPlaneConfiguration"]["endpoint"]["host"] = "192.0.2.11"
        await env.client.apply(Cluster.resource, moraine, field_manager="kubectl")
        key = Key(NAMESPACE, "moraine")
        waits = await env.until(lambda value: "another SnowIPPool" in (value.status.failure_message or ""), key)
        assert "SnowIPPool glacier: Cluster glacier uses this pool" in (waits.status.failure_message or "")
        assert await names(env.client, AWSSnowIPPool) == ["glacier-glacier"]
        glacier.spec["controlPlaneConfiguration"]["certSans"] = ["glacier.example.com"]
        await glacier.step(CONTROL_PLANE)

    told_as(life)


async def other_pool(env: ManagedEnvironment) -> None:
    """Machines of the older cluster, none of which is made yet, get addresses of another pool."""
    pool = another_pool(NAMESPACE)
    await env.client.apply(SnowIPPool.resource, pool, field_manager="kubectl")
    for name in ("glacier", "glacier-cp"):
        result = (await env.client.get(SnowMachineConfig.resource, name, NAMESPACE)).tree
        interfaces = copy.deepcopy(result["spec"]["network"]["directNetworkInterfaces"])
        interfaces[0]["ipPoolRef"]["name"] = pool["metadata"]["name"]
        patch: Tree = {"spec": {"network": {"directNetworkInterfaces": interfaces}}}
        await env.client.patch(SnowMachineConfig.resource, name, NAMESPACE, patch=patch, type=PatchType.MERGE)


async def no_cluster(env: ManagedEnvironment) -> None:
    await env.client.delete(Cluster.resource, "glacier", NAMESPACE)


@pytest.mark.parametrize("free", [other_pool, no_cluster])
def test_cluster_goes_on_once_addresses_are_free(
    free: Callable[[ManagedEnvironment], Awaitable[None]],
) -> None:
    """Not when it is asked for again: nothing asks."""

    async def life(env: ManagedEnvironment) -> None:
        await put_credentials(env)
        glacier = Glacier(env)
        glacier.trees[0]["metadata"]["annotations"] = {PAUSED_ANNOTATION: "true"}
        await glacier.apply()
        text = json.dumps(Glacier(env).trees).replace("glacier", "moraine").replace("192.0.2.16", "192.0.2.17")
        trees: list[Tree] = json.loads(text)
        for tree in trees:
            await env.client.apply(CATALOG.resource_of(tree["apiVersion"], tree["kind"]), tree, field_manager="kubectl")
        key = Key(NAMESPACE, "moraine")
        await env.until(lambda value: value.status.failure_reason == "MachineAddressesTaken", key)
        await asyncio.sleep(CALM)
        await free(env)
        await env.until(lambda value: value.status.failure_reason != "MachineAddressesTaken", key, seconds=1)

    told_as(life)
