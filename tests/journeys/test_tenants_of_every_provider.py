"""Attacks of a tenant on another's cluster, for every provider: none succeeds.

Alice has a cluster of each. Bob has the same rights in his namespace and knows all names of hers. Each attempt is told
for every registered provider, with admission and without; then nothing of hers is another, and her cluster changes as
she asks.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import CLUSTER_NAMESPACE_LABEL, SYSTEM_NAMESPACE
from espalier.api.identity import owner_of
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.clusters.observe.observe import written
from espalier.kube.client import Client
from espalier.kube.errors import ApiError
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.wire import User
from espalier.providers.kinds import CATALOG
from espalier.providers.registry import PROVIDERS
from espalier.providers.tinkerbell.hardware_kinds import OWNER_NAME
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.managed_environment import CALM, ManagedEnvironment, managed_environment
from tests.support.environments.tenants_of_every_provider import key_of, settled
from tests.support.histories.isolation_stories import without_admission
from tests.support.histories.tenant_stories import ALICE, BOB, of, tenants
from tests.support.providers.every_provider import KINDS, SAMPLES, apply, groups
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded

NOT_CONTENT = ("events", "leases.coordination.k8s.io")


@dataclass(frozen=True)
class Scene:
    """Her cluster of a provider, and bob."""

    env: ManagedEnvironment
    bob: Client
    kind: str

    @property
    def hers(self) -> Key:
        return key_of(self.kind)

    def trees(self, name: str, number: int = 90) -> list[Tree]:
        """A manifest of his."""
        return SAMPLES[self.kind].cluster(BOB, name, number)

    async def is_refused(self, trees: Sequence[Tree]) -> bool:
        """True if the API server refused his Cluster. The objects that it names come first."""
        try:
            await apply(self.bob, [*trees[1:], trees[0]])
        except ApiError:
            return True
        return False

    async def told(self, name: str) -> tuple[str, str]:
        """Why his Cluster makes no progress."""
        await asyncio.sleep(CALM)
        status = (await self.env.client.get(Cluster.resource, name, BOB)).decode(Cluster).status
        return str(status.failure_reason or ""), str(status.failure_message or "")

    async def delete(self, name: str) -> None:
        await self.bob.delete(Cluster.resource, name, BOB)
        await self.env.until_gone(Key(BOB, name))

    async def forget(self) -> None:
        """Delete what he linked."""
        for _, table in list(self.env.store.tables()):
            for item in [object_ for object_ in table.objects.values() if object_.namespace == BOB]:
                if item.tree["apiVersion"] == Cluster.resource.api_version:
                    resource = CATALOG.resource_of(item.tree["apiVersion"], item.kind)
                    await self.bob.delete(resource, item.name, BOB)

    def made(self) -> list[str]:
        """The objects made for bob."""
        result = (object_ for _, table in self.env.store.tables() for object_ in table.objects.values())
        made = [item for item in result if (owner := owner_of(item.metadata.labels)) and owner.namespace == BOB]
        return sorted(f"{item.kind} {item.key}" for item in made)


def everything_of(env: ManagedEnvironment) -> dict[str, object]:
    """All that is hers, as far as it is content, of whatever kind."""
    names = {key_of(kind).name for kind in KINDS}
    results: dict[str, object] = {}
    objects = [
        object_ for name, table in env.store.tables() if name not in NOT_CONTENT for object_ in table.objects.values()
    ]
    for item in objects:
        tree, metadata = item.tree, item.tree["metadata"]
        labels = metadata.get("labels") or {}
        is_hers = item.namespace == ALICE or (item.namespace in ("", SYSTEM_NAMESPACE) and of(tree) in names)
        is_hers = is_hers or labels.get(CLUSTER_NAMESPACE_LABEL) == ALICE or _is_her_machine(labels, names)
        if not is_hers:
            continue
        content = {name: tree.get(name) for name in ("spec", "data", "type")}
        content |= {name: metadata.get(name) for name in ("uid", "labels", "ownerReferences", "deletionTimestamp")}
        if item.kind == "Cluster" and item.namespace == ALICE:
            status = tree["status"]
            conditions = sorted((each["type"], each["status"]) for each in status["conditions"])
            content["status"] = (conditions, status["phase"], status.get("failureReason"))
        results[f"{item.kind} {item.key}"] = content
    return results


def _is_her_machine(labels: Tree, names: set[str]) -> bool:
    return any(str(labels.get(OWNER_NAME, "")).startswith(f"{name}-") for name in names)


Attempt = Callable[[Scene], Awaitable[None]]


async def her_manifest(scene: Scene) -> None:
    """All of hers under its names: his Cluster waits, and says that the name is taken."""
    trees = scene.trees(scene.hers.name)
    if not await scene.is_refused(trees):
        assert (await scene.told(scene.hers.name))[0] == "ClusterNameTaken"
        assert scene.made() == []
        await scene.delete(scene.hers.name)


async def names_that_collide(scene: Scene) -> None:
    """Her cluster `core-X` with group md-0, and his `core` with group X-md-0."""
    name, _, end = scene.hers.name.partition("-")
    trees = scene.trees(name)
    for group in groups(trees[0]["spec"]):
        group["name"] = f"{end}-{group['name']}"
    text = json.dumps(trees).replace('["md-0"]', f'["{end}-md-0"]')
    if not await scene.is_refused(json.loads(text)):
        assert (await scene.told(name))[0] == "ClusterNameTaken"
        assert scene.made() == []
        await scene.delete(name)


async def beside_her_etcd(scene: Scene) -> None:
    """His cluster has the name that her etcd has. It is made, and goes again."""
    name = f"{scene.hers.name}-etcd"
    assert not await scene.is_refused(scene.trees(name))
    assert await scene.told(name) == ("", "")
    await scene.env.until_ready(Key(BOB, name))
    assert scene.made()
    await scene.delete(name)


async def her_linked_objects(scene: Scene) -> None:
    """His Cluster names what is hers, which is not in his namespace."""
    trees = scene.trees("finch")
    text = json.dumps(trees[0]["spec"]).replace("finch", scene.hers.name)
    trees[0]["spec"] = json.loads(text)
    if not await scene.is_refused(trees[:1]):
        reason, message = await scene.told("finch")
        assert reason == "MissingDependentObjects"
        assert f"{scene.hers.name} in namespace {BOB}, which does not exist" in message
        assert scene.made() == []
        await scene.delete("finch")


async def credentials_for_her_alone(scene: Scene) -> None:
    """The Secrets of administrators are for her namespace: his manifest may name them."""
    await SAMPLES[scene.kind].bring(scene.env.client, ALICE)
    if not await scene.is_refused(scene.trees("finch")):
        reason, message = await scene.told("finch")
        assert reason == "CredentialsNotPermitted"
        assert ALICE not in message
        assert scene.made() == []
        await scene.delete("finch")
    await SAMPLES[scene.kind].bring(scene.env.client, ALICE, BOB)


async def her_address(scene: Scene) -> None:
    """His API server would be where hers is."""
    trees = scene.trees("finch", KINDS.index(scene.kind))
    if "endpoint" not in trees[0]["spec"]["controlPlaneConfiguration"]:
        return
    if not await scene.is_refused(trees):
        assert (await scene.told("finch"))[0] == "ControlPlaneAddressTaken"
        assert scene.made() == []
        await scene.delete("finch")


async def addresses_of_her_machines(scene: Scene) -> None:
    """His pools have addresses of hers, and his machines would be on her devices."""
    trees, hers = scene.trees("finch"), scene.trees("finch", KINDS.index(scene.kind))
    pools = [(item, other) for item, other in zip(trees, hers, strict=True) if item["kind"] == "SnowIPPool"]
    for pool, other in pools:
        pool["spec"] = other["spec"]
    if pools:
        assert not await scene.is_refused(trees)
        reason, message = await scene.told("finch")
        assert reason == "MachineAddressesTaken"
        assert ALICE not in message
        assert scene.made() == []
        await scene.delete("finch")


async def objects_of_others(scene: Scene) -> None:
    """Under each name that he needs there is an object already, which nobody made for him: none is taken."""
    left: list[tuple[Any, Key, Tree]] = []
    for resource in written(PROVIDERS):
        namespace = SYSTEM_NAMESPACE if resource.namespaced else ""
        for element in (await scene.env.client.list(resource, namespace)).items:
            if owner_of(element.metadata.labels) == scene.hers:
                name = element.name.replace(scene.hers.name, "finch")
                body = {"metadata": {"name": name, **({"namespace": namespace} if namespace else {})}}
                body |= {field: element.tree[field] for field in ("spec", "data") if field in element.tree}
                text = json.dumps(body).replace(scene.hers.name, "magpie")
                made = await scene.env.client.create(resource, json.loads(text))
                left.append((resource, Key(namespace, name), made.tree))
    assert left
    await apply(scene.bob, scene.trees("finch"))
    assert (await scene.told("finch"))[0] == "ClusterNameTaken"
    assert [item for item in scene.made() if "eksa-system" in item] == []
    await scene.delete("finch")
    for resource, key, tree in left:
        result = (await scene.env.client.get(resource, key.name, key.namespace)).tree
        assert (result["metadata"]["uid"], result.get("spec")) == (tree["metadata"]["uid"], tree.get("spec"))
        await scene.env.client.delete(resource, key.name, key.namespace)


ATTEMPTS: tuple[Attempt, ...] = (
    her_manifest,
    names_that_collide,
    beside_her_etcd,
    her_linked_objects,
    credentials_for_her_alone,
    her_address,
    addresses_of_her_machines,
    objects_of_others,
)


async def tell(scene: Scene, *attempts: Attempt) -> None:
    before = everything_of(scene.env)
    assert len(before) > 15
    for attempt in attempts:
        await attempt(scene)
        await scene.forget()
        await asyncio.sleep(CALM)
        after = everything_of(scene.env)
        for name in before.keys() | after.keys():
            assert after.get(name) == before.get(name), f"{attempt.__name__}: {name} is another"


def on_her_cluster(kind: str, story: Callable[[ManagedEnvironment, Client], Awaitable[None]]) -> None:
    async def main(simulation: Simulation) -> None:
        store, stores = settled(kind).opened()
        clock = simulation.clock
        async with managed_environment(clock, seed=2, store=store, stores=stores, copies_to=(ALICE, BOB)) as env:

            def connect(user: str, group: str) -> Client:
                return Client(InProcessTransport(env.server, User(user, (group, "system:authenticated"))))

            _, bob = await tenants(env, connect)
            await story(env, bob.env.client)

    run(main, epoch=settled(kind).at, seed=1)


@pytest.mark.parametrize("kind", sampled(KINDS, 1))
def test_tenant_harms_no_cluster_of_another(kind: str) -> None:
    async def story(env: ManagedEnvironment, bob: Client) -> None:
        scene = Scene(env, bob, kind)
        await tell(scene, *ATTEMPTS)
        await without_admission(env.client)
        await tell(scene, her_manifest, names_that_collide, her_address, addresses_of_her_machines)
        result = (await env.client.get(Cluster.resource, scene.hers.name, ALICE)).tree["spec"]
        result["workerNodeGroupConfigurations"][0]["count"] = 2
        await env.change(scene.hers, workerNodeGroupConfigurations=result["workerNodeGroupConfigurations"])
        await env.until_ready(scene.hers)

    on_her_cluster(kind, story)
