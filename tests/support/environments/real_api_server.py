"""T1: a manager in this process against a real API server, with simulated machines and admission over TLS.

For stories that exchange the manager, or what it is made of, between two steps.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from espalier.api.eksa.cluster import Cluster
from espalier.api.kinds import KubeObject
from espalier.cli.programs import components
from espalier.cli.programs.manager_task import ManagerTask
from espalier.clusters import Isolation
from espalier.clusters.design.layers import LAYERS, Layer
from espalier.clusters.design.provider import Providers, infrastructures
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.errors import NotFound
from espalier.kube.transports.http import HttpTransport
from espalier.kube.transports.wire import Request, Response, Stream, Transport
from espalier.providers.docker.kinds import DockerDatacenterConfig
from espalier.providers.kinds import KINDS
from espalier.providers.simulated import SIMULATED
from espalier.releases import Releases
from espalier.runtime.caches.cache import Caches
from espalier.runtime.clock import SystemClock
from espalier.runtime.component import assemble
from espalier.runtime.manager import Manager
from espalier.runtime.servers.webhooks import Webhooks
from espalier.simulator import setup as simulator
from espalier.simulator.controller import Timing
from espalier.simulator.workload_clusters.stores import MemoryStores
from espalier.simulator.workload_clusters.workloads import Workloads
from tests.support.environments.control_plane import ControlPlane
from tests.support.environments.managed_clusters import NAMESPACE, AccountedClusters, Write
from tests.support.environments.managing import led_by, register_webhooks
from tests.support.environments.prepared_cluster import prepare
from tests.support.histories.isolation_stories import without_admission

HOST = "127.0.0.1"
CALM, RESYNC = 2.0, 0.3
"""Seconds: what is going to happen has happened then, also what a resync brings."""
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Accounting:
    """Counts the writes of a manager, but for Leases and events, and lets them pass."""

    def __init__(self, transport: Transport, written: Counter[Write]) -> None:
        self._transport = transport
        self._written = written

    async def request(self, request: Request) -> Response:
        response = await self._transport.request(request)
        if request.method != "GET" and response.status < 400:
            what = _what(request)
            if what[1] not in ("leases", "events"):
                self._written[what] += 1
        return response

    async def stream(self, request: Request) -> Stream | Response:
        return await self._transport.stream(request)

    async def close(self) -> None:
        await self._transport.close()


def _what(request: Request) -> Write:
    """Verb, plural and subresource of a write."""
    parts = urlsplit(request.path).path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if parts[0] == "namespaces" and len(parts) > 2:
        parts = parts[2:]
    plural, _, subresource = (*parts, "", "")[:3]
    return _VERBS[request.method], plural, subresource


@dataclass(kw_only=True)
class OnRealApiServer(AccountedClusters):
    """The environment while it runs."""

    managing: ManagerTask


@asynccontextmanager
async def managed_on(
    control_plane: ControlPlane,
    stores: MemoryStores,
    *,
    providers: Providers = SIMULATED,
    kinds: Sequence[type[KubeObject]] = (),
    defined: Sequence[type[KubeObject]] = KINDS,
    isolation: Isolation = Isolation.LAYERS,
    layers: Sequence[Layer] = LAYERS,
    resync: float = RESYNC,
    machines_of: Workloads | None = None,
) -> AsyncIterator[OnRealApiServer]:
    """A manager of these settings, and machines whose clusters are kept in `stores`, or those of another environment,
    which both reach (`machines_of`).

    `defined` are the kinds whose definitions are this build's, and `kinds` those of `providers` that are to be defined
    first. When its manager was stopped, nobody answers for admission, and nobody is asked.
    """
    clock, rng = SystemClock(), random.SystemRandom()
    written: Counter[Write] = Counter()

    def connected() -> HttpTransport:
        return HttpTransport(Kubeconfig.load([control_plane.kubeconfig]).context(), environment={})

    async with AsyncExitStack() as stack:
        user = Client(connected(), user_agent="journey")
        machines = Client(connected(), field_manager="espalier-laptop", user_agent="espalier-laptop")
        ours = Client(Accounting(connected(), written), field_manager="espalier", user_agent="espalier")
        for client in (user, machines, ours):
            stack.push_async_callback(client.close)
        releases = Releases.load()
        await prepare(user, releases, (*defined, *kinds))
        workloads = machines_of
        if workloads is None:
            workloads = Workloads(clock=clock, rng=rng, stores=stores, listen=False)
            stack.push_async_callback(workloads.close)
        manager = Manager(ours, clock=clock, rng=rng, connect=workloads.connect)
        webhooks = Webhooks(host=HOST, port=0)
        webhooks.use(control_plane.authority.issue_server("espalier", names=[HOST], now=clock.now()))
        made_of = components.of_manager(providers, isolation=isolation, layers=layers, resync=resync)
        assemble(manager, made_of, webhooks=webhooks)
        caches = Caches(machines, rng=rng)
        simulated = simulator.component(
            workloads, rng=rng, timing=Timing(boot=0.1), infrastructures=infrastructures(providers).all
        )
        assemble(manager, [simulated], client=machines, caches=caches)
        managing = await stack.enter_async_context(led_by(manager))
        stack.push_async_callback(without_admission, user)
        await register_webhooks(user, f"https://{HOST}:{webhooks.port}", control_plane.ca)
        yield OnRealApiServer(
            client=user,
            manager=manager,
            capi_objects=caches,
            workloads=workloads,
            clusters=manager.caches.of(Cluster.resource),
            providers=providers,
            written=lambda: Counter(written),
            calm=CALM,
            managing=managing,
        )


async def stop(env: OnRealApiServer) -> None:
    """Have the manager stop, and admission with it. The machines stop, too."""
    await without_admission(env.client)
    await env.managing.stop()


async def delete_all(env: AccountedClusters) -> None:
    """Delete every cluster of the users' namespace, and wait until it is gone."""
    for resource in (Cluster.resource, DockerDatacenterConfig.resource):
        for namespace in (await env.client.list(resource, NAMESPACE)).items:
            if namespace.name != "laptop":
                with suppress(NotFound):  # what a Cluster owns goes with it, sooner or later
                    await env.client.delete(resource, namespace.name, NAMESPACE)
                await env.until_gone(namespace.key)
