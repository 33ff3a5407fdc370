"""The specifics of a cluster on Nutanix: failure domains, a trust bundle, credentials of two accounts."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from typing import Any

import pytest

from espalier.api.capi.machine import Machine
from espalier.api.core import CONFIG_MAP, DEPLOYMENT, EVENT, SECRET, ConfigMap, Secret
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.kube.client import Client
from espalier.providers.kinds import KINDS
from espalier.providers.nutanix.cluster_api import NutanixCluster, NutanixMachine, NutanixMachineTemplate
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.managed_clusters import AccountedClusters
from tests.support.environments.managed_environment import CALM, NAMESPACE, ManagedEnvironment, managed_environment
from tests.support.histories.planned_steps import PlannedSteps
from tests.support.providers.nutanix import (
    AUTHORITY,
    CREDENTIALS,
    MAKER,
    READER,
    account,
    domain,
    named,
    of,
)
from tests.support.providers.nutanix_steps import EPOCH, QUARRY, put_credentials, quarry_of

pytestmark = pytest.mark.embedded

STORED = (*(kind.resource for kind in KINDS), SECRET, CONFIG_MAP, EVENT)
CONTROL_PLANE, WORKERS = "", "quarry-md-0"
EAST, WEST = "quarry-md-0-east", "quarry-md-0-west"


async def spread(quarry: PlannedSteps) -> None:
    """Workers get into failure domains, each with a MachineDeployment of its own, and out of one of them."""
    datacenter = of(quarry.trees, "NutanixDatacenterConfig")
    datacenter["failureDomains"] = [domain("east", "md-0"), domain("west", "md-0")]
    quarry.spec["workerNodeGroupConfigurations"][0]["count"] = 3
    await quarry.step()
    assert await places(quarry.env) == {"": 1, "east": 2, "west": 1}
    infrastructure = (await quarry.env.client.get(NutanixCluster.resource, "quarry", SYSTEM_NAMESPACE)).decode(
        NutanixCluster
    )
    assert sorted(infrastructure.status.failure_domains) == ["east", "west"]
    clusters = {machine.tree["spec"]["cluster"]["name"] for machine in await machines(quarry.env)}
    assert clusters == {"cluster-1", "cluster-east", "cluster-west"}
    datacenter["failureDomains"][1]["subnets"] = [named("another")]
    await quarry.step(WEST)
    datacenter["failureDomains"].pop()
    await quarry.step()
    assert await places(quarry.env) == {"": 1, "east": 3}


async def machines(env: AccountedClusters) -> list[Any]:
    return list((await env.client.list(NutanixMachine.resource, SYSTEM_NAMESPACE)).items)


async def places(env: AccountedClusters) -> dict[str, int]:
    """How many machines are in each failure domain."""
    failure_domains = [
        item.decode(Machine).spec.failure_domain for item in (await env.client.list(Machine.resource)).items
    ]
    return {item: failure_domains.count(item) for item in failure_domains}


async def rotate(env: ManagedEnvironment) -> None:
    """New passwords reach what has them, here and in the workload cluster, and replace no machine."""
    before = await env.machine_names("quarry")
    templates = await names(env.client, NutanixMachineTemplate)
    maker, reader = account("maker", "another-canary"), account("reader", "another-reader")
    await put_credentials(env, {"credentials": maker, "credentialsCP": reader})
    await asyncio.sleep(CALM)
    await env.until_ready(QUARRY)
    of_machines = (await env.client.get(SECRET, "capx-quarry", SYSTEM_NAMESPACE)).decode(Secret)
    assert of_machines.data == {"credentials": maker.encode()}
    workload = await env.workload(QUARRY)
    there = (await workload.get(SECRET, "nutanix-creds", "kube-system")).tree["data"]
    assert base64.b64decode(there["credentials"]) == reader.encode()
    assert await env.machine_names("quarry") == before
    assert await names(env.client, NutanixMachineTemplate) == templates
    raws = [item.raw for kind in (SECRET, CONFIG_MAP) for item in (await workload.list(kind)).items]
    canary = base64.b64encode(maker.encode())
    assert not [raw for raw in raws if canary in raw or b"another-canary" in raw]


async def shows_nothing(env: ManagedEnvironment, quarry: PlannedSteps) -> None:
    """Passwords are in the Secrets that need them, and in nothing that is stored, told or planned."""
    preview = await env.preview(QUARRY, quarry.trees)
    needs = {"nutanix-credentials", "capx-quarry"}
    stored = [
        item.raw
        for kind in STORED
        for item in (await env.client.list(kind)).items
        if kind != SECRET or item.name not in needs
    ]
    there = [
        secret.raw
        for secret in (await (await env.workload(QUARRY)).list(SECRET)).items
        if secret.name != "nutanix-creds"
    ]
    for canary in (MAKER, READER):
        written = (canary.encode(), *(base64.b64encode(credential.encode()) for credential in CREDENTIALS.values()))
        assert not [raw for raw in (*stored, *there) if any(item in raw for item in written)]
        assert canary not in repr(preview)


async def names(client: Client, kind: type[Any]) -> list[str]:
    return [item.name for item in (await client.list(kind.resource)).items]


async def delete(env: ManagedEnvironment) -> None:
    """Nothing is left."""
    await env.client.delete(Cluster.resource, "quarry", NAMESPACE)
    await env.until_gone(QUARRY)
    for made in (NutanixCluster, NutanixMachine, NutanixMachineTemplate):
        assert await names(env.client, made) == []
    assert "capx-quarry" not in await names(env.client, Secret)
    assert "quarry-trust-bundle" not in await names(env.client, ConfigMap)


def told_as(simulate: Callable[[ManagedEnvironment], Any]) -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as env:
            await put_credentials(env)
            await simulate(env)

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.demand(L67="Nutanix")
def test_trust_bundle_and_passwords_replace_no_machine(capfd: pytest.CaptureFixture[str]) -> None:
    async def life(env: ManagedEnvironment) -> None:
        quarry = quarry_of(env)
        await quarry.make()
        workload = await env.workload(QUARRY)
        await workload.get(DEPLOYMENT, "nutanix-cloud-controller-manager", "kube-system")
        await shows_nothing(env, quarry)
        of(quarry.trees, "NutanixDatacenterConfig")["additionalTrustBundle"] = AUTHORITY
        await quarry.step()
        await workload.get(CONFIG_MAP, "user-ca-bundle", "kube-system")
        assert "quarry-trust-bundle" in await names(env.client, ConfigMap)
        await rotate(env)
        await delete(env)

    told_as(life)
    logged = capfd.readouterr()
    assert "canary" not in logged.out + logged.err


@pytest.mark.soak
def test_nutanix_machines_spread_over_failure_domains() -> None:
    async def life(env: ManagedEnvironment) -> None:
        quarry = quarry_of(env)
        await quarry.make()
        await spread(quarry)
        await delete(env)

    told_as(life)
