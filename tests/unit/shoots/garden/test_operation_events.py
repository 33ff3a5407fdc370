"""Events of shoots' operations: what of a change of a status is recorded."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.meta import Tree
from espalier.kube.objects import Object, encode_json
from espalier.runtime.caches.cache import Caches
from espalier.runtime.controllers.events import Recorder
from espalier.shoots.garden.operation_events import OperationEvents


def shoot(last: str, *, seed: str = "east", wanted: str = "east", **status: object) -> Object:
    type_, _, state = last.partition(" ")
    operation = {"lastOperation": {"type": type_, "state": state, "description": "so it is"}} if last else {}
    tree: Tree = {
        "apiVersion": Shoot.resource.api_version,
        "kind": "Shoot",
        "metadata": {"name": "apple", "namespace": "garden-dev", "uid": "1"},
        "spec": {"provider": {"type": "local"}, "seedName": wanted},
        "status": {"seedName": seed, **operation, **status},
    }
    return Object(encode_json(tree))


class Written:
    """Stands for caches with one subscriber, and for the recorder."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def of(self, _resource: object) -> Written:
        return self

    def subscribe(self, handler: Any) -> Any:
        self.changed = handler
        return lambda: self.texts.append("unsubscribed")

    def event(self, _shoot: Object, type: str, reason: str, message: str) -> None:
        self.texts.append(f"{type} {reason}: {message}")


async def recorded(*states: Object) -> list[str]:
    written = Written()
    events = OperationEvents(cast(Caches, written), cast(Recorder, written))
    running = asyncio.create_task(events.run())
    await asyncio.sleep(0)
    for old, new in zip((None, *states), (*states, None), strict=True):
        written.changed(old, new, False)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return written.texts[:-1]


async def test_move_is_told_from_request_to_restore() -> None:
    to_west = {"wanted": "west"}
    assert await recorded(
        shoot("Reconcile Succeeded"),
        shoot("Reconcile Succeeded", **to_west),
        shoot("Migrate Pending", **to_west),
        shoot("Migrate Processing", **to_west),
        shoot("Migrate Succeeded", seed="west", **to_west),
        shoot("Restore Processing", seed="west", **to_west),
        shoot("Restore Succeeded", seed="west", **to_west),
    ) == [
        "Normal MoveRequested: the shoot is to move from seed east to seed west",
        "Normal PrepareMigration: Migrate begins on seed east",
        "Normal MigrationPrepared: so it is",
        "Normal Reconciling: Restore begins on seed west",
        "Normal Reconciled: Restore has succeeded on seed west",
    ]


async def test_lost_seed_is_told_until_it_is_given_up() -> None:
    unknown = [{"type": "APIServerAvailable", "status": "Unknown", "reason": "StatusUnknown"}]
    assert await recorded(
        shoot("Create Succeeded", wanted="west"),
        shoot("Create Succeeded", wanted="west", conditions=unknown),
        shoot("Migrate Aborted", seed="west", wanted="west"),
    ) == [
        "Warning SeedSilent: the gardenlet of seed east has stopped renewing its Lease",
        "Warning SeedGivenUp: so it is",
    ]


async def test_each_error_is_told_once() -> None:
    errors = [{"taskID": "Deploy etcd", "description": "broken"}]
    assert await recorded(
        shoot("Delete Processing"),
        shoot("Delete Error", lastErrors=errors),
        shoot("Delete Error", lastErrors=errors),
        shoot("Delete Succeeded"),
    ) == [
        "Warning ReconcileError: Delete on seed east: Deploy etcd: broken",
        "Normal Deleted: Delete has succeeded on seed east",
    ]


@pytest.mark.parametrize("state", ["", "Reconcile Succeeded", "Reconcile Processing"])
async def test_unchanged_operation_is_not_told(state: str) -> None:
    assert await recorded(shoot(state), shoot(state)) == []


async def test_unreadable_shoot_is_left_out() -> None:
    broken = shoot("Reconcile Succeeded", lastErrors="garbage")
    assert await recorded(broken, shoot("Reconcile Processing"), shoot("Reconcile Succeeded")) == [
        "Normal Reconciled: Reconcile has succeeded on seed east"
    ]
