"""A manager that starts where its management cluster is not ready for it waits, says for what, and goes on by itself.

Of an upgrade of the manager: two clusters are there already, of two Kubernetes versions, and keep their machines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from espalier.api.core import CLUSTER_ROLE, CUSTOM_RESOURCE_DEFINITION, ROLE, VALIDATING_WEBHOOK_CONFIGURATION
from espalier.api.definitions.crd import crd_of
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.releases.distro import DistroRelease
from espalier.api.eksa.releases.release import Bundles, EKSARelease
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.kinds import KubeObject
from espalier.api.meta import Condition
from espalier.api.resource import Key, Resource
from espalier.apiserver.storage.store import MemoryStore
from espalier.cli.install import manifests
from espalier.cli.programs.installation import PATIENCE
from espalier.clusters import rbac
from espalier.clusters.design import names
from espalier.kube.client import Client
from espalier.kube.errors import Forbidden, Invalid, Unreachable
from espalier.kube.transports.wire import Request, Response, Stream, Transport
from espalier.providers.registry import PROVIDERS
from espalier.runtime.virtual import Simulation, run
from espalier.simulator.workload_clusters.stores import MemoryStores
from tests.support.environments.managed_environment import (
    CALM,
    GARDEN,
    NAMESPACE,
    ManagedEnvironment,
    Wrap,
    managed_environment,
)
from tests.support.environments.managing import unasked
from tests.support.histories.isolation_stories import STATUS, machines
from tests.support.sampling import sampled
from tests.support.servers.faults import Interceptor, is_of_manager, refusal

pytestmark = pytest.mark.embedded

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
MEADOW, NEWCOMER = Key(NAMESPACE, "meadow"), Key(NAMESPACE, "newcomer")
DISTRO = "kubernetes-1-35-eks-2"
"""The distribution of the garden; the meadow has another."""
RELEASE = "eksa-v0-26-0"
LONG = 1800.0
"""Seconds in which a manager that ends would have ended."""
KINDS: tuple[type[KubeObject], ...] = (DistroRelease, Bundles, EKSARelease)
APPLY = "apply the output of this version's `espalier manifests`, which"

Change = Callable[[Client], Awaitable[None]]
Tell = Callable[[ManagedEnvironment], Awaitable[None]]


def passing(transport: Transport) -> Transport:
    return transport


def story(before_start: Change, tell: Tell, wrap: Wrap = passing) -> None:
    """Of a manager that starts after that was done to the management cluster of two steady clusters."""
    store, stores = MemoryStore(), MemoryStores()

    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock, store=store, stores=stores) as env:
            await env.apply()
            await env.apply(name=MEADOW.name, kubernetesVersion="1.36")
            for key in (GARDEN, MEADOW):
                await env.until_ready(key)
            await asyncio.sleep(CALM)
            there = await machines(env.client)
        async with managed_environment(
            simulation.clock,
            seed=2,  # uids are given once
            store=store,
            stores=stores,
            wrap=wrap,
            before_start=before_start,
        ) as env:
            await tell(env)
            assert there.keys() <= (await machines(env.client)).keys(), "a machine was replaced"
            env.ledger.refused.clear()

    run(main, epoch=EPOCH, seed=1)


async def cluster(env: ManagedEnvironment, key: Key = GARDEN) -> Cluster:
    return (await env.client.get(Cluster.resource, key.name, key.namespace)).decode(Cluster)


async def condition_of(env: ManagedEnvironment, key: Key, type_: str = names.SYNCED) -> Condition:
    return next(condition for condition in (await cluster(env, key)).status.conditions if condition.type == type_)


async def scale(env: ManagedEnvironment, key: Key, count: int) -> None:
    await env.change(key, workerNodeGroupConfigurations=[{"name": "md-0", "count": count}])


async def define(kind: type[KubeObject], client: Client) -> None:
    await client.apply(CUSTOM_RESOURCE_DEFINITION, crd_of(kind))


async def no_definition(kind: type[KubeObject], client: Client) -> None:
    async with unasked(client):
        await client.delete(CUSTOM_RESOURCE_DEFINITION, kind.resource.group_resource)
        await asyncio.sleep(1)


async def no_right(role: Resource, resource: Resource, verb: str, client: Client) -> None:
    namespace = SYSTEM_NAMESPACE if role == ROLE else ""
    result = (await client.get(role, manifests.NAME, namespace)).tree
    for rule in result["rules"]:
        if (resource.group, resource.plural) == (rule["apiGroups"][0], rule["resources"][0]):
            rule["verbs"].remove(verb)
    await client.replace(role, result)


async def create_rbac(client: Client) -> None:
    for tree in manifests.installed(PROVIDERS):
        for role in (ROLE, CLUSTER_ROLE):
            if tree["kind"] == role.kind:
                await client.apply(role, tree)


async def no_releases(client: Client) -> None:
    """As an earlier manager left it, which had no such objects."""
    async with unasked(client):
        for kind in KINDS:
            for object_ in (await client.list(kind.resource)).items:
                await client.delete(kind.resource, object_.name, object_.namespace)


class Away(Interceptor):
    """The manager's API server, which does not answer until it comes."""

    is_away = True

    async def request(self, transport: Transport, request: Request) -> Response:
        self._check(request)
        return await transport.request(request)

    async def stream(self, transport: Transport, request: Request) -> Stream | Response:
        self._check(request)
        return await transport.stream(request)

    def _check(self, request: Request) -> None:
        if self.is_away and is_of_manager(request):
            raise Unreachable("no route to the API server", sent=False)


