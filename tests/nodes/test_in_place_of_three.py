"""Three control plane nodes and two workers are upgraded in place: by annotations, and by hooks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus

import pytest

from espalier.api.core import DEPLOYMENT
from espalier.api.eksa.upgrades import FrontEnd
from espalier.kube.client import Client
from espalier.kube.errors import KubeError
from espalier.kube.http import HttpTransport
from espalier.kube.kubeconfig import Kubeconfig
from espalier.kube.wire import Request
from tests.support import workload_use as use
from tests.support.kubectl import Kubectl
from tests.support.no_retry import NO_RETRY
from tests.support.node_manifests import CLUSTER, manifest
from tests.support.real_environment import RealEnvironment, Tree, real_environment, why_not

WHY_NOT = why_not("1.35.4", "1.36.3", watchers=256)

pytestmark = [pytest.mark.nodes, pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)]

OLD, NEW = "v1.35.4", "v1.36.3"
LONG = 1500
"""Seconds for five nodes, one after the other, on a machine that does other things too."""
FAILOVER = 10.0
"""Seconds within which the load balancer of the control plane goes on to another API server."""


@pytest.mark.parametrize("way", FrontEnd)
async def test_three_control_plane_nodes_and_two_workers_are_upgraded_in_place(
    tmp_path_factory: pytest.TempPathFactory, way: FrontEnd
) -> None:
    async with real_environment(tmp_path_factory.mktemp("three"), "--in-place", way) as env:
        await env.management("apply", "-f", "-", stdin=manifest(2, 3, in_place=True))
        await env.ready("garden")
        workload = await env.workload("garden")
        await use.has_nodes(workload, control_planes=3, workers=2, version=OLD)
        await use.carries_pods(workload)
        await use.answers_by_name_across_nodes(workload)
        before = await identities(env, workload)
        patient = env.management.with_kubeconfig(env.management.kubeconfig)
        patient.patience = LONG + 60
        async with watched(workload) as seen:
            await patient("patch", CLUSTER, "--type=merge", "-p", '{"spec": {"kubernetesVersion": "1.36"}}')
            has_it = "--for=jsonpath={.status.version}=v1.36.3-eks-1-36-1"
            await patient("wait", has_it, "kubeadmcontrolplane/garden", "-n", "eksa-system", f"--timeout={LONG}s")
            await patient("wait", "--for=condition=Ready", CLUSTER, f"--timeout={LONG}s")
        assert await identities(env, workload) == before
        await use.has_nodes(workload, control_planes=3, workers=2, version=NEW)
        await use.carries_pods(workload)
        assert await use.etcd_members(workload) == 3
        assert await env.management("get", "nu", "-A", "--no-headers") == ""
        print(f"the API was away for {seen.gap:.1f} s at most, pods available: {seen.fewest} at least")
        assert seen.gap < FAILOVER
        assert seen.fewest >= 1, "the budget of the pods holds"


async def identities(env: RealEnvironment, workload: Kubectl) -> Tree:
    """Which machines and nodes there are, since when they run, and their first processes."""
    machines = (await env.management.tree("machines.cluster.x-k8s.io", "-n", "eksa-system"))["items"]
    nodes = (await workload.tree("nodes"))["items"]
    return {
        "machines": {one["metadata"]["name"]: one["metadata"]["uid"] for one in machines},
        "nodes": {one["metadata"]["name"]: one["metadata"]["uid"] for one in nodes},
        "boots": {one["metadata"]["name"]: one["status"]["nodeInfo"]["bootID"] for one in nodes},
        "first processes": {one["name"]: one["pid"] for one in await env.nodes()},
    }


@dataclass
class Seen:
    """The observations of a client that asked five times a second."""

    gap: float = 0.0
    """Seconds without an answer of the API, at most."""
    fewest: int = 99
    """Pods of the Deployment that were available, at least."""
    answered: float = field(default_factory=time.monotonic)

    async def look(self, client: Client) -> None:
        """Ask once."""
        with suppress(KubeError, TimeoutError):
            async with asyncio.timeout(2):
                answer = await client.raw(Request("GET", "/readyz"))
                if answer.status == HTTPStatus.OK:
                    self.gap = max(self.gap, time.monotonic() - self.answered)
                    self.answered = time.monotonic()
                found = await client.get(DEPLOYMENT, "web", "default")
                self.fewest = min(self.fewest, found.tree["status"].get("availableReplicas", 0))


@asynccontextmanager
async def watched(workload: Kubectl) -> AsyncIterator[Seen]:
    """Somebody who asks the API server of a workload cluster at its endpoint, while the block runs."""
    seen = Seen()
    client = Client(HttpTransport(Kubeconfig.load([workload.kubeconfig]).context()), retry=NO_RETRY)

    async def look() -> None:
        while True:
            await seen.look(client)
            await asyncio.sleep(0.2)

    looking = asyncio.create_task(look())
    try:
        yield seen
    finally:
        looking.cancel()
        await asyncio.wait([looking])
        await client.close()
