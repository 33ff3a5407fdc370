"""Shared caches: one watch for all readers of the same objects; reads never leave the process.

A cache lags behind the server, but never behind this process: `wrote` updates it at once, and older events of the watch
do not revert that. (For that, resource versions of one resource are compared as numbers, as Kubernetes allows clients
since 1.35.)
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from espalier.api.resource import Key, Resource
from espalier.kube.client import Client
from espalier.kube.errors import KubeError
from espalier.kube.objects import Object
from espalier.kube.watching import EventType
from espalier.runtime.caches import selectors
from espalier.runtime.caches.indexed import READY, IndexedObjects
from espalier.runtime.caches.mapping import Index
from espalier.runtime.caches.reflector import ABSENT, Mirror, Reflector, Source
from espalier.runtime.caches.transforms import Transform, metadata_only, strip_managed_fields
from espalier.runtime.options import Options

Handler: TypeAlias = Callable[[Object | None, Object | None, bool], None]
"""Called for each change with the objects before and after (None if absent), and True for those of the first list."""


_DIGITS = 40
"""More digits than any revision has, and few enough to parse as a number."""


class Cache:
    """The objects of one source, created by `Caches.of`. Its objects are shared and must not be changed."""

    def __init__(self, source: Source, transform: Transform = strip_managed_fields, ready: int = READY) -> None:
        self.source = source
        self._transform = transform
        self._objects = IndexedObjects(ready)
        self._handlers: list[Handler] = []
        self._synced = asyncio.Event()
        self._mirrors = {namespace: _Mirror(self, namespace) for namespace in source.shares}
        self._written: dict[Key, int] = {}  # own writes that the watch has not shown yet

    @property
    def synced(self) -> bool:
        """True if the first list is complete."""
        return self._synced.is_set()

    @property
    def is_absent(self) -> bool:
        """True if the API server does not define the kind, or forbids to read it, where the source allows that."""
        return any(mirror.position == ABSENT for mirror in self._mirrors.values())

    async def wait_synced(self) -> None:
        """Wait until the first list is complete."""
        await self._synced.wait()

    def get(self, key: Key) -> Object | None:
        """The object, or None if it does not exist."""
        return self._objects.get(key)

    def by_index(self, name: str, value: str) -> list[Object]:
        """Objects that have this value in an index declared with `Caches.of` or `add_indexes`."""
        return self._objects.by_index(name, value)

    def list(self, namespace: str | None = None, labels: str = "") -> list[Object]:
        """Objects of a namespace (or of all) that a label selector selects."""
        return self._objects.list(namespace, labels)

    def add_indexes(self, indexes: Mapping[str, Index]) -> None:
        """Add these indexes. Raises `ValueError` if another index has the name."""
        self._objects.add_indexes(indexes)

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: Key) -> bool:
        return key in self._objects

    @property
    def size(self) -> int:
        """The bytes of JSON in it."""
        return self._objects.size

    def subscribe(self, handler: Handler) -> Callable[[], None]:
        """Call `handler` now for all present objects, and for each change. Returns a function that unsubscribes."""
        self._handlers.append(handler)
        for object_ in self._objects.list():
            handler(None, object_, True)
        return lambda: self._handlers.remove(handler)

    def wrote(self, object_: Object) -> None:
        """Store the result of a write, if the source selects it: later reads never return an older state."""
        version = _number(object_.resource_version)
        if version is None or not self._selects(object_):
            return
        mirror = self._mirrors[object_.namespace if self.source.namespaces else None]
        if version <= (_number(mirror.position) or 0):
            return
        key = object_.key
        present = self._objects.get(key)
        if present is not None and (_number(present.resource_version) or 0) >= version:
            return
        self._written[key] = version
        mirror.wrote(key)
        self._put(Object(object_.raw))

    @property
    def mirrors(self) -> Mapping[str | None, Mirror]:
        """One mirror for each namespace that is followed separately; None stands for all at once."""
        return self._mirrors

    # The single mirror of a cache that is followed as a whole.

    @property
    def _single(self) -> _Mirror:
        (mirror,) = self._mirrors.values()
        return mirror

    def begin_list(self, *, restored: bool = False) -> None:
        """Begin a list, which will show all earlier writes."""
        self._single.begin_list(restored=restored)

    def listed(self, objects: Sequence[Object]) -> None:
        """Store a page of the list; handlers are called for differences only."""
        self._single.listed(objects)

    def end_list(self, resource_version: str) -> None:
        """Remove objects that the list lacks: they were deleted without a watch."""
        self._single.end_list(resource_version)

    def happened(self, type: EventType, object: Object) -> None:
        """Store an event of the watch."""
        self._single.happened(type, object)

    # Called by the mirrors.

    def _begin_list(self, namespace: str | None) -> dict[Key, None]:
        """The keys that a new list will confirm or remove."""
        if namespace is None:
            self._written.clear()
            return dict.fromkeys(self._objects.keys)
        for key in [key for key in self._written if key.namespace == namespace]:
            del self._written[key]
        return {key: None for key in self._objects.keys if key.namespace == namespace}

    def _store_listed(self, object_: Object, *, restored: bool) -> None:
        key = object_.key
        present = self._objects.get(key)
        if present is not None and present.resource_version == object_.resource_version:
            # After a restore, the same version may have other content.
            same = not restored or self._transform(object_).raw == present.raw
            if same:
                return
        if self._written.get(key, 0) <= (_number(object_.resource_version) or 0):
            self._put(object_)

    def _end_list(self, unlisted: Iterable[Key], resource_version: str) -> None:
        """Remove objects that were not listed, unless they were written after the list."""
        listed_at = _number(resource_version) or 0
        for key in unlisted:
            if self._written.get(key, 0) <= listed_at:
                self._written.pop(key, None)
                self._remove(key, None)
        if all(mirror.position for mirror in self._mirrors.values()):
            self._synced.set()

    def _store_event(self, type: EventType, object: Object) -> None:
        if type == "BOOKMARK":
            return
        if self._written and self._is_covered_by_own_write(object, type):
            return
        if type == "DELETED":
            self._remove(object.key, object)
        else:
            self._put(object)

    def _is_covered_by_own_write(self, object_: Object, type_: EventType) -> bool:
        """True if an event is not newer than an own write."""
        written = self._written.get(object_.key)
        version = _number(object_.resource_version)
        if written is None or version is None:
            return False
        if version < written:
            return True
        del self._written[object_.key]
        return version == written and type_ != "DELETED"

    def _put(self, object_: Object) -> None:
        object_ = self._transform(object_)
        old = self._objects.put(object_)
        first = not self._synced.is_set()
        for handler in self._handlers:
            handler(old, object_, first)

    def _remove(self, key: Key, last: Object | None) -> None:
        """Remove an object; handlers get its last state, from the server if that sent it."""
        old = self._objects.remove(key)
        if old is None:
            return
        before = old if last is None else self._transform(last)
        for handler in self._handlers:
            handler(before, None, False)

    def _selects(self, object_: Object) -> bool:
        source = self.source
        if source.namespaces and object_.namespace not in source.namespaces:
            return False
        if source.fields and object_.key not in self._objects:
            return False
        return not source.labels or selectors.parse(source.labels)(object_.metadata.labels)


class _Mirror:
    """One reflector's share of a cache: a namespace, or everything."""

    def __init__(self, cache: Cache, namespace: str | None) -> None:
        self._cache = cache
        self._namespace = namespace
        self._unlisted: dict[Key, None] | None = None  # while there is a list
        self._restored = False
        self.position = ""

    def begin_list(self, *, restored: bool = False) -> None:
        self._unlisted = self._cache._begin_list(self._namespace)
        self._restored = restored
        if restored:
            self.position = ""

    def listed(self, objects: Sequence[Object]) -> None:
        unlisted = self._unlisted if self._unlisted is not None else {}
        for object_ in objects:
            unlisted.pop(object_.key, None)
            self._cache._store_listed(object_, restored=self._restored)

    def wrote(self, key: Key) -> None:
        """An own write was stored.

        Its response may be older than the list in progress, and the object gone since: so it stays only if the list has
        it, or is older than the write.
        """
        if self._unlisted is not None:
            self._unlisted[key] = None

    def end_list(self, resource_version: str) -> None:
        self.position = resource_version
        self._cache._end_list(self._unlisted or (), resource_version)
        self._unlisted = None

    def happened(self, type: EventType, object: Object) -> None:
        self.position = object.resource_version
        self._cache._store_event(type, object)


