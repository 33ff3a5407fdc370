"""Who sees all the time that no shoot has two owners, and at the end that nothing is left, lost or made twice."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

from espalier.api import core
from espalier.api.cloud import CloudRequest, Create, Delete, ItemKind, ListItems, SetRecord
from espalier.api.gardener import names, ownership
from espalier.api.gardener.etcd import Etcd
from espalier.api.gardener.extensions.cluster import Cluster
from espalier.api.gardener.extensions.extension_backups import BackupEntry
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.garden.shoot_state import ShootState
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.resource import Key
from espalier.runtime.caches.cache import Caches
from espalier.shoots.local_provider.cloud import SHOOT_TAG
from espalier.simulator.cloud.request_log import Entry, RequestLog
from tests.support.gardens.fast_etcds import place_of
from tests.support.gardens.garden_users import NAMESPACE, PROJECT
from tests.support.gardens.gardens import World

ITEMS: tuple[ItemKind, ...] = ("Network", "VirtualMachine", "Record")


class ForgetfulLog(RequestLog):
    """Counts, and keeps nothing: a walk is long."""

    def add(self, entry: Entry) -> None:
        """Forget it."""


@dataclass
class OwnerWitness:
    """Sees each call to the cloud before it is made, and knows which seeds had the shoot in which order."""

    world: World
    violations: list[str] = field(default_factory=list)
    calls: int = 0
    _acted: dict[str, int] = field(default_factory=dict)
    """The newest epoch that acted, by shoot and its UID."""

    async def watch(self) -> None:
        """Watch until cancelled."""
        caches = Caches(self.world.client, rng=random.Random(1))
        self._shoots = caches.of(Shoot.resource)
        self.world.cloud.faults = self._sees
        self.world.cloud.log = ForgetfulLog()
        await caches.run()

    def _sees(self, request: CloudRequest) -> None:
        caller, technical_id = request.caller.partition("/")[0].removeprefix("seed "), self._shoot_of(request)
        self.calls += 1
        of_project = names.technical_id(PROJECT, "")
        shoot = self._shoots.get(Key(NAMESPACE, technical_id.removeprefix(of_project)))
        if shoot is None:
            return
        epochs = ownership.parse(shoot.metadata.annotations.get(metadata_keys.OWNERSHIP)).epochs
        its = max((epoch.epoch for epoch in epochs if epoch.seed == caller), default=0)
        newest = self._acted.get(shoot.metadata.uid, 0)
        if its < newest:
            at = f"{self.world.now():%d %H:%M:%S}"
            self.violations.append(f"{at} {caller} acts on {technical_id} in epoch {its}, after epoch {newest} did")
        self._acted[shoot.metadata.uid] = max(its, newest)

    def _shoot_of(self, request: CloudRequest) -> str:
        match request.call:
            case Create(item):
                return item.tags.get(SHOOT_TAG, "")
            case SetRecord(record):
                return record.tags.get(SHOOT_TAG, "")
            case ListItems(_, tags):
                return tags.get(SHOOT_TAG, "")
            case Delete(kind, id_):
                result = (item for item in self.world.cloud.inventory.all(kind) if item.id == id_)
                return next((item.tags.get(SHOOT_TAG, "") for item in result), "")


async def remains(world: World) -> list[str]:
    """Leftovers of shoots where they are not, in the cloud and in seeds, and parts that they lack or have lost."""
    shoots = {shoot.name: shoot.decode(Shoot) for shoot in (await world.client.list(Shoot.resource)).items}
    at = {names.technical_id(PROJECT, name): shoot.status.seed_name for name, shoot in shoots.items()}
    results = [
        f"{kind} {item.name} of {item.tags.get(SHOOT_TAG)}, which is no shoot"
        for kind in ITEMS
        for item in world.cloud.inventory.all(kind)
        if item.tags.get(SHOOT_TAG) not in at
    ]
    for name, shoot in shoots.items():
        technical_id = names.technical_id(PROJECT, name)
        machines = _tagged(world, "VirtualMachine", technical_id)
        if machines != (0 if shoot.status.hibernated else 1) or _tagged(world, "Network", technical_id) != 1:
            results.append(f"{technical_id} has {machines} machines")
        if not shoot.status.hibernated and world.witness.serving.get(technical_id) != shoot.status.seed_name:
            results.append(f"{technical_id} is not served on {shoot.status.seed_name}")
        seed = world.seeds[shoot.status.seed_name or ""]
        etcd = (await seed.client.get(Etcd.resource, "etcd-main", technical_id)).decode(Etcd)
        if lost := world.buckets.lost(place_of(etcd)):
            results.append(f"{technical_id} has lost {len(lost)} acknowledged writes, {lost[0]} first")
    states = {shoot_state.name for shoot_state in (await world.client.list(ShootState.resource)).items}
    results += [f"ShootState {name}, of which there is no shoot" for name in states - shoots.keys()]
    for seed in world.seeds.values():
        for resource in (core.NAMESPACE, Cluster.resource, BackupEntry.resource):
            for element in (await seed.client.list(resource)).items:
                owner = next((each for each in at if each == element.name or f"{each}--" in element.name), None)
                is_shoot = element.name.startswith(f"shoot--{PROJECT}--") or resource == BackupEntry.resource
                if is_shoot and (owner is None or at[owner] != seed.name or names.is_source_backup_entry(element.name)):
                    results.append(f"{element.kind} {element.name} in seed {seed.name}")
    return results


def _tagged(world: World, kind: ItemKind, technical_id: str) -> int:
    items = world.cloud.inventory.all(kind)
    return sum(1 for item in items if item.tags.get(SHOOT_TAG) == technical_id)


async def unclean(world: World, *, seconds: float = 7200) -> list[str]:
    """The leftovers after some time in which all may be cleaned up."""
    end = asyncio.get_running_loop().time() + seconds
    while (result := await remains(world)) and asyncio.get_running_loop().time() < end:  # noqa: ASYNC110
        await asyncio.sleep(60)
    return result
