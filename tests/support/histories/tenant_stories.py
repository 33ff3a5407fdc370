"""Two tenants of a management cluster, each with a Role on our kinds in his namespace alone, and what one tries.

Whatever bob does, nothing of alice's is changed, read, delayed or deleted. Told on the embedded and on a real API
server. What he tries is in `ATTEMPTS`: a function from two tenants and a source of choices to nothing, after which
`unharmed` looks at everything that is alice's. More of them belong here, whatever finding they come from.
"""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import yaml

from espalier.api.capi import cluster as capi_cluster
from espalier.api.capi.kubeadm import KubeadmConfigTemplate
from espalier.api.capi.machine import Machine
from espalier.api.core import (
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    ROLE,
    ROLE_BINDING,
    SECRET,
    VALIDATING_WEBHOOK_CONFIGURATION,
    Secret,
)
from espalier.api.core import NAMESPACE as NAMESPACES
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.upgrades import NodeUpgrade
from espalier.api.eksa.vocabulary.group import CLUSTER_NAME_LABEL, CLUSTER_NAMESPACE_LABEL, SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.kube.client import Client
from espalier.kube.errors import Forbidden, Invalid, NotFound
from espalier.providers.docker.kinds import DockerDatacenterConfig
from espalier.providers.kinds import CLUSTER_API_KINDS
from tests.support.environments.managed_clusters import EXAMPLES, AccountedClusters
from tests.support.histories.isolation_stories import without_admission

ALICE, BOB = "team-a", "team-b"
"""Namespaces; the groups of the same names are bound to them."""

ROLES = {role.kind: role for role in (CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING)}

CUTS = ("core-control-plane-md-0", "core-control-md-0")
"""Each dash of these cuts a cluster from its group: all cuts of one mean the same objects."""

As = Callable[[str, str], Client]
"""A client of a user, who is in a group."""


@dataclass(frozen=True)
class Tenant:
    """Somebody with rights in one namespace, on a management cluster."""

    namespace: str
    env: AccountedClusters
    """As this user."""
    admin: AccountedClusters

    def key(self, name: str) -> Key:
        return Key(self.namespace, name)

    async def cluster(self, name: str, group: str = "md-0", count: int = 1, **metadata: object) -> None:
        """Apply a Cluster and its datacenter, at a small size."""
        made = {"kind": "DockerDatacenterConfig", "metadata": {"name": name, "namespace": self.namespace}, "spec": {}}
        await self.env.client.apply(
            DockerDatacenterConfig.resource,
            {"apiVersion": DockerDatacenterConfig.resource.api_version, **made},
            field_manager="kubectl",
        )
        await self.env.client.apply(
            Cluster.resource, manifest(self.key(name), group, count, metadata), field_manager="kubectl"
        )

    async def delete(self, name: str) -> None:
        """Delete a Cluster, and wait until it is gone."""
        with suppress(NotFound):
            await self.env.client.delete(Cluster.resource, name, self.namespace)
        await self.admin.until_gone(self.key(name))


def manifest(key: Key, group: str = "md-0", count: int = 1, metadata: Tree | None = None) -> Tree:
    """A Cluster of one control plane machine and these workers."""
    return {
        "apiVersion": Cluster.resource.api_version,
        "kind": "Cluster",
        "metadata": {**(metadata or {}), **key._asdict()},
        "spec": {
            "kubernetesVersion": "1.35",
            "managementCluster": {"name": "laptop"},
            "controlPlaneConfiguration": {"count": 1},
            "datacenterRef": {"kind": "DockerDatacenterConfig", "name": key.name},
            "clusterNetwork": {
                "cniConfig": {"kindnetd": {}},
                "pods": {"cidrBlocks": ["192.168.0.0/16"]},
                "services": {"cidrBlocks": ["10.96.0.0/12"]},
            },
            "workerNodeGroupConfigurations": [{"name": group, "count": count}],
        },
    }


async def tenants(env: AccountedClusters, connect: As) -> tuple[Tenant, Tenant]:
    """Alice and bob, with the rights of `examples/roles.yaml`."""
    for namespace in (ALICE, BOB):
        await env.client.apply(NAMESPACES, {"metadata": {"name": namespace}})
        for tree in roles(namespace):
            await env.client.apply(ROLES[tree["kind"]], tree)
    alice, bob = (
        Tenant(namespace, replace(env, client=connect(user, namespace)), env)
        for user, namespace in (("alice", ALICE), ("bob", BOB))
    )
    return alice, bob


def roles(namespace: str) -> Iterator[Tree]:
    """The example, for a namespace."""
    yield from yaml.safe_load_all((EXAMPLES / "roles.yaml").read_text().replace("team-a", namespace))


