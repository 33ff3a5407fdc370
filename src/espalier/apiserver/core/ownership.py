"""The graph of owner references, updated with each change and used by garbage collection."""

from __future__ import annotations

from typing import NamedTuple

from espalier.api.meta import OwnerReference
from espalier.api.resource import Key
from espalier.apiserver.schema.registry import Registry
from espalier.apiserver.storage.store import Change, Store
from espalier.kube.objects import Object


class Place(NamedTuple):
    """The location of an object: its table and its key."""

    table: str
    key: Key


class Ownership:
    """The dependents of every owner, by the owner's uid."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self._store = store
        self._registry = registry
        self._dependents: dict[str, dict[Place, None]] = {}

    def change(self, change: Change) -> None:
        """Record a change."""
        place = Place(change.table, change.key)
        if change.before is not None:
            for reference in change.before.head.metadata.owner_references:
                self._remove(reference.uid, place)
        if not change.deleted:
            self.add(place, change.after)

    def add(self, place: Place, item: Object) -> None:
        """Record an object."""
        for reference in item.head.metadata.owner_references:
            self._dependents.setdefault(reference.uid, {})[place] = None

    def _remove(self, uid: str, place: Place) -> None:
        dependents = self._dependents.get(uid)
        if dependents is not None:
            dependents.pop(place, None)
            if not dependents:
                del self._dependents[uid]

    def dependents(self, uid: str) -> list[Place]:
        """Objects with this owner."""
        return list(self._dependents.get(uid, ()))

    def blocking(self, uid: str, namespace: str) -> list[Place]:
        """Dependents that block a foreground deletion of their owner: only in its own namespace."""
        return [
            place
            for place in self.dependents(uid)
            if (not namespace or place.key.namespace == namespace)
            and (item := self.get(place)) is not None
            and any(owner.uid == uid and owner.block_owner_deletion for owner in item.head.metadata.owner_references)
        ]

    def get(self, place: Place) -> Object | None:
        """The object at a location."""
        return self._store.table(place.table).objects.get(place.key)

    def owner(self, place: Place, reference: OwnerReference) -> Object | None:
        """The owner that an object references; None when it is gone.

        Raises `LookupError` when that is unknown: its kind is not served, or the reference's scope is invalid.
        """
        kind = self._registry.by_kind(reference.api_version, reference.kind)
        if kind is None:
            raise LookupError(f"{reference.api_version} {reference.kind} is not served")
        if kind.resource.namespaced and not place.key.namespace:
            raise LookupError("a cluster-scoped object can't have a namespaced owner")
        namespace = place.key.namespace if kind.resource.namespaced else ""
        owner = self._store.table(kind.table).objects.get(Key(namespace, reference.name))
        return owner if owner is not None and owner.head.metadata.uid == reference.uid else None
