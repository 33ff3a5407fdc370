"""Writes to an API server: only differences, and only to the object that was observed.

An object may be replaced by another of the same name before a write arrives. So each write has a precondition:

- `create`: none; the name has to be free;
- `apply`: the uid of the cached object, or that none exists; and it has to belong to the writer's owner;
- `merge`, `status`: the resource version, or the uid if the caller prefers (`Precondition.UID`);
- finalizers and owners: the resource version, as others write parts of these lists;
- `delete`: the uid; and the object has to belong to the writer's owner;
- `replace`: none, as it is for objects that the API server keeps from belonging to others.

If the precondition fails, a `Conflict` is raised and nothing is written. Without a difference nothing is written, and
the same object is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import TypeAlias

import msgspec

from espalier.api.meta import Observed, OwnerReference, Tree
from espalier.api.resource import Key, Resource
from espalier.kube.client import Client, FieldValidation, PatchType
from espalier.kube.errors import AlreadyExists, ApiError, BadRequest, Conflict, Invalid, NotFound, of_unknown_fields
from espalier.kube.merge_patch import difference
from espalier.kube.objects import Body, Object
from espalier.runtime.caches.cache import Cache
from espalier.runtime.caches.transforms import strip_managed_fields
from espalier.runtime.controllers.own_writes import OwnWrites

OtherOwner: TypeAlias = Callable[[Resource, Object], str]
"""Returns the other owner of an object, for messages; empty if it is the writer's own."""

NONEXISTENT_VERSION = "1"
"""A resource version that no stored object has. An apply with it creates an object, or fails with a Conflict if one
exists: an object that a cache does not show yet is not overwritten."""


class Precondition(Enum):
    """The precondition of a write."""

    UID = "uid"
    """The observed object, even if it changed since.

    kube-apiserver ignores it for a status: one that is written to a recreated object is corrected by the reconcile of
    that object."""
    VERSION = "resourceVersion"
    """The observed object, unchanged."""


class NameTaken(Exception):
    """An object was not written, as the one with its name belongs to somebody else."""

    def __init__(self, resource: Resource, key: Key, holder: str) -> None:
        super().__init__(taken(resource, key, holder))
        self.resource, self.key, self.holder = resource, key, holder


def taken(resource: Resource, key: Key, holder: str) -> str:
    """The name of an object and its owner, for messages."""
    return f"{resource.kind}.{resource.group or 'core'} {key} ({holder})"


def found_by_owner(_resource: Resource, _object: Object) -> str:
    """For objects found by the uid of their owner, or reconciled themselves: they belong to nobody else."""
    return ""


