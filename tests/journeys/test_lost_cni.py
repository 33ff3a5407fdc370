"""The CNI goes missing in a workload cluster, or can't be installed there: it is said, and there is a way on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from espalier.api.capi import cluster as capi
from espalier.api.capi.machine import Machine, MachineHealthCheck
from espalier.api.core import CLUSTER_ROLE, DAEMON_SET
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.meta import Condition
from espalier.clusterapi.contract import PAUSED_ANNOTATION
from espalier.clusters import Isolation
from espalier.clusters.design import names
from espalier.clusters.design.drift import rate_limit
from espalier.kube.client import PatchType
from espalier.kube.errors import Forbidden, NotFound
from espalier.kube.transports.wire import Request, Response, Transport
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.lost_cni import RESYNC, lose_cni, made_since
from tests.support.environments.managed_environment import GARDEN, ManagedEnvironment, managed_environment
from tests.support.sampling import sampled
from tests.support.servers.faults import Interceptor, is_of_workload, refusal

pytestmark = pytest.mark.embedded

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
SOON = 240.0
"""Simulated seconds in which a change of the example is done when nothing is in its way."""


def story(tell: Callable[[ManagedEnvironment], Awaitable[None]], *, isolation: Isolation = Isolation.LAYERS) -> None:
    """Tell it of a steady garden."""

    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock, isolation=isolation, resync=RESYNC) as env:
            await env.apply(kubernetesVersion="1.35")
            await env.until_ready()
            await tell(env)

    run(main, epoch=EPOCH, seed=1)


def of_cni(cluster: Cluster) -> Condition:
    return next(condition for condition in cluster.status.conditions if condition.type == names.DEFAULT_CNI_CONFIGURED)


async def has_cni(env: ManagedEnvironment) -> bool:
    workload = await env.workload()
    try:
        await workload.get(CLUSTER_ROLE, "kindnet")
        return bool(await workload.get(DAEMON_SET, "kindnet", "kube-system"))
    except NotFound:
        return False


async def ready_again(env: ManagedEnvironment, seconds: float = SOON) -> Cluster:
    present = await env.client.get(Cluster.resource, GARDEN.name, GARDEN.namespace)
    generation = present.metadata.generation
    return await env.until(
        lambda item: bool(item.status.ready) and item.status.observed_generation >= generation, seconds=seconds
    )


@pytest.mark.demand("I17", L18="the CNI in the workload cluster at each change")
@pytest.mark.soak
@pytest.mark.parametrize("isolation", sampled(Isolation, 0))
@pytest.mark.parametrize(
    "change",
    [
        {"workerNodeGroupConfigurations": [{"name": "md-0", "count": 3}]},
        {"kubernetesVersion": "1.36"},
        {"machineHealthCheck": {"unhealthyMachineTimeout": "6m0s"}},
        {"eksaVersion": None},
    ],
    ids=["scaled", "upgraded", "changed-otherwise", "mid-change"],
)
def test_lost_cni_returns_after_any_change(change: dict[str, Any], isolation: Isolation) -> None:
    async def tell(env: ManagedEnvironment) -> None:
        if change != {"eksaVersion": None}:
            await lose_cni(env)
            await env.change(**change)
        else:  # lost when the change is under way, and new nodes wait for it
            await env.change(workerNodeGroupConfigurations=[{"name": "md-0", "count": 3}])
            await env.until(lambda item: item.status.phase == "Upgrading")
            await lose_cni(env)
        await ready_again(env)
        assert await has_cni(env)
        assert len(await env.nodes()) >= 3

    story(tell, isolation=isolation)


@pytest.mark.soak
def test_lost_cni_returns_to_clusters_of_eks_anywhere() -> None:
    """It wrote no mark of what it installed."""

    async def tell(env: ManagedEnvironment) -> None:
        unmarked = {"metadata": {"annotations": {metadata_keys.CNI_ANNOTATION: None}}}
        theirs = (capi.Cluster.resource, GARDEN.name, SYSTEM_NAMESPACE)
        await env.client.patch(*theirs, patch=unmarked, type=PatchType.MERGE)
        await lose_cni(env)
        await env.change(kubernetesVersion="1.36")
        await ready_again(env)
        assert await has_cni(env)

    story(tell)


@pytest.mark.demand(L34="a CNI that was lost")
def test_settled_cluster_names_its_lost_cni() -> None:
    async def tell(env: ManagedEnvironment) -> None:
        await lose_cni(env)
        cluster = await env.until(lambda item: of_cni(item).status == "False", seconds=1.3 * RESYNC)
        assert of_cni(cluster).reason == Reason.DEFAULT_CNI_MISSING
        assert "DaemonSet kube-system/kindnet" in of_cni(cluster).message
        assert f"{metadata_keys.DRIFT_ANNOTATION}=correct" in of_cni(cluster).message
        assert (cluster.status.ready, cluster.status.failure_reason) == (False, Reason.DEFAULT_CNI_MISSING)
        await asyncio.sleep(2 * RESYNC)
        assert not await has_cni(env), "nobody asked for anything"
        wish = {"metadata": {"annotations": {metadata_keys.DRIFT_ANNOTATION: "correct"}}}
        await env.client.patch(Cluster.resource, GARDEN.name, GARDEN.namespace, patch=wish, type=PatchType.MERGE)
        cluster = await env.until(lambda item: bool(item.status.ready), seconds=rate_limit.SECONDS)
        assert await has_cni(env)
        assert (of_cni(cluster).status, cluster.status.failure_reason) == ("True", None)

    story(tell)


class Refusing(Interceptor):
    """Workload clusters whose API servers refuse to have DaemonSets written."""

    def __init__(self) -> None:
        self.refuses = True

    def concerns(self, transport: Transport) -> bool:
        return is_of_workload(transport)

    async def request(self, transport: Transport, request: Request) -> Response:
        if self.refuses and request.method == "PATCH" and "/daemonsets/" in request.path:
            return refusal(Forbidden.of('admission webhook "policy.example" denied the request'))
        return await transport.request(request)


class Mirroring(Interceptor):
    """Workload clusters in which a webhook has every image of the CNI come from a mirror."""

    def __init__(self) -> None:
        self.writes = 0

    def concerns(self, transport: Transport) -> bool:
        return is_of_workload(transport)

    async def request(self, transport: Transport, request: Request) -> Response:
        if request.method == "PATCH" and "/daemonsets/" in request.path:
            self.writes += 1
            body = request.body.replace(b"public.ecr.aws", b"mirror.example")
            assert body != request.body
            request = msgspec.structs.replace(request, body=body)
        return await transport.request(request)


@pytest.mark.soak
def test_webhook_on_our_cni_holds_up_nothing() -> None:
    async def main(simulation: Simulation) -> None:
        mirroring = Mirroring()
        async with managed_environment(simulation.clock, wrap=mirroring, resync=RESYNC) as env:
            await env.apply(kubernetesVersion="1.35")
            await env.until_ready()
            before = mirroring.writes
            await env.change(kubernetesVersion="1.36")
            await ready_again(env)
            assert mirroring.writes - before < 12
            before = mirroring.writes
            await asyncio.sleep(4 * RESYNC)
            assert mirroring.writes == before
            cluster = await env.until(lambda item: bool(item.status.ready))
            synced = next(condition for condition in cluster.status.conditions if condition.type == names.SYNCED)
            assert "DaemonSet kube-system/kindnet of the workload cluster" in synced.message

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.soak
def test_impossible_cni_replaces_no_machine() -> None:
    """Without one no node is ever ready: health checks would replace machines for ever."""

    async def main(simulation: Simulation) -> None:
        refusing = Refusing()
        async with managed_environment(simulation.clock, wrap=refusing) as env:
            await env.apply(controlPlaneConfiguration={"count": 3})
            await asyncio.sleep(120)
            before = await env.machine_names(GARDEN.name)
            await asyncio.sleep(3600)
            assert await env.machine_names(GARDEN.name) == before
            cluster = await env.until(lambda item: True)
            ready = next(condition for condition in cluster.status.conditions if condition.type == "Ready")
            assert "policy.example" in ready.message
            refusing.refuses = False
            await env.until_ready()
            checks = await env.client.list(MachineHealthCheck.resource, SYSTEM_NAMESPACE)
            assert len(checks.items) == 2
            assert (await env.client.list(Machine.resource, SYSTEM_NAMESPACE)).items

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.soak
def test_unhealthy_control_planes_are_not_replaced() -> None:
    """A machine is lost while there is no CNI: whatever takes its place is unhealthy, too."""

    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock, resync=RESYNC) as env:
            await env.apply(controlPlaneConfiguration={"count": 3})
            await env.until_ready()
            await lose_cni(env)
            lost = sorted((await env.machine_names(GARDEN.name))[""])[0]
            made = made_since(env)
            await env.client.delete(Machine.resource, lost, SYSTEM_NAMESPACE)
            cluster = await env.until(
                lambda item: item.status.failure_reason == Reason.REMEDIATION_STOPPED, seconds=7200
            )
            message = cluster.status.failure_message or ""
            assert "MachineHealthCheck eksa-system/garden-kcp-unhealthy is paused" in message
            await asyncio.sleep(600)  # in which the last one comes that was decided upon
            so_far = set(made)
            assert 3 <= len(so_far) <= 5
            await asyncio.sleep(4 * 3600)
            assert made == so_far, "it has stopped"

            # Who thinks that it is mended lets it try again; it was not, so it stops once more.
            check = (MachineHealthCheck.resource, "garden-kcp-unhealthy", SYSTEM_NAMESPACE)
            again = {"metadata": {"annotations": {PAUSED_ANNOTATION: None}}}
            await env.client.patch(*check, patch=again, type=PatchType.MERGE)
            await asyncio.sleep(4 * 3600)
            assert 1 <= len(made - so_far) <= 4
            cluster = await env.until(lambda item: True)
            assert cluster.status.failure_reason == Reason.REMEDIATION_STOPPED

            # Mended: nobody has to think of the health check.
            wish = {"metadata": {"annotations": {metadata_keys.DRIFT_ANNOTATION: "correct"}}}
            await env.client.patch(Cluster.resource, GARDEN.name, GARDEN.namespace, patch=wish, type=PatchType.MERGE)
            cluster = await env.until(lambda item: bool(item.status.ready))
            assert cluster.status.failure_reason is None
            await asyncio.sleep(RESYNC)
            assert PAUSED_ANNOTATION not in (await env.client.get(*check)).metadata.annotations
            synced = next(condition for condition in cluster.status.conditions if condition.type == names.SYNCED)
            assert synced.status == "True"

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.soak
def test_failed_reinstallation_of_cni_is_reported() -> None:
    async def main(simulation: Simulation) -> None:
        refusing = Refusing()
        refusing.refuses = False
        async with managed_environment(simulation.clock, wrap=refusing) as env:
            await env.apply(kubernetesVersion="1.35")
            await env.until_ready()
            refusing.refuses = True
            await lose_cni(env)
            await env.change(kubernetesVersion="1.36")
            cluster = await env.until(
                lambda item: any("policy.example" in condition.message for condition in item.status.conditions),
                seconds=60,
            )
            assert of_cni(cluster).status == "False"
            refusing.refuses = False
            await env.until_ready()
            assert await has_cni(env)

    run(main, epoch=EPOCH, seed=1)
