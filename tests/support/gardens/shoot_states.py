"""A garden and a seed on virtual time, with a shoot, and the controller that keeps its ShootState up to date."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from espalier.api import gardener
from espalier.api.core import CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from espalier.api.definitions.crd import crd_of
from espalier.api.gardener import names
from espalier.api.gardener.extensions.extension import Extension
from espalier.api.gardener.extensions.infrastructure import Infrastructure
from espalier.api.gardener.garden.seed import Seed
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.garden.shoot_state import ShootState
from espalier.api.gardener.names import SEED_LEASES
from espalier.api.gardener.ownership import Ownership
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.apiserver.server import Server
from espalier.apiserver.storage.store import Change, MemoryStore
from espalier.kube.client import Client, PatchType
from espalier.kube.objects import Object
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.retry import Retry
from espalier.kube.transports.wire import Transport
from espalier.runtime import virtual
from espalier.runtime.caches.cache import Caches
from espalier.runtime.caches.mapping import own_key
from espalier.runtime.controllers.controller import Controller
from espalier.runtime.controllers.writer import Writer
from espalier.shoots.garden.roles import Roles
from espalier.shoots.state.controller import StateObserver, Sync
from espalier.shoots.state.document import digested
from espalier.shoots.state.store import ShootStates
from espalier.shoots.technical_ids import BY_TECHNICAL_ID, technical_ids
from tests.support.servers.embedded_server import client_of
from tests.support.tasks import running

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
PROJECT, NAME, TECHNICAL_ID = "garden-core", "my-shoot", "shoot--core--my-shoot"
SEED = {"provider": {"type": "local"}, "backup": {"provider": "local"}}
SETTLE = 1.0
"""Seconds in which everything has settled."""


def controller(garden: Client, garden_caches: Caches, seed_caches: Caches, seed: str, rng: random.Random) -> Controller:
    """A controller that watches ShootStates, and creates those that are missing: a gardenlet leaves that to a flow."""
    states = garden_caches.of(ShootState.resource, labels=f"{metadata_keys.SEED}={seed}", transform=digested)
    shoots = garden_caches.of(Shoot.resource, indexes={BY_TECHNICAL_ID: technical_ids})
    observer = StateObserver(shoots, states, seed_caches)
    made = Controller(
        "shootstate", Sync(observer, ShootStates(garden, seed, states), seed).reconcile, workers=5, rng=rng
    )
    made.watch(shoots, own_key)
    made.watch(states, own_key)
    made.watch(observer.definitions, lambda _definition: ())
    observer.watch(lambda cache: made.watch(cache, observer.keys_of_resource))
    return made


def passed(transport: Transport) -> Transport:
    """A connection as it is."""
    return transport


@dataclass
class Cluster:
    """An embedded API server, and all that was written to it."""

    server: Server
    client: Client
    changes: list[Change] = field(default_factory=list)

    @classmethod
    async def start(cls, kinds: tuple[type[KubeObject], ...], *namespaces: str) -> Cluster:
        store = MemoryStore()
        server = Server(store, now=lambda: EPOCH, random=random.Random(1))
        await server.start()
        client = client_of(server)
        for kind in kinds:
            await client.create(CUSTOM_RESOURCE_DEFINITION, crd_of(kind))
        for namespace in namespaces:
            await client.create(NAMESPACE, {"metadata": {"name": namespace}})
        cluster = cls(server, client)
        store.follow(cluster.changes.append)
        return cluster

    def writes(self, kind: str) -> list[Change]:
        """The writes to objects of a kind."""
        return [change for change in self.changes if change.after.kind == kind]


@dataclass
class World:
    """The garden, and seeds by name."""

    garden: Cluster
    seeds: dict[str, Cluster]

    def states(self, seed: str = "a") -> ShootStates:
        """The store of a gardenlet."""
        return ShootStates(self.garden.client, seed)

    async def shoot(self) -> Object:
        return await self.garden.client.get(Shoot.resource, NAME, PROJECT)

    async def shoot_state(self) -> Tree:
        return (await self.garden.client.get(ShootState.resource, NAME, PROJECT)).tree

    async def entries(self) -> dict[str, Any]:
        """State by kind and name."""
        entries = (await self.shoot_state()).get("extensions", [])
        return {f"{entry['kind']}/{entry['name']}": entry.get("state", entry.get("stateRef")) for entry in entries}

    async def set_shoot(
        self,
        wanted: str,
        current: str,
        operation: str = "Reconcile",
        state: str = "Succeeded",
        ownership: Ownership | None = None,
    ) -> None:
        """Where the shoot shall be, where it is, and what is done to it."""
        merge = PatchType.MERGE
        marks = {metadata_keys.OWNERSHIP: ownership.render()} if ownership else {}
        patch: Tree = {"metadata": {"annotations": marks}, "spec": {"seedName": wanted}}
        await self.garden.client.patch(Shoot.resource, NAME, PROJECT, patch=patch, type=merge)
        status = {
            "seedName": current,
            "technicalID": TECHNICAL_ID,
            "lastOperation": {"type": operation, "state": state, "progress": 100},
        }
        patch = {"status": status}
        await self.garden.client.patch(Shoot.resource, NAME, PROJECT, patch=patch, type=merge, subresource="status")

    async def set_state(
        self, state: Any, name: str = "infrastructure", seed: str = "a", resource: Resource = Infrastructure.resource
    ) -> None:
        """Act as an extension: make the resource if there is none, and keep its state."""
        client = self.seeds[seed].client
        existing = {item.name for item in (await client.list(resource, TECHNICAL_ID)).items}
        if name not in existing:
            body = {"metadata": {"name": name, "namespace": TECHNICAL_ID}, "spec": {"type": "local"}}
            await client.create(resource, body)
        current = (await client.get(resource, name, TECHNICAL_ID)).tree
        status = {"lastOperation": {"type": "Reconcile", "state": "Succeeded"}}
        if state is not None:
            status["state"] = state
        await client.replace(resource, {**current, "status": status}, subresource="status")

    async def delete_toy(self, *, confirmed: bool) -> None:
        """Delete the Extension, held by its finalizer for a while if the deletion is confirmed, and wait."""
        client, place = self.seeds["a"].client, ("toy", TECHNICAL_ID)
        held = {"annotations": {metadata_keys.CONFIRM_DELETION: "true"}, "finalizers": ["tests/held"]}
        if confirmed:
            await client.patch(Extension.resource, *place, patch={"metadata": held}, type=PatchType.MERGE)
        await client.delete(Extension.resource, *place)
        await self.settled()
        if confirmed:
            freed = {"metadata": {"finalizers": None}}
            await client.patch(Extension.resource, *place, patch=freed, type=PatchType.MERGE)
            await self.settled()

    @asynccontextmanager
    async def syncing(
        self,
        seed: str = "a",
        wrap: Callable[[Transport], Transport] = passed,
        wrap_seed: Callable[[Transport], Transport] = passed,
    ) -> AsyncIterator[None]:
        """While the controller of a seed's gardenlet runs; it has settled when the block begins.

        Its writes to the garden go through what `wrap` makes of its connection, its reads in the seed through what
        `wrap_seed` makes of that one.
        """
        rng = random.Random(1)
        client = Client(wrap(InProcessTransport(self.garden.server)), user_agent="gardenlet", retry=Retry(attempts=1))
        in_seed = Client(wrap_seed(InProcessTransport(self.seeds[seed].server)), retry=Retry(attempts=1))
        garden, own = Caches(self.garden.client, rng=rng), Caches(in_seed, rng=rng)
        made = controller(client, garden, own, seed, rng)
        async with running(garden.run(), own.run(), made.run()):
            await self.settled()
            yield

    @asynccontextmanager
    async def granting(self) -> AsyncIterator[None]:
        """While the garden grants rights to the seeds' gardenlets."""
        for seed in self.seeds:
            await self.garden.client.create(Seed.resource, {"metadata": {"name": seed}, "spec": SEED})
        caches = Caches(self.garden.client, rng=random.Random(1))
        made = Roles(caches, Writer(self.garden.client, {}, "garden")).controller()
        async with running(caches.run(), made.run()):
            await self.settled()
            yield

    async def settled(self, seconds: float = SETTLE) -> None:
        await asyncio.sleep(seconds)


