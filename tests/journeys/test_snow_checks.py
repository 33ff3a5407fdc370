"""Resources missing on Snow devices appear in the status of what names them; the Cluster waits, then goes on."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from espalier.api import conditions
from espalier.api.capi import cluster as capi
from espalier.api.core import EVENT, SECRET
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.resource import Key
from espalier.clusters.design.secrets import credentials as permissions
from espalier.clusters.report.checks import controller, error_backoff, limits
from espalier.clusters.report.checks.questions import Credentials, LookUpError
from espalier.providers.simulated import providers
from espalier.providers.snow.checks import devices as real
from espalier.providers.snow.checks.questions import REACHABLE, Answers, LookUp, Query
from espalier.providers.snow.kinds import SnowDatacenterConfig, SnowIPPool, SnowMachineConfig
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.managed_environment import CALM, NAMESPACE, ManagedEnvironment, managed_environment
from tests.support.providers.snow import (
    AUTHORITY,
    CANARY,
    CREDENTIALS,
    DATACENTER,
    DEVICE,
    MACHINES,
    OTHER_DEVICE,
    PROFILES,
    another_pool,
    credentials,
    of,
)
from tests.support.providers.snow_steps import EPOCH, GLACIER, Glacier, put_credentials
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded

KIND = SnowMachineConfig.resource
PERIOD = controller.SOON * 1.1 + CALM
"""Seconds after which what was not valid has been checked again."""
AMI = "s.ami-0123456789abcdef0"
THERE = Answers("108", {"sbe-c.large": 2, "sbe-c.xlarge": 4}, frozenset({"default"}), frozenset({AMI}))
BOTH = PROFILES + PROFILES.replace(DEVICE, OTHER_DEVICE).replace("maker", "other")
AWAY = LookUpError("Unreachable", f"device {DEVICE} can't be reached")


class Devices:
    """Have what the example names, and remember who asked."""

    def __init__(self) -> None:
        self.there: dict[str, Answers | LookUpError] = {DEVICE: THERE, OTHER_DEVICE: THERE}
        self.hangs: set[str] = set()
        self.refused: dict[str, LookUpError] = {}
        """By access key."""
        self.asked: list[tuple[Query, Credentials]] = []

    async def __call__(self, asked: Query, credentials: Credentials, /) -> Answers:
        self.asked.append((asked, credentials))
        if asked.server.host in self.hangs:
            await asyncio.sleep(limits.LONGEST)
            raise LookUpError("Unreachable", f"device {asked.server.host} did not answer in time")
        told = self.refused.get(credentials.username) or self.there[asked.server.host]
        if isinstance(told, LookUpError):
            raise told
        return told

    def lacks(self, device: str = DEVICE, **there: Any) -> None:
        self.there[device] = msgspec.structs.replace(THERE, **there)


Story = Callable[[ManagedEnvironment, Devices, Glacier], Awaitable[None]]


def tell(story: Story, *, look_up: LookUp | None = None) -> None:
    async def main(simulation: Simulation) -> None:
        devices = Devices()
        known = providers(snow_devices=look_up or devices)
        async with managed_environment(simulation.clock, providers=known) as env:
            await put_credentials(env)
            await story(env, devices, Glacier(env))

    run(main, epoch=EPOCH, seed=1)


async def apply(glacier: Glacier) -> None:
    """Apply all, and wait until nothing more happens."""
    await glacier.apply()
    await asyncio.sleep(CALM)


async def told(env: ManagedEnvironment, name: str = GLACIER.name) -> tuple[str, str]:
    """Why a Cluster makes no progress."""
    result = (await env.client.get(Cluster.resource, name, NAMESPACE)).decode(Cluster).status
    return str(result.failure_reason or ""), str(result.failure_message or "")


async def machines(env: ManagedEnvironment, name: str = "glacier") -> SnowMachineConfig:
    return (await env.client.get(KIND, name, NAMESPACE)).decode(SnowMachineConfig)


async def is_made(env: ManagedEnvironment) -> bool:
    return bool((await env.client.list(capi.Cluster.resource, SYSTEM_NAMESPACE)).items)


async def second(glacier: Glacier, *, host: str = "192.0.2.11", device: str = OTHER_DEVICE, secret: str = "") -> Key:
    """Another Cluster, with a machine config and a pool of its own, and with a datacenter for another Secret."""
    client, made = glacier.env.client, Key(NAMESPACE, "moraine")
    await put_credentials(glacier.env, CREDENTIALS | {"credentials": BOTH})
    pool = another_pool(NAMESPACE)
    await client.apply(SnowIPPool.resource, pool, field_manager="kubectl")
    config = copy.deepcopy(next(tree for tree in glacier.trees if tree["kind"] == MACHINES))
    config["metadata"]["name"] = "moraine"
    config["spec"]["devices"] = [device]
    config["spec"]["network"]["directNetworkInterfaces"][0]["ipPoolRef"]["name"] = pool["metadata"]["name"]
    await client.apply(KIND, config, field_manager="kubectl")
    cluster = copy.deepcopy(glacier.trees[0])
    cluster["metadata"]["name"] = "moraine"
    cluster["spec"]["controlPlaneConfiguration"]["endpoint"] = {"host": host}
    if secret:
        datacenter = copy.deepcopy(next(tree for tree in glacier.trees if tree["kind"] == DATACENTER))
        datacenter["metadata"]["name"] = cluster["spec"]["datacenterRef"]["name"] = "moraine"
        datacenter["spec"]["identityRef"]["name"] = secret
        await client.apply(SnowDatacenterConfig.resource, datacenter, field_manager="kubectl")
    for part in (cluster["spec"]["controlPlaneConfiguration"], *cluster["spec"]["workerNodeGroupConfigurations"]):
        part["machineGroupRef"]["name"] = "moraine"
    await client.apply(Cluster.resource, cluster, field_manager="kubectl")
    return made


FAULTS: dict[str, tuple[Answers | LookUpError, str]] = {
    "image": (msgspec.structs.replace(THERE, images=frozenset()), f"spec.amiID: found {AMI}; device {DEVICE} has no"),
    "key": (msgspec.structs.replace(THERE, key_pairs=frozenset()), "spec.sshKeyName: found default; device"),
    "type": (msgspec.structs.replace(THERE, instance_types={}), "spec.instanceType: found sbe-c.large; device"),
    "cpus": (msgspec.structs.replace(THERE, instance_types={"sbe-c.large": 1}), "which has 1 virtual CPU on device"),
    "software": (
        msgspec.structs.replace(THERE, software="101"),
        f"spec.devices[0]: found {DEVICE}, which runs software version",
    ),
    "away": (AWAY, f"spec.devices[0]: device {DEVICE} can't be reached"),
    "locked": (LookUpError("DeviceLocked", "it is not unlocked"), "spec.devices[0]: it is not unlocked"),
    "keys": (LookUpError("LoginRefused", "it refuses the keys"), "spec.devices[0]: it refuses the keys"),
    "certificate": (LookUpError("CertificateNotVerified", "it expired"), "spec.devices[0]: it expired"),
}


@pytest.mark.demand("L26")
@pytest.mark.soak
@pytest.mark.parametrize("fault", sampled(FAULTS, 0, 3, 5, 8))
def test_fault_is_named_and_the_cluster_then_goes_on(fault: str) -> None:
    answer, message = FAULTS[fault]

    async def story(env: ManagedEnvironment, devices: Devices, glacier: Glacier) -> None:
        devices.there[DEVICE] = answer
        await apply(glacier)
        reason, text = await told(env)
        assert reason == "MachineConfigInvalid"
        assert text.startswith("SnowMachineConfig glacier")
        assert message in text
        status = (await machines(env)).status
        assert (status.spec_valid, message in status.failure_message) == (False, True)
        assert conditions.is_false(status.conditions, REACHABLE) is isinstance(answer, LookUpError)
        assert not await is_made(env)

        devices.there[DEVICE] = THERE
        await asyncio.sleep(PERIOD)
        await env.until_ready(GLACIER)
        status = (await machines(env)).status
        assert (status.spec_valid, status.failure_reason, status.failure_message) == (True, "", "")

    tell(story)


def test_gaps_of_a_device_show_while_another_is_away() -> None:
    async def story(env: ManagedEnvironment, devices: Devices, glacier: Glacier) -> None:
        await put_credentials(env, CREDENTIALS | {"credentials": BOTH})
        of(glacier.trees, MACHINES)["devices"].append(OTHER_DEVICE)
        devices.there[DEVICE] = AWAY
        devices.lacks(OTHER_DEVICE, images=frozenset())
        await apply(glacier)
        status = (await machines(env)).status
        assert status.failure_reason == "SpecInvalid"
        assert f"spec.amiID: found {AMI}; device {OTHER_DEVICE} has no such image" in status.failure_message
        assert status.failure_message.endswith(f"spec.devices[0]: device {DEVICE} can't be reached")
        devices.lacks(OTHER_DEVICE)
        await asyncio.sleep(PERIOD)
        status = (await machines(env)).status
        assert status.failure_message == f"spec.devices[0]: device {DEVICE} can't be reached"
        assert not await is_made(env)

    tell(story)


@pytest.mark.demand("L26")
@pytest.mark.soak
def test_lost_device_stops_nothing_settled() -> None:
    async def story(env: ManagedEnvironment, devices: Devices, glacier: Glacier) -> None:
        await glacier.make()
        before = await env.machine_names("glacier")
        devices.there[DEVICE] = AWAY
        await asyncio.sleep(controller.AGAIN * 1.1 + CALM)
        status = (await machines(env)).status
        assert status.spec_valid
        assert conditions.is_false(status.conditions, REACHABLE)
        await env.until_ready(GLACIER)
        glacier.spec["controlPlaneConfiguration"]["certSans"] = ["glacier.example.com"]
        await glacier.step("")
        devices.there[DEVICE] = THERE
        await asyncio.sleep(PERIOD)
        assert conditions.is_true((await machines(env)).status.conditions, REACHABLE)
        assert (await env.machine_names("glacier"))["glacier-md-0"] == before["glacier-md-0"]

    tell(story)


@pytest.mark.soak
def test_hanging_device_holds_up_no_other_cluster() -> None:
    async def story(env: ManagedEnvironment, devices: Devices, glacier: Glacier) -> None:
        devices.hangs.add(DEVICE)
        await glacier.apply()
        moraine = await second(glacier)
        await asyncio.sleep(CALM)
        await env.until_ready(moraine)
        waits = (await env.client.get(Cluster.resource, "glacier", NAMESPACE)).decode(Cluster)
        assert not conditions.is_true(waits.status.conditions, "Ready")
        await asyncio.sleep(2 * limits.LONGEST)
        assert f"device {DEVICE} did not answer in time" in (await told(env))[1]
        devices.hangs.clear()
        await asyncio.sleep(PERIOD)
        await env.until_ready(GLACIER)

    tell(story)


@pytest.mark.soak
def test_image_deleted_midway_is_named() -> None:
    async def story(env: ManagedEnvironment, devices: Devices, glacier: Glacier) -> None:
        await glacier.make()
        before = await env.machine_names("glacier")
        devices.lacks(images=frozenset({"s.ami-other"}))
        await asyncio.sleep(controller.AGAIN * 1.1 + CALM)
        message = "has no such image, but s.ami-other; correct the field"
        assert message in (await machines(env)).status.failure_message
        await env.until_ready(GLACIER)
        glacier.spec["workerNodeGroupConfigurations"][0]["count"] += 1
        await apply(glacier)
        assert message in (await told(env))[1]  # new machines need it
        assert await env.machine_names("glacier") == before
        devices.there[DEVICE] = THERE
        await asyncio.sleep(PERIOD)
        await env.until_ready(GLACIER)
        after = await env.machine_names("glacier")
        assert [before[group] <= after[group] for group in before] == [True, True]

    tell(story)


@pytest.mark.soak
def test_an_upgrade_waits_for_the_image_of_its_version() -> None:
    async def story(env: ManagedEnvironment, devices: Devices, glacier: Glacier) -> None:
        await glacier.make()
        glacier.kubernetes("1.36")
        await apply(glacier)
        assert "spec.amiID: found s.ami-1.36; device" in (await told(env))[1]
        assert {version.split("-")[0] for version in await env.versions(GLACIER)} == {"v1.35.4"}
        devices.lacks(images=frozenset({AMI, "s.ami-1.36"}))
        await asyncio.sleep(PERIOD)
        await env.until_ready(GLACIER)
        assert {version.split("-")[0] for version in await env.versions(GLACIER)} == {"v1.36.3"}

    tell(story)


@pytest.mark.soak
def test_device_gets_the_keys_of_its_profile_at_once() -> None:
    async def story(env: ManagedEnvironment, devices: Devices, glacier: Glacier) -> None:
        await put_credentials(env, CREDENTIALS | {"credentials": BOTH})
        of(glacier.trees, MACHINES)["devices"].append(OTHER_DEVICE)
        await glacier.make()
        sent = {(asked.server.host, keys) for asked, keys in devices.asked}
        assert sent == {
            (DEVICE, Credentials("maker", CANARY, AUTHORITY)),
            (OTHER_DEVICE, Credentials("other", CANARY, AUTHORITY)),
        }
        devices.asked.clear()
        await put_credentials(env, CREDENTIALS | {"credentials": BOTH.replace(CANARY, "a-new-canary")})
        await asyncio.sleep(CALM)
        assert {keys.password for _, keys in devices.asked} == {"a-new-canary"}

    tell(story)


def test_device_without_a_profile_is_sent_nothing() -> None:
    async def story(env: ManagedEnvironment, _devices: Devices, glacier: Glacier) -> None:
        await put_credentials(env, CREDENTIALS | {"credentials": PROFILES.replace(DEVICE, OTHER_DEVICE)})
        await apply(glacier)
        text = (await told(env))[1]
        assert f"spec.devices[0]: field credentials of the Secret has no profile [{DEVICE}] with aws_access" in text

    def nobody(host: str, _port: int) -> list[tuple[str, int]]:
        raise AssertionError(f"{host} is asked")

    tell(story, look_up=real.SnowDevices(nobody))


@pytest.mark.soak
@pytest.mark.parametrize(
    "annotations",
    sampled([{permissions.SERVERS: OTHER_DEVICE}, {permissions.NAMESPACES: "team-b"}, {permissions.NAMESPACES: ""}], 1),
)
def test_keys_go_to_no_device_without_permission(annotations: dict[str, str]) -> None:
    async def story(env: ManagedEnvironment, devices: Devices, glacier: Glacier) -> None:
        secret = credentials(CREDENTIALS, NAMESPACE, DEVICE)
        secret["metadata"]["annotations"] |= annotations
        await env.client.apply(SECRET, secret, field_manager="administrator")
        await apply(glacier)
        assert devices.asked == []
        status = (await machines(env)).status
        assert (status.spec_valid, status.failure_reason) == (False, "CredentialsNotPermitted")
        assert f"credentials-servers with {DEVICE}, and" in status.failure_message
        assert not await is_made(env)
        await put_credentials(env)
        await asyncio.sleep(CALM)
        await env.until_ready(GLACIER)

    tell(story)


def test_refused_devices_are_in_one_sentence() -> None:
    async def story(env: ManagedEnvironment, devices: Devices, glacier: Glacier) -> None:
        of(glacier.trees, MACHINES)["devices"].append(OTHER_DEVICE)
        await env.client.apply(SECRET, credentials(CREDENTIALS, "team-b", DEVICE), field_manager="administrator")
        await apply(glacier)
        assert devices.asked == []
        message = (await machines(env)).status.failure_message
        place, sentence = message.split(": ", 1)
        assert place == "spec.devices[0], spec.devices[1]"
        assert sentence.count("waiting for Secret eksa-system/snow-credentials") == 1
        assert f"credentials-servers with {DEVICE}, {OTHER_DEVICE}, and" in sentence
        reason, told_of_cluster = await told(env)
        assert reason == "CredentialsNotPermitted"
        assert told_of_cluster.count("credentials-servers") == 1

    tell(story)


@pytest.mark.soak
@pytest.mark.parametrize("reason", sampled(["CertificateNotVerified", "LoginRefused"], 1))
def test_wrong_secret_holds_up_no_other_cluster(reason: str) -> None:
    async def story(env: ManagedEnvironment, devices: Devices, glacier: Glacier) -> None:
        devices.refused["wrong"] = LookUpError(reason, "it is not right", refused=True)
        wrong = credentials(CREDENTIALS | {"credentials": PROFILES.replace("maker", "wrong")}, NAMESPACE)
        wrong["metadata"]["name"] = "wrong"
        await env.client.apply(SECRET, wrong, field_manager="administrator")
        await second(glacier, device=DEVICE, secret="wrong")
        await asyncio.sleep(CALM)
        assert "spec.devices[0]: it is not right" in (await told(env, "moraine"))[1]
        assert len(devices.asked) <= 1 + CALM / error_backoff.REFUSED  # again in five minutes, or with other keys
        await glacier.make()
        await env.client.apply(
            SECRET, wrong | credentials() | {"metadata": wrong["metadata"]}, field_manager="administrator"
        )
        await asyncio.sleep(PERIOD)
        await env.until_ready(Key(NAMESPACE, "moraine"))

    tell(story)


@pytest.mark.demand("L26")
@pytest.mark.soak
def test_settled_objects_are_asked_for_seldom() -> None:
    async def story(env: ManagedEnvironment, devices: Devices, glacier: Glacier) -> None:
        await glacier.make()
        await asyncio.sleep(controller.AGAIN)
        devices.asked.clear()
        await asyncio.sleep(3600)
        assert 2 * 5 <= len(devices.asked) <= 2 * 7  # two machine configs, each about every ten minutes

    tell(story)


@pytest.mark.soak
def test_two_clusters_do_not_share_an_address() -> None:
    async def story(env: ManagedEnvironment, _devices: Devices, glacier: Glacier) -> None:
        await apply(glacier)
        await second(glacier, host="192.0.2.16")
        await env.until_ready(GLACIER)
        await asyncio.sleep(PERIOD)
        assert (await told(env, "moraine"))[0] == "ControlPlaneAddressTaken"
        datacenter = await env.client.get(SnowDatacenterConfig.resource, "glacier", NAMESPACE)
        assert datacenter.decode(SnowDatacenterConfig).status.conditions == []  # no device was asked for it

    tell(story)


def test_nothing_that_is_reported_has_keys_in_it() -> None:
    async def story(env: ManagedEnvironment, devices: Devices, glacier: Glacier) -> None:
        devices.there[DEVICE] = AWAY
        await apply(glacier)
        devices.lacks(images=frozenset())
        await asyncio.sleep(PERIOD)
        for resource in (Cluster.resource, KIND, SnowDatacenterConfig.resource, EVENT):
            items = (await env.client.list(resource)).items
            assert items
            assert not [item for item in items if CANARY.encode() in item.raw or b"maker" in item.raw]

    tell(story)
