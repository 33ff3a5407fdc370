"""Full snapshots and deltas of a running etcd, into a store.

Deltas continue while a full snapshot is taken: what the store lacks is never older than a delta period, however large
the database is. While the store is unavailable, nothing is gathered in memory: the watch is not read, and etcd keeps
the events until it compacts them; then a full snapshot starts a new set.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass
from datetime import datetime
from typing import NoReturn

import structlog

from espalier.etcd.client import Client
from espalier.etcd.errors import Compacted, EtcdError
from espalier.etcd.watch import Changes
from espalier.etcdbackup.snapshots.malformed import Malformed
from espalier.etcdbackup.snapshots.names import Compression, Kind
from espalier.etcdbackup.snapshots.reading import read_inventory
from espalier.etcdbackup.snapshots.sets import SnapshotSet, StoredSnapshot
from espalier.etcdbackup.snapshotter.continuity import (
    Incomparable,
    LastWrites,
    OtherHistory,
    compare,
    last_stored,
    last_written,
)
from espalier.etcdbackup.snapshotter.full import ALL_KEYS, newest_revision, take_full
from espalier.etcdbackup.snapshotter.measures import Measures
from espalier.etcdbackup.snapshotter.pending import Pending
from espalier.etcdbackup.snapshotter.requests import Inactive, SnapshotRequest, SnapshotRequests
from espalier.etcdbackup.snapshotter.schedule import Schedule, following, full_first
from espalier.etcdbackup.snapshotter.times import Times
from espalier.etcdbackup.stores.errors import StoreError
from espalier.etcdbackup.stores.store import Store
from espalier.runtime.clock import Clock

log = structlog.get_logger(__name__)

RETRY = 5.0
"""Seconds before an operation that a store or etcd refused is retried."""
MAX_WAIT = 60.0
"""Seconds after which schedules are compared with the wall clock again, in case it was set."""


_EXPECTED = (EtcdError, StoreError, Malformed)


class Behind(Exception):
    """etcd has no more revisions than its backups, and they differ or are older: it was restored from an older backup,
    or it is another etcd."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """The last failure of a kind of snapshots."""

    message: str
    retry: float
    """The earliest next attempt, by the monotonic clock."""


class Snapshotter:
    """Takes the snapshots of one member, for as long as `run` runs.

    `etcd` must be a client of that member alone: a snapshot has the data of its member.
    """

    def __init__(
        self,
        etcd: Client,
        store: Store,
        clock: Clock,
        schedule: Schedule,
        measures: Measures,
        *,
        compression: Compression = Compression.GZIP,
    ) -> None:
        self._etcd = etcd
        self._store = store
        self._clock = clock
        self._times = Times(clock)
        self._schedule = schedule
        self._measures = measures
        self._compression = compression
        self._requests = SnapshotRequests()
        self._failures: dict[Kind, _Failure] = {}
        self.latest: dict[Kind, datetime] = {}
        """When the newest snapshot of each kind was taken."""
        self.unstored_since: datetime | None = None
        """The time since which etcd has writes that no snapshot has; None if the store has all."""
        self._was_behind = False
        """etcd was found behind the backups, and no full snapshot was stored since."""
        self._last_writes: LastWrites | None = None
        """The writes by which an etcd is recognized after a broken connection."""
        self._started_with = ""
        """Name of the full snapshot after which `_last_writes` was read: no delta is needed to continue after it."""

    @property
    def inactive(self) -> str:
        """The reason why no snapshots are taken; empty while they are."""
        return self._requests.closed

    @property
    def failures(self) -> dict[Kind, str]:
        """The reason why the last snapshot of a kind failed, if it did."""
        return {kind: failure.message for kind, failure in self._failures.items()}

    async def full(self, *, is_final: bool = False) -> StoredSnapshot:
        """Take a full snapshot that begins after this call. Raises `Inactive`, `EtcdError`, `StoreError`,
        `Malformed`."""
        stored = await self._requests.wait_for(SnapshotRequest(Kind.FULL, is_final))
        if stored is None:
            raise Inactive("no full snapshot was taken")
        return stored

    async def delta(self) -> StoredSnapshot | None:
        """Take a delta with all that was acknowledged before this call; None if the store has all of it.

        Raises `Inactive`, `EtcdError`, `StoreError`.
        """
        if self.inactive or not self._schedule.takes_deltas:
            raise Inactive(f"no deltas are taken: {self.inactive or 'their period is less than a second'}")
        return await self._requests.wait_for(SnapshotRequest(Kind.DELTA, revision=await newest_revision(self._etcd)))

    async def run(self) -> NoReturn:
        """Take snapshots until cancelled.

        Raises `Behind`, and failures at start: `EtcdError`, `StoreError`, `Malformed`. Later failures of the store are
        retried here; if etcd is lost, `EtcdError` is raised.
        """
        reason = "the snapshotter was stopped"
        try:
            last = await self._start()
            while True:
                try:
                    await self._follow_watch(last)
                except Compacted as error:
                    log.warning(
                        "revisions were compacted before a delta stored them", last=last, compacted=error.revision
                    )
                    last = await self._start_with_full()
                except Incomparable as error:
                    log.warning("comparing etcd with its backups again", reason=str(error))
                    last = await self._start()
        except Exception as error:
            reason = str(error)
            raise
        finally:
            self._requests.close(reason)

    async def _start(self) -> int:
        """The revision after which deltas begin: that of a set that is good enough, or of a new full snapshot."""
        inventory = await read_inventory(self._store)
        self._measures.record_inventory(inventory)
        if inventory.latest is not None:
            self.latest = {stored.snapshot.kind: stored.snapshot.time for stored in inventory.latest.members}
        revision, latest = await newest_revision(self._etcd), inventory.latest
        if latest is not None and (revision < latest.last or (self._was_behind and revision == latest.last)):
            self._was_behind = True
            raise Behind(
                f"etcd has revision {revision}, but its backups in {self._store.where} end at {latest.last}: "
                "new writes would reuse their revisions; restore etcd from them, or use another prefix"
            )
        reason = full_first(self._schedule, latest, self._clock.now())
        if reason is None and self._was_behind:
            reason = "etcd was behind its backups: its later writes do not continue them"
        if reason is None and latest is not None:
            reason = await self._difference(latest, revision)
        self._requests.closed = ""
        if reason is None and latest is not None:
            return latest.reach
        log.info("taking a full snapshot first", reason=reason)
        return await self._start_with_full()

    async def _start_with_full(self) -> int:
        """The revision of a new full snapshot, after which deltas begin. Raises as `_take_full`."""
        self._last_writes, self._started_with = None, ""
        stored = await self._take_full()
        self._last_writes, self._started_with = await last_written(self._etcd), stored.name
        return stored.snapshot.last

    async def _difference(self, latest: SnapshotSet, revision: int) -> str | None:
        """The reason why deltas must not continue a set whose revision etcd has reached; None if they may.

        Raises `EtcdError`, `StoreError`, and `Behind` for an etcd that would write the next revision of the set: its
        deltas would seem to follow those of the set.
        """
        try:
            if latest.chain or latest.full.name != self._started_with or self._last_writes is None:
                self._last_writes = await last_stored(self._store, latest)
            await compare(self._etcd, self._last_writes)
        except OtherHistory as error:
            if revision <= latest.last:
                self._was_behind = True
                raise Behind(
                    f"{error}; backups pause until etcd has more revisions than those in "
                    f"{self._store.where}: restore it from them, or use another prefix"
                ) from None
            return str(error)
        except Incomparable as error:
            return str(error)
        return None

    # --- Full snapshots -------------------------------------------------------------------------------------------

    async def _take_full(self) -> StoredSnapshot:
        """Take a full snapshot for all requests that wait now. Raises `EtcdError`, `StoreError`, `Malformed`."""
        waiting = self._requests.waiting_for(Kind.FULL)
        is_final = any(request.is_final for request in waiting)
        began = self._clock.monotonic()
        self._measures.record_required(Kind.FULL, True)
        try:
            stored = await take_full(
                self._etcd, self._store, self._times, compression=self._compression, is_final=is_final
            )
        except (EtcdError, StoreError, Malformed) as error:
            self._record_failure(Kind.FULL, error, began)
            for request in waiting:
                request.fail(error)
            raise
        self._was_behind = False
        self._record_success(stored, began)
        for request in waiting:
            request.answer(stored)
        return stored

    # --- Deltas, and full snapshots meanwhile -----------------------------------------------------------------------

    async def _follow_watch(self, last: int) -> NoReturn:
        """Store the events after a revision. Raises `EtcdError`, such as `Compacted`, and `Incomparable` if there is,
        or may be, another etcd after a broken connection."""
        async with AsyncExitStack() as stack:
            pending = stack.enter_context(
                closing(Pending(self._clock, self._times, self._schedule, self._compression, last))
            )
            watch = None
            if self._schedule.takes_deltas:
                opened = self._etcd.watch(*ALL_KEYS, start_revision=last + 1, progress_notify=True)
                watch = await stack.enter_async_context(opened)
            tasks = await stack.enter_async_context(_Tasks())
            full_due = following(self._schedule.full, self._clock.now())
            openings = watch.openings if watch is not None else 0
            while True:
                if tasks.full is None and self._is_due(Kind.FULL, self._clock.now() >= full_due):
                    full_due = following(self._schedule.full, self._clock.now())
                    tasks.full = asyncio.create_task(self._take_full(), name="full snapshot")
                if watch is not None and tasks.change is None and not pending.is_sealed:
                    tasks.change = asyncio.ensure_future(anext(watch))
                timeout = self._seconds_left(tasks, pending, full_due)
                await tasks.wait(self._requests.woken, timeout, reads=not pending.is_sealed)
                if tasks.full is not None and tasks.full.done():
                    full, tasks.full = tasks.full, None
                    if (error := full.exception()) is not None and not isinstance(error, _EXPECTED):
                        raise error
                while watch is not None and watch.openings != openings:
                    openings = watch.openings
                    await self._check_is_same_etcd(pending)
                if tasks.change is not None and tasks.change.done() and not pending.is_sealed:
                    change, tasks.change = tasks.change, None
                    changes = change.result()
                    self._last_writes = LastWrites.of_events(changes.events) or self._last_writes
                    await pending.add(changes)
                await self._store_due_delta(pending, watch.store_revision if watch is not None else 0)

    async def _check_is_same_etcd(self, pending: Pending) -> None:
        """Raise `Incomparable` unless this is the etcd whose changes are pending. They are stored before.

        Raises `EtcdError`.
        """
        try:
            if self._last_writes is None:
                raise Incomparable("there is no earlier write to compare")
            await compare(self._etcd, self._last_writes)
        except Incomparable:
            if not pending.is_empty:
                await self._store_delta(pending)
            raise

    def _is_due(self, kind: Kind, is_time: bool) -> bool:
        """True if a snapshot is due: its time has come, it was requested, or a failed snapshot can be retried."""
        failed = self._failures.get(kind)
        if failed is not None:
            return self._clock.monotonic() >= failed.retry
        return is_time or bool(self._requests.waiting_for(kind))

    def _seconds_left(self, tasks: _Tasks, pending: Pending, full_due: datetime) -> float:
        """Seconds until something is due."""
        self._requests.woken.clear()
        now = self._clock.monotonic()
        waits = [MAX_WAIT]
        if tasks.full is None:
            failed = self._failures.get(Kind.FULL)
            due_in = 0.0 if self._requests.waiting_for(Kind.FULL) else (full_due - self._clock.now()).total_seconds()
            waits.append(due_in if failed is None else failed.retry - now)
        if pending.is_sealed:
            failed = self._failures.get(Kind.DELTA)
            waits.append(failed.retry - now if failed is not None else 0.0)
        else:
            waits += [*pending.seconds_left(), *([0.0] if self._is_delta_wanted(pending) else [])]
        return max(0.0, min(waits))

    def _is_delta_wanted(self, pending: Pending) -> bool:
        """True if a requested delta has reached its revision."""
        return any(request.revision <= pending.last for request in self._requests.waiting_for(Kind.DELTA))

    async def _store_due_delta(self, pending: Pending, caught_up: int) -> None:
        """Store a delta that is due or requested, and answer the requests."""
        stored = None
        if not pending.is_empty:
            self.unstored_since = self.unstored_since or self._clock.now()
            self._measures.record_required(Kind.DELTA, True)
            is_time = pending.is_sealed or pending.is_due(caught_up) or self._is_delta_wanted(pending)
            if is_time and self._is_due(Kind.DELTA, is_time):
                stored = await self._store_delta(pending)
        if pending.is_empty:
            self.unstored_since = None
            for request in self._requests.waiting_for(Kind.DELTA):
                if request.revision <= pending.stored:
                    request.answer(stored)

    async def _store_delta(self, pending: Pending) -> StoredSnapshot | None:
        """Store the delta; None if the store refused it."""
        began = self._clock.monotonic()
        try:
            stored = await pending.store(self._store)
        except StoreError as error:
            self._record_failure(Kind.DELTA, error, began)
            self._requests.fail(Kind.DELTA, error)
            return None
        self._record_success(stored, began)
        return stored

    # --- Results ----------------------------------------------------------------------------------------------------

    def _record_success(self, stored: StoredSnapshot, began: float) -> None:
        kind = stored.snapshot.kind
        self.latest[kind] = stored.snapshot.time
        self._failures.pop(kind, None)
        self._measures.record_required(kind, False)
        self._measures.record_stored(stored, self._clock.monotonic() - began)
        log.info("stored a snapshot", name=stored.name, bytes=stored.size)

    def _record_failure(self, kind: Kind, error: Exception, began: float) -> None:
        now = self._clock.monotonic()
        self._failures[kind] = _Failure(str(error), now + RETRY)
        self._measures.record_failed(kind, now - began)
        log.warning("a snapshot failed", kind=kind.value, error=str(error))


class _Tasks:
    """The tasks of a watch, which are cancelled when the context is left."""

    def __init__(self) -> None:
        self.change: asyncio.Future[Changes] | None = None
        self.full: asyncio.Task[StoredSnapshot] | None = None

    async def __aenter__(self) -> _Tasks:
        return self

    async def __aexit__(self, *_error: object) -> None:
        tasks = [task for task in (self.change, self.full) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def wait(self, woken: asyncio.Event, seconds: float, *, reads: bool) -> None:
        """Wait until one of the tasks has ended, at most for `seconds`. Changes are left unread unless `reads`."""
        waking = asyncio.ensure_future(woken.wait())
        try:
            waiting = {task for task in (waking, self.change if reads else None, self.full) if task is not None}
            await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waking.cancel()
