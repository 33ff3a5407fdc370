"""The records of clusters that were taken over from EKS Anywhere, by what they say belongs to these clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from espalier.api.capi import cluster as capi
from espalier.api.core import CONFIG_MAP
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.resource import Key, Resource
from espalier.clusters.design import names
from espalier.clusters.design.cluster_objects import adoption
from espalier.clusters.design.cluster_objects.adoption import Adoption
from espalier.kube.client import Client
from espalier.kube.errors import Forbidden, NotFound
from espalier.kube.objects import Object
from espalier.runtime.caches.cache import Caches
from espalier.runtime.caches.snapshot import Snapshot
from espalier.runtime.caches.transforms import metadata_only
from espalier.runtime.controllers import owners

BY_CLAIM = "claim"


class Adoptions:
    """Reads the ConfigMaps."""

    def __init__(self, caches: Caches) -> None:
        indexes = {BY_CLAIM: _claims}
        self.cache = caches.of(CONFIG_MAP, SYSTEM_NAMESPACE, labels=metadata_keys.ADOPTED_LABEL, indexes=indexes)
        self._made = caches.of(capi.Cluster.resource, SYSTEM_NAMESPACE, transform=metadata_only)

    def of(self, cluster: Key, made: Object | None) -> Adoption | None:
        """The record of a Cluster whose Cluster of Cluster API is `made`; None if it was not taken over."""
        object_ = self.cache.get(Key(SYSTEM_NAMESPACE, adoption.config_map(made.name))) if made is not None else None
        record = _record(object_, made)
        return record if record is not None and record.key == cluster else None

    def owner_of(self, resource: Resource, object_: Object) -> Key | None:
        """The Cluster to which an object belongs by its labels, or without any by a record."""
        owner = names.cluster_of(object_.metadata.labels)
        return owner if owner is not None else next(iter(self.claiming(resource, object_.name)), None)

    def claiming(self, resource: Resource, name: str) -> list[Key]:
        """The Clusters to which an object of this name belongs by their records.

        Records of a Cluster of Cluster API that is gone, or was made again, claim nothing, nor do those of nobody.
        """
        claimed = self.cache.by_index(BY_CLAIM, adoption.claim(resource, name))
        records = (_record(object_, self._made.get(_made_by(object_))) for object_ in claimed)
        return [record.key for record in records if record is not None]


def unread(resource: Resource) -> str:
    """The sentence for who may not read records, or the Clusters of Cluster API that own them."""
    return (
        f"you may not list {resource.group_resource} in namespace {SYSTEM_NAMESPACE}, by which clusters that were "
        "taken over from EKS Anywhere are known: what belongs to such a cluster may be missing here"
    )


async def read(client: Client, tell: Callable[[str], None]) -> Adoptions:
    """The records of a management cluster as they are now, for a command; none for who may not read them, and `tell`
    gets a sentence that says so."""
    snapshot = Snapshot()
    adoptions = Adoptions(snapshot)
    records = await objects(client, tell)
    made: list[Object] = []
    if records:
        made = await _listed(client, capi.Cluster.resource, "", tell)
    snapshot.fill([*records, *made])
    return adoptions


async def objects(client: Client, tell: Callable[[str], None]) -> list[Object]:
    """The ConfigMaps with records; none for who may not read them, and `tell` gets a sentence that says so."""
    return await _listed(client, CONFIG_MAP, metadata_keys.ADOPTED_LABEL, tell)


async def _listed(client: Client, resource: Resource, labels: str, tell: Callable[[str], None]) -> list[Object]:
    try:
        return (await client.list(resource, SYSTEM_NAMESPACE, labels=labels)).items
    except Forbidden:
        tell(unread(resource))
    except NotFound:
        pass
    return []


def _made_by(object_: Object) -> Key:
    """The Cluster of Cluster API whose record a ConfigMap is by its name."""
    return Key(SYSTEM_NAMESPACE, object_.name.removesuffix(adoption.config_map("")))


def _record(object_: Object | None, made: Object | None) -> Adoption | None:
    """The record in a ConfigMap of this Cluster of Cluster API, which owns it; None for one of nobody."""
    if object_ is None or made is None or object_.name != adoption.config_map(made.name):
        return None
    return adoption.of_object(object_) if owners.is_owned_by(object_, made) else None


def cluster_of(object_: Object) -> Iterable[Key]:
    """The Cluster that a record is about."""
    record = adoption.of_object(object_)
    return [record.key] if record is not None else []


def _claims(object_: Object) -> Iterable[str]:
    record = adoption.of_object(object_)
    return record.claims if record is not None else ()
