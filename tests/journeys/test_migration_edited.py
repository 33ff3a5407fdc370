"""Each kind of object edited or deleted by hand at some moments of a move: it ends as undisturbed, or says what to do.

Never do two seeds serve, and never is anything made or deleted in the infrastructure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from espalier.api import core
from espalier.api.gardener import names
from espalier.api.gardener.etcd import Etcd
from espalier.api.gardener.extensions.cluster import Cluster
from espalier.api.gardener.extensions.infrastructure import Infrastructure
from espalier.api.gardener.extensions.worker import Worker
from espalier.api.gardener.garden.backups import BackupBucket, BackupEntry
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.garden.shoot_state import ShootState
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.gardener.vocabulary.metadata_keys import FORCE_RESTORE, OWNERSHIP
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.cli.programs.garden_components import VALIDATING_WEBHOOKS
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import Forbidden, Invalid, NotFound
from espalier.runtime import virtual
from espalier.shoots.secrets import names as secret_names
from espalier.shoots.state.rbac import ROLE_OF_GARDENLET
from tests.support.gardens.gardens import EPOCH, NAMESPACE, World, garden
from tests.support.sampling import sampled

ID = names.technical_id("dev", "apple")
MOMENTS = (0.0, 1.3, 3.1, 6.0, 11.0)
"""Seconds after a move was asked for; in the bad case after its source was given up."""

Edit = Callable[["Move"], Awaitable[None]]


@dataclass(frozen=True)
class Move:
    """A move that is under way."""

    world: World
    source: str
    destination: str

    def seed(self, name: str) -> Client:
        return self.world.seeds[name].client

    async def each(self, edit: Callable[[Client], Awaitable[object]]) -> None:
        """In both seeds, where the object is there."""
        for name in (self.source, self.destination):
            await if_there(edit(self.seed(name)))


async def if_there(edit: Awaitable[object]) -> None:
    """Make the edit unless the object is missing or admission refuses people this edit."""
    try:
        await edit
    except (NotFound, Forbidden, Invalid):
        return


async def entry(move: Move, *, source: bool) -> str:
    uid = (await move.world.shoot()).status.uid
    return names.source_backup_entry(ID, uid) if source else names.backup_entry(ID, uid)


def annotated(key: str, value: str | None) -> Edit:
    async def edit(move: Move) -> None:
        await if_there(move.world.patch({"metadata": {"annotations": {key: value}}}))

    return edit


def of_garden(resource: Resource, name: str, namespace: str | None, patch: Tree | None) -> Edit:
    """A deletion, without a patch."""

    async def edit(move: Move) -> None:
        await if_there(edited(move.world.client, resource, name, namespace, patch))

    return edit


def of_seeds(resource: Resource, name: str, namespace: str | None = ID, patch: Tree | None = None) -> Edit:
    async def edit(move: Move) -> None:
        await move.each(lambda client: edited(client, resource, name, namespace, patch))

    return edit


async def edited(client: Client, resource: Resource, name: str, namespace: str | None, patch: Tree | None) -> None:
    if patch is None:
        await client.delete(resource, name, namespace)
    else:
        await client.patch(resource, name, namespace, patch=patch, type=PatchType.MERGE)


def of_entry(*, source: bool, patch: Tree | None) -> Edit:
    async def edit(move: Move) -> None:
        name = await entry(move, source=source)
        await if_there(edited(move.world.client, BackupEntry.resource, name, NAMESPACE, patch))

    return edit


async def deletes_buckets(move: Move) -> None:
    for bucket in (await move.world.client.list(BackupBucket.resource)).items:
        await if_there(edited(move.world.client, BackupBucket.resource, bucket.name, None, None))


async def deletes_roles(move: Move) -> None:
    for seed in (move.source, move.destination):
        for namespace in (NAMESPACE, names.STATE_NAMESPACE):
            name = ROLE_OF_GARDENLET.format(seed=seed)
            await if_there(edited(move.world.client, core.ROLE, name, namespace, None))


async def empties_roles(move: Move) -> None:
    for seed in (move.source, move.destination):
        name = ROLE_OF_GARDENLET.format(seed=seed)
        await if_there(edited(move.world.client, core.ROLE, name, NAMESPACE, {"rules": []}))


async def frees_roles(move: Move) -> None:
    for seed in (move.source, move.destination):
        name = ROLE_OF_GARDENLET.format(seed=seed)
        await if_there(edited(move.world.client, core.ROLE_BINDING, name, NAMESPACE, {"subjects": []}))


def without_finalizer(resource: Resource) -> Edit:
    """Deleted past its extension."""

    async def edit(move: Move) -> None:
        await of_seeds(resource, "apple", patch={"metadata": {"finalizers": None}})(move)
        await of_seeds(resource, "apple")(move)

    return edit


EDITS: dict[str, Edit] = {
    "the finalizer of the Shoot goes": of_garden(
        Shoot.resource, "apple", NAMESPACE, {"metadata": {"finalizers": None}}
    ),
    "an order to retry": annotated("gardener.cloud/operation", "retry"),
    "an order to reconcile": annotated("gardener.cloud/operation", "reconcile"),
    "the released epoch is another one": annotated("espalier.gardener.cloud/released-epoch", "0"),
    "the ownership epochs go": annotated(OWNERSHIP, None),
    "the ownership epochs are nonsense": annotated(OWNERSHIP, "nonsense"),
    "the ShootState is deleted": of_garden(ShootState.resource, "apple", NAMESPACE, None),
    "the ShootState loses its labels": of_garden(
        ShootState.resource, "apple", NAMESPACE, {"metadata": {"labels": None, "annotations": None}}
    ),
    "the BackupEntry is deleted": of_entry(source=False, patch=None),
    "the BackupEntry is given to nobody": of_entry(source=False, patch={"spec": {"seedName": "nobody"}}),
    "the source BackupEntry is deleted": of_entry(source=True, patch=None),
    "the BackupBuckets are deleted": deletes_buckets,
    "the Clusters' leases end": of_seeds(
        Cluster.resource, ID, None, {"spec": {"leaseExpiration": "2020-01-01T00:00:00.000000Z"}}
    ),
    "the Clusters are deleted": of_seeds(Cluster.resource, ID, None),
    "the Etcds are deleted": of_seeds(Etcd.resource, "etcd-main"),
    "the Etcds are scaled down": of_seeds(Etcd.resource, "etcd-main", patch={"spec": {"replicas": 0}}),
    "the Etcds lose their annotations": of_seeds(Etcd.resource, "etcd-main", patch={"metadata": {"annotations": None}}),
    "the Workers lose finalizer and life": without_finalizer(Worker.resource),
    "the Infrastructures lose finalizer and life": without_finalizer(Infrastructure.resource),
    "the Infrastructures lose their orders": of_seeds(
        Infrastructure.resource, "apple", patch={"metadata": {"annotations": {metadata_keys.OPERATION: None}}}
    ),
    "the Secrets of backups are deleted": of_seeds(core.SECRET, names.BACKUP_SECRET),
    "the Secrets of source backups are deleted": of_seeds(core.SECRET, names.SOURCE_BACKUP_SECRET),
    "the persisted authority is deleted": of_seeds(core.SECRET, secret_names.PERSISTED[0]),
    "the API servers are deleted": of_seeds(core.DEPLOYMENT, "kube-apiserver"),
    "the API servers are started": of_seeds(core.DEPLOYMENT, "kube-apiserver", patch={"spec": {"replicas": 1}}),
    "the namespaces lose their marks": of_seeds(core.NAMESPACE, ID, None, {"metadata": {"annotations": None}}),
    "the Clusters lose their marks": of_seeds(Cluster.resource, ID, None, {"metadata": {"annotations": None}}),
    "the Roles of the gardenlets are deleted": deletes_roles,
    "the Roles of the gardenlets are emptied": empties_roles,
    "the Roles of the gardenlets are given to nobody": frees_roles,
}

VARIANTS = [(what, bad, moment) for what in EDITS for bad in (False, True) for moment in MOMENTS]


ALWAYS = ("the namespaces lose their marks", False, 6.0), ("the Roles of the gardenlets are emptied", True, 1.3)


@pytest.mark.soak
@pytest.mark.parametrize(("what", "bad", "moment"), sampled(VARIANTS, *map(VARIANTS.index, ALWAYS)))
def test_move_with_an_edit_ends_as_undisturbed(what: str, bad: bool, moment: float) -> None:
    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, delay=0.5) as world:
            await world.create_shoot()
            await world.healthy("a")
            await asyncio.sleep(15)
            inventory, persisted = dict(world.infrastructures.inventory), await authorities(world, "a")
            creates = world.infrastructures.count("create")
            move = Move(world, "a", "b")
            await moved(move, EDITS[what], moment, bad=bad)
            assert world.infrastructures.inventory == inventory
            assert world.infrastructures.count("create") == creates
            assert world.infrastructures.count("delete") == 0
            assert world.witness.serving == {ID: "b"}
            assert await authorities(world, "b") == persisted
            assert len({tuple(data) for data in world.buckets.data.values()}) == 1

    virtual.run(main, epoch=EPOCH, seed=1)


async def moved(move: Move, edit: Edit, moment: float, *, bad: bool) -> None:
    """One move, with the edit at a moment of it."""
    world = move.world
    if bad:
        world.seeds[move.source].links.garden.cut()
        await asyncio.sleep(45)
    await world.move(move.destination)
    if bad:
        await world.patch({"metadata": {"annotations": {FORCE_RESTORE: "true"}}})
    await asyncio.sleep(moment)
    await edit(move)
    await world.healthy(move.destination, seconds=1800)
    world.restore_links()
    await world.gone(move.source, seconds=1800)
    await asyncio.sleep(30)  # the edit may have come after all that
    await world.healthy(move.destination, seconds=1800)


async def authorities(world: World, seed: str) -> dict[str, dict[str, str]]:
    result = await world.secrets(seed)
    return {name: result[name] for name in secret_names.PERSISTED}


@pytest.mark.soak
def test_late_revert_of_a_move_says_to_finish_it() -> None:
    """Past the webhooks; admission would have refused it."""

    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, delay=0.5) as world:
            await world.create_shoot()
            await world.healthy("a")
            await asyncio.sleep(15)
            creates = world.infrastructures.count("create")
            world.seeds["a"].links.bucket.cut()  # so that etcd is handed over for long
            await world.move("b")
            await world.until(lambda shoot: "Hand over etcd" in str(shoot.status.last_operation))
            await asyncio.sleep(5)
            await world.client.delete(core.VALIDATING_WEBHOOK_CONFIGURATION, VALIDATING_WEBHOOKS)
            await world.move("a")
            told = await world.until(lambda shoot: bool(shoot.status.last_errors))
            assert "which has already handed over the shoot's etcd" in told.status.last_errors[0].description
            assert "move the shoot to another seed, then back" in told.status.last_errors[0].description
            assert world.witness.serving == {}
            await world.move("b")
            await world.healthy("b")
            assert world.infrastructures.count("create") == creates
            assert world.witness.serving == {ID: "b"}

    virtual.run(main, epoch=EPOCH, seed=1)
