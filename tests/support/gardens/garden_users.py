"""The users of a garden: their actions, and what they and its operators see of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from espalier.api import core
from espalier.api.gardener import names
from espalier.api.gardener.extensions.cluster import Cluster
from espalier.api.gardener.extensions.extension_backups import BackupEntry
from espalier.api.gardener.garden.seed import Seed
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.vocabulary.operations import OperationState, OperationType
from espalier.api.meta import Tree
from espalier.apiserver.server import Server
from espalier.cli.local.environment.garden import garden_objects
from espalier.cli.local.environment.garden.gardens import Garden
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import ServerFailure

PROJECT = "dev"
NAMESPACE = names.project_namespace(PROJECT)


class GardenUser:
    """A user of one project, who is an operator as well."""

    def __init__(self, garden: Garden) -> None:
        self.garden = garden
        self.client: Client = garden.client

    def now(self) -> datetime:
        return self.garden.clock.now()

    async def create_shoot(self, name: str = "apple", seed: str | None = "a", **spec: Any) -> None:
        placed = {"seedName": seed} if seed else {}
        body = garden_objects.shoot(
            name, NAMESPACE, version=garden_objects.VERSIONS[0], nodes=(1, 2), **{**placed, **spec}
        )
        await self.client.create(Shoot.resource, body)

    async def move(self, seed: str, name: str = "apple") -> None:
        await self.patch({"spec": {"seedName": seed}}, name)

    async def patch(self, patch: Tree, name: str = "apple") -> None:
        """Again where the garden has just started and says so."""
        while True:
            try:
                await self.client.patch(Shoot.resource, name, NAMESPACE, patch=patch, type=PatchType.MERGE)
            except ServerFailure as error:
                if "try again" not in str(error):
                    raise
                await asyncio.sleep(1)
            else:
                return

    async def patch_seed(self, name: str, patch: Tree) -> None:
        await self.client.patch(Seed.resource, name, patch=patch, type=PatchType.MERGE)

    async def shoot(self, name: str = "apple") -> Shoot:
        return (await self.client.get(Shoot.resource, name, NAMESPACE)).decode(Shoot)

    async def until(
        self, is_so: Callable[[Shoot], bool], name: str = "apple", *, seconds: float = 3600, every: float = 1.0
    ) -> Shoot:
        """Wait until a Shoot is as described; raises with what it says if it never is."""
        end = asyncio.get_running_loop().time() + seconds
        while True:
            result = await self.shoot(name)
            if is_so(result):
                return result
            if asyncio.get_running_loop().time() > end:
                raise TimeoutError(
                    f"after {seconds} s: {msgspec.to_builtins(result.status)} {result.metadata.annotations}"
                )
            await asyncio.sleep(every)

    async def healthy(self, seed: str, name: str = "apple", *, seconds: float = 3600) -> Shoot:
        """Wait until a shoot is whole on a seed."""
        return await self.until(lambda shoot: is_whole(shoot, seed), name, seconds=seconds)

    async def gone(self, seed: str, name: str = "apple", *, seconds: float = 3600) -> None:
        """Wait until nothing of a shoot is in a seed."""
        end = asyncio.get_running_loop().time() + seconds
        while left := await self.left(seed, name):
            if asyncio.get_running_loop().time() > end:
                raise TimeoutError(f"after {seconds} s in {seed}: {left}")
            await asyncio.sleep(1)

    async def left(self, seed: str, name: str = "apple") -> list[str]:
        """The leftovers of a shoot in a seed: namespaces and Clusters and what has none."""
        technical_id = names.technical_id(PROJECT, name)
        client = self.garden.seeds[seed].client
        results = []
        for resource in (core.NAMESPACE, Cluster.resource, BackupEntry.resource):
            results += [
                f"{item.kind} {item.name}" for item in (await client.list(resource)).items if technical_id in item.name
            ]
        return results

    async def secrets(self, seed: str, name: str = "apple") -> dict[str, dict[str, str]]:
        listed = await self.garden.seeds[seed].client.list(core.SECRET, names.technical_id(PROJECT, name))
        return {item.name: item.tree.get("data") or {} for item in listed.items}


def is_whole(shoot: Shoot, seed: str) -> bool:
    """True if a shoot has settled on a seed."""
    last = shoot.status.last_operation
    is_done = last is not None and last.state == OperationState.SUCCEEDED and last.type != OperationType.MIGRATE
    return (shoot.spec.seed_name, shoot.status.seed_name) == (seed, seed) and is_done


def requests(server: Server, agent: str) -> Counter[tuple[str, str]]:
    """A program's requests to a server, by verb and resource."""
    result: Counter[tuple[str, str]] = Counter()
    for (verb, resource, _sub, who), count in server.requests.items():
        if who == agent:
            result[verb, resource] += count
    return result
