"""A whole laptop in one process on a simulated clock: API server, Cluster controller, admission, simulated machines."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from espalier import clusters
from espalier.api.catalog import resource_of
from espalier.api.core import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, NODE, ROLE, ROLE_BINDING, SECRET, Secret
from espalier.api.core import NAMESPACE as NAMESPACES
from espalier.api.eksa.cluster import Cluster
from espalier.api.manifests import read_manifests
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.apiserver.rbac import Rbac
from espalier.apiserver.server import Server
from espalier.apiserver.store import MemoryStore, Store
from espalier.apiserver.webhooks import WebhookCall
from espalier.cli import manifests
from espalier.clusters import Isolation
from espalier.clusters.design import Provider
from espalier.clusters.layers import LAYERS, Layer
from espalier.clusters.render import PROVIDERS
from espalier.kube.client import Client, PatchType
from espalier.kube.inprocess import InProcessTransport
from espalier.kube.objects import Object
from espalier.kube.wire import ADMIN, Transport, User
from espalier.local.build import build
from espalier.local.management import prepare
from espalier.local.stores import MemoryStores, Stores
from espalier.local.workloads import Workloads
from espalier.releases import Releases
from espalier.runtime.cache import Cache, Caches
from espalier.runtime.clock import Clock
from espalier.runtime.controller import RESYNC
from espalier.runtime.manager import Ending, Manager
from espalier.runtime.options import Options
from espalier.runtime.remote import RemoteClients
from espalier.runtime.webhooks import Webhooks
from tests.support.ledger import Ledger

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMESPACE = "default"
GARDEN = Key(NAMESPACE, "garden")
IN_PROCESS = "https://espalier.internal"

MANAGER = User("system:serviceaccount:eksa-system:espalier-controller-manager", ("system:authenticated",))

ROLES = {role.kind: role for role in (CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING)}

Wrap = Callable[[Transport], Transport]


@dataclass
class ManagedLaptop:
    """A running laptop. What it is asked to do goes through the API, as a user would ask it."""

    store: Store
    server: Server
    client: Client
    manager: Manager
    machinery: Caches
    workloads: Workloads
    clusters: Cache
    ledger: Ledger

    async def apply(
        self, example: str = "docker.yaml", *, namespace: str = NAMESPACE, name: str = "", **spec: object
    ) -> None:
        """Apply an example, with these fields of the Cluster's spec."""
        for document in read_manifests((EXAMPLES / example).read_bytes(), source=example):
            tree = document.tree
            tree["metadata"]["namespace"] = namespace
            if tree["kind"] == "Cluster":
                tree["spec"] |= spec
                tree["metadata"]["name"] = name or tree["metadata"]["name"]
            await self.client.apply(resource_of(document.api_version, document.kind), tree, field_manager="kubectl")

    async def change(self, key: Key = GARDEN, **spec: object) -> None:
        """Merge fields into a Cluster's spec."""
        patch: Tree = {"spec": spec}
        await self.client.patch(Cluster.resource, key.name, key.namespace, patch=patch, type=PatchType.MERGE)

    async def until(self, is_so: Callable[[Cluster], bool], key: Key = GARDEN, *, seconds: float = 900) -> Cluster:
        """Wait until a Cluster is as described. Raises `TimeoutError` that shows it."""
        await self._until(key, lambda found: found is not None and is_so(found.decode(Cluster)), seconds)
        found = self.clusters.get(key)
        assert found is not None
        return found.decode(Cluster)

    async def until_ready(self, key: Key = GARDEN) -> Cluster:
        """Wait until a Cluster is as it was asked for last."""
        present = await self.client.get(Cluster.resource, key.name, key.namespace)
        generation = present.metadata.generation
        return await self.until(
            lambda cluster: bool(cluster.status.ready) and cluster.status.observed_generation >= generation, key
        )

    async def until_gone(self, key: Key = GARDEN) -> None:
        """Wait until there is no such Cluster."""
        await self._until(key, lambda found: found is None, 900)

    async def nodes(self, key: Key = GARDEN) -> list[Tree]:
        """The nodes of a workload cluster, read with the kubeconfig that lies beside its Cluster."""
        secret = await self.client.get(SECRET, f"{key.name}-kubeconfig", key.namespace)
        workload = self.workloads.connect(secret.decode(Secret).data["value"])
        return [node.tree for node in (await workload.list(NODE)).items]

    async def versions(self) -> list[str]:
        """The kubelet versions of all nodes."""
        return sorted(node["status"]["nodeInfo"]["kubeletVersion"] for node in await self.nodes())

    async def _until(self, key: Key, is_so: Callable[[Object | None], bool], seconds: float) -> None:
        changed = asyncio.Event()
        stop = self.clusters.subscribe(lambda _old, _new, _first: changed.set())
        try:
            async with asyncio.timeout(seconds):
                while not is_so(self.clusters.get(key)):
                    changed.clear()
                    await changed.wait()
        except TimeoutError:
            found = self.clusters.get(key)
            raise TimeoutError(f"{key} is not as awaited: {found.tree if found else None}") from None
        finally:
            stop()


