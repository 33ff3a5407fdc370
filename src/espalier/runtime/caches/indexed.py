"""Objects by key, by namespace and by any number of named indexes, in memory.

Of large sets only those objects are ready that were used last. The others are packed: without their decoded metadata,
and compressed with another object of the set as dictionary, from which most differ in little more than names. So a
manager with thousands of settled clusters holds a fifth of their wire size, and a reconcile unpacks what it reads.
"""

from __future__ import annotations

import struct
import zlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from sys import intern
from typing import Final, TypeAlias

from msgspec import Raw

from espalier.api.core import SECRET
from espalier.api.meta import Head
from espalier.api.resource import Key
from espalier.kube.objects import Object
from espalier.runtime.caches import selectors
from espalier.runtime.caches.mapping import Index

READY = 256
"""The number of objects of a set that are not packed."""

Packed: TypeAlias = bytes
"""The length of an object's JSON, and compressed: the JSON, and its managedFields, as they may have been cut out of it.
"""

_LENGTH = struct.Struct("<I")
_LEVEL, _RAW_DEFLATE = 1, -zlib.MAX_WBITS
_LONGEST_DICTIONARY = 1 << zlib.MAX_WBITS


class _Packing:
    """Packs the objects of one set and unpacks them."""

    def __init__(self) -> None:
        self._dictionary: bytes | None = None

    def pack(self, object_: Object) -> Packed:
        """An object, packed."""
        managed = object_.metadata.managed_fields
        beside = bytes(managed) if managed is not None else b""
        content = object_.raw + beside
        if self._dictionary is None:
            # A Secret is not to be remembered longer than it exists.
            self._dictionary = content[:_LONGEST_DICTIONARY] if object_.kind != SECRET.kind else b""
        packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _RAW_DEFLATE, zdict=self._dictionary)
        return _LENGTH.pack(len(object_.raw)) + packer.compress(content) + packer.flush()

    def unpack(self, packed: Packed) -> Object:
        """The object: equal to the one that was packed."""
        (length,) = _LENGTH.unpack_from(packed)
        unpacker = zlib.decompressobj(_RAW_DEFLATE, zdict=self._dictionary or b"")
        content = unpacker.decompress(memoryview(packed)[_LENGTH.size :])
        object_ = Object(content[:length])
        if length < len(content):
            object_.metadata.managed_fields = Raw(content[length:])
        return object_


class _Postings:
    """One index: the keys of each value, and the values of each key."""

    __slots__ = ("_keys", "index", "values")

    def __init__(self, index: Index) -> None:
        self.index: Final = index
        self._keys: dict[str, Key | dict[Key, None]] = {}  # most values have one key
        self.values: dict[Key, tuple[str, ...]] = {}

    def put(self, key: Key, object_: Object) -> None:
        # Interned, as the caches of several kinds have the same values: a cluster's name.
        values = tuple(intern(str(value)) for value in self.index(object_))
        old = self.values.get(key, ())
        if values == old:
            return
        self.remove(key)
        if values:
            self.values[key] = values
            for value in values:
                present = self._keys.setdefault(value, key)
                if isinstance(present, dict):
                    present[key] = None
                elif present != key:
                    self._keys[value] = {present: None, key: None}

    def remove(self, key: Key) -> None:
        for value in self.values.pop(key, ()):
            present = self._keys.get(value)
            if isinstance(present, dict):
                present.pop(key, None)
            if present == key or not present:
                self._keys.pop(value, None)

    def of(self, value: str) -> Sequence[Key]:
        """The keys of a value, oldest first."""
        present = self._keys.get(value, ())
        return (*present,) if isinstance(present, dict) else (present,) if isinstance(present, Key) else ()


class IndexedObjects:
    """A set of objects of one resource. `ready` of them are not packed."""

    def __init__(self, ready: int = READY) -> None:
        self.size = 0
        """The bytes of JSON, counted on each change, as metrics read it often."""
        self._ready = ready
        self._objects: dict[Key, Object | Packed] = {}
        self._used: OrderedDict[Key, Packed | None] = OrderedDict()
        """The objects that are not packed, least recently used first; if one was packed before, as it was then."""
        self._packing = _Packing()
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
                for key in self._objects:
                    postings.put(key, self._read(key))
            elif present.index is not index:
                raise ValueError(f'an index named "{name}" already exists')

    def put(self, object_: Object) -> Object | None:
        """Add or replace an object, which then belongs to the set; returns the previous one."""
        _share_words(object_.head)
        key = object_.key
        old = self._read(key) if key in self._objects else None
        self._objects[key] = object_
        self._used[key] = None
        self._used.move_to_end(key)
        self.size += len(object_.raw) - (len(old.raw) if old is not None else 0)
        if old is None:
            self._namespaces.setdefault(key.namespace, {})[key] = None
        for postings in self._indexes.values():
            postings.put(key, object_)
        self._pack_unused()
        return old

    def remove(self, key: Key) -> Object | None:
        """Remove an object and return it."""
        if key not in self._objects:
            return None
        old = self._read(key)
        del self._objects[key]
        self._used.pop(key, None)
        self.size -= len(old.raw)
        keys = self._namespaces[key.namespace]
        del keys[key]
        if not keys:
            del self._namespaces[key.namespace]
        for postings in self._indexes.values():
            postings.remove(key)
        if not self._objects:
            self._packing = _Packing()  # its dictionary is a copy of an object
        return old

    def get(self, key: Key) -> Object | None:
        """The object, or None if it is not in the set."""
        object_ = self._objects.get(key)
        if isinstance(object_, bytes):
            unpacked = self._objects[key] = self._packing.unpack(object_)
            self._used[key] = object_
            self._pack_unused()
            return unpacked
        if object_ is not None and len(self._objects) > self._ready:
            self._used.move_to_end(key)
        return object_

    def by_index(self, name: str, value: str) -> list[Object]:
        """Objects with this value. Raises `KeyError` for an unknown index."""
        return [object_ for key in self._indexes[name].of(value) if (object_ := self.get(key)) is not None]

    def list(self, namespace: str | None = None, labels: str = "") -> list[Object]:
        """Objects of a namespace (or of all) that a label selector selects, oldest first."""
        keys = self._objects if namespace is None else self._namespaces.get(namespace, ())
        objects: Iterator[Object] = map(self._read, keys)
        if labels:
            matches = selectors.parse(labels)
            return [object_ for object_ in objects if matches(object_.metadata.labels)]
        return [*objects]

    def _read(self, key: Key) -> Object:
        """An object of the set, which does not count as used."""
        object_ = self._objects[key]
        return self._packing.unpack(object_) if isinstance(object_, bytes) else object_

    def _pack_unused(self) -> None:
        while len(self._used) > self._ready:
            key, packed = self._used.popitem(last=False)
            object_ = self._objects[key]
            if not isinstance(object_, bytes):
                self._objects[key] = packed or self._packing.pack(object_)


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
