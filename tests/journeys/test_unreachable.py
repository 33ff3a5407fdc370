"""API servers of workload clusters that take connections and never answer: whoever waits for them, others do not."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from espalier.api.core import CLUSTER_ROLE, CONFIG_MAP, CORE_EVENT
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.resource import Key
from espalier.clusters.design import names
from espalier.clusters.design.drift import gate
from espalier.kube.client import PatchType
from espalier.kube.errors import Unreachable
from espalier.kube.transports.wire import Request, Response, Transport
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.managed_environment import GARDEN, NAMESPACE, ManagedEnvironment, managed_environment
from tests.support.servers.faults import Interceptor, is_of_workload

pytestmark = pytest.mark.embedded

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
MANY = [Key(NAMESPACE, f"mute-{number:02}") for number in range(30)]
QUICK = {Key(NAMESPACE, f"quick-{number}"): later for number, later in enumerate((1.5, 20.0, 100.0))}
"""When they are made, in seconds after those that do not answer."""


class Mute(Interceptor):
    """True if workload clusters that are met now answer. Those met before stay as they were until it is over."""

    def __init__(self) -> None:
        self.spreads = True
        self.over = False
        self.last = ""
        """The object whose write is still answered before it begins, and all that comes before."""

    def concerns(self, transport: Transport) -> bool:
        return self.spreads and is_of_workload(transport)

    async def request(self, transport: Transport, request: Request) -> Response:
        if self.last:
            if request.method == "PATCH" and request.path.endswith(self.last):
                self.last = ""
        elif not self.over:
            await asyncio.sleep(request.timeout or 30)
            raise Unreachable(f"no answer within {request.timeout:g} seconds")
        return await transport.request(request)


async def seconds_to_ready(env: ManagedEnvironment, key: Key) -> float:
    loop = asyncio.get_running_loop()
    began = loop.time()
    await env.apply(name=key.name)
    await env.until_ready(key)
    return loop.time() - began


async def stored(env: ManagedEnvironment, key: Key) -> Cluster:
    return (await env.client.get(Cluster.resource, key.name, key.namespace)).decode(Cluster)


@pytest.mark.demand("L12")
@pytest.mark.soak
def test_new_cluster_is_not_slowed_by_silent_ones() -> None:
    """While they are tried for the first time, and after that."""

    async def main(simulation: Simulation) -> None:
        mute = Mute()
        async with managed_environment(simulation.clock, wrap=mute) as env:
            for key in MANY:
                await env.apply(name=key.name)
            began = asyncio.get_running_loop().time()
            for key, later in QUICK.items():
                mute.spreads = True
                await asyncio.sleep(began + later - asyncio.get_running_loop().time())
                mute.spreads = False
                assert await seconds_to_ready(env, key) < 5

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.soak
def test_silent_cluster_says_so_and_goes_on_later() -> None:
    async def main(simulation: Simulation) -> None:
        mute = Mute()
        async with managed_environment(simulation.clock, wrap=mute) as env:
            key = MANY[0]
            await env.apply(name=key.name)

            def says_why(cluster: Cluster) -> bool:
                return any(
                    condition.type == names.READY and condition.reason == Reason.WORKLOAD_CLUSTER_UNREACHABLE
                    for condition in cluster.status.conditions
                )

            cluster = await env.until(says_why, key, seconds=60)
            ready = next(condition for condition in cluster.status.conditions if condition.type == names.READY)
            assert ready.message == (
                "the CNI could not be installed in the workload cluster: no answer within 30 seconds"
            )
            written = env.written()
            await asyncio.sleep(600)
            assert env.written() == written, "told once, however often it is tried"
            cluster = await stored(env, key)
            assert says_why(cluster)
            assert gate.is_open(cluster.metadata.annotations[metadata_keys.GATE_ANNOTATION])
            mute.over = True
            await env.until_ready(key)
            cni = next(
                condition
                for condition in (await stored(env, key)).status.conditions
                if condition.type == names.DEFAULT_CNI_CONFIGURED
            )
            assert (cni.status, cni.reason) != ("False", Reason.DEFAULT_CNI_INSTALLATION_IN_PROGRESS)

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.soak
def test_cni_change_reverted_midway_leaves_nothing() -> None:
    """Nor is the gate closed while the objects of the change may still be written."""

    async def main(simulation: Simulation) -> None:
        mute = Mute()
        mute.over = True
        async with managed_environment(simulation.clock, wrap=mute) as env:
            await env.apply("docker-cilium.yaml", name=GARDEN.name)
            await env.until_ready()
            workload = await env.workload()

            async def policy() -> str:
                config_map = await workload.get(CONFIG_MAP, "cilium-config", "kube-system")
                return str(config_map.tree["data"]["enable-policy"])

            mute.over, mute.last = False, "cilium-config"
            await env.change(clusterNetwork={"cniConfig": {"cilium": {"policyEnforcementMode": "always"}}})
            await asyncio.sleep(5)
            assert await policy() == "always"
            await env.change(clusterNetwork={"cniConfig": {"cilium": {"policyEnforcementMode": None}}})
            await asyncio.sleep(5)
            assert gate.is_open((await stored(env, GARDEN)).metadata.annotations[metadata_keys.GATE_ANNOTATION])
            mute.over = True
            await env.until_ready()
            assert await policy() == "default"

    run(main, epoch=EPOCH, seed=1)


class Slow(Interceptor):
    """Workload clusters whose API servers take longer than any reconcile waits for them."""

    def concerns(self, transport: Transport) -> bool:
        return is_of_workload(transport)

    async def request(self, transport: Transport, request: Request) -> Response:
        await asyncio.sleep(1)
        return await transport.request(request)


def test_slow_cluster_is_installed_like_any_other() -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock, wrap=Slow()) as env:
            await env.apply()
            await env.until_ready()
            workload = await env.workload()
            await workload.delete(CLUSTER_ROLE, "kindnet")
            correct = {"metadata": {"annotations": {metadata_keys.DRIFT_ANNOTATION: "correct"}}}
            await env.client.patch(Cluster.resource, GARDEN.name, GARDEN.namespace, patch=correct, type=PatchType.MERGE)
            await asyncio.sleep(120)
            assert (await workload.get(CLUSTER_ROLE, "kindnet")).tree["rules"]
            synced = next(
                condition
                for condition in (await stored(env, GARDEN)).status.conditions
                if condition.type == names.SYNCED
            )
            assert synced.status == "True"
            events = (await env.client.list(CORE_EVENT, GARDEN.namespace)).items
            told = [event.tree["message"] for event in events if event.tree["reason"] == "DriftCorrected"]
            assert told == ["ClusterRole kindnet of the workload cluster is missing"]

    run(main, epoch=EPOCH, seed=1)
