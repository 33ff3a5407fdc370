"""Objects missing in a CloudStack appear in the status of what names them; the Cluster waits, then goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from espalier.api import conditions
from espalier.api.capi import cluster as capi
from espalier.api.core import SECRET
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.clusters.design.secrets import credentials as permissions
from espalier.clusters.report.checks import controller
from espalier.clusters.report.checks.questions import Credentials, LookUpError
from espalier.providers.cloudstack.checks.questions import REACHABLE, Answers, ObjectType, Query
from espalier.providers.cloudstack.cluster_api import CloudStackCluster
from espalier.providers.cloudstack.kinds import CloudStackDatacenterConfig, CloudStackMachineConfig
from espalier.providers.simulated import providers
from espalier.providers.simulated.cloudstack import simulated_answers
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.managed_environment import CALM, NAMESPACE, ManagedEnvironment, managed_environment
from tests.support.histories.planned_steps import PlannedSteps
from tests.support.providers.cloudstack import CREDENTIALS, MAKER, SERVER, credentials, disk, of, zone
from tests.support.providers.cloudstack_steps import EPOCH, HARBOR, harbor_of
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded

DATACENTER, MACHINES = CloudStackDatacenterConfig.resource, CloudStackMachineConfig.resource
A_MOMENT = 5.0
PERIOD = controller.SOON * 1.1 + A_MOMENT
"""Seconds after which what was not valid has been checked again."""
NORTH = "north.example.com"
"""The server of the second availability zone, which has keys of its own."""
NORTHERN = f"https://{NORTH}/client/api"
KEYS_OF_NORTH = {"api-url": NORTHERN, "api-key": "key-of-north", "secret-key": "canary-of-north"}


class Clouds:
    """CloudStacks that have whatever specs name, but for what was taken away, and remember who asked."""

    def __init__(self) -> None:
        self.missing: dict[str, set[ObjectType]] = {}
        """By server."""
        self.counts: dict[str, int] = {}
        """How many zones, domains and accounts there are that are called so, on `SERVER`."""
        self.holders: dict[tuple[str, int], str] = {}
        self.errors: dict[str, LookUpError] = {}
        """By server."""
        self.sized = False
        """True if disk offerings have sizes of their own."""
        self.seconds = 0.0
        """That an answer about a machine config takes."""
        self.asked: list[tuple[Query, Credentials]] = []

    async def __call__(self, asked: Query, credentials: Credentials, /) -> Answers:
        host = asked.server.host
        self.asked.append((asked, credentials))
        if asked.network is None:
            await asyncio.sleep(self.seconds)
        if host in self.errors:
            raise self.errors[host]
        result = await simulated_answers(asked, credentials)
        missing = self.missing.get(host, set())
        entities = {
            item: tuple(entity._replace(is_customized=not self.sized) for entity in there)
            for item, there in result.entities.items()
        }
        return msgspec.structs.replace(
            result,
            entities={item: () if item.object_type in missing else there for item, there in entities.items()},
            holders={item: who for item, who in self.holders.items() if item in asked.addresses},
            **(self.counts if host == SERVER else {}),
        )

    def take(self, sort: ObjectType, host: str = SERVER) -> None:
        """Remove an object."""
        self.missing.setdefault(host, set()).add(sort)


Story = Callable[[ManagedEnvironment, Clouds, PlannedSteps], Awaitable[None]]


async def put_credentials(env: ManagedEnvironment, secret_key: str = MAKER, **annotations: str) -> None:
    """The Secrets of both availability zones."""
    of_both = {
        "global": credentials(CREDENTIALS | {"secret-key": secret_key}, NAMESPACE, **annotations),
        "north": credentials(KEYS_OF_NORTH, NAMESPACE, "north", **{permissions.SERVERS: NORTH}),
    }
    for secret in of_both.values():
        await env.client.apply(SECRET, secret, field_manager="administrator")


def tell(story: Story, *, zones: int = 2) -> None:
    """On two availability zones, of two CloudStacks."""

    async def main(simulation: Simulation) -> None:
        clouds = Clouds()
        async with managed_environment(simulation.clock, providers=providers(cloudstacks=clouds)) as env:
            await put_credentials(env)
            harbor = harbor_of(env)
            if zones == 2:
                add_north(harbor)
            await story(env, clouds, harbor)

    run(main, epoch=EPOCH, seed=1)


def add_north(harbor: PlannedSteps) -> None:
    north = zone("az-2", credentialsRef="north", managementApiEndpoint=NORTHERN)
    of(harbor.trees, DATACENTER.kind)["availabilityZones"].append(north)


async def apply(harbor: PlannedSteps) -> None:
    """Apply all, and wait until nothing more happens."""
    await harbor.apply()
    await asyncio.sleep(CALM)


async def cluster(env: ManagedEnvironment) -> Cluster:
    return (await env.client.get(Cluster.resource, HARBOR.name, NAMESPACE)).decode(Cluster)


async def told(env: ManagedEnvironment) -> tuple[str, str]:
    """Why the Cluster makes no progress."""
    result = (await cluster(env)).status
    return str(result.failure_reason or ""), str(result.failure_message or "")


async def datacenter(env: ManagedEnvironment) -> CloudStackDatacenterConfig:
    return (await env.client.get(DATACENTER, "harbor", NAMESPACE)).decode(CloudStackDatacenterConfig)


async def machines(env: ManagedEnvironment) -> CloudStackMachineConfig:
    return (await env.client.get(MACHINES, "harbor", NAMESPACE)).decode(CloudStackMachineConfig)


async def is_made(env: ManagedEnvironment) -> bool:
    return bool((await env.client.list(capi.Cluster.resource, SYSTEM_NAMESPACE)).items)


def away(host: str, reason: str = "Unreachable", message: str = "it can't be reached") -> Callable[[Clouds], None]:
    return lambda clouds: clouds.errors.update({host: LookUpError(reason, f"{host}: {message}")})


OF_DATACENTER, OF_MACHINES = "DatacenterConfigInvalid", "MachineConfigInvalid"
ZONES = "spec.availabilityZones"
FAULTS: dict[str, tuple[Callable[[Clouds], object], str, str]] = {
    "zone": (
        lambda clouds: clouds.counts.update(zones=0),
        OF_DATACENTER,
        f"{ZONES}[0].zone.name: found zone-1; CloudStack has no such zone",
    ),
    "domain": (
        lambda clouds: clouds.counts.update(domains=0),
        OF_DATACENTER,
        f"{ZONES}[0].domain: found ROOT; CloudStack has no such domain",
    ),
    "account": (
        lambda clouds: clouds.counts.update(accounts=0),
        OF_DATACENTER,
        f"{ZONES}[0].account: found admin; domain ROOT has no such account",
    ),
    "network": (
        lambda clouds: clouds.take(ObjectType.NETWORK, NORTH),
        OF_DATACENTER,
        f"{ZONES}[1].zone.network.name: found network-az-2; zone zone-az-2 has no such network",
    ),
    "offering": (
        lambda clouds: clouds.take(ObjectType.OFFERING, NORTH),
        OF_MACHINES,
        "spec.computeOffering.name: found 4 CPUs, 8 GB; availability zone az-2 has no such compute offering",
    ),
    "template": (
        lambda clouds: clouds.take(ObjectType.TEMPLATE),
        OF_MACHINES,
        "spec.template.name: found rhel8-kube-v1-35; availability zone az-1 has no such template",
    ),
    "disk": (
        lambda clouds: clouds.take(ObjectType.DISK_OFFERING, NORTH),
        OF_MACHINES,
        "spec.diskOffering.name: found Small; availability zone az-2 has no such disk offering",
    ),
    "size of a disk": (
        lambda clouds: setattr(clouds, "sized", True),
        OF_MACHINES,
        "spec.diskOffering.customSizeInGB: found 20, but disk offering Small of availability zone az-1 has a fixed",
    ),
    "affinity group": (
        lambda clouds: clouds.take(ObjectType.AFFINITY_GROUP, NORTH),
        OF_MACHINES,
        "spec.affinityGroupIds[0]: found group-a; availability zone az-2 has no such affinity group",
    ),
    "one is away": (away(NORTH), OF_DATACENTER, f"availability zone az-2: {NORTH}: it can't be reached"),
    "keys are refused": (
        away(SERVER, "LoginRefused", "it refuses the keys"),
        OF_DATACENTER,
        f"availability zone az-1: {SERVER}: it refuses the keys",
    ),
    "endpoint": (
        lambda clouds: clouds.holders.update({("192.0.2.15", 6443): "virtual machine boat"}),
        "ControlPlaneAddressTaken",
        "spec.controlPlaneConfiguration.endpoint.host: found 192.0.2.15, which virtual machine boat uses",
    ),
}


@pytest.mark.demand(L25="CloudStack, in each availability zone")
@pytest.mark.soak
@pytest.mark.parametrize("fault", sampled(FAULTS, 0, 7, 9, 10))
def test_fault_is_named_and_the_cluster_then_goes_on(fault: str) -> None:
    break_, reason, message = FAULTS[fault]

    async def story(env: ManagedEnvironment, clouds: Clouds, harbor: PlannedSteps) -> None:
        break_(clouds)
        config = of(harbor.trees, MACHINES.kind)
        config.pop("affinity")
        config.update({"diskOffering": disk(), "affinityGroupIds": ["group-a"]})
        await apply(harbor)
        result = await told(env)
        assert result[0] == reason
        assert message in result[1]
        assert not await is_made(env)

        clouds.__init__()  # type: ignore[misc]  # as it should be
        await asyncio.sleep(PERIOD)
        for status in ((await datacenter(env)).status, (await machines(env)).status):
            assert (status.spec_valid, status.failure_reason, status.failure_message) == (True, "", "")
        await env.until_ready(HARBOR)

    tell(story)


@pytest.mark.soak
def test_loss_of_a_settled_cluster_is_named() -> None:
    async def story(env: ManagedEnvironment, clouds: Clouds, harbor: PlannedSteps) -> None:
        await apply(harbor)
        await env.until_ready(HARBOR)
        before = await env.machine_names("harbor")
        clouds.take(ObjectType.TEMPLATE, NORTH)  # somebody gave it another name
        await asyncio.sleep(controller.AGAIN * 1.1 + A_MOMENT)
        status = (await machines(env)).status
        assert status.spec_valid is False
        assert "availability zone az-2 has no such template" in status.failure_message
        await env.until_ready(HARBOR)
        assert await env.machine_names("harbor") == before
        clouds.missing.clear()
        await asyncio.sleep(PERIOD)
        assert (await machines(env)).status.spec_valid

    tell(story)


@pytest.mark.demand(L25="CloudStack, in each availability zone")
def test_unreachable_server_hides_no_fault_of_others() -> None:
    async def story(env: ManagedEnvironment, clouds: Clouds, harbor: PlannedSteps) -> None:
        away(SERVER)(clouds)
        clouds.take(ObjectType.TEMPLATE, NORTH)
        await apply(harbor)
        status = (await machines(env)).status
        assert status.failure_reason == "SpecInvalid"
        assert status.failure_message.startswith("spec.template.name: found rhel8-kube-v1-35; availability zone az-2 ")
        assert status.failure_message.endswith(f"; availability zone az-1: {SERVER}: it can't be reached")

    tell(story)


@pytest.mark.soak
def test_lost_cloudstacks_stop_nothing_settled() -> None:
    async def story(env: ManagedEnvironment, clouds: Clouds, harbor: PlannedSteps) -> None:
        await apply(harbor)
        await env.until_ready(HARBOR)
        before = await env.machine_names("harbor")
        away(NORTH)(clouds)
        await asyncio.sleep(controller.AGAIN * 1.1 + CALM)
        status = (await datacenter(env)).status
        assert status.spec_valid
        assert conditions.is_false(status.conditions, REACHABLE)
        await env.until_ready(HARBOR)
        assert await env.machine_names("harbor") == before

        for name, tree in other_cluster(harbor).items():
            await env.client.apply(name, tree, field_manager="kubectl")
        await env.until_ready(HARBOR._replace(name="second"))

    tell(story)


def other_cluster(harbor: PlannedSteps) -> dict[Any, Any]:
    """A Cluster on the first availability zone alone."""
    by_name = {(tree["kind"], tree["metadata"]["name"]): tree for tree in harbor.trees}
    trees = msgspec.json.decode(msgspec.json.encode(by_name[DATACENTER.kind, "harbor"]))
    trees["metadata"]["name"] = "second"
    trees["spec"]["availabilityZones"].pop()
    config = {**by_name[MACHINES.kind, "harbor"], "metadata": {"name": "second", "namespace": NAMESPACE}}
    named = {"kind": MACHINES.kind, "name": "second"}
    plane = harbor.spec["controlPlaneConfiguration"]
    spec = harbor.spec | {
        "controlPlaneConfiguration": plane | {"endpoint": {"host": "192.0.2.11"}, "machineGroupRef": named},
        "datacenterRef": {"kind": DATACENTER.kind, "name": "second"},
        "workerNodeGroupConfigurations": [{"name": "md-0", "count": 1, "machineGroupRef": named}],
    }
    cluster = {**harbor.trees[0], "metadata": {"name": "second", "namespace": NAMESPACE}, "spec": spec}
    return {DATACENTER: trees, MACHINES: config, Cluster.resource: cluster}


@pytest.mark.demand(L25="CloudStack, in each availability zone")
def test_machine_configs_are_checked_in_an_added_zone() -> None:
    async def story(env: ManagedEnvironment, clouds: Clouds, harbor: PlannedSteps) -> None:
        await apply(harbor)
        await env.until_ready(HARBOR)
        assert (await machines(env)).status.availability_zones == ["az-1"]
        clouds.take(ObjectType.TEMPLATE, NORTH)
        add_north(harbor)
        await harbor.apply()
        await asyncio.sleep(A_MOMENT)
        reason, message = await told(env)
        assert reason == OF_MACHINES
        assert "availability zone az-2 has no such template" in message
        made = (await env.client.list(capi.Cluster.resource, SYSTEM_NAMESPACE)).items
        assert len(made) == 1
        clouds.missing.clear()
        await asyncio.sleep(PERIOD)
        await env.until_ready(HARBOR)
        assert (await machines(env)).status.availability_zones == ["az-1", "az-2"]

    tell(story, zones=1)


@pytest.mark.soak
def test_cluster_waits_for_the_check_of_an_added_zone() -> None:
    async def story(env: ManagedEnvironment, clouds: Clouds, harbor: PlannedSteps) -> None:
        await apply(harbor)
        await env.until_ready(HARBOR)
        away(NORTH)(clouds)
        add_north(harbor)
        await apply(harbor)
        assert f"availability zone az-2: {NORTH}: it can't be reached" in (await told(env))[1]
        assert (await machines(env)).status.availability_zones == ["az-1"]
        clouds.errors.clear()
        await asyncio.sleep(PERIOD)
        await env.until_ready(HARBOR)

    tell(story, zones=1)


@pytest.mark.soak
def test_machines_go_to_no_unchecked_zone() -> None:
    async def story(env: ManagedEnvironment, clouds: Clouds, harbor: PlannedSteps) -> None:
        await apply(harbor)
        await env.until_ready(HARBOR)
        clouds.seconds = 2 * CALM  # for machine configs: the datacenter is found valid before
        add_north(harbor)
        await apply(harbor)
        assert (await datacenter(env)).status.spec_valid
        assert (await told(env))[1] == ""
        condition = conditions.get((await cluster(env)).status.conditions, "Ready")
        assert condition is not None
        assert "to be checked against CloudStack" in condition.message
        made = (await env.client.get(CloudStackCluster.resource, "harbor", SYSTEM_NAMESPACE)).decode(CloudStackCluster)
        assert [domain.name for domain in made.spec.failure_domains] == ["az-1"]
        await asyncio.sleep(4 * CALM)
        await env.until_ready(HARBOR)

    tell(story, zones=1)


def test_an_address_is_free_when_all_zones_say_so() -> None:
    async def story(env: ManagedEnvironment, clouds: Clouds, harbor: PlannedSteps) -> None:
        away(NORTH)(clouds)
        await apply(harbor)
        assert (await datacenter(env)).status.addresses == {}
        assert not await is_made(env)
        clouds.errors.clear()
        clouds.take(ObjectType.TEMPLATE)  # so that it is not made yet
        await asyncio.sleep(PERIOD)
        assert (await datacenter(env)).status.addresses == {"harbor/192.0.2.15": ""}

    tell(story)


@pytest.mark.soak
def test_api_is_asked_by_its_own_and_newest_keys() -> None:
    async def story(env: ManagedEnvironment, clouds: Clouds, harbor: PlannedSteps) -> None:
        await apply(harbor)
        await env.until_ready(HARBOR)
        keys = {SERVER: Credentials("key-of-maker", MAKER), NORTH: Credentials("key-of-north", "canary-of-north")}
        assert {asked.server.host: item for asked, item in clouds.asked} == keys
        assert {asked.server.host for asked, item in clouds.asked if item == keys[NORTH]} == {NORTH}
        clouds.asked.clear()
        await put_credentials(env, "a-new-canary")
        await asyncio.sleep(A_MOMENT)
        assert len({asked for asked, _ in clouds.asked if asked.server.host == SERVER}) == 2  # for three objects
        assert {item.password for asked, item in clouds.asked if asked.server.host == SERVER} == {"a-new-canary"}
        for resource in (DATACENTER, MACHINES, Cluster.resource):
            for item in (await env.client.list(resource)).items:
                assert b"canary" not in item.raw

    tell(story)


@pytest.mark.soak
@pytest.mark.parametrize(
    "annotations",
    sampled(
        [
            {permissions.SERVERS: "cloudstack.example.com"},
            {permissions.NAMESPACES: "team-b"},
            {permissions.NAMESPACES: ""},
        ],
        1,
    ),
)
def test_keys_go_to_no_server_without_permission(annotations: dict[str, str]) -> None:
    async def story(env: ManagedEnvironment, clouds: Clouds, harbor: PlannedSteps) -> None:
        await put_credentials(env, **annotations)
        await apply(harbor)
        assert {asked.server.host for asked, _ in clouds.asked} == {NORTH}
        status = (await datacenter(env)).status
        assert (status.spec_valid, status.failure_reason) == (False, "CredentialsNotPermitted")
        assert f"availability zone az-1: waiting for Secret {SYSTEM_NAMESPACE}/global" in status.failure_message
        assert f"credentials-servers with {SERVER}, and" in status.failure_message
        assert not await is_made(env)
        await put_credentials(env)
        await asyncio.sleep(CALM)
        await env.until_ready(HARBOR)

    tell(story)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("data", "sent"),
    [
        ({"api-url": "https://cloudstack.example.com:8443/other"}, Credentials("", "")),
        ({"secret-key": ""}, Credentials("", "")),
        ({"verify-ssl": "False"}, Credentials("key-of-maker", MAKER, insecure=True)),
    ],
)
def test_keys_are_for_the_url_that_their_secret_has(data: dict[str, str], sent: Credentials) -> None:
    async def story(env: ManagedEnvironment, clouds: Clouds, harbor: PlannedSteps) -> None:
        secret = credentials(CREDENTIALS | data, NAMESPACE)
        await env.client.apply(SECRET, secret, field_manager="administrator")
        await apply(harbor)
        assert {item for _, item in clouds.asked} == {sent}

    tell(story, zones=1)


@pytest.mark.soak
def test_settled_objects_are_asked_for_seldom() -> None:
    async def story(env: ManagedEnvironment, clouds: Clouds, harbor: PlannedSteps) -> None:
        await apply(harbor)
        await env.until_ready(HARBOR)
        await asyncio.sleep(controller.AGAIN)
        clouds.asked.clear()
        await asyncio.sleep(3600)
        sessions = len(clouds.asked)
        assert 3 * 2 * 5 <= sessions <= 3 * 2 * 7  # three objects in two zones, each about every ten minutes
        requests = sum(3 + len(asked.questions) for asked, _ in clouds.asked)  # zone, domain, account, and the rest
        assert requests <= 210
        assert not any(asked.addresses for asked, _ in clouds.asked)

    tell(story)


@pytest.mark.soak
def test_clusters_in_other_zones_need_another_config() -> None:
    async def story(env: ManagedEnvironment, _clouds: Clouds, harbor: PlannedSteps) -> None:
        await apply(harbor)
        await env.until_ready(HARBOR)
        trees = other_cluster(harbor)
        trees[Cluster.resource]["spec"]["workerNodeGroupConfigurations"][0]["machineGroupRef"]["name"] = "harbor"
        for name, tree in trees.items():
            await env.client.apply(name, tree, field_manager="kubectl")
        await asyncio.sleep(CALM)
        result = (await machines(env)).status
        assert result.failure_reason == "SeveralDatacenters"
        assert result.failure_message == (
            "Clusters of several datacenters reference it (harbor, second); create a CloudStackMachineConfig for each"
        )
        await env.until_ready(HARBOR)

    tell(story)
