"""Statuses edited by hand while a shoot moves: no word in a status makes a machine twice, or deletes one.

With the extensions of type `local` on the simulated cloud, as only real machines can be made twice.
"""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest

from espalier.api.gardener import names
from espalier.api.gardener.etcd import Etcd
from espalier.api.gardener.extensions.infrastructure import Infrastructure
from espalier.api.gardener.extensions.worker import Worker
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.resource import Resource
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import NotFound
from espalier.runtime import virtual
from tests.support.gardens.gardens import EPOCH, NAMESPACE, World, garden
from tests.support.sampling import sampled

ID = names.technical_id("dev", "apple")


def last(type: str, state: str) -> dict[str, Any]:
    return {"type": type, "state": state, "progress": 50, "description": "by hand"}


WORDS: dict[str, dict[str, Any] | None] = {
    "nothing": None,
    "Create Processing": last("Create", "Processing"),
    "Create Succeeded": last("Create", "Succeeded"),
    "Reconcile Succeeded": last("Reconcile", "Succeeded"),
    "Delete Processing": last("Delete", "Processing"),
    "Migrate Error": last("Migrate", "Error"),
    "Migrate Succeeded": last("Migrate", "Succeeded"),
    "Restore Succeeded": last("Restore", "Succeeded"),
}

OBJECTS: dict[str, tuple[Resource, str]] = {
    "the Shoot": (Shoot.resource, NAMESPACE),
    "the Worker": (Worker.resource, ID),
    "the Infrastructure": (Infrastructure.resource, ID),
}

MOMENTS = (0.5, 1.5, 3.0, 4.5, 6.0, 8.0, 12.0)
"""Seconds after a move was requested."""

ALWAYS = [("the Shoot", "nothing", 4.5), ("the Worker", "Migrate Succeeded", 1.5)]
VARIANTS = [(what, word, at) for what in OBJECTS for word in WORDS for at in MOMENTS]


@pytest.mark.parametrize(("what", "word", "at"), sampled(VARIANTS, *(VARIANTS.index(alway) for alway in ALWAYS)))
def test_no_word_in_a_status_makes_machines_twice(what: str, word: str, at: float) -> None:
    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, with_cloud=True, delay=0.5) as world:
            await world.create_shoot()
            await world.healthy("a")
            await asyncio.sleep(30)
            before = inventory(world)
            await world.move("b")
            await asyncio.sleep(at)
            resource, namespace = OBJECTS[what]
            clients = (world.client,) if resource is Shoot.resource else [world.seeds[item].client for item in "ab"]
            for client in clients:
                await set_status(client, resource, namespace, WORDS[word])
            await world.healthy("b", seconds=600)
            await world.gone("a", seconds=600)
            await asyncio.sleep(120)
            assert inventory(world) == before
            await world.healthy("b", seconds=60)

    virtual.run(main, epoch=EPOCH, seed=1)


def inventory(world: World) -> list[str]:
    kinds: tuple[Literal["VirtualMachine", "Network"], ...] = ("VirtualMachine", "Network")
    return sorted(f"{kind} {item.name} {item.id}" for kind in kinds for item in world.cloud.inventory.all(kind))


async def set_status(client: Client, resource: Resource, namespace: str, word: dict[str, Any] | None) -> None:
    """Set `status.lastOperation`, of an object that exists."""
    # Removed first: a merge would keep fields of the present one.
    for value in (None, word):
        try:
            await client.patch(
                resource,
                "apple",
                namespace,
                patch={"status": {"lastOperation": value}},
                type=PatchType.MERGE,
                subresource="status",
            )
        except NotFound:
            return


def test_a_forged_ready_of_an_etcd_breaks_off_no_copy() -> None:
    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, with_cloud=True, delay=0.5) as world:
            await world.create_shoot()
            await world.healthy("a")
            world.seeds["b"].links.bucket.cut()
            await world.move("b")
            client, forged = world.seeds["b"].client, 0
            for _ in range(200):
                forged += await set_ready(client)
                await asyncio.sleep(0.05)
            assert forged, "nothing was copying"
            world.seeds["b"].links.bucket.restore()
            await world.healthy("b", seconds=300)
            await world.gone("a")

    virtual.run(main, epoch=EPOCH, seed=1)


async def set_ready(client: Client) -> bool:
    """Set `status.ready` of an Etcd that copies backups, if there is one that is not ready."""
    try:
        live = await client.get(Etcd.resource, "etcd-main", ID)
    except NotFound:
        return False
    typed = live.decode(Etcd)
    if typed.spec.backup.source_store is None or typed.status.ready:
        return False
    status = {"ready": True, "observedGeneration": live.metadata.generation}
    await client.patch(
        Etcd.resource, live.name, ID, patch={"status": status}, type=PatchType.MERGE, subresource="status"
    )
    return True
