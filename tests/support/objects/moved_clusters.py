"""Clusters as moves read them, and a judge of moves without rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.kube.objects import Object, encode_json
from espalier.moving.objects import Place
from espalier.moving.sides import Inventory

GARDEN = Key("default", "garden")


class NoRules:
    """A judge that has no objection."""

    stamps: frozenset[str] = frozenset()

    def named(self, at: Inventory, key: Key) -> Iterable[Place]:
        return []

    completing = named

    def context(self, at: Inventory) -> Iterable[Place]:
        return []

    def unsettled(self, source: Inventory, key: Key) -> Iterable[str]:
        return []

    def obstacles(self, source: Inventory, target: Inventory, key: Key) -> Iterable[str]:
        return []

    def is_record(self, at: Inventory, key: Key) -> bool:
        return False

    def management(self, at: Inventory) -> str:
        return ""

    def settled(self, source: Inventory, target: Inventory, key: Key) -> tuple[Mapping[str, str], Tree]:
        return {}, {}


def made(api_version: str, key: Key, version: int, **metadata: object) -> Object:
    named = {"name": key.name, "namespace": key.namespace, "uid": f"{api_version} {key}"}
    return Object(
        encode_json(
            {
                "apiVersion": api_version,
                "kind": "Cluster",
                "metadata": named | metadata | {"resourceVersion": str(version)},
            }
        )
    )
