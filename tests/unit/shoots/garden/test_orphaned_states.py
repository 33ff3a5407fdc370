"""Secrets with state that a crash left behind at the end of a Shoot: the garden deletes them, and nothing else."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION, NAMESPACE, SECRET
from espalier.api.definitions.crd import crd_of
from espalier.api.gardener import names
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.meta import Tree
from espalier.apiserver.server import Server
from espalier.apiserver.storage.store import MemoryStore
from espalier.runtime import virtual
from espalier.runtime.caches.cache import Caches
from espalier.runtime.controllers.writer import Writer
from espalier.shoots.garden.orphaned_states import GRACE, OrphanedStates
from espalier.shoots.state import pieces
from tests.support.servers.embedded_server import client_of
from tests.support.tasks import running

PROJECT = "garden-dev"
GONE = "5a0c5c5e-0000-4000-8000-000000000000"


def piece(shoot_uid: str, number: int) -> Tree:
    [secret] = pieces.split(f"state {number}".encode(), shoot_uid, 1)[1]
    return secret


def foreign(number: int, **changed: Tree | str) -> Tree:
    """One that only looks like a Secret of ours."""
    secret = piece(GONE, number)
    return {**secret, **changed, "metadata": {**secret["metadata"], **changed.get("metadata", {})}}  # type: ignore[dict-item]


def test_state_without_its_shoot_is_deleted() -> None:
    async def main(simulation: virtual.Simulation) -> None:
        server = Server(MemoryStore(), now=simulation.clock.now, random=random.Random(1))
        await server.start()
        client = client_of(server)
        await client.create(CUSTOM_RESOURCE_DEFINITION, crd_of(Shoot))
        for namespace in (PROJECT, names.STATE_NAMESPACE):
            await client.create(NAMESPACE, {"metadata": {"name": namespace}})
        metadata = {"name": "apple", "namespace": PROJECT}
        shoot = await client.create(Shoot.resource, {"metadata": metadata, "spec": {"provider": {"type": "local"}}})
        made = [piece(shoot.metadata.uid, 1), piece(GONE, 2)]
        others = [foreign(3, type="Opaque"), foreign(4, metadata={"labels": {}}), foreign(5, metadata={"name": "mine"})]
        for secret in (*made, *others):
            await client.create(SECRET, secret)

        async def left() -> set[str]:
            return {item.name for item in (await client.list(SECRET, names.STATE_NAMESPACE)).items}

        caches = Caches(client, rng=simulation.random)
        controller = OrphanedStates(caches, Writer(client, {}, "garden"), simulation.clock).controller()
        async with running(caches.run(), controller.run()):
            everything = await left()
            await asyncio.sleep(GRACE - 60)
            assert await left() == everything
            await asyncio.sleep(120)
            remaining = everything - {made[1]["metadata"]["name"]}
            assert await left() == remaining
            await client.delete(Shoot.resource, "apple", PROJECT)
            await asyncio.sleep(60)
            assert await left() == {other["metadata"]["name"] for other in others}
        await server.close()

    virtual.run(main, epoch=datetime(2026, 1, 1, tzinfo=UTC), seed=1)
