"""Objects by key, by namespace and by any number of named indexes, in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from sys import intern
from typing import Final

from espalier.api.meta import Head
from espalier.api.resource import Key
from espalier.kube.objects import Object
from espalier.runtime import selectors
from espalier.runtime.mapping import Index


class _Postings:
    """One index: the keys of each value, and the values of each key."""

    __slots__ = ("index", "keys", "values")

    def __init__(self, index: Index) -> None:
        self.index: Final = index
        self.keys: dict[str, dict[Key, None]] = {}
        self.values: dict[Key, tuple[str, ...]] = {}

    def put(self, key: Key, object_: Object) -> None:
        values = tuple(self.index(object_))
        old = self.values.get(key, ())
        if values == old:
            return
        self.remove(key)
        if values:
            self.values[key] = values
            for value in values:
                self.keys.setdefault(value, {})[key] = None

    def remove(self, key: Key) -> None:
        for value in self.values.pop(key, ()):
            keys = self.keys.get(value)
            if keys is not None:
                keys.pop(key, None)
                if not keys:
                    del self.keys[value]


class IndexedObjects:
    """A set of objects of one resource."""

    def __init__(self) -> None:
        self.size = 0
        """The bytes of JSON, counted on each change, as metrics read it often."""
        self._objects: dict[Key, Object] = {}
        self._namespaces: dict[str, dict[Key, None]] = {}
        self._indexes: dict[str, _Postings] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: Key) -> bool:
        return key in self._objects

    @property
    def keys(self) -> list[Key]:
        """All keys, oldest first."""
        return list(self._objects)

    def add_indexes(self, indexes: Mapping[str, Index]) -> None:
        """Add these indexes. Raises `ValueError` if another index has the name."""
        for name, index in indexes.items():
            present = self._indexes.get(name)
            if present is None:
                postings = self._indexes[name] = _Postings(index)
                for key, object_ in self._objects.items():
                    postings.put(key, object_)
            elif present.index is not index:
                raise ValueError(f'an index named "{name}" already exists')

    def put(self, object_: Object) -> Object | None:
        """Add or replace an object, which then belongs to the set; returns the previous one."""
        _share_words(object_.head)
        key = object_.key
        old = self._objects.get(key)
        self._objects[key] = object_
        self.size += len(object_.raw) - (len(old.raw) if old is not None else 0)
        if old is None:
            self._namespaces.setdefault(key.namespace, {})[key] = None
        for postings in self._indexes.values():
            postings.put(key, object_)
        return old

    def remove(self, key: Key) -> Object | None:
        """Remove an object and return it."""
        old = self._objects.pop(key, None)
        if old is not None:
            self.size -= len(old.raw)
            keys = self._namespaces[key.namespace]
            del keys[key]
            if not keys:
                del self._namespaces[key.namespace]
            for postings in self._indexes.values():
                postings.remove(key)
        return old

    def get(self, key: Key) -> Object | None:
        """The object, or None if it is not in the set."""
        return self._objects.get(key)

    def by_index(self, name: str, value: str) -> list[Object]:
        """Objects with this value. Raises `KeyError` for an unknown index."""
        return [self._objects[key] for key in self._indexes[name].keys.get(value, ())]

    def list(self, namespace: str | None = None, labels: str = "") -> list[Object]:
        """Objects of a namespace (or of all) that a label selector selects, oldest first."""
        objects: Iterable[Object]
        if namespace is None:
            objects = self._objects.values()
        else:
            objects = map(self._objects.__getitem__, self._namespaces.get(namespace, ()))
        if labels:
            matches = selectors.parse(labels)
            return [object_ for object_ in objects if matches(object_.metadata.labels)]
        return [*objects]


def _share_words(head: Head) -> None:
    """Intern strings that many objects have in common, which take more memory than an object's own."""
    metadata = head.metadata
    head.api_version, head.kind = intern(head.api_version), intern(head.kind)
    metadata.namespace = intern(metadata.namespace)
    if metadata.labels:
        metadata.labels = {intern(label): intern(value) for label, value in metadata.labels.items()}
    if metadata.annotations:
        metadata.annotations = {intern(annotation): value for annotation, value in metadata.annotations.items()}
    if metadata.finalizers:
        metadata.finalizers = [intern(finalizer) for finalizer in metadata.finalizers]
    for owner in metadata.owner_references:
        owner.api_version, owner.kind = intern(owner.api_version), intern(owner.kind)
        owner.name, owner.uid = intern(owner.name), intern(owner.uid)
