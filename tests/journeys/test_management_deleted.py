"""Management clusters that are deleted by a bootstrap: created ones, and those whose creation did not end."""

from __future__ import annotations

import asyncio

import pytest

from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.gitops import FluxConfig
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.flux import KUSTOMIZATION
from espalier.api.flux import NAMESPACE as FLUX
from espalier.api.resource import Key
from espalier.cli.clusters.moves.move_judge import ClusterJudge
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import NotFound, Unreachable
from espalier.kube.transports.wire import Request, Response, Transport
from espalier.management import plan
from espalier.management import record as records
from espalier.management.creation import moved
from espalier.management.steps import Refused
from espalier.moving.condition import BY_MOVE
from espalier.moving.record import COPYING, HANDED_OVER, record_of
from espalier.providers.kinds import CLUSTER_API_KINDS
from espalier.providers.simulated import SIMULATED
from espalier.runtime.virtual import Simulation, run
from espalier.simulator.workload_clusters.stores import MemoryStores
from tests.support.environments.bootstraps import (
    MANAGEMENT,
    Bootstrap,
    applied,
    bootstrap,
    created,
    machines,
    manifest,
    put_under_git,
    until_step,
)
from tests.support.environments.cluster_lives import EPOCH
from tests.support.servers.dying import Dying
from tests.support.servers.faults import Interceptor

pytestmark = pytest.mark.embedded

STEPS = [item.name for item in plan.creation(MANAGEMENT, [], [], has_git_ops=False)]


async def is_gone(env: Bootstrap) -> None:
    """Neither the cluster nor its machines are left."""
    for kind in CLUSTER_API_KINDS:
        listed = await env.client().list(kind.resource, SYSTEM_NAMESPACE if kind.resource.namespaced else None)
        assert [item.name for item in listed.items] == []
    with pytest.raises(NotFound):
        await env.client().get(Cluster.resource, MANAGEMENT.name, MANAGEMENT.namespace)
    assert not env.hosts.workloads.has_data(Key(SYSTEM_NAMESPACE, MANAGEMENT.name))


def test_a_deleted_management_cluster_leaves_nothing() -> None:
    async def main(simulation: Simulation) -> None:
        async with machines(simulation.clock) as hosts:
            content = await created(hosts)
            async with bootstrap(hosts) as env:
                await env.delete(content)
                await is_gone(env)

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.parametrize("more", [0, 3])
def test_one_of_another_namespace_leaves_nothing(more: int) -> None:
    """Its bootstrap is new, and has no such namespace. With `more`, each command dies at a later write."""
    key = Key("team", MANAGEMENT.name)

    async def main(simulation: Simulation) -> None:
        async with machines(simulation.clock) as hosts:
            content = await created(hosts, key)
            async with bootstrap(hosts) as env:
                env.key = key
                for deaths in range(4 if more else 0):
                    env.wrap = Dying(4 + more * deaths)
                    with pytest.raises(Unreachable):
                        await env.delete(content)
                env.wrap = lambda transport: transport
                await env.delete(content)
                await is_gone(env)
                assert (await env.client().list(Cluster.resource, key.namespace)).items == []

    run(main, epoch=EPOCH, seed=1)


def test_a_refusal_that_stays_is_not_waited_for() -> None:
    """Nobody brings to the target, while the command waits, the namespace that it lacks."""

    async def main(simulation: Simulation) -> None:
        async with machines(simulation.clock) as hosts:
            cluster = hosts.workloads.connect(await created(hosts, Key("team", MANAGEMENT.name)))
            async with bootstrap(hosts) as env:
                began = asyncio.get_running_loop().time()
                judge = ClusterJudge(SIMULATED, moves_records=True)
                with pytest.raises(Refused, match="namespace team does not exist at the target"):
                    await moved(cluster, env.client(), Key("team", MANAGEMENT.name), judge, env.progress, BY_MOVE)
                assert asyncio.get_running_loop().time() - began < 1

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.parametrize(
    "step", [pytest.param(step, marks=[] if step == "move" else pytest.mark.soak) for step in STEPS]
)
@pytest.mark.parametrize("seconds", [0.3, pytest.param(0.05, marks=pytest.mark.soak)])
def test_a_half_created_cluster_leaves_nothing(step: str, seconds: float) -> None:
    async def main(simulation: Simulation) -> None:
        async with machines(simulation.clock, stores=MemoryStores()) as hosts, bootstrap(hosts) as env:
            await until_step(env.create, env, step, seconds)
            await asyncio.sleep(30)
            await env.delete()
            await is_gone(env)

    run(main, epoch=EPOCH, seed=1)


class DyingIn(Interceptor):
    """The command dies some writes after one that has these words."""

    def __init__(self, words: bytes, more: int) -> None:
        self.words, self.left, self.is_near = words, more, False

    async def request(self, transport: Transport, request: Request) -> Response:
        if self.left < 0:
            raise Unreachable("dead", sent=False)
        response = await transport.request(request)
        self.is_near |= self.words in (request.body or b"").replace(b"\\", b"")
        self.left -= self.is_near and request.method != "GET"
        if self.left < 0:
            raise Unreachable("died")
        return response