def told(story: Callable[[World], Awaitable[None]]) -> Callable[[], None]:
    """A test that tells its story on virtual time: a settled shoot in seed `a`, and seed `b` beside it."""

    async def main(_simulation: virtual.Simulation) -> None:
        garden = await Cluster.start(gardener.GARDEN_KINDS, PROJECT, names.STATE_NAMESPACE, SEED_LEASES)
        seeds = {name: await Cluster.start(gardener.SEED_KINDS, TECHNICAL_ID) for name in ("a", "b")}
        world = World(garden, seeds)
        spec = {"provider": {"type": "local"}, "seedName": "a"}
        await garden.client.create(Shoot.resource, {"metadata": {"name": NAME, "namespace": PROJECT}, "spec": spec})
        await world.set_shoot("a", "a", ownership=Ownership().add("a", "bucket-a").start(1, "a"))
        await story(world)
        for cluster in (garden, *seeds.values()):
            await cluster.server.close()

    def test() -> None:
        virtual.run(main, epoch=EPOCH, seed=1)

    test.__doc__ = story.__doc__
    return test


def json_of(size: int, rng: random.Random | None = None) -> dict[str, str]:
    """A state of so many bytes that nothing can compress."""
    rng = rng or random.Random(size)
    return {"terraform": rng.randbytes(size // 2).hex()}
