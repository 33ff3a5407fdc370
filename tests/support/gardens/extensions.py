"""A seed on a simulated loop: an embedded API server, extension controllers, and a gardenlet that renews leases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from espalier.api.definitions.crd import crd_of
from espalier.api.etcd.timing import Timing
from espalier.api.gardener.extensions.cluster import Cluster
from espalier.api.gardener.extensions.leases import micro_time
from espalier.api.gardener.vocabulary import metadata_keys as keys
from espalier.api.kinds import KubeObject
from espalier.api.resource import Resource
from espalier.apiserver.server import Server
from espalier.apiserver.storage.store import MemoryStore
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import NotFound
from espalier.kube.objects import Object
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.retry import Retry
from espalier.kube.transports.wire import Transport
from espalier.runtime.component import Component, assemble
from espalier.runtime.manager import Manager
from espalier.runtime.virtual import Simulation

SHOOT = "shoot--garden--rose"
TIMING = Timing()
AGENT = "extensions"


@dataclass
class Seed:
    """A seed, and what a gardenlet does there."""

    simulation: Simulation
    server: Server
    client: Client
    _running: list[asyncio.Task[Any]] = field(default_factory=list)

    async def renew(self, name: str = SHOOT, seconds: float = TIMING.lease_validity) -> None:
        """Renew the lease of a cluster, to so many seconds from now."""
        ends = self.simulation.clock.now() + timedelta(seconds=seconds)
        spec = {"leaseExpiration": micro_time(ends)}
        body = {"metadata": {"name": name}, "spec": spec}
        await self.client.apply(
            Cluster.resource, {"apiVersion": Cluster.resource.api_version, "kind": "Cluster", **body}
        )

    async def renewing(self, name: str = SHOOT) -> None:
        """Renew it for ever."""
        while True:
            await self.renew(name)
            await asyncio.sleep(TIMING.lease_renewal)

    def keep_renewing(self) -> asyncio.Task[None]:
        """Renew it until the task is cancelled."""
        task = asyncio.ensure_future(self.renewing())
        self._running.append(task)
        return task

    async def make(
        self, resource: Resource, name: str, spec: dict[str, Any], *, asks: str = "", state: Any = None
    ) -> Object:
        """Make an extension resource as a gardenlet does: state first, then what is asked for."""
        annotations = {keys.OPERATION: keys.WAIT_FOR_STATE if state is not None else asks} if asks else {}
        metadata = {"name": name, "annotations": annotations}
        if resource.namespaced:
            metadata["namespace"] = SHOOT
        made = await self.client.create(
            resource, {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}
        )
        if state is not None:
            made = await self._patch(made, resource, {"status": {"state": state}}, "status")
            made = await self.ask(resource, name, asks)
        return made

    async def ask(self, resource: Resource, name: str, operation: str | None) -> Object:
        """Annotate a resource with an operation."""
        value = await self.get(resource, name)
        stamp = self.simulation.clock.now().isoformat() if operation else None
        annotations = {keys.OPERATION: operation, keys.TIMESTAMP: stamp}
        return await self._patch(value, resource, {"metadata": {"annotations": annotations}})

    async def patch(
        self, resource: Resource, name: str, patch: dict[str, Any], subresource: str | None = None
    ) -> Object:
        """Change a resource."""
        return await self._patch(await self.get(resource, name), resource, patch, subresource)

    async def delete(self, resource: Resource, name: str) -> None:
        """Delete a resource as gardenlets do: what is behind it is to go as well."""
        await self.patch(resource, name, {"metadata": {"annotations": {keys.CONFIRM_DELETION: "true"}}})
        await self.client.delete(resource, name, SHOOT if resource.namespaced else None)

    async def get(self, resource: Resource, name: str) -> Object:
        """A resource."""
        return await self.client.get(resource, name, SHOOT if resource.namespaced else None)

    async def find(self, resource: Resource, name: str) -> Object | None:
        """A resource, None when it is gone."""
        try:
            return await self.get(resource, name)
        except NotFound:
            return None

    async def until(
        self, resource: Resource, name: str, holds: Callable[[dict[str, Any]], bool], within: float = 3600
    ) -> dict[str, Any]:
        """The resource once that holds; simulated time passes meanwhile. Gives its tree, empty if it is gone."""
        end = self.simulation.clock.monotonic() + within
        while True:
            result = await self.find(resource, name)
            tree = result.tree if result else {}
            if holds(tree):
                return tree
            assert self.simulation.clock.monotonic() < end, f"it never came to that: {tree}"
            await asyncio.sleep(0.25)

    async def _patch(self, object_: Object, resource: Resource, patch: Any, subresource: str | None = None) -> Object:
        return await self.client.patch(
            resource,
            object_.name,
            object_.namespace or None,
            patch=patch,
            type=PatchType.MERGE,
            subresource=subresource,
        )


def succeeded(operation: str) -> Callable[[dict[str, Any]], bool]:
    """True of a resource whose last operation was this, and succeeded; and whose request is done."""

    def holds(tree: dict[str, Any]) -> bool:
        last = tree.get("status", {}).get("lastOperation", {})
        is_asked = keys.OPERATION in tree.get("metadata", {}).get("annotations", {})
        return (last.get("type"), last.get("state")) == (operation, "Succeeded") and not is_asked

    return holds


def failed(tree: dict[str, Any]) -> bool:
    """True of a resource whose last operation failed, and is retried."""
    return bool(tree.get("status", {}).get("lastOperation", {}).get("state") == "Error")


def is_gone(tree: dict[str, Any]) -> bool:
    """True if it is not there."""
    return not tree


async def new_seed(simulation: Simulation, kinds: Sequence[type[KubeObject]]) -> Seed:
    """An API server with these kinds and Clusters, and a shoot's namespace."""
    server = Server(MemoryStore(), now=simulation.clock.now, random=simulation.random)
    await server.start()
    seed = Seed(simulation, server, Client(InProcessTransport(server), user_agent="gardenlet", retry=Retry(attempts=1)))
    definitions: list[type[KubeObject]] = [Cluster, *kinds]
    for kind in definitions:
        await seed.client.create(CUSTOM_RESOURCE_DEFINITION, crd_of(kind))
    await seed.client.create(NAMESPACE, {"metadata": {"name": SHOOT}})
    return seed


@asynccontextmanager
async def running(
    seed: Seed,
    components: Sequence[Component],
    wrap: Callable[[Transport], Transport] = lambda transport: transport,
) -> AsyncIterator[Manager]:
    """A manager of these components, while the block runs; then it is killed."""
    client = Client(wrap(InProcessTransport(seed.server)), user_agent=AGENT, retry=Retry(attempts=1))
    manager = Manager(client, clock=seed.simulation.clock, rng=seed.simulation.random, grace=0.0)
    assemble(manager, components)
    task = asyncio.ensure_future(manager.run())
    try:
        await manager.leading.wait()
        yield manager
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def settle(seconds: float = 1.0) -> None:
    """Let simulated time pass."""
    await asyncio.sleep(seconds)


Story = Callable[[Simulation], Awaitable[None]]
