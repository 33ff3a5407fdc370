"""Objects missing in a Prism Central appear in the status of what names them; the Cluster waits, then goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

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
from espalier.providers.nutanix.checks.questions import REACHABLE, Answers, ObjectType, Query
from espalier.providers.nutanix.kinds import NutanixDatacenterConfig, NutanixMachineConfig
from espalier.providers.simulated import providers
from espalier.providers.simulated.nutanix import simulated_answers
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.managed_environment import CALM, NAMESPACE, ManagedEnvironment, managed_environment
from tests.support.histories.planned_steps import PlannedSteps
from tests.support.providers.nutanix import CREDENTIALS, MAKER, SERVER, account, credentials, domain, named, of
from tests.support.providers.nutanix_steps import EPOCH, QUARRY, put_credentials, quarry_of
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded

DATACENTER, MACHINES = NutanixDatacenterConfig.resource, NutanixMachineConfig.resource
PERIOD = controller.SOON * 1.1 + CALM
"""Seconds after which what was not valid has been checked again."""


class Prism:
    """Has whatever specs name, but for what was taken away, and remembers who asked."""

    def __init__(self) -> None:
        self.missing: set[ObjectType] = set()
        self.categories = True
        self.error: LookUpError | None = None
        self.asked: list[tuple[Query, Credentials]] = []

    async def __call__(self, asked: Query, credentials: Credentials, /) -> Answers:
        self.asked.append((asked, credentials))
        if self.error is not None:
            raise self.error
        result = await simulated_answers(asked, credentials)
        entities = {item: () if item.object_type in self.missing else there for item, there in result.entities.items()}
        categories = result.categories if self.categories else frozenset()
        return msgspec.structs.replace(result, entities=entities, categories=categories)


Story = Callable[[ManagedEnvironment, Prism, PlannedSteps], Awaitable[None]]


def tell(story: Story) -> None:
    async def main(simulation: Simulation) -> None:
        prism = Prism()
        async with managed_environment(simulation.clock, providers=providers(prism_centrals=prism)) as env:
            await put_credentials(env)
            await story(env, prism, quarry_of(env))

    run(main, epoch=EPOCH, seed=1)


async def apply(quarry: PlannedSteps) -> None:
    """Apply all, and wait until nothing more happens."""
    await quarry.apply()
    await asyncio.sleep(CALM)


async def told(env: ManagedEnvironment) -> tuple[str, str]:
    """Why the Cluster makes no progress."""
    result = (await env.client.get(Cluster.resource, QUARRY.name, NAMESPACE)).decode(Cluster).status
    return str(result.failure_reason or ""), str(result.failure_message or "")


async def datacenter(env: ManagedEnvironment) -> NutanixDatacenterConfig:
    return (await env.client.get(DATACENTER, "quarry", NAMESPACE)).decode(NutanixDatacenterConfig)


async def is_made(env: ManagedEnvironment) -> bool:
    return bool((await env.client.list(capi.Cluster.resource, SYSTEM_NAMESPACE)).items)


def take(what: ObjectType) -> Callable[[Prism], None]:
    return lambda prism: prism.missing.add(what)


FAULTS: dict[str, tuple[Callable[[Prism], object], str, str]] = {
    "cluster": (take(ObjectType.CLUSTER), "MachineConfigInvalid", "spec.cluster: found cluster-1"),
    "subnet": (
        take(ObjectType.SUBNET),
        "DatacenterConfigInvalid",
        "spec.failureDomains[0].subnets[0]: found subnet-east",
    ),
    "image": (take(ObjectType.IMAGE), "MachineConfigInvalid", "spec.image: found ubuntu-1-35"),
    "project": (take(ObjectType.PROJECT), "MachineConfigInvalid", "spec.project: found quarries"),
    "category": (
        lambda prism: setattr(prism, "categories", False),
        "MachineConfigInvalid",
        "spec.additionalCategories[0]: found stone: granite",
    ),
    "unreachable": (
        lambda prism: setattr(prism, "error", LookUpError("Unreachable", "prism can't be reached")),
        "DatacenterConfigInvalid",
        "prism can't be reached",
    ),
    "account": (
        lambda prism: setattr(prism, "error", LookUpError("LoginRefused", "maker can't log in")),
        "DatacenterConfigInvalid",
        "maker can't log in",
    ),
}


@pytest.mark.demand(L25="Nutanix")
@pytest.mark.soak
@pytest.mark.parametrize("fault", sampled(FAULTS, 0, 1, 5))
def test_fault_is_named_and_the_cluster_then_goes_on(fault: str) -> None:
    break_, reason, message = FAULTS[fault]

    async def story(env: ManagedEnvironment, prism: Prism, quarry: PlannedSteps) -> None:
        break_(prism)
        if fault == "subnet":
            of(quarry.trees, DATACENTER.kind)["failureDomains"] = [domain("east", "md-0")]
        more = {"project": named("quarries"), "additionalCategories": [{"key": "stone", "value": "granite"}]}
        of(quarry.trees, MACHINES.kind).update(more)
        await apply(quarry)
        result = await told(env)
        assert result[0] == reason
        assert message in result[1]
        assert not await is_made(env)

        prism.__init__()  # type: ignore[misc]  # as it should be
        await asyncio.sleep(PERIOD)
        await env.until_ready(QUARRY)
        status = (await datacenter(env)).status
        assert (status.spec_valid, status.failure_reason, status.failure_message) == (True, "", "")

    tell(story)


@pytest.mark.soak
def test_lost_prism_central_stops_nothing_settled() -> None:
    async def story(env: ManagedEnvironment, prism: Prism, quarry: PlannedSteps) -> None:
        await apply(quarry)
        await env.until_ready(QUARRY)
        before = await env.machine_names("quarry")
        prism.error = LookUpError("Unreachable", "prism can't be reached")
        await asyncio.sleep(controller.AGAIN * 1.1 + CALM)
        status = (await datacenter(env)).status
        assert status.spec_valid
        assert conditions.is_false(status.conditions, REACHABLE)
        await env.until_ready(QUARRY)
        assert await env.machine_names("quarry") == before

    tell(story)


@pytest.mark.soak
def test_a_new_password_is_used_by_the_next_login() -> None:
    async def story(env: ManagedEnvironment, prism: Prism, quarry: PlannedSteps) -> None:
        await apply(quarry)
        await env.until_ready(QUARRY)
        assert {item for _, item in prism.asked} == {Credentials("maker", MAKER)}
        prism.asked.clear()
        await put_credentials(env, CREDENTIALS | {"credentials": account("maker", "a-new-canary")})
        await asyncio.sleep(CALM)
        assert {item.password for _, item in prism.asked} == {"a-new-canary"}

    tell(story)


@pytest.mark.soak
@pytest.mark.parametrize(
    "annotations",
    sampled(
        [{permissions.SERVERS: "prism.example.com"}, {permissions.NAMESPACES: "team-b"}, {permissions.NAMESPACES: ""}],
        1,
    ),
)
def test_credentials_go_to_no_server_unpermitted(annotations: dict[str, str]) -> None:
    async def story(env: ManagedEnvironment, prism: Prism, quarry: PlannedSteps) -> None:
        secret = credentials(CREDENTIALS, NAMESPACE, **annotations)
        await env.client.apply(SECRET, secret, field_manager="administrator")
        await apply(quarry)
        assert prism.asked == []
        status = (await datacenter(env)).status
        assert (status.spec_valid, status.failure_reason) == (False, "CredentialsNotPermitted")
        assert f"credentials-servers with {SERVER}, and" in status.failure_message
        assert not await is_made(env)
        await put_credentials(env)
        await asyncio.sleep(CALM)
        await env.until_ready(QUARRY)

    tell(story)


@pytest.mark.soak
def test_settled_objects_are_asked_for_seldom() -> None:
    async def story(env: ManagedEnvironment, prism: Prism, quarry: PlannedSteps) -> None:
        await apply(quarry)
        await env.until_ready(QUARRY)
        await asyncio.sleep(controller.AGAIN)
        prism.asked.clear()
        await asyncio.sleep(3600)
        assert 3 * 5 <= len(prism.asked) <= 3 * 7  # three objects, each about every ten minutes

    tell(story)


@pytest.mark.soak
def test_two_servers_need_two_machine_configs() -> None:
    async def story(env: ManagedEnvironment, prism: Prism, quarry: PlannedSteps) -> None:
        await apply(quarry)
        await env.until_ready(QUARRY)
        other = next(tree for tree in quarry.trees if tree["kind"] == DATACENTER.kind)
        other = {**other, "metadata": {**other["metadata"], "name": "other"}, "spec": other["spec"] | {"port": 9441}}
        await env.client.apply(DATACENTER, other, field_manager="kubectl")
        plane = quarry.spec["controlPlaneConfiguration"] | {"endpoint": {"host": "192.0.2.11"}}
        second = {**quarry.trees[0], "metadata": {"name": "second", "namespace": NAMESPACE}}
        second["spec"] = quarry.spec | {
            "controlPlaneConfiguration": plane,
            "datacenterRef": {"kind": DATACENTER.kind, "name": "other"},
        }
        await env.client.apply(Cluster.resource, second, field_manager="kubectl")
        await asyncio.sleep(CALM)
        result = (await env.client.get(MACHINES, "quarry", NAMESPACE)).decode(NutanixMachineConfig).status
        assert result.failure_reason == "SeveralDatacenters"
        assert "Clusters of several datacenters reference it (other, quarry)" in result.failure_message
        await env.until_ready(QUARRY)

    tell(story)


@pytest.mark.soak
def test_two_clusters_do_not_share_an_address() -> None:
    async def story(env: ManagedEnvironment, _prism: Prism, quarry: PlannedSteps) -> None:
        await apply(quarry)
        second = {**quarry.trees[0], "metadata": {"name": "second", "namespace": NAMESPACE}}
        await env.client.apply(Cluster.resource, second, field_manager="kubectl")
        await env.until_ready(QUARRY)
        await asyncio.sleep(PERIOD)
        result = (await env.client.get(Cluster.resource, "second", NAMESPACE)).decode(Cluster).status
        assert result.failure_reason == "ControlPlaneAddressTaken"

    tell(story)
