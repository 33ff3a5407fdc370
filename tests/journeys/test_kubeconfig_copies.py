"""Copies of kubeconfigs beside their Clusters: only of what is the cluster's, and never over what is the user's."""

from __future__ import annotations

import asyncio
import base64
import itertools
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from espalier.api.capi import cluster as capi
from espalier.api.core import ROLE, ROLE_BINDING, SECRET, Secret
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.group import CLUSTER_NAME_LABEL, SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.cli.clusters.access import kubeconfig
from espalier.cli.install import manifests
from espalier.clusters.act.secrets import kubeconfig_copies
from espalier.kube.client import PatchType
from espalier.kube.errors import NotFound
from espalier.kube.transports.wire import Request, Response, Transport
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.managed_environment import GARDEN, NAMESPACE, ManagedEnvironment, managed_environment
from tests.support.objects.kubeconfig_copies import NAME, trouble
from tests.support.sampling import sampled
from tests.support.servers.faults import Interceptor

pytestmark = pytest.mark.embedded

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def journey(story: Callable[[ManagedEnvironment], Awaitable[None]], **settings: Any) -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock, **settings) as env:
            await story(env)

    run(main, epoch=EPOCH, seed=1)


async def copy(env: ManagedEnvironment) -> Secret:
    return (await env.client.get(SECRET, NAME, NAMESPACE)).decode(Secret)


def value(text: bytes) -> Tree:
    return {"data": {"value": base64.b64encode(text).decode()}}


@pytest.mark.soak
def test_copy_follows_its_source_in_a_settled_cluster() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await env.apply()
        cluster = await env.until_ready()
        assert trouble(cluster) is None
        await env.client.patch(SECRET, NAME, SYSTEM_NAMESPACE, patch=value(b"renewed"), type=PatchType.MERGE)
        await asyncio.sleep(5)
        copied = await copy(env)
        assert copied.data == {"value": b"renewed"}
        assert [owner.kind for owner in copied.metadata.owner_references] == ["Cluster"]

    journey(story)


@pytest.mark.soak
def test_a_copy_that_is_deleted_comes_back() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await env.apply()
        await env.until_ready()
        before = await copy(env)
        await env.client.delete(SECRET, NAME, NAMESPACE)
        await asyncio.sleep(kubeconfig_copies.CHECK_EVERY + 60)
        assert (await copy(env)).data == before.data

    journey(story)


@pytest.mark.soak
def test_deleted_copy_returns_despite_a_lost_note() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await env.apply()
        await env.until_ready()
        await asyncio.sleep(60)
        before = await copy(env)
        await env.client.delete(SECRET, NAME, NAMESPACE)
        note: Tree = {"metadata": {"annotations": {metadata_keys.KUBECONFIG_ANNOTATION: None}}}
        await env.client.patch(Cluster.resource, GARDEN.name, GARDEN.namespace, patch=note, type=PatchType.MERGE)
        await env.until(lambda cluster: metadata_keys.KUBECONFIG_ANNOTATION in cluster.metadata.annotations, seconds=5)
        assert (await copy(env)).data == before.data

    journey(story)


@pytest.mark.soak
@pytest.mark.parametrize(
    "content",
    sampled([{}, {"data": {"mine": "bWluZQ=="}}, value(b"mine"), {"type": "example.com/own"}, {"immutable": True}], 2),
    ids=["empty", "another key", "the same key", "another type", "immutable"],
)
def test_own_secret_of_user_stops_only_the_copy(content: Tree) -> None:
    async def story(env: ManagedEnvironment) -> None:
        theirs = {"metadata": {"name": NAME, "namespace": NAMESPACE}, **content}
        mine = await env.client.create(SECRET, theirs)
        await env.apply()
        cluster = await env.until_ready()
        copied = trouble(cluster)
        assert copied is not None
        assert (copied.status, copied.reason) == ("False", "KubeconfigSecretTaken")
        assert f"Secret {NAMESPACE}/{NAME} exists" in copied.message
        assert "delete it to have the kubeconfig copied" in copied.message
        assert await kubeconfig.read(env.client, GARDEN)  # from the system's namespace
        await asyncio.sleep(2 * kubeconfig_copies.CHECK_EVERY)
        assert (await env.client.get(SECRET, NAME, NAMESPACE)).raw == mine.raw
        await env.client.delete(Cluster.resource, GARDEN.name, GARDEN.namespace)
        await env.until_gone()
        await asyncio.sleep(600)
        assert (await env.client.get(SECRET, NAME, NAMESPACE)).raw == mine.raw

    journey(story)


@pytest.mark.soak
def test_secret_of_a_user_is_never_handed_out() -> None:
    async def story(env: ManagedEnvironment) -> None:
        labels = {CLUSTER_NAME_LABEL: "garden", "cluster.x-k8s.io/cluster-name": "garden"}
        theirs = {"metadata": {"name": NAME, "namespace": NAMESPACE, "labels": labels}, **value(b"mine")}
        await env.client.create(SECRET, theirs)
        await env.apply()
        copied = trouble(await env.until_ready())
        assert copied is not None
        assert copied.reason == "KubeconfigSecretTaken"
        made = await env.client.get(SECRET, NAME, SYSTEM_NAMESPACE)
        assert await kubeconfig.read(env.client, GARDEN) == made.decode(Secret).data["value"]

    journey(story)


