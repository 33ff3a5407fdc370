"""Secrets with the authorities and keys of a cluster are deleted, or lose what ties them to it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import cache

import pytest

from espalier.api import conditions
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.core import NODE, SECRET
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.apiserver.storage.store import MemoryStore
from espalier.clusterapi import names
from espalier.kube.client import PatchType
from espalier.kube.errors import NotFound
from espalier.runtime import virtual
from espalier.runtime.virtual import Simulation
from espalier.simulator.workload_clusters.stores import MemoryStores
from tests.support.environments.managed_environment import ManagedEnvironment, managed_environment
from tests.support.environments.recording import EnvironmentState
from tests.support.environments.simulated_environment import EPOCH
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded

CALM = 60.0
REASON = "ClusterCertificatesMissing"
PURPOSES = ("ca", "sa", "proxy", "etcd")


@cache
def garden() -> EnvironmentState:
    """A cluster that is ready."""

    async def main(simulation: Simulation) -> EnvironmentState:
        store, stores = MemoryStore(), MemoryStores()
        async with managed_environment(simulation.clock, store=store, stores=stores) as env:
            await env.apply()
            await env.until_ready()
            return EnvironmentState.of(store, stores, simulation.clock)

    return virtual.run(main, epoch=EPOCH, seed=1)


def story(*acts: Callable[[ManagedEnvironment], Awaitable[None]]) -> None:
    """Each act in a process of its own, which goes on with what the one before left."""

    async def main(simulation: Simulation) -> None:
        store, stores = garden().opened()
        for seed, act in enumerate(acts, start=2):
            async with managed_environment(simulation.clock, seed=seed, store=store, stores=stores) as env:
                await act(env)

    virtual.run(main, epoch=garden().at, seed=1)


async def secrets(env: ManagedEnvironment) -> dict[str, Tree]:
    """Those that there are, by what they are for."""
    results = {}
    for purpose in PURPOSES:
        try:
            results[purpose] = (await env.client.get(SECRET, f"garden-{purpose}", SYSTEM_NAMESPACE)).tree
        except NotFound:
            continue
    return results


async def delete(env: ManagedEnvironment, purposes: Sequence[str]) -> None:
    for purpose in purposes:
        await env.client.delete(SECRET, f"garden-{purpose}", SYSTEM_NAMESPACE)


async def restore(env: ManagedEnvironment, trees: Sequence[Tree], labels: Tree | None) -> None:
    """As a backup has them."""
    for tree in trees:
        metadata = {name: tree["metadata"][name] for name in ("name", "namespace")} | (
            {"labels": labels} if labels else {}
        )
        await env.client.create(SECRET, {**tree, "metadata": metadata})


def reason(cluster: Cluster) -> str:
    value = conditions.get(cluster.status.conditions, "Ready")
    return value.reason if value else ""


async def said_of(env: ManagedEnvironment) -> Tree:
    """The control plane's condition about its certificates."""
    kubeadm_control_plane = await env.client.get(KubeadmControlPlane.resource, "garden", SYSTEM_NAMESPACE)
    tree: Tree = next(
        condition
        for condition in kubeadm_control_plane.tree["status"]["conditions"]
        if condition["type"] == "CertificatesAvailable"
    )
    return tree


@pytest.mark.soak
@pytest.mark.parametrize("labels", sampled([{names.CLUSTER: "garden"}, None], 0), ids=["labels", "no labels"])
@pytest.mark.parametrize("gone", sampled([["ca"], ["etcd"], ["proxy"], ["sa"], [*PURPOSES]], 4), ids="-".join)
def test_lost_certificate_is_named_until_restored(gone: list[str], labels: Tree | None) -> None:
    before: dict[str, Tree] = {}

    async def lost(env: ManagedEnvironment) -> None:
        await env.until_ready()
        before.update(await secrets(env))
        assert [*before] == [*PURPOSES]
        await delete(env, gone)
        cluster = await env.until(lambda item: reason(item) == REASON)
        message = cluster.status.failure_message or ""
        assert cluster.status.failure_reason == REASON
        assert [purpose for purpose in PURPOSES if f"eksa-system/garden-{purpose}" in message] == gone
        assert "from a backup" in message
        assert (await said_of(env))["status"] == "False"
        await asyncio.sleep(CALM)
        assert await secrets(env) == {name: tree for name, tree in before.items() if name not in gone}

    async def still_lost(env: ManagedEnvironment) -> None:
        await asyncio.sleep(CALM)
        assert set(await secrets(env)) == set(PURPOSES) - set(gone)
        cluster = await env.until(lambda item: not item.status.ready)
        assert reason(cluster) == ("ControlPlaneBroken" if "ca" in gone else REASON)
        assert f"Secret{'s' if len(gone) > 1 and 'ca' not in gone else ''} eksa-system/garden-{gone[0]}" in (
            cluster.status.failure_message or ""
        )
        await restore(env, [before[purpose] for purpose in gone], labels)
        await env.until_ready()

    async def back(env: ManagedEnvironment) -> None:
        await env.until_ready()
        assert len((await (await env.workload()).list(NODE)).items) == 3
        for purpose, tree in (await secrets(env)).items():
            assert tree["data"] == before[purpose]["data"]
            assert [owner["kind"] for owner in tree["metadata"]["ownerReferences"]] == ["KubeadmControlPlane"]
        told = (await said_of(env)).get("message", "")
        assert [purpose for purpose in PURPOSES if f"garden-{purpose}" in told] == ([] if labels else gone)
        assert bool(told) == (labels is None)

    story(lost, still_lost, back)


def test_no_machine_joins_while_the_authority_is_gone() -> None:
    before: dict[str, Tree] = {}

    async def grows(env: ManagedEnvironment) -> None:
        await env.until_ready()
        before.update(await secrets(env))
        await delete(env, ["ca"])
        await env.until(lambda item: reason(item) == REASON)
        groups = [{"name": "md-0", "count": 3}]
        await env.change(controlPlaneConfiguration={"count": 3}, workerNodeGroupConfigurations=groups)
        await asyncio.sleep(CALM)
        workload = env.workloads.reach(Key(SYSTEM_NAMESPACE, "garden"))
        assert workload is not None
        assert len((await workload.client.list(NODE)).items) == 3
        await restore(env, [before["ca"]], {names.CLUSTER: "garden"})
        await env.until_ready()
        assert len((await workload.client.list(NODE)).items) == 6

    story(grows)


@pytest.mark.soak
def test_lost_label_and_owner_do_no_harm() -> None:
    async def stripped(env: ManagedEnvironment) -> None:
        await env.until_ready()
        bare = {"metadata": {"labels": None, "ownerReferences": None}}
        for purpose in PURPOSES:
            await env.client.patch(SECRET, f"garden-{purpose}", SYSTEM_NAMESPACE, patch=bare, type=PatchType.MERGE)
        await asyncio.sleep(CALM)

    async def goes_on(env: ManagedEnvironment) -> None:
        await env.until_ready()
        told = await said_of(env)
        assert told["status"] == "True"
        assert all(f"garden-{purpose}" in told["message"] for purpose in PURPOSES)
        await env.client.delete(Cluster.resource, "garden", "default")
        await env.until_gone()
        await asyncio.sleep(CALM)
        assert await secrets(env) == {}

    story(stripped, goes_on)
