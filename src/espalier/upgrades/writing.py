"""Writes of upgrades: precise patches with the identity of what was looked at, and the caches are told."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from espalier.api.kinds import KubeObject
from espalier.api.meta import Observed, Tree
from espalier.api.resource import Resource
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import AlreadyExists, NotFound
from espalier.kube.merging import difference
from espalier.kube.objects import Object
from espalier.runtime import owners
from espalier.runtime.cache import Cache


class Writer:
    """Writes through a client. `caches` are those that shall show what was written at once."""

    def __init__(self, client: Client, caches: Mapping[Resource, Cache]) -> None:
        self.client = client
        self._caches = caches

    def near(self, caches: Mapping[Resource, Cache]) -> Writer:
        """The same, and these caches are told as well."""
        return Writer(self.client, {**self._caches, **caches})

    async def create(self, object_: KubeObject) -> None:
        """Make an object; one of its name that is there stays as it is."""
        try:
            self._wrote(object_.resource, await self.client.create(object_.resource, object_))
        except AlreadyExists:
            return

    async def bring(self, resource: Resource, object_: Object, wanted: Tree) -> bool:
        """Merge into exactly this object, unchanged since it was looked at, what it lacks. Whether a write was needed.

        None stands for what shall not be there. Raises `Conflict` when somebody was faster.
        """
        patch = difference(object_.tree, wanted)
        if not patch:
            return False
        guard = {"uid": object_.metadata.uid, "resourceVersion": object_.resource_version}
        body = patch | {"metadata": {**patch.get("metadata", {}), **guard}}
        self._wrote(resource, await self._patch(resource, object_, body))
        return True

    async def report(
        self, resource: Resource, object_: Object, status: Observed, *, always: Tree | None = None
    ) -> bool:
        """Bring a status up to date; `always` are fields that are written also where they have their defaults."""
        wanted = (always or {}) | msgspec.to_builtins(status)
        patch = difference(object_.tree.get("status") or {}, wanted, whole=True)
        if not patch:
            return False
        body = {"metadata": {"uid": object_.metadata.uid}, "status": patch}
        self._wrote(resource, await self._patch(resource, object_, body, "status"))
        return True

    async def remove(self, resource: Resource, object_: Object) -> None:
        """Ask for the deletion of exactly this object."""
        if object_.metadata.deletion_timestamp is not None:
            return
        try:
            left = await self.client.delete(resource, object_.name, object_.namespace, uid=object_.metadata.uid)
        except NotFound:
            return
        if left is not None:
            self._wrote(resource, left)

    async def add_finalizer(self, resource: Resource, object_: Object, finalizer: str) -> None:
        """Have the object stay until it is let go."""
        held = await owners.add_finalizer(self.client, resource, object_, finalizer)
        if held is not object_:
            self._wrote(resource, held)

    async def remove_finalizer(self, resource: Resource, object_: Object, finalizer: str) -> None:
        """Hold the object no longer."""
        left = await owners.remove_finalizer(self.client, resource, object_, finalizer)
        if left is not None and left.metadata.deletion_timestamp is None:
            self._wrote(resource, left)

    async def _patch(self, resource: Resource, object_: Object, body: Tree, subresource: str | None = None) -> Object:
        return await self.client.patch(
            resource,
            object_.name,
            object_.namespace,
            patch=body,
            type=PatchType.MERGE,
            subresource=subresource,
        )

    def _wrote(self, resource: Resource, object_: Object) -> None:
        cache = self._caches.get(resource)
        if cache is not None:
            cache.wrote(object_)