@dataclass(frozen=True)
class Unlisted:
    """Why kinds can't be listed, what is said of it, and what helps."""

    before: Change
    says: str
    mend: Change


def undefined(kind: type[KubeObject]) -> Unlisted:
    resource = kind.resource
    why = f"not served by the API server in {resource.version}"
    says = f"not listed yet: {resource.group_resource} ({why}; {APPLY} defines it)"
    return Unlisted(lambda client: no_definition(kind, client), says, lambda client: define(kind, client))


ACCOUNT = 'User "system:serviceaccount:eksa-system:espalier-controller-manager"'
UNLISTED = {
    "no definition of EKS Distro Releases": undefined(DistroRelease),
    "no definition of Bundles": undefined(Bundles),
    "no right to list": Unlisted(
        lambda client: no_right(CLUSTER_ROLE, EKSARelease.resource, "list", client),
        "not listed yet: eksareleases.anywhere.eks.amazonaws.com "
        f"(eksareleases.anywhere.eks.amazonaws.com is forbidden: {ACCOUNT} cannot list resource "
        f'"eksareleases" in API group "anywhere.eks.amazonaws.com" at the cluster scope; {APPLY} grants it)',
        create_rbac,
    ),
}


@pytest.mark.demand(L6="where the management cluster is not ready for a manager")
@pytest.mark.soak
@pytest.mark.parametrize("case", sampled(UNLISTED, 2))
def test_unlistable_kind_is_waited_for_and_named(case: str) -> None:
    """Nobody is managed from half of what there is: the manager does not even stand for election."""
    unlisted = UNLISTED[case]

    async def tell(env: ManagedEnvironment) -> None:
        await asyncio.sleep(LONG)
        assert not env.managing.task.done()
        assert not env.manager.leading.is_set()
        assert env.manager.checks["caches"]() == unlisted.says
        assert env.written() == {}
        await unlisted.mend(env.client)
        await goes_on(env)

    story(unlisted.before, tell)


