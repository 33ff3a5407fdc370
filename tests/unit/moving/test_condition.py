"""Condition Moving is written when it changes, and keeps the time since when it holds."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.kube.errors import NotFound
from espalier.kube.objects import Object, encode_json
from espalier.moving import condition
from espalier.moving.objects import CLUSTER, MOVING

GARDEN = Key("default", "garden")
NOW, EARLIER = datetime(2026, 1, 1, tzinfo=UTC), "2025-12-24T00:00:00Z"
READY = {"type": "Ready", "status": "True", "reason": "Ready", "message": ""}


def present(standing: tuple[str, str] = condition.RESTORED) -> Tree:
    return condition.tree_of(standing, 1, NOW) | {"lastTransitionTime": EARLIER}


class Client:
    """An API server with a Cluster of these conditions, or without one."""

    def __init__(self, conditions: list[Tree] | None) -> None:
        self.conditions = conditions
        self.writes = 0

    async def get(self, *_words: object) -> Object:
        if self.conditions is None:
            raise NotFound.of("there is no such Cluster")
        metadata = {"name": GARDEN.name, "namespace": GARDEN.namespace, "uid": "u", "generation": 1}
        head = {"apiVersion": CLUSTER.api_version, "kind": CLUSTER.kind, "metadata": metadata}
        return Object(encode_json({**head, "status": {"conditions": self.conditions}}))

    async def patch(self, *_words: object, patch: Tree, **_options: object) -> None:
        self.writes += 1
        self.conditions = patch["status"]["conditions"]


def reported(conditions: list[Tree] | None, standing: tuple[str, str] | None, *, ends_ready: bool = False) -> Client:
    client = Client(conditions)
    side: Any = SimpleNamespace(client=client)
    asyncio.run(condition.report(side, GARDEN, standing, NOW, ends_ready=ends_ready))
    return client


@pytest.mark.parametrize(
    ("conditions", "standing"),
    [([READY, present()], condition.RESTORED), ([READY], None), (None, condition.RESTORED)],
    ids=["reported", "none", "no Cluster"],
)
def test_unchanged_condition_is_not_written(conditions: list[Tree] | None, standing: tuple[str, str] | None) -> None:
    assert reported(conditions, standing).writes == 0


@pytest.mark.parametrize(
    ("stored", "since"),
    [(present(condition.BY_MOVE.copying), EARLIER), ({"type": MOVING, "status": "True"}, "2026-01-01T00:00:00Z")],
    ids=["with a time", "without"],
)
def test_condition_keeps_the_time_that_it_has(stored: Tree, since: str) -> None:
    written = reported([READY, stored], condition.BY_MOVE.handed_over).conditions
    assert written == [READY, condition.tree_of(condition.BY_MOVE.handed_over, 1, NOW) | {"lastTransitionTime": since}]


@pytest.mark.parametrize("ends_ready", [True, False])
def test_ready_ends_with_the_hand_over_if_asked(ends_ready: bool) -> None:
    reason, message = condition.BY_MOVE.handed_over
    ready = READY | {"status": "False", "reason": reason, "message": message} if ends_ready else READY
    written = reported([READY], condition.BY_MOVE.handed_over, ends_ready=ends_ready).conditions
    assert written == [ready, condition.tree_of(condition.BY_MOVE.handed_over, 1, NOW)]


def test_ended_move_leaves_the_other_conditions() -> None:
    assert reported([READY, present()], None, ends_ready=True).conditions == [READY]