async def everything_of(alice: Tenant) -> dict[str, object]:
    """All that is hers, as far as it is content."""
    client, result = alice.admin.client, dict[str, object]()
    mine = [item for kind in (Cluster, DockerDatacenterConfig) for item in await listed(client, kind.resource, ALICE)]
    names = {item["metadata"]["name"] for item in mine if item["kind"] == "Cluster"}
    made = [item for kind in CLUSTER_API_KINDS for item in await listed(client, kind.resource, SYSTEM_NAMESPACE)]
    mine += [item for item in made if of(item) in names]
    mine += await listed(client, SECRET, ALICE)
    mine += [item for item in await listed(client, SECRET, SYSTEM_NAMESPACE) if of(item) in names]
    for element in mine:
        metadata = element["metadata"]
        fields = ("uid", "labels", "ownerReferences", "deletionTimestamp")
        content = {name: element.get(name) for name in ("spec", "data", "type")}
        content |= {name: metadata.get(name) for name in fields}
        if element["kind"] == "Cluster" and metadata["namespace"] == ALICE:
            conditions = {(each["type"], each["status"]) for each in element["status"]["conditions"]}
            content["status"] = (sorted(conditions), element["status"]["phase"], element["status"].get("failureReason"))
        result[f"{element['apiVersion']} {element['kind']} {metadata['namespace']}/{metadata['name']}"] = content
    return result


def of(tree: Tree) -> str:
    """The cluster of Cluster API that an object is of."""
    labelled = str((tree["metadata"].get("labels") or {}).get("cluster.x-k8s.io/cluster-name", ""))
    return str((tree.get("spec") or {}).get("clusterName") or labelled)


async def listed(client: Client, resource: Resource, namespace: str) -> list[Tree]:
    return [item.tree for item in (await client.list(resource, namespace)).items]


async def unharmed(alice: Tenant, before: dict[str, object], what: str) -> None:
    """Nothing of hers is another, and nothing of her Secrets is in anybody else's namespace."""
    after = await everything_of(alice)
    for name in before.keys() | after.keys():
        assert after.get(name) == before.get(name), f"{what}: {name} is another"
    client = alice.admin.client
    hers = {bytes(text) for tree in (SECRET,) for text in await values(client, tree, ALICE)}
    others = {bytes(text) for text in await values(client, SECRET, BOB)}
    assert not hers & others, f"{what}: what a Secret of hers holds is in {BOB}"


async def values(client: Client, resource: Resource, namespace: str) -> list[bytes]:
    items = (await client.list(resource, namespace)).items
    return [text for item in items for text in item.decode(Secret).data.values()]


async def refused(attempt: Awaitable[object]) -> bool:
    """True if the API server did not do it."""
    try:
        await attempt
    except (Forbidden, Invalid, NotFound):
        return True
    return False


async def until_told(bob: Tenant, name: str, reason: str) -> str:
    """Wait until his Cluster says why nothing goes on; what it says."""
    cluster = await bob.admin.until(lambda value: value.status.failure_reason == reason, bob.key(name), seconds=60)
    return cluster.status.failure_message or ""


# What bob tries.

Attempt = Callable[[Tenant, Tenant, random.Random], Awaitable[None]]


def cuts(name: str) -> list[tuple[str, str]]:
    places = [place for place, character in enumerate(name) if character == "-"]
    return [(name[:place], name[place + 1 :]) for place in places]


async def names_that_collide(alice: Tenant, bob: Tenant, choices: random.Random) -> None:
    """Refused at admission; without it, reported by the controller before anything is written, and deleted again."""
    hers = {(value.name, group) for value, group in await her_groups(alice)}
    wished = [cut for name in CUTS for cut in cuts(name) if cut not in hers and cut[0] not in dict(hers)]
    collides = [cut for cut in wished if "-".join(cut) in {"-".join(her) for her in hers}]
    assert collides
    for name, group in choices.sample(collides, k=len(collides)):
        if await has_admission(bob):
            assert await refused(bob.cluster(name, group)), f"{name} with group {group} was accepted"
            continue
        drift = {"anywhere.eks.amazonaws.com/drift": "correct-machines"}
        await bob.cluster(name, group, choices.randint(1, 3), annotations=drift)
        assert "choose" in await until_told(bob, name, "ClusterNameTaken")
        for kind in CLUSTER_API_KINDS:
            for item in await listed(bob.admin.client, kind.resource, SYSTEM_NAMESPACE):
                assert item["metadata"].get("labels", {}).get(CLUSTER_NAMESPACE_LABEL) != BOB
        await bob.delete(name)


