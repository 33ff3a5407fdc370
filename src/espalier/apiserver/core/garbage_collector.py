"""The garbage collector: deletes objects without owners, and the content of deleted namespaces and kinds.

Driven by the store's changes, not by a timer. It writes like any client, through admission and with preconditions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from espalier.api import core as builtin
from espalier.api.meta import OwnerReference, Tree
from espalier.api.resource import Key
from espalier.apiserver.builtin.builtin_rules import NAMESPACE_FINALIZER
from espalier.apiserver.core.core import Core
from espalier.apiserver.core.ownership import Ownership, Place
from espalier.apiserver.documents import definitions
from espalier.apiserver.schema.metadata import FOREGROUND, ORPHAN
from espalier.apiserver.storage.store import Change
from espalier.kube.errors import ApiError, Conflict, NotFound, error_of
from espalier.kube.objects import Object, encode_json
from espalier.kube.transports.wire import Request, Response, User

USER = User("system:apiserver", ("system:masters", "system:authenticated"))
AGENT = "housekeeping"
RETRY_SECONDS = 1.0
"""Seconds until a retry after a foreign failure (a webhook that denies or does not respond)."""

_NAMESPACES = builtin.NAMESPACE.group_resource
_log = logging.getLogger(__name__)

Serve = Callable[[Request, User], Awaitable[Response]]


class GarbageCollector:
    """Processes changed objects."""

    def __init__(self, core: Core, serve: Serve) -> None:
        self._core = core
        self._serve = serve
        self._ownership = Ownership(core.store, core.registry)
        self._queue: dict[Place, None] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._retries: set[asyncio.TimerHandle] = set()
        core.store.follow(self._on_change)

    def start(self) -> None:
        """Process all objects once, then changes."""
        for name, table in self._core.store.tables():
            for key, item in table.objects.items():
                self._ownership.add(Place(name, key), item)
        for name, table in self._core.store.tables():
            for key, item in table.objects.items():
                self._enqueue_if_needed(Place(name, key), item)
        self._task = asyncio.create_task(self._work(), name="apiserver housekeeping")

    async def stop(self) -> None:
        """Stop; remaining work is found again at the next start."""
        for retry in self._retries:
            retry.cancel()
        self._retries.clear()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _on_change(self, change: Change) -> None:
        if self._task is None:
            return
        self._ownership.change(change)
        place = Place(change.table, change.key)
        if not change.deleted:
            before = change.before.head.metadata.owner_references if change.before is not None else []
            self._enqueue_if_needed(place, change.after, before)
            return
        head = change.after.head.metadata
        for dependent in self._ownership.dependents(head.uid):
            self._enqueue(dependent)
        for reference in head.owner_references:
            self._enqueue_owner(place, reference)
        if change.key.namespace:
            self._enqueue_terminating(Place(_NAMESPACES, Key("", change.key.namespace)))
        self._enqueue_terminating(Place(definitions.TABLE, Key("", change.table)))

    def _enqueue_if_needed(self, place: Place, item: Object, known_owners: Sequence[OwnerReference] = ()) -> None:
        head = item.head.metadata
        if head.owner_references and head.owner_references != known_owners:
            self._enqueue(place)
        if head.deletion_timestamp is not None:
            if place.table in (_NAMESPACES, definitions.TABLE) or not {ORPHAN, FOREGROUND}.isdisjoint(head.finalizers):
                self._enqueue(place)
            for reference in head.owner_references:
                self._enqueue_owner(place, reference)

    def _enqueue_owner(self, place: Place, reference: OwnerReference) -> None:
        kind = self._core.registry.by_kind(reference.api_version, reference.kind)
        if kind is not None:
            namespace = place.key.namespace if kind.resource.namespaced else ""
            self._enqueue_terminating(Place(kind.table, Key(namespace, reference.name)))

    def _enqueue_terminating(self, place: Place) -> None:
        item = self._ownership.get(place)
        if item is not None and item.head.metadata.deletion_timestamp is not None:
            self._enqueue(place)

    def _enqueue(self, place: Place) -> None:
        self._queue[place] = None
        self._wake.set()

    async def _work(self) -> None:
        while True:
            while self._queue:
                place = next(iter(self._queue))
                del self._queue[place]
                try:
                    await self._process(place)
                except (NotFound, Conflict):
                    # Conflict with another client; its change enqueues the object again, if needed.
                    if self._ownership.get(place) is not None:
                        self._retry_later(place)
                except ApiError as error:
                    _log.warning("housekeeping of %s %s: %s", place.table, place.key, error)
                    self._retry_later(place)
            self._wake.clear()
            await self._wake.wait()

    def _retry_later(self, place: Place) -> None:
        loop = asyncio.get_running_loop()

        def again() -> None:
            self._retries.discard(handle)
            self._enqueue(place)

        handle = loop.call_later(RETRY_SECONDS, again)
        self._retries.add(handle)

    async def _process(self, place: Place) -> None:
        item = self._ownership.get(place)
        if item is None:
            return
        terminating = item.head.metadata.deletion_timestamp is not None
        if terminating and FOREGROUND in item.head.metadata.finalizers:
            await self._delete_dependents(place, item)
        elif terminating and ORPHAN in item.head.metadata.finalizers:
            await self._orphan_dependents(place, item)
        elif item.head.metadata.owner_references:
            await self._collect(place, item)
        if terminating and place.table == _NAMESPACES:
            await self._empty_namespace(place.key.name)
        elif terminating and place.table == definitions.TABLE:
            await self._empty_definition(place.key.name, item)

    # Garbage collection.

    async def _collect(self, place: Place, item: Object) -> None:
        """Delete an object without owners; with owners left, remove references to those that are gone or wait for
        it.
        """
        solid: list[OwnerReference] = []
        leaving: list[OwnerReference] = []
        for reference in item.head.metadata.owner_references:
            try:
                owner = self._ownership.owner(place, reference)
            except LookupError:
                solid.append(reference)
                continue
            if owner is None or (self._waits(owner) and reference.block_owner_deletion):
                leaving.append(reference)
            else:
                solid.append(reference)
        if not leaving or (item.head.metadata.deletion_timestamp is not None and not solid):
            return
        if solid:
            await self._remove_owner_references(place, item, {reference.uid for reference in leaving})
            return
        finalizers = item.head.metadata.finalizers
        waited_for = any(self._waits_for(place, reference) for reference in leaving)
        if ORPHAN in finalizers:
            policy = "Orphan"
        elif FOREGROUND in finalizers or (waited_for and self._ownership.dependents(item.head.metadata.uid)):
            policy = "Foreground"
        else:
            policy = "Background"
        await self._delete(place, item, policy)

    def _waits(self, owner: Object) -> bool:
        head = owner.head.metadata
        return head.deletion_timestamp is not None and FOREGROUND in head.finalizers

    def _waits_for(self, place: Place, reference: OwnerReference) -> bool:
        owner = self._ownership.owner(place, reference)
        return owner is not None and self._waits(owner)

    async def _delete_dependents(self, place: Place, owner: Object) -> None:
        """Finish the foreground deletion of an owner when its blocking dependents are gone."""
        uid = owner.head.metadata.uid
        if not self._ownership.blocking(uid, place.key.namespace):
            await self._remove_finalizer(place, owner, FOREGROUND)
            return
        for dependent in self._ownership.dependents(uid):
            item = self._ownership.get(dependent)
            if item is not None and item.head.metadata.deletion_timestamp is None:
                self._enqueue(dependent)

    async def _orphan_dependents(self, place: Place, owner: Object) -> None:
        uid = owner.head.metadata.uid
        for dependent in self._ownership.dependents(uid):
            item = self._ownership.get(dependent)
            if item is not None:
                await self._remove_owner_references(dependent, item, {uid})
        await self._remove_finalizer(place, owner, ORPHAN)

    async def _remove_owner_references(self, place: Place, item: Object, uids: set[str]) -> None:
        """Remove owner references of an object."""
        remaining = [
            reference
            for reference in item.tree["metadata"].get("ownerReferences", ())
            if reference.get("uid") not in uids
        ]
        await self._patch(place, item, {"ownerReferences": remaining or None})

    async def _remove_finalizer(self, place: Place, item: Object, finalizer: str) -> None:
        remaining = [other for other in item.head.metadata.finalizers if other != finalizer]
        await self._patch(place, item, {"finalizers": remaining or None})

    # Namespaces and definitions that are deleted.

    async def _empty_namespace(self, name: str) -> None:
        """Delete the content of a namespace; finalize it when it is empty."""
        for table in self._namespaced_tables():
            for key in tuple(self._core.store.table(table).within(name)):
                await self._delete_if_there(Place(table, key))
        if any(self._core.store.table(table).within(name) for table in self._namespaced_tables()):
            return
        namespace = self._ownership.get(Place(_NAMESPACES, Key("", name)))
        if namespace is None:
            return
        tree = namespace.tree
        finalizers = (tree.get("spec") or {}).get("finalizers") or []
        if NAMESPACE_FINALIZER in finalizers:
            tree["spec"]["finalizers"] = [finalizer for finalizer in finalizers if finalizer != NAMESPACE_FINALIZER]
            await self._send("PUT", builtin.NAMESPACE.path(None, name, "finalize"), encode_json(tree))

    async def _empty_definition(self, name: str, definition: Object) -> None:
        """Delete the objects of a deleted definition; finalize the definition when there are none."""
        for key in tuple(self._core.store.table(name).keys):
            await self._delete_if_there(Place(name, key))
        current = self._ownership.get(Place(definitions.TABLE, Key("", name)))
        if current is None or self._core.store.table(name).keys:
            return
        if definitions.CLEANUP in definition.head.metadata.finalizers:
            await self._remove_finalizer(Place(definitions.TABLE, Key("", name)), current, definitions.CLEANUP)

    def _namespaced_tables(self) -> list[str]:
        versions = ((name, self._core.registry.versions(name)) for name, _ in self._core.store.tables())
        return [name for name, kinds in versions if kinds and kinds[0].resource.namespaced]

    # Writes.

    async def _delete_if_there(self, place: Place) -> None:
        item = self._ownership.get(place)
        if item is None or item.head.metadata.deletion_timestamp is not None:
            return
        try:
            await self._delete(place, item, "Background")
        except (NotFound, Conflict):
            return

    async def _delete(self, place: Place, item: Object, policy: str) -> None:
        head = item.head.metadata
        options: Tree = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": policy,
            "preconditions": {"uid": head.uid, "resourceVersion": head.resource_version},
        }
        await self._send("DELETE", self._path(place), encode_json(options))

    async def _patch(self, place: Place, item: Object, metadata: Tree) -> None:
        head = item.head.metadata
        patch = {"metadata": {**metadata, "uid": head.uid, "resourceVersion": head.resource_version}}
        await self._send("PATCH", self._path(place), encode_json(patch), "application/merge-patch+json")

    def _path(self, place: Place) -> str:
        versions = self._core.registry.versions(place.table)
        if not versions:
            raise NotFound.of(f"{place.table} is not served")
        return versions[0].resource.path(place.key.namespace or None, place.key.name)

    async def _send(self, method: str, path: str, body: bytes, media: str = "application/json") -> None:
        request = Request(method, path, {}, {"content-type": media, "user-agent": AGENT}, body)
        response = await self._serve(request, USER)
        if response.status >= 400:
            raise error_of(response.status, response.body)