class Writer:
    """Writes through a client. It updates `caches` after each write, and `own_writes` before."""

    def __init__(
        self,
        client: Client,
        caches: Mapping[Resource, Cache],
        field_manager: str = "",
        own_writes: Mapping[Resource, OwnWrites] | None = None,
    ) -> None:
        self.client = client
        self._caches = caches
        self._field_manager = field_manager
        self._own_writes = own_writes or {}

    def with_caches(self, caches: Mapping[Resource, Cache]) -> Writer:
        """The same writer, which also updates these caches."""
        return Writer(self.client, {**self._caches, **caches}, self._field_manager, self._own_writes)

    def with_client(self, client: Client) -> Writer:
        """The same writer with another client of the same API server, such as one behind a fence."""
        return Writer(client, self._caches, self._field_manager, self._own_writes)

    async def read(self, resource: Resource, key: Key) -> Object | None:
        """An object that no cache has, from the API server; None if it does not exist."""
        try:
            return strip_managed_fields(await self.client.get(resource, key.name, key.namespace or None))
        except NotFound:
            return None

    async def create(self, resource: Resource, body: Body) -> Object | None:
        """Create an object; None if one with the name exists already (the cache will show it)."""
        try:
            created = await self.client.create(resource, body)
        except AlreadyExists:
            return None
        return self._wrote(resource, created)

    async def replace(self, resource: Resource, body: Body) -> Object:
        """Replace the whole object."""
        return self._wrote(resource, await self.client.replace(resource, body))

    async def apply(self, resource: Resource, body: Tree, other_owner: OtherOwner) -> Object:
        """Take ownership of these fields of an object, even from others; create it if it does not exist.

        Raises `NameTaken` if the object belongs to somebody else, and `Conflict` if it is another one than in the
        cache: then nothing was written.
        """
        metadata = body["metadata"]
        live = self._cached_own(resource, Key(metadata.get("namespace", ""), metadata["name"]), other_owner)
        expected = {"uid": live.metadata.uid} if live is not None else {"resourceVersion": NONEXISTENT_VERSION}
        written = {**body, "metadata": {**metadata, **expected}}
        try:
            applied = await self.client.apply(resource, written, field_manager=self._field_manager)
        except Invalid as refusal:
            raise _stale(refusal, resource, metadata["name"]) from refusal
        return self._wrote(resource, applied)

    async def merge(
        self, resource: Resource, current: Object, wanted: Tree, precondition: Precondition = Precondition.VERSION
    ) -> Object:
        """Merge the fields of `wanted` into an object, if any differs; None removes a field."""
        patch = difference(current.tree, wanted)
        if resource in self._own_writes:
            self._own_writes[resource].annotates(current.key, patch.get("metadata", {}).get("annotations") or {})
        return await self._patch(resource, current, patch, precondition)

    async def status(
        self,
        resource: Resource,
        current: Object,
        status: msgspec.Struct | Tree,
        precondition: Precondition = Precondition.VERSION,
        *,
        before: msgspec.Struct | Tree | None = None,
    ) -> Object:
        """Replace the object's status, if it differs. With `before`, the part of it that is ours, other fields stay."""
        wanted = msgspec.to_builtins(status)
        present = current.decode(_WithStatus).status or {} if before is None else msgspec.to_builtins(before)
        if present == wanted:  # the usual case
            return current
        patch = difference({"status": present}, {"status": wanted}, exact=True)

        async def send(field_validation: FieldValidation | None = None) -> Object:
            if resource in self._own_writes:
                self._own_writes[resource].reports(current.key, wanted)
            return await self._patch(resource, current, patch, precondition, "status", field_validation)

        try:
            return await send()
        except (BadRequest, Invalid) as refusal:
            if not of_unknown_fields(refusal):
                raise
        # A definition of an earlier release: what it knows is said. The server warns of the rest, which is logged.
        return await send("Warn")

    async def add_finalizer(self, resource: Resource, current: Object, finalizer: str) -> Object:
        """Add a finalizer."""
        present = current.metadata.finalizers
        if finalizer in present:
            return current
        patch = {"metadata": {"finalizers": [*present, finalizer]}}
        return await self._patch(resource, current, patch, Precondition.VERSION)

    async def remove_finalizer(self, resource: Resource, current: Object, *finalizers: str) -> None:
        """Remove finalizers, if the object still exists."""
        present = current.metadata.finalizers
        others = [other for other in present if other not in finalizers]
        if len(others) < len(present):
            await self._patch_if_exists(resource, current, {"metadata": {"finalizers": others}})

    async def add_owner(
        self, resource: Resource, current: Object, owner: OwnerReference, labels: Mapping[str, str] | None = None
    ) -> Object:
        """Add `owner` to the owners, replacing an older reference to it, and set these labels."""
        present = current.metadata.owner_references
        wanted: Tree = {"labels": dict(labels)} if labels else {}
        if owner not in present:
            others = [other for other in present if other.uid != owner.uid]
            wanted["ownerReferences"] = msgspec.to_builtins([*others, owner])
        return await self.merge(resource, current, {"metadata": wanted})

    async def remove_owner(self, resource: Resource, current: Object, uid: str) -> None:
        """Remove the owner with this uid, if the object still exists."""
        present = current.metadata.owner_references
        others = [other for other in present if other.uid != uid]
        if len(others) < len(present):
            patch = {"metadata": {"ownerReferences": msgspec.to_builtins(others)}}
            await self._patch_if_exists(resource, current, patch)

    async def delete(
        self,
        resource: Resource,
        current: Object,
        other_owner: OtherOwner,
        precondition: Precondition = Precondition.UID,
    ) -> None:
        """Delete exactly this object, unless it is being deleted already.

        Raises `NameTaken` if it belongs to somebody else by now, and `Conflict` if another one has its name, or, with
        `Precondition.VERSION`, if it changed.
        """
        if other_owner is not found_by_owner:
            self._cached_own(resource, current.key, other_owner)
            if holder := other_owner(resource, current):
                raise NameTaken(resource, current.key, holder)
        if current.metadata.deletion_timestamp is not None:
            return
        namespace, uid = current.namespace or None, current.metadata.uid
        version = current.resource_version if precondition is Precondition.VERSION else None
        try:
            remaining = await self.client.delete(resource, current.name, namespace, uid=uid, resource_version=version)
        except NotFound:
            return
        if remaining is not None:  # the object has finalizers or a grace period
            self._wrote(resource, remaining)

    def _cached_own(self, resource: Resource, key: Key, other_owner: OtherOwner) -> Object | None:
        """The cached object. Raises `NameTaken` if it belongs to somebody else."""
        live = self._caches[resource].get(key)
        if live is not None and (holder := other_owner(resource, live)):
            raise NameTaken(resource, key, holder)
        return live

    async def _patch_if_exists(self, resource: Resource, current: Object, patch: Tree) -> None:
        try:
            await self._patch(resource, current, patch, Precondition.VERSION)
        except NotFound:
            return

    async def _patch(
        self,
        resource: Resource,
        current: Object,
        patch: Tree,
        precondition: Precondition,
        subresource: str | None = None,
        field_validation: FieldValidation | None = None,
    ) -> Object:
        if not patch:
            return current
        expected = {"uid": current.metadata.uid}
        if precondition is Precondition.VERSION:
            expected["resourceVersion"] = current.resource_version
        try:
            written = await self.client.patch(
                resource,
                current.name,
                current.namespace or None,
                patch={**patch, "metadata": {**patch.get("metadata", {}), **expected}},
                type=PatchType.MERGE,
                subresource=subresource,
                field_validation=field_validation,
            )
        except BaseException as error:
            if resource in self._own_writes:
                self._own_writes[resource].forget(current.key)
            if isinstance(error, Invalid):
                raise _stale(error, resource, current.name) from error
            raise
        return self._wrote(resource, written)

    def _wrote(self, resource: Resource, object_: Object) -> Object:
        cache = self._caches.get(resource)
        metadata = object_.metadata
        is_gone = (
            metadata.deletion_timestamp is not None and not metadata.finalizers
        )  # this was the object's last state
        if cache is not None and not is_gone:
            cache.wrote(object_)
        return strip_managed_fields(object_)


class _WithStatus(Observed, frozen=True):
    status: Tree | None = None


def _stale(refusal: Invalid, resource: Resource, name: str) -> ApiError:
    """A Conflict if the refusal is because of the uid, which means that it is another object; else the refusal."""
    causes = refusal.status.details.causes if refusal.status.details else ()
    if {cause.field for cause in causes} == {"metadata.uid"}:  # built-in kinds repeat the cause
        return Conflict.of(f"{resource.kind} {name} was recreated by somebody else")
    return refusal
