"""The delta in progress: events that the store does not have yet."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from espalier.etcd import results
from espalier.etcd.watch import Changes
from espalier.etcdbackup.snapshots.codecs import in_thread
from espalier.etcdbackup.snapshots.deltas import Event, KeyValue, event
from espalier.etcdbackup.snapshots.names import Compression
from espalier.etcdbackup.snapshots.sets import StoredSnapshot
from espalier.etcdbackup.snapshots.writing import DeltaBuilder
from espalier.etcdbackup.snapshotter.schedule import Schedule
from espalier.etcdbackup.snapshotter.times import Times
from espalier.etcdbackup.stores.store import Store
from espalier.runtime.clock import Clock


class Pending:
    """Events after the last revision that the store has. Must be closed, because of its temporary file."""

    def __init__(self, clock: Clock, times: Times, schedule: Schedule, compression: Compression, stored: int) -> None:
        self.stored = stored
        """The last revision that the store has."""
        self._clock = clock
        self._times = times
        self._schedule = schedule
        self._compression = compression
        self._delta: DeltaBuilder | None = None
        self._due = 0.0
        self._is_sealed = False

    @property
    def last(self) -> int:
        """The last revision that is stored or pending."""
        return self._delta.last if self._delta is not None else self.stored

    @property
    def is_empty(self) -> bool:
        """True while there is nothing to store."""
        return self._delta is None

    @property
    def is_sealed(self) -> bool:
        """True while a delta is complete and not stored: nothing can be added to it."""
        return self._is_sealed

    def seconds_left(self) -> Iterator[float]:
        """Seconds until a delta is due; nothing while there is none."""
        if self._delta is not None:
            yield max(0.0, self._due - self._clock.monotonic())

    def is_due(self, caught_up: int) -> bool:
        """True if there is a delta to be stored: it is old or large enough, or has just reached `caught_up`.

        That is etcd's revision when the watch began: writes that an earlier agent did not store must not wait for
        another period.
        """
        delta = self._delta
        if delta is None:
            return False
        is_large = delta.size >= self._schedule.delta_memory
        return is_large or self._clock.monotonic() >= self._due or self.stored < caught_up <= delta.last

    async def add(self, changes: Changes) -> None:
        """Add the events of a watch: whole revisions."""
        if not changes.events:
            return
        if self._delta is None:
            self._delta = DeltaBuilder(self._compression).__enter__()
            self._due = self._clock.monotonic() + self._schedule.delta_period
        now = int(self._clock.now().timestamp() * 10**9)
        size = sum(len(change.item.key) + len(change.item.value) for change in changes.events)
        converted = [_event(change, now) for change in changes.events]
        await in_thread(partial(self._delta.add, converted), size)

    async def store(self, store: Store) -> StoredSnapshot:
        """Store the delta. Raises `StoreError`; then nothing is lost: it can be stored again, but not added to."""
        if self._delta is None:
            raise ValueError("delta: found none; begin one first")
        self._is_sealed = True
        stored = await self._delta.store(store, self.stored + 1, self._times.of_delta(self._delta.last))
        self.stored = stored.snapshot.last
        self.close()
        return stored

    def close(self) -> None:
        """Discard what is not stored."""
        if self._delta is not None:
            self._delta.__exit__(None, None, None)
            self._delta, self._is_sealed = None, False


def _event(change: results.Event, nanoseconds: int) -> Event:
    item = change.item
    key_value = KeyValue(item.key, item.create_revision, item.mod_revision, item.version, item.value, item.lease)
    return event(key_value, nanoseconds, is_deletion=change.type == "DELETE")
