"""The running member: its core on an event loop, over a storage, called by servers and in-process clients.

A request changes the core at once, and gets its response when everything it may have seen is durable; watches send
only durable revisions. Requests that arrive while the disk is busy share the next transaction. After a failure of the
storage, all requests get `Unavailable`, because memory may be ahead of the disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import random
import tempfile
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterator
from typing import Any, BinaryIO, TypeVar

import structlog
from google.protobuf.message import Message

from espalier.etcd.bbolt.reading import Database
from espalier.etcd.database.backend import write_backend
from espalier.etcd.database.hashing import hash_database, snapshot_chunks
from espalier.etcd.errors import Code, EtcdError, error_of
from espalier.etcd.messages import rpc_pb2 as rpc
from espalier.etcd.messages import services
from espalier.etcd.messages.services import Unary
from espalier.runtime.clock import Clock
from espalier.simulator.etcd.state.core import DEFAULT_QUOTA, VERSION, Core
from espalier.simulator.etcd.state.refusals import Refusal
from espalier.simulator.etcd.state.watching import WatchStream
from espalier.simulator.etcd.storage import Storage, Unusable

log = structlog.get_logger(__name__)

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)
Result = TypeVar("Result")

PROGRESS_INTERVAL = 600.0
"""Seconds after which a quiet watch gets a progress notification if requested, as in etcd."""
_CHUNK = 32 * 1024
"""Bytes of the database in a response of a snapshot, as in etcd."""
_READ_AHEAD = 32
"""Chunks of a snapshot that are read at once."""


class Member:
    """A single-member etcd. Start and close it; its methods run on one event loop."""

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        rng: random.Random,
        *,
        quota: int = DEFAULT_QUOTA,
        progress_interval: float = PROGRESS_INTERVAL,
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._rng = rng
        self._quota = quota
        self._progress_interval = progress_interval
        self._core: Core | None = None
        self._durable = 0
        """The last durable revision, which may be sent."""
        self._stored = 0
        """The raft index of the last durable change."""
        self._persisting: asyncio.Task[None] | None = None
        self._storing = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._expiring: asyncio.Future[None] | None = None
        self._watch_wakers: dict[asyncio.Event, None] = {}  # in order: simulations repeat
        self._failure: EtcdError | None = None
        self.failed = asyncio.Event()
        """Set when the storage failed: then the member must be restarted."""
        self.client_urls: tuple[str, ...] = ()
        """The member's client URLs, as MemberList responds."""

    async def start(self) -> None:
        """Read the stored state. Raises `Unusable`."""
        stored = await self._run_blocking(self._storage.open, self._rng)
        self._core = Core(stored, self._clock.monotonic(), rng=self._rng, quota=self._quota)
        self._durable, self._stored = self._core.store.revision, self._core.index
        self._set_timer()

    async def close(self) -> None:
        """Store pending changes, end all watches and close the files; idempotent."""
        if self._timer is not None:
            self._timer.cancel()
        with contextlib.suppress(EtcdError):
            await self._persisted()
        self._failure = self._failure or Refusal.STOPPED.error()
        self._wake()
        async with self._storing:
            await self._run_blocking(self._storage.close)

    def kill(self) -> None:
        """End at once, as by SIGKILL: nothing more is stored or answered. For `MemoryStorage`: a file stays open."""
        if self._timer is not None:
            self._timer.cancel()
        self._failure = Refusal.STOPPED.error()
        self._wake()

    # --- One request, one response ------------------------------------------------------------------------------

    async def call(self, method: Unary[Request, Response], request: Request) -> Response:
        """Answer a request. Raises `EtcdError`."""
        core = self._running()
        response: Message
        match request:
            case rpc.HashKVRequest():
                await self._persisted()
                response = await self._run_blocking(core.hash_kv(request))
            case rpc.HashRequest():
                await self._persisted()
                response = rpc.HashResponse(header=core.header(), hash=await self._database_hash())
            case rpc.DefragmentRequest():
                response = core.defragment(request)
                await self._shrink()
            case _:
                try:
                    response = self._answer(core, request)
                finally:  # a refused request may have raised an alarm
                    await self._persisted()
        assert isinstance(response, method.response)  # noqa: S101 - the table of methods and this one belong together
        return response

    def _answer(self, core: Core, request: Message) -> Message:
        now = self._clock.monotonic()
        match request:
            case rpc.RangeRequest():
                return core.range(request)
            case rpc.PutRequest():
                return core.put(request)
            case rpc.DeleteRangeRequest():
                return core.delete_range(request)
            case rpc.TxnRequest():
                return core.txn(request)
            case rpc.CompactionRequest():
                return core.compact(request)
            case rpc.LeaseGrantRequest():
                granted = core.lease_grant(request, now)
                self._set_timer()
                return granted
            case rpc.LeaseRevokeRequest():
                return core.lease_revoke(request)
            case rpc.LeaseTimeToLiveRequest():
                return core.lease_time_to_live(request, now)
            case rpc.LeaseLeasesRequest():
                return core.lease_leases(request)
            case rpc.StatusRequest():
                return core.status(request)
            case rpc.AlarmRequest():
                return core.alarm(request)
            case rpc.MoveLeaderRequest():
                return core.move_leader(request)
            case rpc.MemberListRequest():
                identity = core.identity
                member = rpc.Member(id=identity.member_id, name=identity.name, client_urls=self.client_urls)
                return rpc.MemberListResponse(header=core.header(), members=[member])
        raise error_of(Code.UNIMPLEMENTED, f"this etcd has no {type(request).__name__.removesuffix('Request')}")

    # --- Streams ------------------------------------------------------------------------------------------------

    async def watch(self, requests: AsyncIterable[rpc.WatchRequest]) -> AsyncGenerator[rpc.WatchResponse, None]:
        """Answer the requests of one stream until it is closed. Raises `EtcdError`."""
        stream = WatchStream(self._running())
        woken = asyncio.Event()
        self._watch_wakers[woken] = None

        async def receive() -> None:
            async for request in requests:
                stream.receive(request, self._durable)
                woken.set()

        receiving = asyncio.create_task(receive(), name="requests of a watch")
        receiving.add_done_callback(lambda _: woken.set())
        loop = asyncio.get_running_loop()
        tick = loop.time() + self._progress_interval
        try:
            while True:
                woken.clear()
                self._running()
                for response in stream.responses(self._durable):
                    yield response
                if receiving.done():
                    receiving.result()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(tick):
                        await woken.wait()
                if loop.time() >= tick:
                    stream.tick(self._durable)
                    tick = loop.time() + self._progress_interval * self._rng.uniform(1.0, 1.1)
        finally:
            self._watch_wakers.pop(woken, None)
            receiving.cancel()
            await asyncio.gather(receiving, return_exceptions=True)

    async def keep_alive(
        self, requests: AsyncIterable[rpc.LeaseKeepAliveRequest]
    ) -> AsyncGenerator[rpc.LeaseKeepAliveResponse, None]:
        """Renew a lease for each request."""
        async for request in requests:
            yield self._running().lease_keep_alive(request, self._clock.monotonic())
            self._set_timer()

    async def snapshot(self, request: rpc.SnapshotRequest) -> AsyncGenerator[rpc.SnapshotResponse, None]:
        """The current database and its hash, in chunks. It is written to a temporary file first, or to memory."""
        await self._persisted()
        core = self._running()
        with tempfile.TemporaryFile() if self._storage.blocks else io.BytesIO() as file:
            size = await self._run_blocking(_write_database(core), file)
            chunks = snapshot_chunks(file, _CHUNK)
            while chunk_group := await self._run_blocking(_next_chunks, chunks):
                for chunk in chunk_group:
                    size -= len(chunk)
                    # The hash is not part of the size: the chunk with it has nothing remaining.
                    yield rpc.SnapshotResponse(remaining_bytes=max(size, 0), blob=chunk, version=VERSION)

    # --- Storing ------------------------------------------------------------------------------------------------

    def _running(self) -> Core:
        """The core. Raises `Unavailable` when the member failed or was closed."""
        if self._failure is not None:
            raise error_of(self._failure.code, self._failure.message)
        if self._core is None:
            raise Refusal.STOPPED.error()
        return self._core

    async def _persisted(self) -> None:
        """Return when all changes so far are durable. Raises `Unavailable` if they never will be."""
        core = self._running()
        if not self._storage.blocks:
            if (batch := core.take_batch()) is not None:
                self._storage.commit(batch)
                self._publish(core.index, core.store.revision)
            return
        index = core.index
        while self._stored < index:
            if self._persisting is None:
                self._persisting = asyncio.create_task(self._store(core), name="storing of etcd")
            await asyncio.shield(self._persisting)
            self._running()

    async def _store(self, core: Core) -> None:
        """Store pending changes in one transaction, after the one in progress."""
        try:
            async with self._storing:
                index, revision, batch = core.index, core.store.revision, core.take_batch()
                if batch is not None:
                    await asyncio.to_thread(self._storage.commit, batch)
                    self._publish(index, revision)
        except Unusable as error:
            self._fail(error)
        finally:
            self._persisting = None

    def _publish(self, index: int, revision: int) -> None:
        self._stored = index
        if revision > self._durable:
            self._durable = revision
            self._wake()

    def _fail(self, error: Unusable) -> None:
        log.error("etcd stops, because its data can't be stored", error=str(error))
        self._failure = error_of(Code.UNAVAILABLE, f"etcdserver: server stopped: {error}")
        self.failed.set()
        self._wake()

    def _wake(self) -> None:
        for waker in self._watch_wakers:
            waker.set()

    async def _shrink(self) -> None:
        async with self._storing:
            try:
                await self._run_blocking(self._storage.shrink)
            except Unusable as error:
                self._fail(error)
        self._running()

    async def _database_hash(self) -> int:
        write = _write_database(self._running())

        def compute() -> int:
            file = io.BytesIO()
            write(file)
            return hash_database(Database.of(file.getvalue()))

        return await self._run_blocking(compute)

    async def _run_blocking(self, function: Callable[..., Result], *arguments: object) -> Result:
        """The result of a blocking function, run in a thread if the storage blocks."""
        if self._storage.blocks:
            return await asyncio.to_thread(function, *arguments)
        return function(*arguments)

    # --- Leases -------------------------------------------------------------------------------------------------

    def _set_timer(self) -> None:
        """Set the timer for the next expiring lease."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._core is None or self._failure is not None:
            return
        expiry = self._core.leases.next_expiry()
        if expiry is not None:
            delay = max(0.0, expiry - self._clock.monotonic())
            self._timer = asyncio.get_running_loop().call_later(min(delay, 3600.0), self._revoke_leases)

    def _revoke_leases(self) -> None:
        self._timer = None
        if self._core is None or self._failure is not None:
            return
        self._core.revoke_expired_leases(self._clock.monotonic())
        self._set_timer()
        if self._stored < self._core.index:
            self._expiring = asyncio.ensure_future(self._persisted())
            self._expiring.add_done_callback(_ignore_failure)


def _ignore_failure(task: asyncio.Future[None]) -> None:
    """Ignore the failure: the next request reports it."""
    if not task.cancelled():
        task.exception()


def _write_database(core: Core) -> Callable[[BinaryIO], int]:
    """Return a function that writes the current database to a file, rewinds the file and returns the size."""
    records, state = list(core.store.records), core.state()

    def write(file: BinaryIO) -> int:
        write_backend(file, records, state)
        size = file.tell()
        file.seek(0)
        return size

    return write


def _next_chunks(chunks: Iterator[bytes]) -> list[bytes]:
    return [chunk for _, chunk in zip(range(_READ_AHEAD), chunks, strict=False)]


UNARY: tuple[Unary[Any, Any], ...] = (
    services.RANGE,
    services.PUT,
    services.DELETE_RANGE,
    services.TXN,
    services.COMPACT,
    services.LEASE_GRANT,
    services.LEASE_REVOKE,
    services.LEASE_TIME_TO_LIVE,
    services.LEASE_LEASES,
    services.ALARM,
    services.STATUS,
    services.DEFRAGMENT,
    services.HASH,
    services.HASH_KV,
    services.MOVE_LEADER,
    services.MEMBER_LIST,
)
"""The supported unary methods."""
