"""The local environment: API server, controllers and simulated machines, wired together in one process."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from espalier.apiserver.access.webhook_calls import HttpWebhooks
from espalier.apiserver.access.webhooks import WebhookCall
from espalier.apiserver.http import AddressTaken, HttpShell
from espalier.apiserver.server import DEFAULT_VERSION, Server
from espalier.apiserver.storage.sqlite import NoSpace, SqliteStore, Unusable
from espalier.cli.install import manifests
from espalier.cli.kit.connecting.home import Home, naming
from espalier.cli.kit.failures import Failure
from espalier.cli.local.environment import authority as authorities
from espalier.cli.local.environment import flux
from espalier.cli.local.environment.hosts import Hosts
from espalier.cli.local.environment.management import (
    MANAGEMENT_CLUSTER_NAME,
    follow_newest,
    make_record,
    prepare_kinds,
    record_infrastructure,
)
from espalier.cli.local.environment.management_pods import machines as machines_component
from espalier.cli.local.images.upgrader_images import UpgraderImages
from espalier.cli.programs import components
from espalier.cli.programs.manager_task import ManagerTask
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.connection.pki import Authority
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.providers.kinds import SIMULATED_KINDS
from espalier.providers.simulated import SIMULATED
from espalier.releases import Releases
from espalier.runtime.clock import SystemClock
from espalier.runtime.component import assemble, kinds
from espalier.runtime.manager import Manager
from espalier.runtime.servers.webhooks import Webhooks
from espalier.simulator.controller import Timing
from espalier.simulator.flux import setup as stand_in
from espalier.simulator.pods.runtimes.process_runtime import ProcessRuntime
from espalier.simulator.workload_clusters.stores import FolderStores

HOST = "127.0.0.1"
NAMES = (HOST, "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


@dataclass
class SimulatedEnvironment:
    """A running local environment."""

    url: str
    kubernetes_versions: tuple[str, ...]
    managing: ManagerTask

    @classmethod
    @asynccontextmanager
    async def run(
        cls, home: Home, *, port: int, boot_seconds: float, releases: Releases, version: str = DEFAULT_VERSION
    ) -> AsyncIterator[SimulatedEnvironment]:
        """Start everything; ready when the block is entered, stopped in order when it is left.

        `port` 0 keeps the one the local environment had before, or takes a free one. `version` is the Kubernetes
        version that the API server reports, as `v1.36.3`. Raises `Failure` when it is taken,
        and `Broken` for files that can't be used.
        """
        home.create()
        home.require_database()
        async with (
            machines_of(home, boot_seconds, releases) as hosts,
            management_side(home, hosts, port=port, releases=releases, version=version) as (url, managing),
        ):
            yield cls(url, releases.newest().kubernetes_versions, managing)

    async def until_failed_or(self, stop: asyncio.Event) -> None:
        """Return when `stop` is set; raise the error if the manager fails first."""
        await self.managing.until_failed_or(stop)


def machines_of(home: Home, boot_seconds: float, releases: Releases) -> AbstractAsyncContextManager[Hosts]:
    """The machines whose data are in a folder."""
    clock = SystemClock()
    return Hosts.run(
        FolderStores(home.root),
        releases,
        clock=clock,
        rng=random.SystemRandom(),
        timing=Timing(boot=boot_seconds),
        runtimes=[ProcessRuntime(UpgraderImages(releases, home.simulated / "images"), home.simulated, clock)],
    )


@asynccontextmanager
async def management_side(
    home: Home,
    hosts: Hosts,
    *,
    port: int,
    releases: Releases,
    name: str = MANAGEMENT_CLUSTER_NAME,
    version: str = DEFAULT_VERSION,
) -> AsyncIterator[tuple[str, ManagerTask]]:
    """The API server and the manager of a management cluster that is no cluster on these machines: its address, and the
    manager. Its record has this name.
    """
    authority, port = authorities.load(home), port or home.port_before()
    clock, rng = SystemClock(), random.SystemRandom()
    async with AsyncExitStack() as stack:
        webhooks = Webhooks(port=None)
        caller = InProcessWebhooks(webhooks, hosts.webhooks)
        store = SqliteStore(home.database)
        server = Server(store, now=clock.now, random=rng, call_webhook=caller, version=version)
        try:
            await server.start()
        except NoSpace as error:
            raise home.no_space(str(error)) from error
        except Unusable as error:
            raise home.broken_database(str(error)) from error
        stack.push_async_callback(server.close)
        managing = await stack.enter_async_context(managed(server, webhooks, hosts, releases, name))
        # Last: clients that get a response find everything in place.
        yield await _serve(stack, server, home, clock, authority, port), managing


@asynccontextmanager
async def managed(
    server: Server, webhooks: Webhooks, hosts: Hosts, releases: Releases, name: str
) -> AsyncIterator[ManagerTask]:
    """The manager of a started API server, which calls `webhooks` at `IN_PROCESS`; the record has this name."""
    client = Client(InProcessTransport(server), field_manager="espalier", user_agent="espalier")
    flux_client = Client(InProcessTransport(server, flux.ACCOUNT), user_agent="flux-stand-in")
    try:
        manager = Manager(client, clock=hosts.clock, rng=hosts.rng, connect=hosts.workloads.connect)
        made_of = components.of_manager(SIMULATED)
        machines = machines_component(hosts.workloads, hosts.rng, hosts.timing, hosts_workloads=False)
        assemble(manager, made_of, webhooks=webhooks)
        assemble(manager, [machines], client=client)
        from_git = stand_in.component(flux.fetch)
        assemble(manager, [from_git], client=flux_client)
        await prepare_kinds(client, releases, (*kinds((*made_of, from_git)), *SIMULATED_KINDS), name)
        await record_infrastructure(client, hosts.workloads.identity)
        for resource, tree in manifests.webhook_configurations(IN_PROCESS):
            await client.apply(resource, tree)
        managing = ManagerTask.begin(manager)
        try:
            await managing.leading()
            await make_record(client, releases, name)  # by admission, also when an earlier one was lost
            await follow_newest(client, releases, name)
            yield managing
        finally:
            await managing.stop()
    finally:
        await flux_client.close()
        await client.close()


IN_PROCESS = "https://espalier.internal"
"""Address in the webhook configurations of the local environment: answered in this process, never sent."""


@dataclass(frozen=True)
class InProcessWebhooks:
    """Answers calls of our own webhooks without a socket; others go over the network."""

    webhooks: Webhooks
    outside: HttpWebhooks

    async def __call__(self, call: WebhookCall) -> bytes:
        """Make a call. Raises `CallFailed`."""
        if call.url.startswith(IN_PROCESS):
            return self.webhooks.review(urlsplit(call.url).path, call.body)
        return await self.outside(call)


async def _serve(
    stack: AsyncExitStack, server: Server, home: Home, clock: SystemClock, known: Authority | None, port: int
) -> str:
    """Serve the API server, and write the administrator's kubeconfig. Certificates are new each time."""
    authority = known or authorities.make(home, now=clock.now())
    shell = HttpShell(
        server,
        host=HOST,
        port=port,
        serving=authority.issue_server("kube-apiserver", names=NAMES, now=clock.now()),
        client_ca=authority.certificate,
    )
    try:
        await shell.start()
    except AddressTaken as error:
        raise Failure(f"{error}; choose another port with --port, or stop that program") from error
    stack.push_async_callback(shell.stop)
    kubeconfig = Kubeconfig.of_cluster(
        "espalier",
        server=shell.url,
        certificate_authority=authority.certificate,
        user="admin",
        credentials=authority.issue_client("admin", groups=["system:masters"], now=clock.now()),
    )
    # Replaced, never absent: kubectl without a kubeconfig asks whoever listens on localhost:8080.
    with naming(home.kubeconfig):
        kubeconfig.merge_into(home.kubeconfig, alone=True)
    return shell.url