class Caches:
    """The caches of one client. `of` may be called at any time; caches are filled while `run` runs.

    Namespaced kinds are watched in `options.namespaces` if no namespace is given. Of each cache `ready` objects are
    not packed.
    """

    def __init__(
        self,
        client: Client,
        *,
        rng: random.Random | None = None,
        options: Options | None = None,
        ready: int = READY,
    ) -> None:
        self._client = client
        self._ready = ready
        self._rng = rng or random.Random()  # noqa: S311 - spreads watches in time, guards nothing
        self._options = options or Options()
        self._caches: dict[tuple[Source, Transform], Cache] = {}
        self._tasks: dict[asyncio.Task[None], Reflector] = {}
        self._stopped: asyncio.Future[None] | None = None
        self.on_served: Callable[[], None] = lambda: None
        """Called when the API server stops or begins to serve a kind; set before `run`."""

    def of(
        self,
        resource: Resource,
        namespace: str | None = None,
        labels: str = "",
        *,
        fields: str = "",
        sharded: bool = False,
        optional: bool = False,
        missed: bool = True,
        may_be_forbidden: bool = False,
        indexes: Mapping[str, Index] | None = None,
        transform: Transform = strip_managed_fields,
    ) -> Cache:
        """The cache of a collection; the same one for the same arguments (indexes are added).

        `sharded` leaves out what belongs to other managers (`--watch-filter`): for the kinds that a controller
        reconciles, not for those that it only reads. `optional` means that the kind may be undefined; nobody is told
        so unless it is `missed`. With `may_be_forbidden` it is empty without the right to read it.
        Whoever needs `metadata_only` gets any cache of the collection that is there already.
        """
        namespaces = self._options.namespaces if namespace is None else tuple(filter(None, [namespace]))
        if sharded and self._options.labels:
            labels = f"{labels},{self._options.labels}" if labels else self._options.labels
        spaces = namespaces if resource.namespaced else ()
        source = Source(resource, spaces, labels, fields, optional, missed, may_be_forbidden)
        cache = self._caches.get((source, transform))
        if cache is None and transform is metadata_only:
            cache = next((present for (of, _), present in self._caches.items() if of == source), None)
        if cache is None:
            selectors.parse(labels)
            cache = self._caches[source, transform] = Cache(source, transform, self._ready)
            if self._stopped is not None:
                self._follow(cache)
        cache.add_indexes(indexes or {})
        return cache

    @property
    def all(self) -> list[Cache]:
        """All caches."""
        return list(self._caches.values())

    @property
    def unfilled(self) -> dict[Resource, KubeError | TimeoutError | None]:
        """The kinds whose first lists are not complete, with the error of the last attempt, if it failed."""
        waiting = {cache.source: None for cache in self._caches.values() if not cache.synced}
        reflectors = [
            reflector
            for reflector in self._tasks.values()
            if reflector.source in waiting and reflector.trouble is not None
        ]
        return {source.resource: None for source in waiting} | {
            reflector.source.resource: reflector.trouble for reflector in reflectors
        }

    @property
    def troubles(self) -> dict[Resource, KubeError | TimeoutError]:
        """The kinds whose last request failed, with the error: also of those that were listed before."""
        return {
            reflector.source.resource: reflector.trouble
            for reflector in self._tasks.values()
            if reflector.trouble is not None
        }

    @property
    def unserved(self) -> list[Source]:
        """The sources whose kinds the API server does not define (any more), if somebody misses them."""
        sources = (task.source for task in self._tasks.values() if not task.is_served)
        return list(dict.fromkeys(source for source in sources if source.missed))

    @property
    def silent_since(self) -> float | None:
        """When (by the loop's clock) the last watch lost the server; None while any watch is connected."""
        times = [reflector.silent_since for reflector in self._tasks.values()]
        lost = [since for since in times if since is not None]
        return max(lost) if lost and len(lost) == len(times) else None

    async def wait_synced(self) -> None:
        """Wait until every first list is complete."""
        for cache in self.all:
            await cache.wait_synced()

    async def run(self) -> None:
        """Keep all caches up to date until cancelled. Raises errors that a retry cannot fix (bugs)."""
        self._stopped = asyncio.get_running_loop().create_future()
        for cache in self._caches.values():
            self._follow(cache)
        try:
            await self._stopped
        finally:
            self._stopped = None
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _follow(self, cache: Cache) -> None:
        for namespace, mirror in cache.mirrors.items():
            reflector = Reflector(self._client, cache.source, mirror, self._rng, namespace, on_served=self.on_served)
            task = asyncio.get_running_loop().create_task(
                reflector.run(), name=f"watch {cache.source.resource.group_resource}"
            )
            self._tasks[task] = reflector
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        error = None if task.cancelled() else task.exception()
        if error is not None and self._stopped is not None and not self._stopped.done():
            self._stopped.set_exception(error)


def _number(resource_version: str) -> int | None:
    return int(resource_version) if resource_version.isdecimal() and len(resource_version) <= _DIGITS else None
