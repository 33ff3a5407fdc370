"""Moves and restores that are refused, from what stands at their two ends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from espalier.api.capi import cluster as capi
from espalier.api.core import CUSTOM_RESOURCE_DEFINITION
from espalier.api.eksa.vocabulary.group import MOVE_ANNOTATION
from espalier.kube.errors import Conflict
from espalier.kube.objects import Object, encode_json
from espalier.moving import condition, objects
from espalier.moving.copies import Refused
from espalier.moving.mover import Mover
from espalier.moving.objects import CAPI_CLUSTER, CLUSTER, Item
from espalier.moving.record import COPYING, HANDED_OVER, Record
from espalier.moving.restore import Restore
from espalier.moving.sides import Inventory
from tests.support.objects.moved_clusters import GARDEN, NoRules, made

BLOCK_MOVE = "clusterctl.cluster.x-k8s.io/block-move"


def definition() -> Object:
    versions = [{"name": "v1alpha1", "served": True, "storage": True}]
    spec = {"group": CLUSTER.group, "names": {"kind": CLUSTER.kind}, "versions": versions}
    metadata = {"apiVersion": CUSTOM_RESOURCE_DEFINITION.api_version, "kind": CUSTOM_RESOURCE_DEFINITION.kind}
    return Object(encode_json({**metadata, "metadata": {"name": "a"}, "spec": spec}))


def inventory(record: Record | None = None, *, is_there: bool = True) -> Inventory:
    annotations = {MOVE_ANNOTATION: record.text} if record is not None else {}
    cluster = Item(CLUSTER, made(CLUSTER.api_version, GARDEN, 1, annotations=annotations), True)
    return Inventory([cluster] if is_there else [], [definition()], frozenset({GARDEN.namespace}))


def side(uid: str, read: Inventory, infrastructure: str = "") -> Any:
    async def reading() -> Inventory:
        return read

    def unreached(other: str) -> list[str]:
        return [] if other in ("", infrastructure) else ["the target does not reach the machines of the source"]

    return SimpleNamespace(uid=uid, read=reading, infrastructure=infrastructure, unreached=unreached, client=None)


def mover(here: Inventory, there: Inventory, machines: Sequence[str] = ("", "")) -> Mover:
    source, target = side("here", here, machines[0]), side("there", there, machines[1])
    return Mover(source, target, NoRules(), lambda _text: None)


EMPTY = inventory(is_there=False)


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (Record(1, "else", "there"), "is being moved to this management cluster: go on with that move at its source"),
        (Record(1, "here", "else"), "is being moved to another target: go on with that move"),
        (Record(1, "here", "there", HANDED_OVER), "is handed over, and does not exist at the target"),
        (Record(1, "else", "here", is_restore=True), "is being restored to this management cluster"),
    ],
)
def test_a_move_of_others_is_not_joined(record: Record, words: str) -> None:
    with pytest.raises(Refused, match=words):
        asyncio.run(mover(inventory(record), EMPTY).check([GARDEN]))


def test_a_target_that_reaches_no_machines_is_refused() -> None:
    with pytest.raises(Refused, match="does not reach the machines"):
        asyncio.run(mover(inventory(), EMPTY, ("a", "b")).check([GARDEN]))
    assert asyncio.run(mover(inventory(), EMPTY, ("a", "a")).check([GARDEN])).keys() == {GARDEN}


@pytest.mark.parametrize(
    ("here", "words"),
    [
        (EMPTY, "does not exist at the source: if it was moved, move it back from the target"),
        (inventory(Record(1, "here", "else")), "between other management clusters: give their kubeconfigs"),
        (inventory(Record(1, "else", "there")), "between other management clusters: give their kubeconfigs"),
        (inventory(Record(1, "here", "there", HANDED_OVER)), "is handed over: let the move finish"),
        (inventory(Record(1, "else", "here", is_restore=True)), "is being restored to this management cluster"),
    ],
)
def test_a_move_of_others_is_not_taken_back(here: Inventory, words: str) -> None:
    with pytest.raises(Refused, match=words):
        asyncio.run(mover(here, EMPTY).take_back([GARDEN]))


def test_a_record_that_somebody_removed_is_said() -> None:
    with pytest.raises(Refused, match="somebody removed annotation"):
        mover(inventory(), EMPTY)._required(inventory(), GARDEN)


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (Record(1, "else", "there", is_restore=True), "from the folder of another management cluster"),
        (Record(1, "lost", "else", is_restore=True), "from the folder of another management cluster"),
        (Record(1, "lost", "there", COPYING), "is being moved from this management cluster, or to it"),
    ],
)
def test_a_restore_of_others_is_not_joined(record: Record, words: str) -> None:
    target = side("there", inventory(record))
    restore = Restore("lost", inventory().items, target, NoRules(), lambda _text: None)
    with pytest.raises(Refused, match=words):
        asyncio.run(restore.check([GARDEN]))


def test_objects_that_are_held_are_not_copied() -> None:
    blocked = Item(CLUSTER, made(CLUSTER.api_version, GARDEN, 1, annotations={BLOCK_MOVE: "a"}), True)
    assert ["wait until its controller removes it" in text for text in objects.unfit(blocked)] == [True]
    tree = made(capi.Cluster.resource.api_version, GARDEN, 1).tree | {"spec": {"paused": True}}
    paused = Item(CAPI_CLUSTER, Object(encode_json(tree)), True)
    assert ["spec.paused is true: set it to false" in text for text in objects.unfit(paused)] == [True]
    assert list(objects.unfit(paused, is_moving=True)) == []
    assert list(objects.unfit(Item(CLUSTER, paused.object, True))) == [], "Cluster API's alone"


def test_a_condition_that_always_conflicts_is_an_error() -> None:
    tries: list[int] = []

    class Client:
        async def get(self, *_words: object) -> Object:
            return made(CLUSTER.api_version, GARDEN, len(tries))

        async def patch(self, *_words: object, **_options: object) -> None:
            tries.append(1)
            raise Conflict.of("somebody else wrote it")

    at = SimpleNamespace(client=Client())
    with pytest.raises(Conflict):
        asyncio.run(condition.report(at, GARDEN, condition.RESTORED, datetime(2026, 1, 1, tzinfo=UTC)))  # type: ignore[arg-type]
    assert len(tries) > 1
