"""Watches: changes of a range of keys, in whole revisions, without a gap over broken connections."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from types import TracebackType
from typing import Literal

import structlog
from msgspec import Struct

from espalier.etcd.errors import Closed, Code, Compacted, EtcdError, Unavailable, error_of
from espalier.etcd.messages import rpc_pb2 as rpc
from espalier.etcd.messages.services import WATCH
from espalier.etcd.results import Event, event
from espalier.etcd.revisions import Revisions
from espalier.etcd.transport import Stream, Transport

log = structlog.get_logger(__name__)

Filter = Literal["NOPUT", "NODELETE"]
_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
"""Seconds until a watch is opened again, first and longest, randomized by half."""


class Changes(Struct, frozen=True):
    """Changes of complete revisions, in order; without events, it reports progress."""

    revision: int
    """All changes up to this revision were returned."""
    events: tuple[Event, ...]


class Watch:
    """Changes from `start_revision` (0: from now) on, as an asynchronous iterator that doesn't end.

    To be used with `async with`: then no stream or task is left of it. When a connection breaks, it continues at the
    next member after the last revision that it returned. Iteration may be cancelled (by a timeout) and continued.

    Iterating raises `Compacted` with the revision when changes that are still needed were compacted, `Unavailable`
    after `patience` seconds without a member (None: never), and another `EtcdError` when etcd ends the watch.
    """

    def __init__(
        self,
        transport: Transport,
        key: bytes,
        range_end: bytes,
        *,
        start_revision: int,
        prev_kv: bool,
        filters: Sequence[Filter],
        progress_notify: bool,
        timeout: float,
        patience: float | None,
        rng: random.Random,
    ) -> None:
        self._transport = transport
        self._request = rpc.WatchCreateRequest(
            key=key,
            range_end=range_end,
            filters=filters,
            prev_kv=prev_kv,
            progress_notify=progress_notify,
            fragment=True,
        )
        self._timeout = timeout
        self._patience = patience
        self._rng = rng
        self._revisions = Revisions()
        self._start = start_revision
        self._revisions.last = max(0, start_revision - 1)
        self._stream: Stream[rpc.WatchRequest, rpc.WatchResponse] | None = None
        self._receiving: asyncio.Task[rpc.WatchResponse | None] | None = None
        self._closed = False
        self.cluster_id = 0
        """The member of the last connection."""
        self.store_revision = 0
        """The revision of that member's store when the watch was opened."""
        self.openings = 0
        """How often the watch was opened: after a broken connection, another member may have other data."""

    @property
    def revision(self) -> int:
        """All changes up to this revision were returned."""
        return self._revisions.last

    async def __aenter__(self) -> Watch:
        """Open the watch, which includes all later changes. Raises the same errors as iterating."""
        try:
            await self._connected()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> Changes:
        """The next changes, or progress."""
        while True:
            stream = await self._connected()
            try:
                response = await self._receive(stream)
                if response is None:
                    raise Unavailable("etcd ended the stream of a watch")
            except Unavailable as failure:
                log.debug("an etcd watch was interrupted", error=str(failure), revision=self.revision)
                await self._disconnect()
                continue
            try:
                changes = self._changes(response)
            except EtcdError:
                await self.close()
                raise
            if changes is not None:
                return changes

    async def request_progress(self) -> None:
        """Request progress from etcd: `Changes` without events, after all earlier ones. Does nothing while the
        connection is broken."""
        if self._stream is not None:
            try:
                await self._stream.send(rpc.WatchRequest(progress_request=rpc.WatchProgressRequest()))
            except Unavailable as failure:
                log.debug("could not request the progress of a watch", error=str(failure))

    async def reopen(self) -> None:
        """Leave the current connection and continue at another member: for callers that know this one is stuck."""
        if self._stream is not None:
            await self._stream.close()

    async def close(self) -> None:
        """End the watch; idempotent."""
        self._closed = True
        await self._disconnect()

    def _changes(self, response: rpc.WatchResponse) -> Changes | None:
        """The changes in a response, if it completes a revision."""
        if response.canceled:
            raise _ended(response)
        if response.created:
            return None
        if response.events:
            events = self._revisions.add(tuple(map(event, response.events)), more=response.fragment)
            return Changes(self.revision, events) if events else None
        self._revisions.advance(response.header.revision)
        return Changes(self.revision, ())

    async def _receive(self, stream: Stream[rpc.WatchRequest, rpc.WatchResponse]) -> rpc.WatchResponse | None:
        """The next response. If this is cancelled, waiting continues, and the next call returns the response."""
        if self._receiving is None:
            self._receiving = asyncio.ensure_future(stream.receive())
        receiving = self._receiving
        await asyncio.wait((receiving,))
        self._receiving = None
        if receiving.cancelled():
            raise Unavailable("the watch is opened again")
        return receiving.result()

    async def _connected(self) -> Stream[rpc.WatchRequest, rpc.WatchResponse]:
        """The stream; opens a new one if there is none."""
        loop = asyncio.get_running_loop()
        end = None if self._patience is None else loop.time() + self._patience
        before: Unavailable | None = None
        pause = _PAUSE
        while self._stream is None:
            if self._closed:
                raise Closed("the watch was closed", sent=False)
            left = self._timeout if end is None else min(self._timeout, end - loop.time())
            try:
                await self._connect(max(0.001, left))
            except Unavailable as failure:
                await self._disconnect()
                if isinstance(failure, Closed):
                    raise
                if end is not None and loop.time() + pause >= end:
                    # An attempt that only had the rest of the time says nothing about etcd.
                    raise (before if before is not None and loop.time() >= end else failure) from None
                before = failure
                log.debug("reopening an etcd watch", error=str(failure))
                await asyncio.sleep(pause * self._rng.uniform(0.5, 1.5))
                pause = min(2 * pause, _LONGEST_PAUSE)
            except BaseException:
                await self._disconnect()
                raise
        return self._stream

    async def _connect(self, timeout: float) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        self._request.start_revision = self.revision + 1 if self._start else 0
        request = rpc.WatchRequest(create_request=self._request)
        self._stream = await self._transport.open(WATCH, request, timeout)
        try:
            async with asyncio.timeout_at(deadline):
                created = await self._stream.receive()
        except TimeoutError:
            raise Unavailable(f"etcd did not open a watch within {timeout:g} s") from None
        if created is None:
            raise Unavailable("etcd ended the stream of a watch at once")
        if created.canceled:
            raise _ended(created)
        self.cluster_id, self.store_revision = created.header.cluster_id, created.header.revision
        self.openings += 1
        if not self._start:
            # From here on the position is known, and nothing is missed if the connection breaks before any event.
            self._revisions.advance(created.header.revision)
            self._start = self.revision + 1

    async def _disconnect(self) -> None:
        receiving, self._receiving = self._receiving, None
        stream, self._stream = self._stream, None
        self._revisions.drop()
        if receiving is not None:
            receiving.cancel()
            await asyncio.gather(receiving, return_exceptions=True)
        if stream is not None:
            await stream.close()


def _ended(response: rpc.WatchResponse) -> EtcdError:
    """The error with which etcd ended a watch. The stream has no status then: the reason is only a text."""
    if response.compact_revision:
        text = "etcdserver: mvcc: required revision has been compacted"
        return Compacted(text, response.compact_revision)
    reason = response.cancel_reason or "etcd ended the watch and did not say why"
    if "permission denied" in reason:
        return error_of(Code.PERMISSION_DENIED, reason)
    return error_of(Code.FAILED_PRECONDITION, reason)