async def a_group_that_collides(alice: Tenant, bob: Tenant, choices: random.Random) -> None:
    """Added to a Cluster that is his, and there since before."""
    ((name, group),) = [cut for cut in cuts(CUTS[0]) if cut[0] == "core-control-plane"]
    harmless = {"name": "other", "count": 1}
    await bob.cluster(name, "other")
    await bob.admin.until_ready(bob.key(name))
    both = [harmless, {"name": group, "count": choices.randint(1, 3)}]
    refusal = await refused(bob.env.change(bob.key(name), workerNodeGroupConfigurations=both))
    assert refusal == await has_admission(bob)
    if not refusal:
        await until_told(bob, name, "ClusterNameTaken")
        await bob.env.change(bob.key(name), workerNodeGroupConfigurations=[harmless])
        await bob.admin.until_ready(bob.key(name))
    await bob.delete(name)


async def her_manifest(alice: Tenant, bob: Tenant, choices: random.Random) -> None:
    """Exported, with all its annotations, labels and owners, under her name and under another."""
    result = choices.choice(await listed(alice.admin.client, Cluster.resource, ALICE))
    for name in (result["metadata"]["name"], "copied"):
        tree = copy.deepcopy(result)
        metadata = {name: tree["metadata"].get(name) for name in ("annotations", "labels", "finalizers")}
        owner = {"apiVersion": tree["apiVersion"], "kind": "Cluster", "name": result["metadata"]["name"]}
        owners = [{**owner, "uid": result["metadata"]["uid"]}]
        labels = {CLUSTER_NAME_LABEL: result["metadata"]["name"], CLUSTER_NAMESPACE_LABEL: ALICE}
        tree["metadata"] = {**metadata, "labels": labels, "name": name, "namespace": BOB, "ownerReferences": owners}
        tree.pop("status", None)
        if not await refused(bob.env.client.create(Cluster.resource, tree)):
            await asyncio.sleep(bob.admin.calm / 10)
            await bob.delete(name)


async def her_references(alice: Tenant, bob: Tenant, choices: random.Random) -> None:
    """Her datacenter, her cluster as the one that manages, Bundles of her namespace."""
    hers = choices.choice(await listed(alice.admin.client, Cluster.resource, ALICE))["metadata"]["name"]
    for place, spec in enumerate(
        (
            {"datacenterRef": {"kind": "DockerDatacenterConfig", "name": hers}},
            {"managementCluster": {"name": hers}},
            {"bundlesRef": {"apiVersion": "anywhere.eks.amazonaws.com/v1alpha1", "name": "b", "namespace": ALICE}},
        )
    ):
        tree = manifest(bob.key(f"refers-{place}"))
        tree["spec"] |= spec
        if not await refused(bob.env.client.create(Cluster.resource, tree)):
            await asyncio.sleep(bob.admin.calm / 10)
            await bob.delete(f"refers-{place}")


async def left_over_secrets(alice: Tenant, bob: Tenant, choices: random.Random) -> None:
    """Keys in the system's namespace that somebody forgot: he is given none, and they make no cluster of his."""
    purpose = choices.choice(("kubeconfig", "ca", "sa", "etcd", "proxy"))
    labels = choices.choice(({}, {"cluster.x-k8s.io/cluster-name": "orphan"}))
    name = f"orphan-{purpose}"
    content = {"data": {"value": "b2YgYW4gb3JwaGFu", "tls.key": "b2YgYW4gb3JwaGFu"}}
    body = {"metadata": {"name": name, "namespace": SYSTEM_NAMESPACE, "labels": labels}, **content}
    await bob.admin.client.create(SECRET, body)
    await bob.cluster("orphan")
    assert name in await until_told(bob, "orphan", "ClusterNameTaken")
    assert not await listed(bob.admin.client, SECRET, BOB)
    await bob.delete("orphan")
    assert await bob.admin.client.delete(SECRET, name, SYSTEM_NAMESPACE) is None


async def left_over_objects(alice: Tenant, bob: Tenant, choices: random.Random) -> None:
    """An object of Cluster API under a name that he needs, of nobody, or labelled for him by hand and hers by owner."""
    hers = choices.choice(await listed(alice.admin.client, capi_cluster.Cluster.resource, SYSTEM_NAMESPACE))["metadata"]
    owner = {"apiVersion": capi_cluster.Cluster.resource.api_version, "kind": "Cluster", "name": hers["name"]}
    labelled = {"labels": {CLUSTER_NAME_LABEL: "annexed", CLUSTER_NAMESPACE_LABEL: BOB}}
    fields = choices.choice(({}, {**labelled, "ownerReferences": [{**owner, "uid": hers["uid"]}]}))
    metadata = {"name": "annexed-md-0-1", "namespace": SYSTEM_NAMESPACE, **fields}
    spec = {"template": {"spec": {"joinConfiguration": {"nodeRegistration": {"name": "as it was"}}}}}
    before = await bob.admin.client.create(KubeadmConfigTemplate.resource, {"metadata": metadata, "spec": spec})
    await bob.cluster("annexed")
    assert "annexed-md-0-1" in await until_told(bob, "annexed", "ClusterNameTaken")
    await bob.delete("annexed")
    after = await bob.admin.client.get(KubeadmConfigTemplate.resource, "annexed-md-0-1", SYSTEM_NAMESPACE)
    assert (after.metadata.uid, after.tree["spec"]) == (before.metadata.uid, before.tree["spec"])
    await bob.admin.client.delete(KubeadmConfigTemplate.resource, "annexed-md-0-1", SYSTEM_NAMESPACE)


