"""Who decides that a shoot passes from a seed to another one, by a Shoot that was changed since it was read."""

from __future__ import annotations

import random
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from espalier.api.conditions import get
from espalier.api.core import CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from espalier.api.definitions.crd import crd_of
from espalier.api.gardener.garden.seed import BUCKET_REACHABLE, CLOCKS_AGREE, Seed
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.vocabulary.operations import OperationType
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import Conflict
from espalier.kube.objects import Object, encode_json
from espalier.runtime.caches.cache import Cache, Caches
from espalier.runtime.clock import SystemClock
from espalier.runtime.controllers.outcome import Done, Wait
from espalier.runtime.controllers.writer import Writer
from espalier.shoots.garden.config import GardenConfig
from espalier.shoots.garden.controller import Garden
from espalier.shoots.garden.seed_leases import SeedLeases
from espalier.shoots.gardenlet.context import Live
from espalier.shoots.gardenlet.reconciling import steps
from tests.support.servers.embedded_server import client_of, new_server

PROJECT = "garden-dev"
SPEC = {"provider": {"type": "local"}}


@asynccontextmanager
async def moving() -> AsyncIterator[tuple[Client, Object]]:
    """A shoot that seed `a` has, and `b` is to have."""
    server = new_server()
    await server.start()
    client = client_of(server)
    await client.create(CUSTOM_RESOURCE_DEFINITION, crd_of(Shoot))
    await client.create(NAMESPACE, {"metadata": {"name": PROJECT}})
    yield client, await made(client)
    await server.close()


async def made(client: Client) -> Object:
    metadata = {"name": "apple", "namespace": PROJECT}
    await client.create(Shoot.resource, {"metadata": metadata, "spec": {**SPEC, "seedName": "b"}})
    return await patched(client, {"status": {"seedName": "a"}}, subresource="status")


async def patched(client: Client, patch: Tree, **more: Any) -> Object:
    return await client.patch(Shoot.resource, "apple", PROJECT, patch=patch, type=PatchType.MERGE, **more)


def object_of(tree: Tree) -> Object:
    return Object(encode_json(tree))


async def seed_of(client: Client) -> str | None:
    return (await client.get(Shoot.resource, "apple", PROJECT)).decode(Shoot).status.seed_name


async def test_withdrawn_request_gives_up_no_seed() -> None:
    async with moving() as (client, seen):
        silent = cast(SeedLeases, SimpleNamespace(silence=lambda _seed: 1e6))
        garden = Garden(Caches(client, rng=random.Random(1)), Writer(client, {}), SystemClock(), GardenConfig(), silent)
        await patched(client, {"spec": {"seedName": "a"}})
        with pytest.raises(Conflict):
            await garden._await_source(seen)
        assert await seed_of(client) == "a"
        await garden._await_source(await patched(client, {"spec": {"seedName": "b"}}))
        assert await seed_of(client) == "b"


async def test_former_destination_is_not_reported_ready() -> None:
    """Its source would stop it for a destination that nobody has checked."""
    async with moving() as (client, seen):
        nothing = Caches(client, rng=random.Random(1))
        garden = Garden(nothing, Writer(client, {}), SystemClock(), GardenConfig(), cast(SeedLeases, None))
        garden._shoots = garden._seeds = cast(Cache, SimpleNamespace(get={seen.key: seen}.get, list=lambda: [seen]))
        await patched(client, {"spec": {"seedName": "c"}})
        with pytest.raises(Conflict):
            await garden._migrate(seen.key)
        assert not (await client.get(Shoot.resource, "apple", PROJECT)).decode(Shoot).status.constraints


READY = {"conditions": [{"type": "GardenletReady", "status": "True"}]}
BACKUP = {"provider": "local", "credentialsRef": {"name": "bucket", "namespace": "garden"}}


@pytest.mark.demand(G33="where no webhook ran")
async def test_unreviewed_move_that_is_refused_stops_nothing() -> None:
    async with moving() as (client, _seen):
        seeds = {
            Key("", name): object_of(
                {"apiVersion": Seed.resource.api_version, "kind": "Seed", "metadata": {"name": name, "uid": name}}
                | {"spec": {"provider": {"type": "local"}, "backup": BACKUP}, "status": READY}
            )
            for name in ("a", "b")
        }
        done = {"lastOperation": {"type": "Reconcile", "state": "Succeeded", "progress": 100}}
        secret = {"name": "bucket", "namespace": "garden"}
        spec = {"seedName": "b", "provider": {"type": "local"}, "secretRef": secret, "type": "local"}
        bucket = object_of({"kind": "BackupBucket", "metadata": {"name": "b"}, "spec": spec, "status": done})
        nothing = Caches(client, rng=random.Random(1))
        silent = cast(SeedLeases, SimpleNamespace(silence=lambda _seed: 0.0))
        garden = Garden(nothing, Writer(client, {}), SystemClock(), GardenConfig(), silent)
        garden._seeds = cast(Cache, SimpleNamespace(get=seeds.get))
        garden._buckets = cast(Cache, SimpleNamespace(get=lambda _key: bucket))

        async def told(state: str) -> tuple[str, str, str]:
            last = {"type": "Create", "state": state, "progress": 50}
            shoot = await patched(client, {"status": {"lastOperation": last}}, subresource="status")
            garden._shoots = cast(Cache, SimpleNamespace(get={shoot.key: shoot}.get, list=lambda: [shoot]))
            outcome = await garden._migrate(shoot.key)
            assert isinstance(outcome, Wait)
            (constraint,) = (await client.get(Shoot.resource, "apple", PROJECT)).decode(Shoot).status.constraints
            return outcome.reason, constraint.status, constraint.message

        reason, status, message = await told("Processing")
        assert (reason, status) == ("MoveRefused", "False")
        assert "Create Processing" in message
        assert "Name seed a again" in message
        assert (await told("Succeeded"))[:2] == ("SourceMigrating", "True")


