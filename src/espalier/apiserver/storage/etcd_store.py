"""The store on etcd: one object a key, one revision of etcd a resource version (decision 0005).

Objects in memory are a copy, fed by one watch. A write is a transaction on the revision of its key, with a response
once the watch has brought it. Requests wait until the copy has reached the revision that etcd had when they arrived: so
they see all acknowledged writes, of this server and of others on the same etcd. These reads of etcd's revision also
show that etcd is reachable: after `LOST_AFTER` seconds without one, the store is lost, for good. Its server then ends
all watches, serves nothing from memory, and its process exits.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import defaultdict
from contextlib import aclosing, suppress

import structlog

from espalier.api.resource import Key
from espalier.apiserver.storage.encryption import CannotDecrypt, Encryption, require_unencrypted
from espalier.apiserver.storage.etcd_keys import Keys, UnreadableValue, stored_object, with_resource_version
from espalier.apiserver.storage.store import HISTORY, Change, Store, Write
from espalier.apiserver.wire import content, failures
from espalier.etcd.client import Client
from espalier.etcd.errors import Compacted, EtcdError, NoSpace, RequestTooLarge, Unavailable
from espalier.etcd.requests import DeleteRange, Put, Range, Txn, mod_revision, prefix_range_end
from espalier.etcd.results import Event, Header
from espalier.etcd.watch import Changes, Watch
from espalier.kube.errors import ApiError, ServerFailure, Status
from espalier.kube.objects import Object, encode_json

log = structlog.get_logger(__name__)

LOST_AFTER = 10.0
"""Seconds without etcd after which the store is lost."""
_REVISION_READS = 4
"""The number of checks of etcd in that time, without requests."""
_PROGRESS = 0.1
"""Seconds between progress requests to the watch. A revision may have no event here."""
_RETRY_AFTER = 0.1
"""Seconds between two attempts to read etcd's revision; the client itself retries before that."""
PAGE = 500
"""Objects per read at the start."""


class StoreLost(Exception):
    """The objects in etcd can't be read at the start; the message has the reason."""