@pytest.mark.soak
def test_once_users_own_secret_is_gone_copy_is_made() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await env.client.create(SECRET, {"metadata": {"name": NAME, "namespace": NAMESPACE}})
        await env.apply()
        await env.until_ready()
        await env.client.delete(SECRET, NAME, NAMESPACE)
        await env.until(lambda cluster: trouble(cluster) is None, seconds=2 * kubeconfig_copies.TRY_EVERY)
        assert (await copy(env)).data["value"]

    journey(story)


@pytest.mark.demand(L66="once the owner of the namespace lets kubeconfigs be copied there")
def test_missing_right_is_named_by_a_condition() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await env.apply()
        cluster = await env.until_ready()
        copied = trouble(cluster)
        assert copied is not None
        assert copied.reason == "KubeconfigCopyNotAllowed"
        assert "`espalier manifests --kubeconfig-copies --namespace default`" in copied.message
        with pytest.raises(NotFound):
            await copy(env)
        assert await kubeconfig.read(env.client, GARDEN)
        assert env.ledger.refused == {"create secrets in default"}
        await env.allow_copies(NAMESPACE)
        await env.until(lambda cluster: trouble(cluster) is None, seconds=2 * kubeconfig_copies.TRY_EVERY)
        assert (await copy(env)).data["value"]
        env.ledger.refused.clear()

    journey(story, copies_to=())


@pytest.mark.soak
def test_copy_of_earlier_version_stays_until_changed() -> None:
    """Then it is no copy of ours, as far as anybody can tell without reading it."""

    async def story(env: ManagedEnvironment) -> None:
        await env.apply()
        await env.until_ready()
        made = await copy(env)
        await env.client.delete(SECRET, NAME, NAMESPACE)
        old = {"metadata": {"name": NAME, "namespace": NAMESPACE, "labels": {CLUSTER_NAME_LABEL: "garden"}}}
        await env.client.create(SECRET, old | value(made.data["value"]))
        await asyncio.sleep(kubeconfig_copies.CHECK_EVERY + 60)
        assert trouble(await env.until_ready()) is None
        await env.client.patch(SECRET, NAME, SYSTEM_NAMESPACE, patch=value(b"renewed"), type=PatchType.MERGE)
        await env.until(lambda cluster: trouble(cluster) is not None)
        await env.client.delete(SECRET, NAME, NAMESPACE)
        await env.until(lambda cluster: trouble(cluster) is None)
        assert (await copy(env)).data == {"value": b"renewed"}

    journey(story)


class LosesAnswers(Interceptor):
    """The first answer to each creation of a Secret is lost."""

    def __init__(self) -> None:
        self._lost: set[str] = set()

    async def request(self, transport: Transport, request: Request) -> Response:
        answer = await transport.request(request)
        if (
            request.method == "POST"
            and request.path.endswith(f"{NAMESPACE}/secrets")
            and request.path not in self._lost
        ):
            self._lost.add(request.path)
            return Response(500, b"")
        return answer


@pytest.mark.soak
def test_copy_after_an_unanswered_write_is_ours() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await env.apply()
        cluster = await env.until_ready()
        await asyncio.sleep(2 * kubeconfig_copies.TRY_EVERY)
        assert trouble(cluster) is None
        assert (await copy(env)).data["value"]

    journey(story, wrap=LosesAnswers())


@pytest.mark.soak
@pytest.mark.parametrize(
    ("purpose", "labels"),
    sampled(itertools.product(["kubeconfig", "ca"], [{"cluster.x-k8s.io/cluster-name": "garden"}, {}]), 3),
)
def test_left_over_secret_stops_cluster(labels: dict[str, str], purpose: str) -> None:
    async def story(env: ManagedEnvironment) -> None:
        name = f"garden-{purpose}"
        left = {"metadata": {"name": name, "namespace": SYSTEM_NAMESPACE, "labels": labels}, **value(b"of another")}
        before = await env.client.create(SECRET, left)
        await env.apply()
        cluster = await env.until(lambda cluster: cluster.status.failure_reason == "ClusterNameTaken")
        assert f"Secret.core {SYSTEM_NAMESPACE}/{name}" in (cluster.status.failure_message or "")
        await asyncio.sleep(2 * kubeconfig_copies.CHECK_EVERY)
        with pytest.raises(NotFound):
            await copy(env)
        assert not (await env.client.list(capi.Cluster.resource)).items
        assert (await env.client.get(SECRET, name, SYSTEM_NAMESPACE)).raw == before.raw
        await env.client.delete(SECRET, name, SYSTEM_NAMESPACE)
        await env.until_ready()

    journey(story)


@pytest.mark.soak
def test_kubeconfig_of_another_cluster_is_not_used() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await env.apply()
        await env.until_ready()
        made = await copy(env)
        patch = {"metadata": {"ownerReferences": None}, **value(b"of another")}
        await env.client.patch(SECRET, NAME, SYSTEM_NAMESPACE, patch=patch, type=PatchType.MERGE)
        cluster = await env.until(lambda cluster: trouble(cluster) is not None)
        copied = trouble(cluster)
        assert copied is not None
        assert copied.reason == "KubeconfigNotOfThisCluster"
        assert (await copy(env)).data == made.data

    journey(story)


def test_the_role_gives_no_right_to_read() -> None:
    trees = manifests.kubeconfig_copy_rights(["team-a"])
    assert [tree["kind"] for tree in trees] == [ROLE.kind, ROLE_BINDING.kind]
    assert trees[0]["rules"] == [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["create", "update"]}]
    assert {tree["metadata"]["namespace"] for tree in trees} == {"team-a"}