@pytest.mark.parametrize(
    ("state", "more"),
    [(COPYING, 3), (COPYING, 12), (HANDED_OVER, 0), pytest.param(HANDED_OVER, 4, marks=pytest.mark.soak)],
)
def test_a_half_moved_cluster_leaves_nothing(state: str, more: int) -> None:
    """Its creation died in the middle of the move; the deletion takes that back, or ends it first."""

    async def main(simulation: Simulation) -> None:
        async with machines(simulation.clock, stores=MemoryStores()) as hosts, bootstrap(hosts) as env:
            env.wrap = DyingIn(f'"state":"{state}"'.encode() if state == HANDED_OVER else b'"epoch":1', more)
            with pytest.raises(Unreachable):
                await env.create()
            begun = record_of(await env.client().get(Cluster.resource, MANAGEMENT.name, MANAGEMENT.namespace))
            assert begun is not None
            assert begun.state == state
            env.wrap = lambda transport: transport
            await env.delete()
            await is_gone(env)

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.parametrize("more", [37, pytest.param(3, marks=pytest.mark.soak)])
def test_a_deletion_killed_at_any_write_goes_on(more: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with machines(simulation.clock) as hosts:
            content = await created(hosts)
            async with bootstrap(hosts) as env:
                for deaths in range(400):
                    env.wrap = dying = Dying(1 + more * deaths)
                    try:
                        await env.delete(content)
                    except Unreachable:
                        assert dying.is_dead
                        await asyncio.sleep(1)
                    else:
                        break
                assert deaths > 2
                await is_gone(env)

    run(main, epoch=EPOCH, seed=1)


class HandingOver(Dying):
    """The command dies with the report of the hand-over."""

    async def request(self, transport: Transport, request: Request) -> Response:
        if b"ClusterHandedOver" in (request.body or b""):
            self.after = 1
        return await super().request(transport, request)


def test_a_handed_over_cluster_is_not_ready() -> None:
    """Where it was, whoever looks with its kubeconfig sees that it is being deleted."""

    async def main(simulation: Simulation) -> None:
        async with machines(simulation.clock) as hosts:
            content = await created(hosts)
            async with bootstrap(hosts) as env:
                env.wrap = HandingOver(10**6)
                with pytest.raises(Unreachable):
                    await env.delete(content)
                await asyncio.sleep(60)
                record = await env.connect(content).get(Cluster.resource, MANAGEMENT.name, MANAGEMENT.namespace)
                for type_ in ("Ready", "Moving"):
                    (element,) = [
                        condition for condition in record.decode(Cluster).status.conditions if condition.type == type_
                    ]
                    assert (element.status, element.reason) == (str(type_ == "Moving"), "ClusterHandedOver")
                    assert "if no `espalier delete cluster management` runs, give it again" in (element.message or "")
                env.wrap = lambda transport: transport
                await env.delete(content)
                await is_gone(env)

    run(main, epoch=EPOCH, seed=1)


def test_one_that_manages_others_is_not_deleted() -> None:
    async def main(simulation: Simulation) -> None:
        async with machines(simulation.clock) as hosts:
            content = await created(hosts)
            cluster = hosts.workloads.connect(content)
            await applied(cluster, manifest(Key("default", "garden"), managed_by=MANAGEMENT.name))
            async with bootstrap(hosts) as env:
                with pytest.raises(Refused, match="it manages default/garden; delete them first"):
                    await env.delete(content)
            assert (await cluster.get(Cluster.resource, "garden", "default")).decode(Cluster).status.ready

    run(main, epoch=EPOCH, seed=1)


async def name_configuration(client: Client, key: Key, name: str, *, exists: bool = True) -> None:
    """Have the record of a management cluster name a GitOps configuration."""
    if exists:
        spec = {"git": {"repositoryUrl": "ssh://git@git.example.com/fleet"}}
        metadata = {"name": name, "namespace": key.namespace}
        await client.apply(FluxConfig.resource, {"metadata": metadata, "spec": spec})
    patch = {"spec": {"gitOpsRef": {"kind": "FluxConfig", "name": name}}}
    await client.patch(Cluster.resource, key.name, key.namespace, patch=patch, type=PatchType.MERGE)


def test_a_bootstrap_with_another_git_ops_is_refused() -> None:
    """The record of the bootstrap stays as it is."""

    async def main(simulation: Simulation) -> None:
        async with machines(simulation.clock) as hosts:
            content = await created(hosts)
            cluster = hosts.workloads.connect(content)
            await name_configuration(cluster, MANAGEMENT, "fleet")
            await put_under_git(cluster)
            async with bootstrap(hosts) as env:
                managed = await records.managed(env.client())
                assert managed is not None
                await name_configuration(env.client(), managed[0], "other")
                with pytest.raises(Refused, match="gitOpsRef: found FluxConfig other; clusters of this bootstrap can"):
                    await env.delete(content)
                stays = await env.client().get(Cluster.resource, managed[0].name, managed[0].namespace)
                assert stays.tree["spec"]["gitOpsRef"]["name"] == "other"
            flux = await cluster.get(KUSTOMIZATION, "management", FLUX)
            assert not flux.tree["spec"]["suspend"], "nothing is done yet"

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.parametrize("has_flux", [True, False])
def test_a_refused_deletion_says_how_flux_goes_on(*, has_flux: bool) -> None:
    async def main(simulation: Simulation) -> None:
        async with machines(simulation.clock) as hosts:
            content = await created(hosts)
            cluster = hosts.workloads.connect(content)
            if has_flux:
                await put_under_git(cluster)
            await name_configuration(cluster, MANAGEMENT, "gone", exists=False)
            async with bootstrap(hosts) as env:
                with pytest.raises(Refused) as refused:
                    await env.delete(content)
            told = refused.value.problems[-1]
            assert ("is suspended (Kustomization flux-system/management): to keep" in told) is has_flux
            assert len(refused.value.problems) > has_flux
            if has_flux:
                assert (await cluster.get(KUSTOMIZATION, "management", FLUX)).tree["spec"]["suspend"]

    run(main, epoch=EPOCH, seed=1)