async def her_machines_by_name(alice: Tenant, bob: Tenant, choices: random.Random) -> None:
    """Upgrades in his namespace that name machines of hers; who made them there could be an administrator."""
    machine = choices.choice(await listed(alice.admin.client, Machine.resource, SYSTEM_NAMESPACE))["metadata"]["name"]
    spec = {"machine": {"name": machine}, "kubernetesVersion": "v1.36.3-eks-1-36-1", "nodeType": "Worker"}
    body = {"metadata": {"name": f"{machine}-node-upgrader", "namespace": BOB}, "spec": spec}
    assert await refused(bob.env.client.create(NodeUpgrade.resource, body))
    try:
        await bob.admin.client.create(NodeUpgrade.resource, body)
    except Invalid:  # by our webhook, where that is served already
        return
    await asyncio.sleep(bob.admin.calm / 10)
    await bob.admin.client.delete(NodeUpgrade.resource, body["metadata"]["name"], BOB)  # type: ignore[index]


async def what_he_may_not(alice: Tenant, bob: Tenant, choices: random.Random) -> None:
    """Everything of hers, by his own rights."""
    hers = choices.choice(await listed(alice.admin.client, Cluster.resource, ALICE))["metadata"]["name"]
    client = bob.env.client
    for resource, name, namespace in (
        (Cluster.resource, hers, ALICE),
        (DockerDatacenterConfig.resource, hers, ALICE),
        (SECRET, f"{hers}-kubeconfig", ALICE),
        (SECRET, f"{hers}-kubeconfig", SYSTEM_NAMESPACE),
        (capi_cluster.Cluster.resource, hers, SYSTEM_NAMESPACE),
    ):
        assert await refused(client.get(resource, name, namespace))
        assert await refused(client.list(resource, namespace))
        assert await refused(client.delete(resource, name, namespace))


ATTEMPTS: tuple[Attempt, ...] = (
    names_that_collide,
    a_group_that_collides,
    her_manifest,
    her_references,
    left_over_secrets,
    left_over_objects,
    her_machines_by_name,
    what_he_may_not,
    # Records of management clusters and sharing of datacenters: what decides about them is written apart.
)


async def her_groups(alice: Tenant) -> list[tuple[Key, str]]:
    results = []
    for tree in await listed(alice.admin.client, Cluster.resource, ALICE):
        for group in tree["spec"]["workerNodeGroupConfigurations"]:
            results.append((Key(ALICE, tree["metadata"]["name"]), group["name"]))
    return results


async def has_admission(bob: Tenant) -> bool:
    return bool((await bob.admin.client.list(VALIDATING_WEBHOOK_CONFIGURATION)).items)


async def all_of_it(env: AccountedClusters, connect: As, seed: int) -> None:
    """Everything that bob tries, in an order that the seed chooses, with admission and without."""
    print(f"seed {seed}")  # of a run that fails
    choices = random.Random(seed)
    alice, bob = await tenants(env, connect)
    for name, place in zip(CUTS, choices.sample((0, 1), k=2), strict=True):
        await alice.cluster(*cuts(name)[place])
    hers = [key for key, _ in await her_groups(alice)]
    for key in hers:
        await env.until_ready(key)
    await asyncio.sleep(env.calm)
    before = await everything_of(alice)
    assert len(before) > 20
    for admission in (True, False):
        if not admission:
            await without_admission(env.client)
        for attempt in choices.sample(ATTEMPTS, k=len(ATTEMPTS)):
            await attempt(alice, bob, choices)
            await asyncio.sleep(env.calm / 10)
            await unharmed(alice, before, f"{attempt.__name__}, seed {seed}, {admission=}")
    for key, group in await her_groups(alice):  # nothing of it delays her
        await alice.env.change(key, workerNodeGroupConfigurations=[{"name": group, "count": 2}])
        await env.until_ready(key)
    for key in hers:
        await alice.delete(key.name)
    left = [item for kind in CLUSTER_API_KINDS for item in await listed(env.client, kind.resource, SYSTEM_NAMESPACE)]
    assert [item["metadata"]["name"] for item in left if of(item) in {key.name for key in hers}] == []
