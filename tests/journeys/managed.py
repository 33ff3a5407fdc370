"""A whole laptop in one process on a simulated clock: API server, Cluster controller, admission, simulated machines."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from espalier import clusters, upgrades
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.group import SYSTEM_NAMESPACE
from espalier.apiserver.requests import Attributes
from espalier.apiserver.server import Server
from espalier.apiserver.store import MemoryStore, Store
from espalier.apiserver.webhooks import WebhookCall
from espalier.cli import manifests
from espalier.clusters import Isolation, rights
from espalier.clusters.design import Provider
from espalier.clusters.layers import LAYERS, Layer
from espalier.clusters.render import PROVIDERS
from espalier.kube.client import Client
from espalier.kube.inprocess import InProcessTransport
from espalier.kube.wire import ADMIN, Transport, User
from espalier.local.build import build
from espalier.local.management import prepare
from espalier.local.stores import MemoryStores, Stores
from espalier.local.workloads import Workloads
from espalier.releases import Releases
from espalier.runtime.cache import Caches
from espalier.runtime.clock import Clock
from espalier.runtime.controller import RESYNC
from espalier.runtime.manager import Ending, Manager
from espalier.runtime.remote import RemoteClients
from espalier.runtime.webhooks import Webhooks
from tests.journeys.asking import EXAMPLES, GARDEN, NAMESPACE, ManagedClusters

__all__ = ["EXAMPLES", "GARDEN", "NAMESPACE", "ManagedLaptop", "managed_laptop"]

IN_PROCESS = "https://espalier.internal"

MANAGER = User("system:serviceaccount:eksa-system:espalier-controller-manager", ("system:authenticated",))

Wrap = Callable[[Transport], Transport]


@dataclass(kw_only=True)
class ManagedLaptop(ManagedClusters):
    """A running laptop."""

    store: Store
    server: Server


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
) -> AsyncIterator[ManagedLaptop]:
    """A laptop on the running loop. With `store` and `stores` of an earlier one it goes on where that one stopped.

    `wrap` stands between the controllers and the API server, for faults. `providers`, `isolation`,
    `layers` and `resync` are the manager's.
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
        server = Server(kept, now=clock.now, random=more(), call_webhook=call, authorizer=as_granted)
        await server.start()
        stack.push_async_callback(server.close)
        user = Client(InProcessTransport(server), user_agent="journey")

        def connected(user: User, agent: str) -> Client:
            transport = wrap(InProcessTransport(server, user))
            return Client(transport, field_manager=agent, user_agent=agent, entropy=more())

        workloads = Workloads(clock=clock, entropy=more(), stores=stores or MemoryStores(), listen=False)
        stack.push_async_callback(workloads.close)
        manager = Manager(connected(MANAGER, "espalier"), clock=clock, entropy=more())

        def reached(kubeconfig: bytes) -> Client:
            client = workloads.connect(kubeconfig)
            client.transport = wrap(client.transport)
            return client

        remotes = RemoteClients(reached)
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
        upgrades.build(manager, remotes=remotes, resync=resync)
        # Cluster API and the machines have rights of their own, as if they were other programs.
        machines = connected(ADMIN, "espalier-laptop")
        caches = Caches(machines, entropy=more())
        manager.add(caches)
        for controller in build(machines, caches, workloads, clock=clock, entropy=more(), keys=more()):
            manager.add(controller)
        await prepare(user, releases)
        for resource, tree in manifests.webhook_configurations(IN_PROCESS):
            await user.apply(resource, tree)
        running = asyncio.create_task(manager.run(), name="manager")
        stack.push_async_callback(_stop, manager, running)
        leading = asyncio.create_task(manager.leading.wait())
        await asyncio.wait([leading, running], return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
        yield ManagedLaptop(
            store=kept,
            server=server,
            client=user,
            manager=manager,
            machinery=caches,
            workloads=workloads,
            clusters=manager.caches.of(Cluster.resource),
        )


def as_granted(attributes: Attributes, user: User) -> bool:
    """The manager may do what its Roles say, and no more; administrators may do anything."""
    if user != MANAGER:
        return "system:masters" in user.groups
    granted = [*rights.CLUSTER, *upgrades.rights.CLUSTER]
    if attributes.namespace == SYSTEM_NAMESPACE:
        granted += [*rights.SYSTEM, *upgrades.rights.SYSTEM]
    return any(
        attributes.verb in right.verbs
        and attributes.subresource == right.subresource
        and any((attributes.group, attributes.resource) == (one.group, one.plural) for one in right.resources)
        and (not right.names or attributes.name in right.names)
        for right in granted
    )


async def _stop(manager: Manager, running: asyncio.Task[Ending]) -> None:
    manager.stop()
    await running
