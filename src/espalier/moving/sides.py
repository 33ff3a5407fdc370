"""A management cluster as source or target of a move: its identity, and all objects that may be moved or matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from espalier.api.core import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, NAMESPACE, SECRET
from espalier.api.eksa.vocabulary.group import GROUP, INFRASTRUCTURE_ANNOTATION, SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.kube.client import Client
from espalier.kube.errors import NotFound
from espalier.kube.objects import Object
from espalier.moving.objects import Index, Item

_GROUPS = (GROUP, "distro.eks.amazonaws.com")
_CLUSTER_API = "cluster.x-k8s.io"


@dataclass(frozen=True)
class Inventory:
    """The objects of a management cluster at about one moment."""

    items: Sequence[Item]
    definitions: Sequence[Object]
    namespaces: frozenset[str]

    @cached_property
    def index(self) -> Index:
        """The objects by what they are called, and by their cluster."""
        return Index(self.items)

    @cached_property
    def kinds(self) -> Mapping[tuple[str, str], frozenset[str]]:
        """The versions that are served, by groups and kinds that are defined."""
        specs = [definition.tree["spec"] for definition in self.definitions]
        return {
            (spec["group"], spec["names"]["kind"]): frozenset(
                version["name"] for version in spec["versions"] if version["served"]
            )
            for spec in specs
        }


@dataclass(frozen=True)
class Side:
    """A management cluster; `uid`, that of its system namespace, distinguishes it from every other.

    `infrastructure` identifies simulated machines that only some management clusters reach; empty for all others.
    """

    client: Client
    uid: str
    infrastructure: str = field(default="", kw_only=True)

    @classmethod
    async def of(cls, client: Client) -> Side | None:
        """The management cluster of a client; None if it has no system namespace."""
        try:
            metadata = (await client.get(NAMESPACE, SYSTEM_NAMESPACE)).metadata
        except NotFound:
            return None
        return cls(client, metadata.uid, infrastructure=metadata.annotations.get(INFRASTRUCTURE_ANNOTATION, ""))

    def unreached(self, infrastructure: str) -> list[str]:
        """The reason why clusters with machines of `infrastructure` can't be managed here; none if it is unknown."""
        if infrastructure in ("", self.infrastructure):
            return []
        return [
            "the target does not reach the machines of the source: simulated machines, and the API servers on them, "
            "are those of one process; create both management clusters with the same --bootstrap-kubeconfig"
        ]

    async def read(self) -> Inventory:
        """All objects of our kinds and Cluster API's, with Secrets and ConfigMaps, and the kinds and namespaces."""
        definitions = (await self.client.list(CUSTOM_RESOURCE_DEFINITION)).items
        kinds = [served for definition in definitions if (served := _served(definition.tree["spec"])) is not None]
        items = []
        for resource, has_status in (*kinds, (SECRET, False), (CONFIG_MAP, False)):
            try:
                listed = await self.client.list(resource)
            except NotFound:  # the definition was made or removed just now
                continue
            items += [Item(resource, object_, has_status) for object_ in listed.items]
        namespaces = frozenset(namespace.name for namespace in (await self.client.list(NAMESPACE)).items)
        return Inventory(items, definitions, namespaces)


def is_known(group: str, kind: str) -> bool:
    """True for a kind that belongs to clusters: of our groups or Cluster API's, or a Secret or ConfigMap."""
    return _is_ours(group) or (not group and kind in (SECRET.kind, CONFIG_MAP.kind))


def _is_ours(group: str) -> bool:
    return group in _GROUPS or group == _CLUSTER_API or group.endswith(f".{_CLUSTER_API}")


def _served(spec: Tree) -> tuple[Resource, bool] | None:
    """The stored version of a kind, and whether its status is written apart; None for kinds of others."""
    group = spec["group"]
    if not _is_ours(group):
        return None
    version: dict[str, Any] | None = next((version_ for version_ in spec["versions"] if version_["storage"]), None)
    if version is None:  # nothing can be read of it
        return None
    names, namespaced = spec["names"], spec["scope"] == "Namespaced"
    resource = Resource(group, version["name"], names["plural"], names["kind"], namespaced)
    return resource, "status" in version.get("subresources", {})
