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
from espalier.api.eksa.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.apiserver.store import MemoryStore
from espalier.clusterapi import names
from espalier.kube.client import PatchType
from espalier.kube.errors import NotFound
from espalier.runtime import virtual
from espalier.runtime.virtual import Simulation
from espalier.simulator.stores import MemoryStores
from tests.journeys.laptop import EPOCH
from tests.journeys.managed import ManagedLaptop, managed_laptop
from tests.support.recording import Kept
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded

CALM = 60.0
REASON = "ClusterCertificatesMissing"
PURPOSES = ("ca", "sa", "proxy", "etcd")


@cache
def garden() -> Kept:
    """A cluster that is ready."""

    async def main(simulation: Simulation) -> Kept:
        store, stores = MemoryStore(), MemoryStores()
        async with managed_laptop(simulation.clock, store=store, stores=stores) as world:
            await world.apply()
            await world.until_ready()
            return Kept.of(store, stores, simulation.clock)

    return virtual.run(main, epoch=EPOCH, seed=1)


def story(*acts: Callable[[ManagedLaptop], Awaitable[None]]) -> None:
    """Each act in a process of its own, which goes on with what the one before left."""

    async def main(simulation: Simulation) -> None:
        store, stores = garden().opened()
        for seed, act in enumerate(acts, start=2):
            async with managed_laptop(simulation.clock, seed=seed, store=store, stores=stores) as world:
                await act(world)

    virtual.run(main, epoch=garden().at, seed=1)


async def secrets(world: ManagedLaptop) -> dict[str, Tree]:
    """Those that there are, by what they are for."""
    found = {}
    for purpose in PURPOSES:
        try:
            found[purpose] = (await world.client.get(SECRET, f"garden-{purpose}", SYSTEM_NAMESPACE)).tree
        except NotFound:
            continue
    return found


async def delete(world: ManagedLaptop, purposes: Sequence[str]) -> None:
    for purpose in purposes:
        await world.client.delete(SECRET, f"garden-{purpose}", SYSTEM_NAMESPACE)


async def restore(world: ManagedLaptop, trees: Sequence[Tree], labels: Tree | None) -> None:
    """As a backup has them."""
    for tree in trees:
        kept = {name: tree["metadata"][name] for name in ("name", "namespace")} | ({"labels": labels} if labels else {})
        await world.client.create(SECRET, {**tree, "metadata": kept})


def reason(cluster: Cluster) -> str:
    found = conditions.get(cluster.status.conditions, "Ready")
    return found.reason if found else ""


async def said_of(world: ManagedLaptop) -> Tree:
    """What the control plane says of its certificates."""
    found = await world.client.get(KubeadmControlPlane.resource, "garden", SYSTEM_NAMESPACE)
    tree: Tree = next(one for one in found.tree["status"]["conditions"] if one["type"] == "CertificatesAvailable")
    return tree


@pytest.mark.parametrize("labels", sampled([{names.CLUSTER: "garden"}, None], 0), ids=["labels", "no labels"])
@pytest.mark.parametrize("gone", sampled([["ca"], ["etcd"], ["proxy"], ["sa"], [*PURPOSES]], 0, 1, 4), ids="-".join)
def test_what_is_gone_is_named_and_not_made_anew_and_all_is_well_once_it_is_back(
    gone: list[str], labels: Tree | None
) -> None:
    before: dict[str, Tree] = {}

    async def lost(world: ManagedLaptop) -> None:
        await world.until_ready()
        before.update(await secrets(world))
        assert [*before] == [*PURPOSES]
        await delete(world, gone)
        cluster = await world.until(lambda one: reason(one) == REASON)
        message = cluster.status.failure_message or ""
        assert cluster.status.failure_reason == REASON
        assert [purpose for purpose in PURPOSES if f"eksa-system/garden-{purpose}" in message] == gone
        assert "from a backup" in message
        assert (await said_of(world))["status"] == "False"
        await asyncio.sleep(CALM)
        assert await secrets(world) == {name: tree for name, tree in before.items() if name not in gone}

    async def still_lost(world: ManagedLaptop) -> None:
        await asyncio.sleep(CALM)
        assert set(await secrets(world)) == set(PURPOSES) - set(gone)
        cluster = await world.until(lambda one: not one.status.ready)
        assert reason(cluster) == ("ControlPlaneBroken" if "ca" in gone else REASON)
        assert f"Secret{'s' if len(gone) > 1 and 'ca' not in gone else ''} eksa-system/garden-{gone[0]}" in (
            cluster.status.failure_message or ""
        )
        await restore(world, [before[purpose] for purpose in gone], labels)
        await world.until_ready()

    async def back(world: ManagedLaptop) -> None:
        await world.until_ready()
        assert len((await (await world.workload()).list(NODE)).items) == 3
        for purpose, tree in (await secrets(world)).items():
            assert tree["data"] == before[purpose]["data"]
            assert [owner["kind"] for owner in tree["metadata"]["ownerReferences"]] == ["KubeadmControlPlane"]
        told = (await said_of(world)).get("message", "")
        assert [purpose for purpose in PURPOSES if f"garden-{purpose}" in told] == ([] if labels else gone)
        assert bool(told) == (labels is None)

    story(lost, still_lost, back)


def test_no_machine_joins_while_the_authority_is_gone() -> None:
    before: dict[str, Tree] = {}

    async def grows(world: ManagedLaptop) -> None:
        await world.until_ready()
        before.update(await secrets(world))
        await delete(world, ["ca"])
        await world.until(lambda one: reason(one) == REASON)
        groups = [{"name": "md-0", "count": 3}]
        await world.change(controlPlaneConfiguration={"count": 3}, workerNodeGroupConfigurations=groups)
        await asyncio.sleep(CALM)
        workload = world.workloads.reach(Key(SYSTEM_NAMESPACE, "garden"))
        assert workload is not None
        assert len((await workload.client.list(NODE)).items) == 3
        await restore(world, [before["ca"]], {names.CLUSTER: "garden"})
        await world.until_ready()
        assert len((await workload.client.list(NODE)).items) == 6

    story(grows)


def test_a_label_and_an_owner_that_are_lost_do_no_harm_and_the_label_is_named() -> None:
    async def stripped(world: ManagedLaptop) -> None:
        await world.until_ready()
        bare = {"metadata": {"labels": None, "ownerReferences": None}}
        for purpose in PURPOSES:
            await world.client.patch(SECRET, f"garden-{purpose}", SYSTEM_NAMESPACE, patch=bare, type=PatchType.MERGE)
        await asyncio.sleep(CALM)

    async def goes_on(world: ManagedLaptop) -> None:
        await world.until_ready()
        told = await said_of(world)
        assert told["status"] == "True"
        assert all(f"garden-{purpose}" in told["message"] for purpose in PURPOSES)
        await world.client.delete(Cluster.resource, "garden", "default")
        await world.until_gone()
        await asyncio.sleep(CALM)
        assert await secrets(world) == {}

    story(stripped, goes_on)