@asynccontextmanager
async def managed_laptop(
    clock: Clock,
    *,
    seed: int = 1,
    store: Store | None = None,
    stores: Stores | None = None,
    wrap: Wrap = lambda transport: transport,
    providers: Mapping[str, Provider] = PROVIDERS,
    isolation: Isolation = Isolation.LAYERS,
    layers: Sequence[Layer] = LAYERS,
    resync: float = RESYNC,
    namespaces: Sequence[str] = (),
) -> AsyncIterator[ManagedLaptop]:
    """A laptop on the running loop. With `store` and `stores` of an earlier one it goes on where that one stopped.

    `wrap` stands between the controllers and the API server, for faults. `providers`, `isolation`,
    `layers`, `resync` and `namespaces` are the manager's. It has the rights that `espalier manifests` gives it: a
    request that needs another one fails the story at its end, whatever became of it.
    """
    entropy = random.Random(seed)

    def more() -> random.Random:
        return random.Random(entropy.getrandbits(64))

    releases = Releases.load()
    webhooks = Webhooks(port=None)

    async def call(call: WebhookCall) -> bytes:
        return webhooks.review(urlsplit(call.url).path, call.body)

    async with AsyncExitStack() as stack:
        kept = store or MemoryStore()
        ledger = Ledger(MANAGER, Rbac(kept))
        server = Server(kept, now=clock.now, random=more(), call_webhook=call, authorizer=ledger)
        await server.start()
        stack.push_async_callback(server.close)
        user = Client(InProcessTransport(server), user_agent="journey")

        def connected(user: User, agent: str) -> Client:
            transport = wrap(InProcessTransport(server, user))
            return Client(transport, field_manager=agent, user_agent=agent, entropy=more())

        workloads = Workloads(clock=clock, entropy=more(), stores=stores or MemoryStores(), listen=False)
        stack.push_async_callback(workloads.close)
        options = Options(namespaces=tuple(namespaces))
        manager = Manager(connected(MANAGER, "espalier"), clock=clock, entropy=more(), options=options)
        remotes = RemoteClients(workloads.connect)
        stack.push_async_callback(remotes.close)
        manager.add(webhooks)
        clusters.build(
            manager,
            releases=releases,
            remotes=remotes,
            webhooks=webhooks,
            providers=providers,
            isolation=isolation,
            layers=layers,
            resync=resync,
        )
        # Cluster API and the machines have rights of their own, as if they were other programs.
        machines = connected(ADMIN, "espalier-laptop")
        caches = Caches(machines, entropy=more())
        manager.add(caches)
        for controller in build(machines, caches, workloads, clock=clock, entropy=more(), keys=more()):
            manager.add(controller)
        await prepare(user, releases)
        for namespace in namespaces:
            await user.apply(NAMESPACES, {"metadata": {"name": namespace}})
        for tree in manifests.installed(namespaces):
            if tree["kind"] in ROLES:
                await user.apply(ROLES[tree["kind"]], tree)
        for resource, tree in manifests.webhook_configurations(IN_PROCESS, namespaces):
            await user.apply(resource, tree)
        running = asyncio.create_task(manager.run(), name="manager")
        stack.push_async_callback(_stop, manager, running)
        leading = asyncio.create_task(manager.leading.wait())
        await asyncio.wait([leading, running], return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
        found = manager.caches.of(Cluster.resource)
        yield ManagedLaptop(kept, server, user, manager, caches, workloads, found, ledger)
    assert sorted(ledger.refused) == []


async def _stop(manager: Manager, running: asyncio.Task[Ending]) -> None:
    manager.stop()
    await running