class EtcdStore(Store):
    """Objects in the etcd of a client, which is closed with the store, and a copy in memory.

    With an `encryption`, objects are encrypted when they are written, as in kube-apiserver.
    """

    def __init__(
        self, client: Client, keys: Keys, *, lost_after: float = LOST_AFTER, encryption: Encryption | None = None
    ) -> None:
        super().__init__()
        self._encryption = encryption
        self._client = client
        self._keys = keys
        self._end = prefix_range_end(keys.prefix)
        self._lost_after = lost_after
        self._pending_writes: defaultdict[bytes, list[_PendingWrite]] = defaultdict(list)
        """Writes in progress, by key."""
        self._revision_waiters: list[tuple[int, int, asyncio.Future[None]]] = []
        """A heap of waiters by revision; the middle item is a tie-breaker."""
        self._order = itertools.count()
        self._catching_up: list[asyncio.Future[None]] = []
        """Waiters for the next read of etcd's revision."""
        self._waiting_for_read: list[asyncio.Future[None]] = []
        """Waiters for the read in progress."""
        self._read_requested = asyncio.Event()
        self._progress_requested = asyncio.Event()
        self._watch: Watch | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._deadline: asyncio.TimerHandle | None = None
        self._cluster = 0
        self._failure = ""

    async def start(self) -> None:
        """Read all objects, and watch them. Raises `StoreLost`."""
        try:
            await self._read()
            watch = self._client.watch(self._keys.prefix, self._end, start_revision=self.revision + 1)
            self._watch = await watch.__aenter__()
            self._record_response(asyncio.get_running_loop().time())
            for work in (self._follow(), self._read_revision(), self._request_progress()):
                task = asyncio.create_task(work)
                task.add_done_callback(self._task_ended)
                self._tasks.append(task)
            await self.catch_up()
        except (EtcdError, UnreadableValue, ApiError) as error:
            await self.close()
            raise StoreLost(f"the objects in etcd can't be read: {error}") from error
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Stop watching etcd, and close the client; idempotent."""
        if self._deadline is not None:
            self._deadline.cancel()
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        watch, self._watch = self._watch, None
        self._fail_waiting("the server is closing")
        try:
            await asyncio.gather(*tasks, return_exceptions=True)
            if watch is not None:
                await watch.close()
        finally:
            await self._client.close()

    async def commit(self, write: Write) -> Object | None:
        """Make a write by a transaction on its key's revision, and wait until it is seen here."""
        self._check_writable()
        path = self._keys.of(write.table, write.key)
        before = int(write.before.resource_version) if write.before is not None else 0
        pending = _PendingWrite(write)
        if self._encryption is not None:
            pending.stored = self._encryption.encrypt(write.table, path, pending.value)
        self._pending_writes[path].append(pending)
        try:
            operation = DeleteRange(path) if write.deleted else Put(path, pending.stored)
            done = await self._client.do(Txn((mod_revision(path, "=", before),), (operation,)))
            self._check_same(done.header)
            await self._wait_for_revision(done.header.revision, request_progress=not done.succeeded)
        except EtcdError as error:
            raise _refusal(error) from error
        finally:
            self._pending_writes[path].remove(pending)
            if not self._pending_writes[path]:
                del self._pending_writes[path]
        return pending.object_at(done.header.revision) if done.succeeded else None

    async def catch_up(self) -> None:
        """Wait until all objects that etcd had at the call are seen here."""
        self._check_writable()
        waiting = asyncio.get_running_loop().create_future()
        self._catching_up.append(waiting)
        self._read_requested.set()
        await waiting

    async def flushed(self, revision: int) -> None:
        """Return at once: all that is seen here is durable."""

    def compact(self, revision: int) -> None:
        """Compact here and in etcd, where another server may have done so before."""
        super().compact(revision)
        self._tasks = [task for task in self._tasks if not task.done()]
        self._tasks.append(asyncio.create_task(self._compact(min(revision, self.durable))))

    async def _compact(self, revision: int) -> None:
        try:
            await self._client.compact(revision)
        except Compacted:
            pass
        except EtcdError as error:
            log.warning("compacting etcd failed; retrying in a minute", error=str(error))

    def _check_writable(self) -> None:
        if self._failure:
            raise _unavailable(self._failure)

    # The objects at the start, and recent changes.

    async def _read(self) -> None:
        """All objects as they were `HISTORY` revisions ago, or at the oldest revision that etcd has kept.

        The watch brings later changes, so that watches of clients continue across a restart of this server.
        """
        header = (await self._client.do(Range(self._keys.prefix))).header
        self._cluster = header.cluster_id
        revision = max(1, header.revision - HISTORY)
        try:
            await self._read_at(revision)
        except Compacted:
            with suppress(Compacted):
                await self._read_at(await self._oldest(revision))
                return
            await self._read_at(header.revision)

    async def _oldest(self, compacted: int) -> int:
        """The oldest revision that is left, which etcd reports to watches of a compacted one."""
        try:
            async with self._client.watch(self._keys.prefix, self._end, start_revision=compacted) as watch:
                return (await anext(watch)).revision
        except Compacted as error:
            return error.revision

    async def _read_at(self, revision: int) -> None:
        tables: defaultdict[str, dict[Key, Object]] = defaultdict(dict)
        async with aclosing(self._client.pages(Range(self._keys.prefix, self._end, PAGE, revision))) as pages:
            async for page in pages:
                for item in page.items:
                    place = self._keys.place(item.key)
                    if place is not None:
                        value = self._decrypt(place.table, item.key, item.value)
                        read = stored_object(item.key, place.key, value, item.mod_revision)
                        tables[place.table][place.key] = read
        self._compacted = self.revision = self.durable = revision
        for name, objects in tables.items():
            table = self.table(name)
            table.objects, table.keys = objects, sorted(objects)

    # Changes.

    async def _follow(self) -> None:
        """Bring every change from etcd into memory."""
        assert self._watch is not None  # noqa: S101 - made by start
        try:
            async for changes in self._watch:
                self._apply(changes)
        except (EtcdError, UnreadableValue) as error:
            self._lose(f"watching etcd failed: {error}")

    def _apply(self, changes: Changes) -> None:
        applied = []
        for event in changes.events:
            change = self._change(event)
            if change is not None:
                self._record(self.table(change.table), change)
                applied.append(change)
        self.revision = changes.revision
        if applied:
            self._publish(applied)
        self.durable = changes.revision
        while self._revision_waiters and self._revision_waiters[0][0] <= self.revision:
            _, _, waiting = heapq.heappop(self._revision_waiters)
            if not waiting.done():
                waiting.set_result(None)

    def _change(self, event: Event) -> Change | None:
        path, revision = event.item.key, event.item.mod_revision
        place = self._keys.place(path)
        if place is None:
            return None
        table, key = place
        before = self.table(table).objects.get(key)
        deleted = event.type == "DELETE"
        if deleted and before is None:
            return None
        for pending in self._pending_writes.get(path, ()):
            if pending.is_of(before, None if deleted else event.item.value):
                return Change(revision, table, key, before, pending.object_at(revision), deleted)
        if before is not None and deleted:
            return Change(revision, table, key, before, _at_revision(before, revision), deleted)
        value = self._decrypt(table, path, event.item.value)
        return Change(revision, table, key, before, stored_object(path, key, value, revision), deleted)

    def _decrypt(self, table: str, path: bytes, value: bytes) -> bytes:
        try:
            if self._encryption is not None:
                return self._encryption.decrypt(table, path, value)
            require_unencrypted(path, value)
        except CannotDecrypt as error:
            raise UnreadableValue(str(error)) from None
        return value

    async def _wait_for_revision(self, revision: int, *, request_progress: bool) -> None:
        """Wait until all changes up to a revision have arrived. `request_progress` at once: it may have no event."""
        if revision <= self.revision:
            return
        self._check_writable()
        waiting = asyncio.get_running_loop().create_future()
        heapq.heappush(self._revision_waiters, (revision, next(self._order), waiting))
        while not waiting.done():
            if request_progress:
                self._progress_requested.set()
            await asyncio.wait((waiting,), timeout=_PROGRESS)
            request_progress = True
        waiting.result()

    async def _request_progress(self) -> None:
        """Request the watch's progress for all waiting requests. Ends when etcd is lost."""
        while True:
            await self._progress_requested.wait()
            self._progress_requested.clear()
            if self._watch is None or self._failure:
                return
            await self._watch.request_progress()

    # Checks that etcd answers, and is the same.

    async def _read_revision(self) -> None:
        """Read etcd's revision once for all requests that catch up, and periodically without any."""
        loop = asyncio.get_running_loop()
        absent = False
        while not self._failure:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._lost_after / _REVISION_READS):
                    await self._read_requested.wait()
            self._read_requested.clear()
            self._waiting_for_read += self._catching_up
            self._catching_up = []
            started, known = loop.time(), self.revision
            error: ApiError | None = None
            try:
                response = await self._client.do(Range(self._keys.prefix), timeout=self._lost_after / 2)
                self._check_same(response.header, known)
                await self._wait_or_reopen(response.header.revision)
                self._record_response(started)
                absent = False
            except Unavailable as failure:
                if not absent:
                    log.warning("etcd does not answer", error=str(failure))
                absent = True
                self._read_requested.set()  # waiting requests keep waiting until etcd answers or is lost
                await asyncio.sleep(_RETRY_AFTER)
                continue
            except EtcdError as failure:
                error = _refusal(failure)
            except ApiError as failure:
                error = failure
            waiting, self._waiting_for_read = self._waiting_for_read, []
            for future in waiting:
                if future.done():
                    continue
                if error is None:
                    future.set_result(None)
                else:
                    future.set_exception(error)

    async def _wait_or_reopen(self, revision: int) -> None:
        """Wait until all changes up to a revision have arrived; reopen the watch if they do not."""
        try:
            async with asyncio.timeout(self._lost_after / _REVISION_READS):
                await self._wait_for_revision(revision, request_progress=True)
        except TimeoutError:
            log.warning("the watch of etcd is behind; reopening it", revision=self.revision, etcd=revision)
            if self._watch is not None:
                await self._watch.reopen()
            await self._wait_for_revision(revision, request_progress=True)

    def _check_same(self, header: Header, at_least: int = 0) -> None:
        """Treat the store as lost if this is another etcd, or one that was restored. Raises `ApiError` then."""
        if header.cluster_id != self._cluster:
            self._lose(f"etcd belongs to another cluster: found {header.cluster_id:x}, expected {self._cluster:x}")
        elif header.revision < at_least:
            self._lose(f"etcd went back from revision {at_least} to {header.revision}: it was restored from a backup")
        self._check_writable()

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        """Treat the store as lost when a task ends by an unexpected error."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._lose(f"watching etcd failed: {type(error).__name__}: {error}")

    def _record_response(self, moment: float) -> None:
        """Record that etcd responded at a moment of the loop's time."""
        if self._failure:
            return
        if self._deadline is not None:
            self._deadline.cancel()
        reason = f"etcd has not answered for {self._lost_after:g} s"
        self._deadline = asyncio.get_running_loop().call_at(moment + self._lost_after, self._lose, reason)

    def _lose(self, reason: str) -> None:
        if self._failure:
            return
        self._failure = reason
        log.error("the store is lost", reason=reason)
        if self._deadline is not None:
            self._deadline.cancel()
        self._fail_waiting(reason)
        self._progress_requested.set()
        self._report_lost(reason)

    def _fail_waiting(self, reason: str) -> None:
        waiting = [*self._waiting_for_read, *self._catching_up, *(future for _, _, future in self._revision_waiters)]
        self._catching_up, self._revision_waiters = [], []
        for future in waiting:
            if not future.done():
                future.set_exception(_unavailable(reason))
                future.exception()  # the waiting request may have been cancelled


