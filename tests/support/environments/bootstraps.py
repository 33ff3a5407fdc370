"""A bootstrap and the machines of a management cluster that it creates, in one process on a simulated clock."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from espalier.api.capi import cluster as capi
from espalier.api.core import NAMESPACE as NAMESPACES
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import BOOTSTRAP, MOVE_ANNOTATION, SYSTEM_NAMESPACE
from espalier.api.flux import KUSTOMIZATION, NAME_LABEL, NAMESPACE_LABEL
from espalier.api.flux import NAMESPACE as FLUX
from espalier.api.manifests.manifests import read_manifests
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.apiserver.access.webhooks import CallFailed, WebhookCall
from espalier.apiserver.server import Server
from espalier.apiserver.storage.store import MemoryStore
from espalier.cli.clusters.access import kubeconfig
from espalier.cli.clusters.moves.move_judge import ClusterJudge
from espalier.cli.local.environment import flux
from espalier.cli.local.environment.hosts import Hosts
from espalier.cli.local.environment.simulated import managed
from espalier.cli.management.components import components
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import KubeError, NotFound
from espalier.kube.objects import Object
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.wire import Transport
from espalier.management import installing, removal, upgrading
from espalier.management import record as records
from espalier.management.creation import Creation
from espalier.management.steps import run
from espalier.providers.kinds import CATALOG
from espalier.providers.simulated import SIMULATED
from espalier.runtime.clock import Clock
from espalier.runtime.servers.webhooks import Webhooks
from espalier.simulator.controller import Timing
from espalier.simulator.flux.sources import Fetch
from espalier.simulator.workload_clusters.stores import MemoryStores, Stores
from tests.support.environments.managed_clusters import EXAMPLES, NAMESPACE
from tests.support.environments.managed_environment import RELEASES

MANAGEMENT = Key(NAMESPACE, "management")
RELEASE = RELEASES.newest().version


@dataclass
class Quiet:
    """Progress that is kept."""

    told: list[str] = field(default_factory=list)
    on_wait: Callable[[str], object] = lambda _text: None

    def say(self, text: str, sign: str = "", *, aside: str = "") -> None:
        self.told.append(text)

    def wait(self, text: str) -> None:
        self.told.append(f"  {text}")
        self.on_wait(text)


@dataclass
class Bootstrap:
    """A running bootstrap, and the machines beside it."""

    hosts: Hosts
    server: Server
    written: list[bytes] = field(default_factory=list)
    progress: Quiet = field(default_factory=Quiet)
    wrap: Callable[[Transport], Transport] = lambda transport: transport
    """Between the command and both API servers, for faults."""
    key: Key = MANAGEMENT
    set_up_git_ops: Callable[[Client], Awaitable[None]] | None = None

    def client(self) -> Client:
        return Client(InProcessTransport(self.server), user_agent="espalier-cli", field_manager="eks-a-cli")

    async def create(self) -> None:
        client = self._command(self.client())
        creation = self.creation(client)
        record = await records.read(client, self.key) or records.Record(records.CREATE, *self.key, RELEASE)
        await run(client, record, creation.steps(), creation.actions, self.progress, lambda: "")

    async def delete(self, content: bytes | None = None) -> None:
        """Delete the cluster of this kubeconfig, or the one that is being created or deleted."""
        client = self._command(self.client())
        record = await records.read(client, self.key)
        if record is None or record.operation != records.DELETE:
            record = records.Record(records.DELETE, *self.key, RELEASE)
            if content is not None:
                await records.keep_kubeconfig(client, self.key, content)
            await records.write(client, record)
        work = removal.Removal(
            self.key,
            client,
            lambda stored: self._command(self.connect(stored)),
            ClusterJudge(SIMULATED, moves_records=True),
            self.progress,
            lambda at: until_gone(at, self.key),
        )
        await run(client, record, work.steps(), work.actions, self.progress, lambda: "")

    def creation(self, client: Client) -> Creation:
        async def write(content: bytes) -> None:
            self.written.append(content)

        return Creation(
            self.key,
            RELEASE,
            client,
            Made(client, self.key),
            lambda content: self._command(self.connect(content)),
            components.simulated_cluster_api(RELEASE, RELEASES),
            components.espalier(self.key, RELEASE, RELEASES),
            ClusterJudge(SIMULATED, moves_records=True),
            write,
            self.progress,
            self.set_up_git_ops or nothing,
        )

    def _command(self, client: Client) -> Client:
        """The client of a command, which repeats nothing: a command that dies does not."""
        client.transport = self.wrap(client.transport)
        return client.without_repeats()

    def connect(self, content: bytes) -> Client:
        return self.hosts.workloads.connect(content)


async def created(hosts: Hosts, key: Key = MANAGEMENT) -> bytes:
    """The kubeconfig of a management cluster, whose bootstrap is gone."""
    async with bootstrap(hosts) as env:
        env.key = key
        await env.create()
        return env.written[-1]


async def nothing(_cluster: Client) -> None:
    """Write nothing: the record of the example names nothing else."""


@dataclass
class Made:
    """The cluster of the example, made by the bootstrap's controller."""

    client: Client
    key: Key
    managed_by: str = BOOTSTRAP

    async def apply(self) -> None:
        await self.client.apply(NAMESPACES, {"metadata": {"name": self.key.namespace}})
        await applied(self.client, manifest(self.key, managed_by=self.managed_by))

    async def kubeconfig(self) -> bytes:
        return await kubeconfig.read(self.client, self.key)


