"""The records of clusters that were taken over from EKS Anywhere, by what they say belongs to these clusters."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from espalier.api.core import CONFIG_MAP
from espalier.api.eksa import metadata_keys
from espalier.api.eksa.group import SYSTEM_NAMESPACE
from espalier.api.resource import Key, Resource
from espalier.clusters.design import adoption, names
from espalier.clusters.design.adoption import Adoption
from espalier.kube.client import Client
from espalier.kube.errors import Forbidden, NotFound
from espalier.kube.objects import Object
from espalier.runtime import owners
from espalier.runtime.cache import Caches
from espalier.runtime.snapshot import Snapshot

BY_CLAIM = "claim"


class Adoptions:
    """Reads the ConfigMaps."""

    def __init__(self, caches: Caches) -> None:
        indexes = {BY_CLAIM: _claims}
        self.cache = caches.of(CONFIG_MAP, SYSTEM_NAMESPACE, labels=metadata_keys.ADOPTED_LABEL, indexes=indexes)

    def of(self, cluster: Key, made: Object | None) -> Adoption | None:
        """The record of a Cluster whose Cluster of Cluster API is `made`; None if it was not taken over."""
        if made is None:
            return None
        object_ = self.cache.get(Key(SYSTEM_NAMESPACE, adoption.config_map(made.name)))
        if object_ is None or not owners.is_owned_by(object_, made):
            return None
        record = adoption.of_object(object_)
        return record if record is not None and record.key == cluster else None

    def owner_of(self, resource: Resource, object_: Object) -> Key | None:
        """The Cluster to which an object belongs by its labels, or without any by a record."""
        owner = names.cluster_of(object_.metadata.labels)
        return owner if owner is not None else next(iter(self.claiming(resource, object_.name)), None)

    def claiming(self, resource: Resource, name: str) -> list[Key]:
        """The Clusters to which an object of this name belongs by their records."""
        records = map(adoption.of_object, self.cache.by_index(BY_CLAIM, adoption.claim(resource, name)))
        return [record.key for record in records if record is not None]


async def read(client: Client) -> Adoptions:
    """The records of a management cluster as they are now, for a command; none for who may not read them."""
    snapshot = Snapshot()
    adoptions = Adoptions(snapshot)
    snapshot.fill(await objects(client))
    return adoptions


async def objects(client: Client) -> list[Object]:
    """The ConfigMaps with records; none for who may not read them."""
    with suppress(Forbidden, NotFound):
        return (await client.list(CONFIG_MAP, SYSTEM_NAMESPACE, labels=metadata_keys.ADOPTED_LABEL)).items
    return []


def cluster_of(object_: Object) -> Iterable[Key]:
    """The Cluster that a record is about."""
    record = adoption.of_object(object_)
    return [record.key] if record is not None else []


def _claims(object_: Object) -> Iterable[str]:
    record = adoption.of_object(object_)
    return record.claims if record is not None else ()
