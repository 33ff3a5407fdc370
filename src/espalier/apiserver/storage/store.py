"""The store: all objects in memory, encoded, with the changes of the last minutes for watches.

The next read sees a write at once, but clients only see durable writes: responses wait for `flushed`, watches stop
at `durable`. `MemoryStore` is durable at once; `SqliteStore` on disk. `EtcdStore` (`etcd_store.py`) has a copy of
etcd's objects, which others may write as well: a write is done there before it is visible here.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from espalier.api.resource import Key
from espalier.apiserver.wire.failures import expired
from espalier.kube.objects import Object

HISTORY = 4096
"""The maximum number of kept changes of a table. A watch that is further behind must list again."""

_SLACK = HISTORY // 4


class Change(NamedTuple):
    """A write. `after` is the new object; for a deletion the last one, with the deletion's revision."""

    revision: int
    table: str
    key: Key
    before: Object | None
    after: Object
    deleted: bool


class Write(NamedTuple):
    """A write of a request, executed if the object is still `before`."""

    table: str
    key: Key
    before: Object | None
    encoded: Callable[[int], bytes]
    """The object with a revision as its resource version; with 0, without one."""
    decode: Callable[[bytes], Object]
    """The object to be kept of these bytes."""
    deleted: bool = False
    """The object is removed; `encoded` is its last version."""


class Table:
    """Objects of one kind, in the order of their keys, and the last changes to them."""

    def __init__(self, compacted: int = 0) -> None:
        self.objects: dict[Key, Object] = {}
        self.keys: list[Key] = []
        self.history: list[Change] = []
        self.dropped = 0
        """The number of changes that were dropped from `history`."""
        self.compacted = compacted
        """Revision of the last change that is no longer in `history`."""
        self.wakers: dict[object, Callable[[], None]] = {}
        """Callbacks for new durable changes, by subscriber."""

    @property
    def latest(self) -> int:
        """Revision of the last change."""
        return self.history[-1].revision if self.history else self.compacted

    def within(self, namespace: str | None) -> Sequence[Key]:
        """Keys of one namespace or, with None, all; in order."""
        if namespace is None:
            return self.keys
        first = bisect_left(self.keys, Key(namespace, ""))
        return self.keys[first : bisect_left(self.keys, Key(namespace + "\0", ""), first)]

    def after(self, revision: int) -> int:
        """The place of the first change after a revision. Raises `Expired` when changes since then were dropped."""
        if revision < self.compacted:
            raise expired(f"too old resource version: {revision} ({self.compacted})")
        return self.dropped + bisect_left(self.history, revision + 1, key=lambda change: change.revision)

    def as_of(self, revision: int, namespace: str | None, after: Key | None = None) -> Iterator[Object]:
        """Objects as they were at a revision, in order, from behind a key. Raises `Expired`."""
        keys = self.within(namespace)
        earlier: dict[Key, Object | None] = {}
        if revision < self.latest:
            for change in self.history[self.after(revision) - self.dropped :]:
                earlier.setdefault(change.key, change.before)
            keys = sorted({*keys, *(key for key in earlier if namespace is None or key.namespace == namespace)})
        for key in keys[bisect_right(keys, after) :] if after is not None else tuple(keys):
            item = earlier[key] if key in earlier else self.objects[key]
            if item is not None:
                yield item

    def record(self, change: Change) -> None:
        """Make a change."""
        self.history.append(change)
        if change.deleted:
            del self.objects[change.key]
            del self.keys[bisect_left(self.keys, change.key)]
            return
        if change.before is None:
            insort(self.keys, change.key)
        self.objects[change.key] = change.after

    def undo(self, change: Change) -> None:
        """Roll back the last change."""
        self.history.pop()
        if change.before is None:
            del self.objects[change.key]
            del self.keys[bisect_left(self.keys, change.key)]
            return
        if change.deleted:
            insort(self.keys, change.key)
        self.objects[change.key] = change.before

    def drop(self, count: int) -> list[Change]:
        """Drop the oldest changes of the history."""
        dropped = self.history[:count]
        if dropped:
            del self.history[:count]
            self.dropped += len(dropped)
            self.compacted = dropped[-1].revision
        return dropped