def manifest(key: Key, *, managed_by: str) -> list[Tree]:
    """The example under this name; the Cluster comes last."""
    trees = []
    for document in read_manifests((EXAMPLES / "docker.yaml").read_bytes(), source="docker.yaml"):
        tree = document.tree
        tree["metadata"] |= {"namespace": key.namespace, "name": key.name}
        if tree["kind"] == "Cluster":
            tree["spec"]["datacenterRef"]["name"] = key.name
            tree["spec"]["managementCluster"] = {"name": managed_by}
            tree["spec"]["eksaVersion"] = RELEASE
        trees.append(tree)
    return sorted(trees, key=lambda tree: bool(tree["kind"] == "Cluster"))


async def upgrade(
    cluster: Client, trees: Sequence[Tree] | None, progress: Quiet | None = None, release: str = RELEASE
) -> None:
    """Upgrade a management cluster to a manifest; without one, its components alone."""
    told = progress or Quiet()

    async def write() -> None:
        for tree in trees or ():
            await cluster.apply(CATALOG.resource_of(tree["apiVersion"], tree["kind"]), tree)

    async def until_done() -> None:
        await until_ready(cluster, MANAGEMENT)

    work = upgrading.Upgrade(
        MANAGEMENT,
        release,
        cluster,
        components.simulated_cluster_api(release, RELEASES),
        components.espalier(MANAGEMENT, release, RELEASES),
        told,
        write,
        until_done if trees is not None else None,
        ClusterJudge(SIMULATED),
    )
    record = await records.read(cluster, MANAGEMENT)
    operation = records.UPGRADE if trees is not None else records.UPGRADE_COMPONENTS
    record = record or records.Record(operation, MANAGEMENT.namespace, MANAGEMENT.name, release)
    await run(cluster, record, work.steps(), work.actions, told, lambda: "")
    await records.forget(cluster, MANAGEMENT)


async def applied(client: Client, trees: Sequence[Tree]) -> None:
    """Apply a manifest, whose Cluster comes last, and wait until it is ready."""
    for tree in trees:
        result = await client.apply(CATALOG.resource_of(tree["apiVersion"], tree["kind"]), tree)
    await until_ready(client, result.key)


