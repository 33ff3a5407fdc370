"""Writes to the management cluster: only what differs, and only on what was observed.

Every change names the resource version it was planned on. Who planned on an old state gets a `Conflict`, and plans
again when the newer state has arrived.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import msgspec

from espalier.api.meta import Observed, OwnerReference, Tree
from espalier.api.resource import Key, Resource
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import AlreadyExists, Conflict, NotFound
from espalier.kube.merging import difference
from espalier.kube.objects import Object
from espalier.runtime.cache import Cache
from espalier.runtime.outcome import Outcome, Wait
from espalier.runtime.owners import with_owner
from espalier.runtime.transforms import strip_managed_fields

Reconcile = Callable[[Key], Awaitable[Outcome]]


class _Reported(Observed, frozen=True):
    status: Tree | None = None


class Writer:
    """Writes through a client, and tells the caches what to expect."""

    def __init__(self, client: Client, caches: Mapping[Resource, Cache]) -> None:
        self._client = client
        self._caches = caches

    async def create(self, resource: Resource, body: Tree) -> Object | None:
        """Make an object; None when one of the name is there already (the cache will show it)."""
        try:
            created = await self._client.create(resource, body)
        except AlreadyExists:
            return None
        return self._wrote(resource, created)

    async def change(self, resource: Resource, current: Object, wanted: Tree) -> Object:
        """Merge the fields of `wanted` into an object, if it lacks any. Returns the object as it is then."""
        return await self._patch(resource, current, difference(current.tree, wanted), None)

    async def status(self, resource: Resource, current: Object, status: msgspec.Struct) -> Object:
        """Make `status` the object's whole status, unless it is. Returns the object as it is then."""
        wanted = msgspec.to_builtins(status)
        present = current.decode(_Reported).status or {}
        if present == wanted:  # as nearly always
            return current
        patch = difference({"status": present}, {"status": wanted}, whole=True)
        return await self._patch(resource, current, patch, "status")

    async def finalizer(self, resource: Resource, current: Object, finalizer: str, *, present: bool) -> Object:
        """Add or remove a finalizer, if need be. Returns the object as it is then."""
        others = [other for other in current.metadata.finalizers if other != finalizer]
        if present == (len(others) < len(current.metadata.finalizers)):
            return current
        wanted = [*others, finalizer] if present else others
        return await self._patch(resource, current, {"metadata": {"finalizers": wanted}}, None)

    async def owner(self, resource: Resource, current: Object, owner: OwnerReference, labels: Tree) -> Object:
        """Have `owner` among the object's owners, and these labels on it. Returns the object as it is then."""
        present = current.metadata
        owners = with_owner(present, owner)
        if owners is present.owner_references and labels.items() <= present.labels.items():
            return current
        wanted = {"ownerReferences": msgspec.to_builtins(owners), "labels": labels}
        return await self.change(resource, current, {"metadata": wanted})

    async def delete(self, resource: Resource, current: Object) -> None:
        """Ask for the deletion of exactly this object, unless that was done before."""
        if current.metadata.deletion_timestamp is not None:
            return
        try:
            remaining = await self._client.delete(
                resource, current.name, current.namespace or None, uid=current.metadata.uid
            )
        except NotFound:
            return
        if remaining is not None:
            self._wrote(resource, remaining)

    async def _patch(self, resource: Resource, current: Object, patch: Tree, subresource: str | None) -> Object:
        if not patch:
            return current
        metadata = {**patch.get("metadata", {}), "resourceVersion": current.resource_version}
        written = await self._client.patch(
            resource,
            current.name,
            current.namespace or None,
            patch={**patch, "metadata": metadata},
            type=PatchType.MERGE,
            subresource=subresource,
        )
        return self._wrote(resource, written)

    def _wrote(self, resource: Resource, object_: Object) -> Object:
        cache = self._caches.get(resource)
        if cache is not None:
            cache.wrote(object_)
        return strip_managed_fields(object_)


def replanned(reconcile: Reconcile) -> Reconcile:
    """A reconcile whose plan turned out to be older than the world waits for the newer state instead of failing."""

    async def attempt(key: Key) -> Outcome:
        try:
            return await reconcile(key)
        except (Conflict, NotFound) as stale:
            return Wait("PlanOutdated", f"the world changed while this was planned: {stale}", after=1.0)

    return attempt
