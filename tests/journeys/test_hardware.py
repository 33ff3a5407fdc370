"""Hardware is not made on demand: clusters wait for what there is too little of, and are told; others go on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from espalier.api.capi import cluster as capi
from espalier.api.core import CUSTOM_RESOURCE_DEFINITION, SECRET
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import PAUSED_ANNOTATION, SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.kube.client import PatchType
from espalier.providers.tinkerbell.hardware.rack import NAMESPACES
from espalier.providers.tinkerbell.hardware_kinds import BMCMachine, Hardware
from espalier.providers.tinkerbell.kinds import TinkerbellMachineConfig
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.managed_environment import CALM, NAMESPACE, ManagedEnvironment, managed_environment
from tests.support.providers import hardware
from tests.support.providers.tinkerbell import MACHINES, of
from tests.support.providers.tinkerbell_steps import EPOCH, FORGE, Forge
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded

Story = Callable[[ManagedEnvironment, Forge], Awaitable[None]]


def tell(story: Story, rack: list[Tree]) -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock, copies_to=(NAMESPACE, "team-b")) as env:
            await hardware.put(env.client, rack)
            await story(env, Forge(env))

    run(main, epoch=EPOCH, seed=1)


async def apply(forge: Forge) -> None:
    """Apply all, and wait until nothing more happens."""
    await forge.apply()
    await asyncio.sleep(CALM)


async def told(env: ManagedEnvironment, key: Key = FORGE) -> tuple[str, str]:
    """Why a Cluster makes no progress."""
    result = (await env.client.get(Cluster.resource, key.name, key.namespace)).decode(Cluster).status
    return str(result.failure_reason or ""), str(result.failure_message or "")


async def is_made(env: ManagedEnvironment) -> bool:
    return bool((await env.client.list(capi.Cluster.resource, SYSTEM_NAMESPACE)).items)


@pytest.mark.soak
def test_machines_take_released_hardware() -> None:
    async def story(env: ManagedEnvironment, forge: Forge) -> None:
        await forge.make()
        held = await hardware.holders(env.client)
        assert sorted(bool(item) for item in held.values()) == [True, True]
        assert held["control-plane-1"] in str(await env.machine_names("forge"))
        await env.client.delete(Cluster.resource, "forge", NAMESPACE)
        await env.until_gone(FORGE)
        await asyncio.sleep(CALM)
        assert set((await hardware.holders(env.client)).values()) == {""}
        await forge.make()
        assert "" not in (await hardware.holders(env.client)).values()

    tell(story, hardware.rack())


@pytest.mark.soak
def test_deleting_cluster_keeps_no_hardware_for_itself() -> None:
    """Something else keeps the Cluster, which would be served first."""

    async def story(env: ManagedEnvironment, forge: Forge) -> None:
        forge.trees[0]["metadata"] |= {"finalizers": ["example.com/held"], "annotations": {PAUSED_ANNOTATION: "true"}}
        await apply(forge)
        await env.client.delete(Cluster.resource, "forge", NAMESPACE)

        second = Forge(env)
        second.trees[0]["metadata"]["name"] = "foundry"
        second.spec["controlPlaneConfiguration"]["endpoint"]["host"] = "192.0.2.11"
        await apply(second)
        assert (await env.client.get(Cluster.resource, "forge", NAMESPACE)).metadata.deletion_timestamp is not None
        assert await told(env, Key(NAMESPACE, "foundry")) == ("", "")
        assert await is_made(env)

    tell(story, hardware.rack())


@pytest.mark.demand(L23="hardware")
@pytest.mark.soak
def test_cluster_waits_for_enough_hardware() -> None:
    async def story(env: ManagedEnvironment, forge: Forge) -> None:
        forge.spec["workerNodeGroupConfigurations"][0]["count"] = 2
        await apply(forge)
        assert await told(env) == (
            "NotEnoughHardware",
            "TinkerbellMachineConfig forge: spec.hardwareSelector type=worker: 2 Hardware is needed; found 0 used "
            "by this cluster, 1 free, 0 used by others; add Hardware with these labels, release some, or request "
            "fewer machines",
        )
        assert not await is_made(env)
        assert set((await hardware.holders(env.client)).values()) == {""}

        await hardware.put(env.client, hardware.pieces("worker", 1, first=2))
        await env.until_ready(FORGE)
        assert "" not in (await hardware.holders(env.client)).values()

    tell(story, hardware.rack())


@pytest.mark.soak
def test_cluster_is_not_scaled_beyond_its_hardware() -> None:
    async def story(env: ManagedEnvironment, forge: Forge) -> None:
        await forge.make()
        before = await env.machine_names("forge")
        (group,) = forge.spec["workerNodeGroupConfigurations"]
        group["count"] = 3
        await apply(forge)
        reason, message = await told(env)
        assert reason == "NotEnoughHardware"
        assert "3 Hardware is needed; found 1 used by this cluster, 1 free" in message
        assert await env.machine_names("forge") == before
        assert len(await env.nodes(FORGE)) == 2

        group["count"] = 2
        await forge.make()
        assert "" not in (await hardware.holders(env.client)).values()

    tell(story, hardware.rack(workers=2))


@pytest.mark.demand(U3="on bare metal a rolling upgrade asks for spare hardware and one in place does not")
@pytest.mark.soak
def test_only_rolling_upgrades_need_spare_hardware() -> None:
    async def story(env: ManagedEnvironment, forge: Forge) -> None:
        await forge.make()
        before = await env.machine_names("forge")
        forge.kubernetes("1.36")
        await apply(forge)
        reason, message = await told(env)
        assert reason == "NotEnoughHardware"
        assert "type=control-plane: 2 Hardware is needed, 1 of it while machines are replaced" in message
        assert "or upgrade in place" in message
        assert await env.machine_names("forge") == before

        await hardware.put(env.client, hardware.rack(planes=2, workers=2))
        await env.until_ready(FORGE)
        after = await env.machine_names("forge")
        assert not set().union(*before.values()) & set().union(*after.values())
        assert sorted(map(bool, (await hardware.holders(env.client)).values())) == [False, False, True, True]

    tell(story, hardware.rack())


FAULTS: dict[str, tuple[str, Tree, str]] = {
    "mac": (
        "worker-1",
        {"interfaces": [{"dhcp": {"mac": "3C:EC:EF:00:01:01", "ip": {"address": "10.9.2.1"}}}]},
        'Hardware control-plane-1: spec.interfaces: dhcp.mac: found "3c:ec:ef:00:01:01", which other Hardware has, too',
    ),
    "ip": (
        "worker-1",
        {"interfaces": [{"dhcp": {"mac": "3c:ec:ef:00:02:01", "ip": {"address": "10.9.1.1"}}}]},
        'Hardware control-plane-1: spec.interfaces: dhcp.ip.address: found "10.9.1.1", which other Hardware has, too',
    ),
    "disk": ("worker-1", {"disks": []}, "Hardware worker-1: spec.disks: found no device"),
    "bmc": (
        "worker-1",
        {"bmcRef": {"kind": "Machine", "name": "none"}},
        'Hardware worker-1: spec.bmcRef: found "Machine" "none", but there is no such Machine',
    ),
}


@pytest.mark.demand(L24="Hardware")
@pytest.mark.soak
@pytest.mark.parametrize("fault", sampled(FAULTS, 0, 3))
def test_fault_of_hardware_is_named_then_it_goes_on(fault: str) -> None:
    name, spec, message = FAULTS[fault]

    async def story(env: ManagedEnvironment, forge: Forge) -> None:
        await hardware.change(env.client, name, **spec)
        await apply(forge)
        reason, result = await told(env)
        assert reason == "MachineConfigInvalid"
        assert message in result
        config = (await env.client.get(TinkerbellMachineConfig.resource, "forge", NAMESPACE)).decode(
            TinkerbellMachineConfig
        )
        assert (config.status.spec_valid, config.status.failure_reason) == (False, "SpecInvalid")
        assert not await is_made(env)

        await hardware.put(env.client, hardware.rack())
        right = {tree["metadata"]["name"]: tree["spec"] for tree in hardware.rack() if tree["kind"] == "Hardware"}
        await hardware.change(env.client, name, **right[name])
        await env.until_ready(FORGE)

    tell(story, hardware.rack())


@pytest.mark.soak
def test_bmc_without_password_or_out_of_reach_is_named() -> None:
    async def story(env: ManagedEnvironment, forge: Forge) -> None:
        await env.client.delete(SECRET, "bmc-worker-1-auth", SYSTEM_NAMESPACE)
        await apply(forge)
        assert (
            'found "bmc-worker-1-auth", but there is no such Secret with username and password' in (await told(env))[1]
        )
        await hardware.put(env.client, hardware.rack())
        away = {"status": {"conditions": [{"type": "Contactable", "status": "False"}]}}
        bmc = BMCMachine.resource
        await env.client.patch(
            bmc, "bmc-worker-1", SYSTEM_NAMESPACE, patch=away, type=PatchType.MERGE, subresource="status"
        )
        await asyncio.sleep(CALM)
        assert "of bmc.tinkerbell.org can't be reached" in (await told(env))[1]
        skip = {"metadata": {"labels": {"bmc.tinkerbell.org/skip-contact-check": "true"}}}
        await env.client.patch(bmc, "bmc-worker-1", SYSTEM_NAMESPACE, patch=skip, type=PatchType.MERGE)
        await env.until_ready(FORGE)

    tell(story, hardware.rack())


def test_addresses_of_clusters_differ_from_hardware() -> None:
    async def story(env: ManagedEnvironment, forge: Forge) -> None:
        forge.spec["controlPlaneConfiguration"]["endpoint"]["host"] = "10.9.2.1"
        await apply(forge)
        assert await told(env) == (
            "ControlPlaneAddressTaken",
            "TinkerbellMachineConfig forge-cp: spec.controlPlaneConfiguration.endpoint.host: found 10.9.2.1, which "
            "Hardware worker-1 uses; choose a free address: a cluster that exists already must be deleted and created "
            "again with it, because its address can't be changed",
        )
        assert not await is_made(env)

    tell(story, hardware.rack())


@pytest.mark.soak
def test_tenant_gets_and_reads_no_hardware_of_others() -> None:
    async def story(env: ManagedEnvironment, forge: Forge) -> None:
        await forge.make()
        theirs = Forge(env)
        theirs.trees[0]["metadata"]["name"] = "foundry"
        theirs.spec["controlPlaneConfiguration"]["endpoint"]["host"] = "192.0.2.11"
        for tree in theirs.trees:
            tree["metadata"]["namespace"] = "team-b"
        theirs.key = Key("team-b", "foundry")
        await hardware.put(env.client, hardware.pieces("control-plane", 1, first=2))
        await apply(theirs)
        reason, message = await told(env, theirs.key)
        assert reason == "NotEnoughHardware"
        assert "type=worker: 1 Hardware is needed; found 0 used by this cluster, 0 free, 1 used by others" in message

        # Reserved for somebody else, and broken: a number is all that is told.
        (spare,) = [piece for piece in hardware.pieces("worker", 1, first=2) if piece["kind"] == "Hardware"]
        spare["metadata"]["annotations"] = {NAMESPACES: "team-c, team-d"}
        await hardware.put(env.client, [spare])
        await asyncio.sleep(CALM)
        reason, message = await told(env, theirs.key)
        assert reason == "MachineConfigInvalid"
        assert "selects 1 Hardware that namespace team-b is not permitted to use" in message
        assert "worker-" not in message
        await env.until_ready(FORGE)

        # Theirs from now on.
        allowed = {"metadata": {"annotations": {NAMESPACES: "team-b"}}}
        await hardware.put(env.client, hardware.pieces("worker", 1, first=2))
        await env.client.patch(Hardware.resource, "worker-2", SYSTEM_NAMESPACE, patch=allowed, type=PatchType.MERGE)
        await env.until_ready(theirs.key)

    tell(story, hardware.rack())


def test_two_configs_of_a_cluster_share_no_hardware() -> None:
    async def story(env: ManagedEnvironment, forge: Forge) -> None:
        config = of(forge.trees, MACHINES, "forge")
        del config["hardwareSelector"]
        exists = {"matchExpressions": [{"key": "type", "operator": "Exists"}]}
        config["hardwareAffinity"] = {"required": [{"labelSelector": exists}]}
        await apply(forge)
        reason, message = await told(env)
        assert reason == "MachineConfigInvalid"
        assert "selects 1 Hardware (control-plane-1) that TinkerbellMachineConfig forge" in message

    tell(story, hardware.rack(workers=3))


@pytest.mark.soak
def test_clusters_wait_without_tinkerbell() -> None:
    name = "hardware.tinkerbell.org"

    async def story(env: ManagedEnvironment, forge: Forge) -> None:
        definition: Tree = (await env.client.get(CUSTOM_RESOURCE_DEFINITION, name)).tree
        await env.client.delete(CUSTOM_RESOURCE_DEFINITION, name)
        await asyncio.sleep(CALM)
        await apply(forge)
        assert "hardware.tinkerbell.org does not exist: Tinkerbell is not installed" in (await told(env))[1]
        fields = {"apiVersion": definition["apiVersion"], "kind": definition["kind"], "spec": definition["spec"]}
        await env.client.create(CUSTOM_RESOURCE_DEFINITION, fields | {"metadata": {"name": name}})
        await asyncio.sleep(CALM)
        await hardware.put(env.client, hardware.rack())
        await env.until_ready(FORGE)

    tell(story, [])


@pytest.mark.soak
def test_settled_cluster_writes_nothing_despite_faults() -> None:
    async def story(env: ManagedEnvironment, forge: Forge) -> None:
        await forge.make()
        await asyncio.sleep(CALM)
        before = {write: count for write, count in env.written().items() if "tinkerbellmachineconfigs" in write}
        await asyncio.sleep(24 * 3600)
        assert env.written().items() >= before.items()
        await hardware.change(env.client, "worker-1", disks=[])
        await asyncio.sleep(CALM)
        await env.until_ready(FORGE)
        lie = {"status": {"specValid": True, "failureMessage": None, "clusters": None}}
        resource = TinkerbellMachineConfig.resource
        await env.client.patch(resource, "forge", NAMESPACE, patch=lie, type=PatchType.MERGE, subresource="status")
        await asyncio.sleep(CALM)
        result = (await env.client.get(resource, "forge", NAMESPACE)).decode(TinkerbellMachineConfig).status
        assert (result.spec_valid, [cluster.name for cluster in result.clusters]) == (False, ["forge"])

    tell(story, hardware.rack())