async def put_under_git(cluster: Client, *, suspended: bool = False) -> None:
    """Flux's kinds, its Kustomization of the management cluster, and its labels on that."""
    await installing.apply(cluster, components.simulated_flux(RELEASE, FLUX, RELEASES))
    spec = {"interval": "1h", "path": "./fleet", "prune": False, "suspend": suspended}
    spec["sourceRef"] = {"kind": "GitRepository", "name": FLUX}
    await cluster.apply(KUSTOMIZATION, {"metadata": {"name": "management", "namespace": FLUX}, "spec": spec})
    labels = {"metadata": {"labels": {NAME_LABEL: "management", NAMESPACE_LABEL: FLUX}}}
    await cluster.patch(Cluster.resource, MANAGEMENT.name, MANAGEMENT.namespace, patch=labels, type=PatchType.MERGE)


async def until_ready(client: Client, key: Key) -> None:
    """Wait until a Cluster is as it was asked for last."""
    async with asyncio.timeout(900):
        while not _is_ready(await client.get(Cluster.resource, key.name, key.namespace)):  # noqa: ASYNC110
            await asyncio.sleep(1)


def _is_ready(object_: Object) -> bool:
    status = object_.decode(Cluster).status
    return bool(status.ready) and status.observed_generation >= object_.metadata.generation


async def until_gone(client: Client, key: Key) -> None:
    """Wait until there is no such Cluster."""
    async with asyncio.timeout(900):
        with suppress(NotFound):
            while await client.get(Cluster.resource, key.name, key.namespace):  # noqa: ASYNC110
                await asyncio.sleep(1)


@asynccontextmanager
async def machines(
    clock: Clock, *, seed: int = 1, stores: Stores | None = None, fetch: Fetch = flux.fetch
) -> AsyncIterator[Hosts]:
    """Machines on which clusters can run; with `stores` of earlier ones, those that ran there."""
    rng = random.Random(seed)
    async with Hosts.run(
        stores or MemoryStores(), RELEASES, clock=clock, rng=rng, timing=Timing(), listen=False, fetch=fetch
    ) as hosts:
        yield hosts


@asynccontextmanager
async def bootstrap(hosts: Hosts, store: MemoryStore | None = None) -> AsyncIterator[Bootstrap]:
    """A bootstrap with its manager, which goes with the block."""
    webhooks = Webhooks(port=None)

    async def call(call: WebhookCall) -> bytes:
        try:
            return webhooks.review(urlsplit(call.url).path, call.body)
        except LookupError as error:
            raise CallFailed(f"failed to call webhook: {error}") from None

    server = Server(store or MemoryStore(), now=hosts.clock.now, random=hosts.rng, call_webhook=call)
    await server.start()
    try:
        async with managed(server, webhooks, hosts, RELEASES, BOOTSTRAP):
            yield Bootstrap(hosts, server)
    finally:
        await server.close()


async def until_step(act: Callable[[], Awaitable[None]], env: Bootstrap, step: str, seconds: float = 0.3) -> None:
    """Run a command until it is in the middle of a step, and end it there."""
    title = next(item.title for item in env.creation(env.client()).steps() if item.name == step)
    began = asyncio.Event()
    env.progress.on_wait = lambda text: began.set() if text == title else None
    task = asyncio.ensure_future(act())
    await began.wait()
    await asyncio.sleep(seconds)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def acts(client: Client, key: Key, *, of_its_own: bool) -> bool:
    """True if a management cluster acts on a cluster: its manager, or Cluster API. `of_its_own`: it is that cluster."""
    with suppress(KubeError):
        made = await client.get(capi.Cluster.resource, key.name, SYSTEM_NAMESPACE)
        if not made.tree["spec"].get("paused"):
            return True
    with suppress(KubeError):
        cluster = await client.get(Cluster.resource, key.name, key.namespace)
        return MOVE_ANNOTATION not in cluster.metadata.annotations and not of_its_own
    return False
