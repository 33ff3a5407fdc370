"""Writes of a reconcile: by server-side apply and precise patches, and the caches are told."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from espalier.api.eksa import cluster as eksa
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.clusters.guarded import Belongs, Guarded
from espalier.clusters.names import FIELD_MANAGER
from espalier.clusters.plan import Change, Removal
from espalier.clusters.predicates import Reports
from espalier.kube.client import Client, PatchType
from espalier.kube.merging import difference
from espalier.kube.objects import Object
from espalier.runtime.cache import Cache


class Writer:
    """Writes through a client. `caches` are those that shall show what was written at once."""

    def __init__(self, client: Client, caches: Mapping[Resource, Cache], reports: Reports) -> None:
        self.client = client
        self._caches = caches
        self._guarded = Guarded(client, caches, FIELD_MANAGER)
        self._reports = reports

    async def apply(self, change: Change, belongs: Belongs) -> None:
        """Own these fields of an object, whoever owned them before. Raises `NameTaken` when it is another's."""
        self.wrote(change.resource, await self._guarded.apply(change.resource, change.body, belongs))

    async def remove(self, removal: Removal, belongs: Belongs) -> None:
        """Ask for the deletion of exactly this object. Raises `NameTaken` when it is another's."""
        left = await self._guarded.delete(removal.resource, removal.object, belongs)
        if left is not None:
            self.wrote(removal.resource, left)

    async def annotate(self, resource: Resource, object_: Object, annotation: str, value: str) -> None:
        """Set one annotation."""
        await self.annotate_all(resource, object_, {annotation: value})

    async def annotate_all(self, resource: Resource, object_: Object, annotations: Mapping[str, str]) -> None:
        """Set these annotations by one write."""
        if resource == eksa.Cluster.resource:
            for annotation, value in annotations.items():
                self._reports.marks(object_.key, annotation, value)
        await self.merge(resource, object_, {"metadata": {"annotations": dict(annotations)}})

    async def merge(self, resource: Resource, object_: Object, patch: Tree) -> None:
        """Set some fields of exactly this object."""
        metadata = {**patch.get("metadata", {}), "uid": object_.metadata.uid}
        written = await self.client.patch(
            resource,
            object_.name,
            object_.namespace or None,
            patch={**patch, "metadata": metadata},
            type=PatchType.MERGE,
        )
        self.wrote(resource, written)

    async def report(self, object_: Object, old: eksa.ClusterStatus, new: eksa.ClusterStatus) -> bool:
        """Bring the status of a Cluster up to date. Whether a write was needed."""
        status = msgspec.to_builtins(new)
        patch = difference(msgspec.to_builtins(old), status, whole=True)
        if not patch:
            return False
        self._reports.says(object_.key, status)
        written = await self.client.patch(
            eksa.Cluster.resource,
            object_.name,
            object_.namespace,
            patch={"metadata": {"uid": object_.metadata.uid}, "status": patch},
            type=PatchType.MERGE,
            subresource="status",
        )
        self.wrote(eksa.Cluster.resource, written)
        return True

    def wrote(self, resource: Resource, object_: Object) -> None:
        """Have the caches show an object that was written."""
        cache = self._caches.get(resource)
        if cache is not None:
            cache.wrote(object_)