def leases(*, skew: float | None) -> SimpleNamespace:
    return SimpleNamespace(
        is_observed=True, has_lease=lambda _seed: True, silence=lambda _seed: 0.0, skew=lambda _seed: skew
    )


async def test_condition_tells_of_a_wrong_clock() -> None:
    async with moving() as (client, _shoot):
        await client.create(CUSTOM_RESOURCE_DEFINITION, crd_of(Seed))
        await client.create(Seed.resource, {"metadata": {"name": "a"}, "spec": SPEC})
        conditions = []
        for skew in (None, 0.0, 22.0, None, 0.0, -9.0):
            silent = cast(SeedLeases, leases(skew=skew))
            garden = Garden(
                Caches(client, rng=random.Random(1)), Writer(client, {}), SystemClock(), GardenConfig(), silent
            )
            live = await client.get(Seed.resource, "a")
            garden._seeds = cast(Cache, SimpleNamespace(get={live.key: live}.get))
            await garden._seed(live.key)
            status = (await client.get(Seed.resource, "a")).decode(Seed).status
            reported = get(status.conditions, CLOCKS_AGREE)
            conditions.append(
                reported and (reported.status, re.findall("more than 5 s (ahead|behind)", reported.message))
            )
        ahead, behind = ("False", ["ahead"]), ("False", ["behind"])
        assert conditions == [None, None, ahead, ahead, ("True", []), behind]


async def test_garden_keeps_newer_reports_of_gardenlets() -> None:
    async with moving() as (client, _shoot):
        await client.create(CUSTOM_RESOURCE_DEFINITION, crd_of(Seed))
        seen = await client.create(Seed.resource, {"metadata": {"name": "a"}, "spec": SPEC})
        reported = {"type": f"{BUCKET_REACHABLE}{'b' * 63}", "status": "True"}
        patch = {"status": {"conditions": [reported]}}
        await client.patch(Seed.resource, "a", patch=patch, type=PatchType.MERGE, subresource="status")
        alive = leases(skew=0.0)
        nothing = Caches(client, rng=random.Random(1))
        garden = Garden(nothing, Writer(client, {}), SystemClock(), GardenConfig(), cast(SeedLeases, alive))
        garden._seeds = cast(Cache, SimpleNamespace(get={seen.key: seen}.get))
        with pytest.raises(Conflict):
            await garden._seed(seen.key)
        conditions = (await client.get(Seed.resource, "a")).decode(Seed).status.conditions
        assert [condition.type for condition in conditions] == [reported["type"]]


def migrated(client: Client, shoot: Object) -> steps.Attempt:
    """A source whose flow is done. All but its client to the garden is of no account."""
    tools = SimpleNamespace(garden=Writer(client, {}), clock=SystemClock(), config=SimpleNamespace(seed="a"))
    observer = SimpleNamespace(scope=lambda live, _now: SimpleNamespace(shoot=live.shoot.decode(Shoot), seed_name="a"))
    live, operation = Live(shoot, None), OperationType.MIGRATE
    return steps.Attempt(cast(Any, observer), cast(Any, tools), live, SystemClock().now(), operation)


async def test_seed_does_not_pass_on_to_a_former_target(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ran(*_: object) -> Any:
        return SimpleNamespace(is_done=True)

    monkeypatch.setattr(steps, "_run", ran)
    async with moving() as (client, seen):
        fresh = await patched(client, {"spec": {"seedName": "c"}})
        with pytest.raises(Conflict):
            await steps.advance(migrated(client, seen))
        assert await seed_of(client) == "a"
        assert isinstance(await steps.advance(migrated(client, fresh)), Done)
        assert await seed_of(client) == "c"


async def test_migration_never_acts_on_a_later_shoot() -> None:
    async with moving() as (client, seen):
        ask = steps._guard(migrated(client, seen))
        assert await ask() is None
        await client.delete(Shoot.resource, "apple", PROJECT)
        await made(client)
        assert isinstance(await ask(), Wait)