@pytest.mark.demand(L6="where the management cluster is not ready for a manager")
@pytest.mark.soak
def test_an_api_server_that_is_away_is_waited_for() -> None:
    away = Away()

    async def nothing(_client: Client) -> None:
        pass

    async def tell(env: ManagedEnvironment) -> None:
        await asyncio.sleep(LONG)
        assert not env.managing.task.done()
        message = env.manager.checks["caches"]()
        assert message.startswith("not listed yet: clusters.anywhere.eks.amazonaws.com, ")
        assert message.endswith(" (no route to the API server)")
        away.is_away = False
        await goes_on(env)

    story(nothing, tell, away)


async def goes_on(env: ManagedEnvironment) -> None:
    """Without being started again: what was brought is there, steady clusters are as they were, and they can change."""
    async with asyncio.timeout(90):
        await env.manager.leading.wait()
    await asyncio.sleep(CALM)
    assert env.manager.checks["caches"]() == ""
    assert str(env.uninstalled) == ""
    for kind in KINDS:
        assert (await env.client.list(kind.resource)).items
    for key in (GARDEN, MEADOW):
        assert (await condition_of(env, key)).reason == "AsRendered"
    created = {("create", kind.resource.plural, "") for kind in KINDS}
    assert env.written().keys() <= {STATUS, *created}
    await scale(env, GARDEN, 3)
    await env.until_ready()


class Denied(Interceptor):
    """An API server whose admission is somebody else's as well, who denies one object until they are asked not to."""

    denies = True

    async def request(self, transport: Transport, request: Request) -> Response:
        if self.denies and request.method == "POST" and f'"{DISTRO}"'.encode() in (request.body or b"")[:2000]:
            return refusal(
                Forbidden.of('admission webhook "policy.example.com" denied the request: no images of strangers')
            )
        return await transport.request(request)


DENIED = Denied()


async def allow(_client: Client) -> None:
    DENIED.denies = False


async def a_rule_against_it(client: Client) -> None:
    await set_rules([{"rule": f"self.metadata.name != '{DISTRO}'", "message": "this one is not for us"}], client)


async def no_rule(client: Client) -> None:
    await set_rules([], client)