class _PendingWrite:
    """A write in progress. Its event, or else its response, gives the object without another read."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._object: Object | None = None
        self.value = write.encoded(0)
        self.stored = self.value
        """The value that etcd has."""

    def is_of(self, before: Object | None, value: bytes | None) -> bool:
        """True if this write caused an event that changed an object from `before` to `value` (None: deleted)."""
        wanted = None if self._write.deleted else self.stored
        return self._write.before is before and wanted == value

    def object_at(self, revision: int) -> Object:
        """The object written at a revision."""
        if self._object is None:
            self._object = self._write.decode(with_resource_version(self.value, revision))
        return self._object


def _at_revision(item: Object, revision: int) -> Object:
    """The last version of an object that another server deleted."""
    tree = item.tree
    tree["metadata"]["resourceVersion"] = str(revision)
    return Object(encode_json(tree))


def _unavailable(reason: str) -> ApiError:
    return ServerFailure(Status(message=reason, reason="ServiceUnavailable", code=503))


def _refusal(error: EtcdError) -> ApiError:
    """The error for clients when etcd fails."""
    match error:
        case NoSpace():
            return failures.Full.of(error.message)
        case RequestTooLarge():
            return content.TooLarge.of(error.message)
        case Unavailable(sent=False):
            return _unavailable(error.message)
        case Unavailable():
            return failures.Timeout.of(error.message)
    return failures.internal_error(error.message)
