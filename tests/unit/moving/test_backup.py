"""Backups of clusters: each is taken as it was at one moment, or left out."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from espalier.api.capi import cluster as capi
from espalier.api.eksa.vocabulary.group import (
    CLUSTER_NAME_LABEL,
    CLUSTER_NAMESPACE_LABEL,
    MOVE_ANNOTATION,
    SYSTEM_NAMESPACE,
)
from espalier.api.resource import Key
from espalier.moving import backup
from espalier.moving.objects import CAPI_CLUSTER, CLUSTER, Item
from espalier.moving.sides import Inventory, Side
from tests.support.objects.moved_clusters import GARDEN, NoRules, made

OTHER = Key("default", "other")


@dataclass(frozen=True)
class Scripted(Side):
    """A management cluster whose readings are given: the versions of the Machine-like object of each cluster."""

    readings: list[Sequence[int]]
    annotations: Mapping[str, str]

    async def read(self) -> Inventory:
        versions = self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]
        items = []
        for key, version in zip((GARDEN, OTHER), versions, strict=True):
            items.append(Item(CLUSTER, made(CLUSTER.api_version, key, 1, annotations=self.annotations), True))
            labels = {
                capi.CLUSTER_NAME_LABEL: key.name,
                CLUSTER_NAME_LABEL: key.name,
                CLUSTER_NAMESPACE_LABEL: key.namespace,
            }
            there = Key(SYSTEM_NAMESPACE, key.name)
            items.append(Item(CAPI_CLUSTER, made(CAPI_CLUSTER.api_version, there, version, labels=labels), True))
        return Inventory(items, [], frozenset())


def taken(readings: list[Sequence[int]], annotations: Mapping[str, str] | None = None) -> backup.Taken:
    side = Scripted(None, "uid", readings, annotations or {})  # type: ignore[arg-type]  # nothing is requested
    return asyncio.run(backup.take(side, NoRules(), [GARDEN, OTHER], lambda _: None))


def versions(value: backup.Taken) -> dict[str, str]:
    return {item.object.name: item.object.resource_version for item in value.items if item.resource is CAPI_CLUSTER}


def test_a_cluster_is_taken_between_equal_readings() -> None:
    """That of the first changes twice, and is read until it rests; the second is not read again."""
    result = taken([(1, 1), (2, 1), (3, 7), (3, 8)])
    assert (result.clusters, result.left_out) == ([OTHER, GARDEN], {})
    assert versions(result) == {"garden": "3", "other": "1"}


def test_a_cluster_that_never_rests_is_left_out() -> None:
    result = taken([(number, 1) for number in range(50)])
    assert (result.clusters, list(result.left_out)) == ([OTHER], [GARDEN])
    assert "change all the time" in result.left_out[GARDEN]
    assert versions(result) == {"other": "1"}


def test_a_cluster_being_moved_is_left_out() -> None:
    result = taken([(1, 1)], {MOVE_ANNOTATION: "{}"})
    assert (result.clusters, set(result.left_out)) == ([], {GARDEN, OTHER})
    assert "is being moved: let the move finish" in result.left_out[GARDEN]