class Store:
    """The common part of all stores: tables, revisions, and followers of changes."""

    def __init__(self) -> None:
        self.revision = 1
        """Revision of the last write."""
        self.durable = 1
        """Revision of the last write that can't be lost."""
        self._tables: dict[str, Table] = {}
        self._compacted = 0
        self._followers: list[Callable[[Change], None]] = []
        self._loss_callbacks: list[Callable[[str], None]] = []

    def table(self, name: str) -> Table:
        """The table of a kind."""
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = Table(self._compacted)
        return table

    def tables(self) -> Iterator[tuple[str, Table]]:
        """Tables that were ever used, by name."""
        yield from sorted(self._tables.items())

    def follow(self, follower: Callable[[Change], None]) -> None:
        """Call `follower` with each change as soon as it is durable, in order."""
        self._followers.append(follower)

    def on_loss(self, callback: Callable[[str], None]) -> None:
        """Call `callback` with the reason when the store is lost; it must not be served then. Only for `EtcdStore`."""
        self._loss_callbacks.append(callback)

    async def commit(self, write: Write) -> Object | None:
        """Make a write; returns the object as it is stored, or None if it is no longer `write.before`.

        Here no other request runs meanwhile; in `EtcdStore` others do, and the write is seen by all of them after.
        Raises `ApiError` when nothing can be stored.
        """
        if self.table(write.table).objects.get(write.key) is not write.before:
            return None
        after = write.decode(write.encoded(self.revision + 1))
        self.put(write.table, write.key, after, deleted=write.deleted)
        return after

    async def catch_up(self) -> None:
        """Return when all earlier writes of any server are seen here. Raises `ApiError`."""

    def put(self, table: str, key: Key, after: Object, *, deleted: bool = False) -> Change:
        """Write an object whose resource version is the next revision; with `deleted`, remove it.

        Raises `Full` when nothing can be stored any more.
        """
        self._check_writable()
        stored_in = self.table(table)
        change = Change(self.revision + 1, table, key, stored_in.objects.get(key), after, deleted)
        self._record(stored_in, change)
        self._persist(change)
        return change

    def compact(self, revision: int) -> None:
        """Compact changes up to a revision: watches that still need them must list again."""
        revision = min(revision, self.durable)
        for table in self._tables.values():
            count = bisect_left(table.history, revision + 1, key=lambda change: change.revision)
            self._forget(table.drop(count))

    async def start(self) -> None:
        """Read all objects."""

    async def close(self) -> None:
        """Flush and close files; idempotent."""

    async def flushed(self, revision: int) -> None:
        """Return when a revision is durable. Raises `Full` when it will never be."""

    def _record(self, table: Table, change: Change) -> None:
        """Make a change in memory, and drop some of the oldest if there are too many."""
        table.record(change)
        self.revision = change.revision
        if len(table.history) > HISTORY + _SLACK and table.history[_SLACK].revision <= self.durable:
            self._forget(table.drop(_SLACK))

    def _check_writable(self) -> None:
        """Raise `Full` when nothing can be stored."""

    def _persist(self, change: Change) -> None:
        """Make a change durable and then `_publish` it."""
        raise NotImplementedError

    def _forget(self, changes: Sequence[Change]) -> None:
        """Handle changes dropped from the history."""
        if changes:
            self._compacted = max(self._compacted, changes[-1].revision)

    def _report_lost(self, reason: str) -> None:
        """Report that the store is lost."""
        for callback in self._loss_callbacks:
            callback(reason)

    def _publish(self, changes: Sequence[Change]) -> None:
        """Publish durable changes."""
        self.durable = changes[-1].revision
        for change in changes:
            for follower in self._followers:
                follower(change)
        for name in {change.table: None for change in changes}:
            for wake in tuple(self._tables[name].wakers.values()):
                wake()


class MemoryStore(Store):
    """Keeps objects in memory only. No threads or delays: simulations on it are reproducible."""

    def _persist(self, change: Change) -> None:
        self._publish((change,))
