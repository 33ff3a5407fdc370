"""Real nodes before, while and after they are upgraded in place."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus

from espalier.api.core import DEPLOYMENT
from espalier.api.eksa.vocabulary.upgrade_keys import CORDONED_BY_UPGRADE
from espalier.clusterapi.contract import PAUSED_ANNOTATION, SKIP_REMEDIATION_ANNOTATION
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.errors import KubeError
from espalier.kube.transports.http import HttpTransport
from espalier.kube.transports.wire import Request
from tests.support.environments.real_environment import RealEnvironment, Tree
from tests.support.servers.kubectl import Kubectl
from tests.support.servers.no_retry import NO_RETRY

UNTOUCHED = ("web", "kindnet")
"""Beginnings of the names of pods that an upgrade does not concern."""
MARKED = "kubeadmcontrolplanes,machinedeployments,machinesets,machines.cluster.x-k8s.io,clusters.cluster.x-k8s.io"
LEFT = (PAUSED_ANNOTATION, SKIP_REMEDIATION_ANNOTATION, "in-place-upgrade-needed", "in-place-fallback")
"""How annotations end that an upgrade takes away again."""
LONG = 3600
"""Seconds for five nodes, one after the other, on a machine that does other things too."""


async def inside(env: RealEnvironment, node: str, *command: str) -> str:
    """The output of a command on a node."""
    code, out, complaint = await env.espalier("nodes", "shell", node, "--", *command)
    assert code == 0, complaint
    return out


async def seen(env: RealEnvironment, workload: Kubectl) -> Tree:
    """All that an upgrade in place leaves as it is."""
    machines = (await env.management.tree("machines.cluster.x-k8s.io", "-n", "eksa-system"))["items"]
    nodes = (await workload.tree("nodes"))["items"]
    pods = (await workload.tree("pods", "-A"))["items"]
    return {
        "machines": {machine["metadata"]["name"]: machine["metadata"]["uid"] for machine in machines},
        "nodes": {node["metadata"]["name"]: node["metadata"]["uid"] for node in nodes},
        "boots": {node["metadata"]["name"]: node["status"]["nodeInfo"]["bootID"] for node in nodes},
        "first processes": {node["name"]: node["pid"] for node in await env.nodes()},
        "containers": {
            pod["metadata"]["name"]: pod["status"]["containerStatuses"][0]["containerID"]
            for pod in pods
            if pod["metadata"]["name"].startswith(UNTOUCHED)
        },
    }


async def nothing_is_left(management: Kubectl, workload: Kubectl) -> None:
    """No upgrade, no pod or right of one, no cordon, and no mark on any object."""
    assert await management("get", "cpu,mdu,nu", "-A", "--no-headers") == ""
    ours = ("-A", "-l", "eks-d-upgrader", "-o", "name")
    assert await workload("get", "pods,serviceaccounts,clusterroles,clusterrolebindings", *ours) == ""
    for node in (await workload.tree("nodes"))["items"]:
        assert "unschedulable" not in node["spec"]
        assert CORDONED_BY_UPGRADE not in node["metadata"]["annotations"]
    for item in (await management.tree(MARKED, "-A"))["items"]:
        marks = item["metadata"].get("annotations", {})
        assert [mark for mark in marks if mark.endswith(LEFT)] == [], item["metadata"]["name"]
        assert not item["spec"].get("paused", False)


async def identities(env: RealEnvironment, workload: Kubectl) -> Tree:
    """Which machines and nodes there are, since when they run, and their first processes."""
    machines = (await env.management.tree("machines.cluster.x-k8s.io", "-n", "eksa-system"))["items"]
    nodes = (await workload.tree("nodes"))["items"]
    return {
        "machines": {machine["metadata"]["name"]: machine["metadata"]["uid"] for machine in machines},
        "nodes": {node["metadata"]["name"]: node["metadata"]["uid"] for node in nodes},
        "boots": {node["metadata"]["name"]: node["status"]["nodeInfo"]["bootID"] for node in nodes},
        "first processes": {node["name"]: node["pid"] for node in await env.nodes()},
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
                deployment = await client.get(DEPLOYMENT, "web", "default")
                self.fewest = min(self.fewest, deployment.tree["status"].get("availableReplicas", 0))


@asynccontextmanager
async def watched(workload: Kubectl) -> AsyncIterator[Seen]:
    """Somebody who asks the API server of a cluster at its endpoint, while the block runs."""
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