async def set_rules(rules: list[dict[str, str]], client: Client) -> None:
    result = (await client.get(CUSTOM_RESOURCE_DEFINITION, DistroRelease.resource.group_resource)).tree
    result["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] = rules
    await client.replace(CUSTOM_RESOURCE_DEFINITION, result)


async def no_right_to_create(client: Client) -> None:
    await no_right(ROLE, DistroRelease.resource, "create", client)


async def nobody_answers_for_it(client: Client) -> None:
    result = (await client.get(VALIDATING_WEBHOOK_CONFIGURATION, rbac.VALIDATING_WEBHOOKS)).tree
    for webhook in result["webhooks"]:
        if "releases.distro" in webhook["name"]:
            webhook["clientConfig"] = {"url": "https://127.0.0.1:1/nobody"}
    await client.replace(VALIDATING_WEBHOOK_CONFIGURATION, result)


async def somebody_answers(client: Client) -> None:
    for resource, tree in manifests.webhook_configurations("https://espalier.internal"):
        await client.apply(resource, tree)


@dataclass(frozen=True)
class Refused:
    """Why an object of a release is refused, what is said of it, and what helps."""

    before: Change
    says: str
    mend: Change
    wrap: Wrap = passing
    others: bool = True
    """True if other objects of its kind are taken."""
    seconds: float = 1.0
    """After which clusters are managed all the same."""


REFUSED = {
    "no right to create": Refused(
        no_right_to_create,
        f'releases.distro.eks.amazonaws.com is forbidden: {ACCOUNT} cannot create resource "releases" in API group '
        f'"distro.eks.amazonaws.com" in the namespace "eksa-system"; {APPLY} grants it',
        create_rbac,
        others=False,
    ),
    "the API server finds it invalid": Refused(
        a_rule_against_it,
        f'Release.distro.eks.amazonaws.com "{DISTRO}" is invalid: <nil>: Invalid value: this one is not for us',
        no_rule,
    ),
    "another webhook denies it": Refused(
        lambda client: asyncio.sleep(0),
        'admission webhook "policy.example.com" denied the request: no images of strangers',
        allow,
        wrap=DENIED,
    ),
    "webhooks can't be called": Refused(
        nobody_answers_for_it,
        'Internal error occurred: failed calling webhook "validate.releases.distro.eks.amazonaws.com": ',
        somebody_answers,
        others=False,
        seconds=2 * PATIENCE,
    ),
}


@pytest.mark.demand(V25="one that is refused keeps nobody else from being managed")
@pytest.mark.soak
@pytest.mark.parametrize("case", sampled(REFUSED, 0))
def test_refused_release_holds_up_its_users_only(case: str) -> None:
    """Those who are, are told which object is missing and why, and left alone; and all goes on once it is taken."""
    refused = REFUSED[case]
    DENIED.denies = True

    async def before_start(client: Client) -> None:
        await no_releases(client)
        await refused.before(client)

    async def tell(env: ManagedEnvironment) -> None:
        async with asyncio.timeout(refused.seconds):
            await env.manager.leading.wait()
        await asyncio.sleep(CALM)
        missing = f"releases.distro.eks.amazonaws.com eksa-system/{DISTRO} could not be installed: {refused.says}"
        assert missing in str(env.uninstalled)
        assert [check() for check in env.manager.checks.values()] == ["", ""], "its webhooks are to be called"
        synced = await condition_of(env, GARDEN)
        assert (synced.status, synced.reason) == ("Unknown", "NotComparable")
        assert missing in synced.message
        assert (await cluster(env)).status.ready
        await env.apply(name=NEWCOMER.name)
        result = await env.until(lambda item: item.status.failure_reason == Reason.EKSD_RELEASE_INVALID, NEWCOMER)
        assert missing in (result.status.failure_message or "")
        if refused.others:
            assert (await condition_of(env, MEADOW)).reason == "AsRendered"
            await scale(env, MEADOW, 3)
            await env.until_ready(MEADOW)
        await asyncio.sleep(LONG)
        assert not env.managing.task.done()

        await refused.mend(env.client)
        await env.until_ready(NEWCOMER)
        await asyncio.sleep(CALM)
        assert str(env.uninstalled) == ""
        for key in (GARDEN, MEADOW):
            assert (await condition_of(env, key)).reason == "AsRendered"
        await scale(env, GARDEN, 3)
        await env.until_ready()

    story(before_start, tell, refused.wrap)


@pytest.mark.soak
def test_missing_release_is_reported_by_its_cluster() -> None:
    async def before_start(client: Client) -> None:
        await no_releases(client)
        await no_right(CLUSTER_ROLE, EKSARelease.resource, "create", client)

    async def tell(env: ManagedEnvironment) -> None:
        await asyncio.sleep(CALM)
        missing = f"eksareleases.anywhere.eks.amazonaws.com {RELEASE} could not be installed: "
        assert missing in (await condition_of(env, GARDEN)).message
        with pytest.raises(Invalid, match="has no EKSARelease"):
            await env.apply(name=NEWCOMER.name)
        await scale(env, GARDEN, 3)
        result = await env.until(lambda item: bool(item.status.failure_reason))
        assert result.status.failure_reason == Reason.EKSA_VERSION_INVALID
        assert missing in (result.status.failure_message or "")
        await create_rbac(env.client)
        await env.until_ready()

    story(before_start, tell)


@pytest.mark.soak
def test_the_message_follows_the_obstacle() -> None:
    async def before_start(client: Client) -> None:
        await no_releases(client)
        await a_rule_against_it(client)

    async def tell(env: ManagedEnvironment) -> None:
        await asyncio.sleep(CALM)
        assert "this one is not for us" in (await condition_of(env, GARDEN)).message
        await set_rules([{"rule": f"self.metadata.name != '{DISTRO}'", "message": "ask Jane"}], env.client)
        await asyncio.sleep(CALM)
        assert "ask Jane" in (await condition_of(env, GARDEN)).message

    story(before_start, tell)
