"""The watches of one stream, which send durable revisions only. Pure.

Events are not buffered: a watch keeps the next revision to send, and reads its events from the store. So a slow client
costs no memory; if it is too slow, its revisions are compacted, and the watch is canceled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from espalier.etcd.database.backend import Record
from espalier.etcd.messages import rpc_pb2 as rpc
from espalier.simulator.etcd.state.core import MOST_MESSAGE_BYTES, MOST_REQUEST_BYTES, Core
from espalier.simulator.etcd.state.mvcc import Interval
from espalier.simulator.etcd.state.refusals import Refusal

NO_WATCH = -1
"""The ID in responses that concern no watch, or all."""
MOST_REVISIONS = 1000
"""The maximum revisions in one response to a watch that catches up."""


@dataclass
class _Watch:
    interval: Interval
    next: int
    """The first revision that was not sent yet."""
    filters: frozenset[bool]
    """The values of `Record.tombstone` that are left out: True for NODELETE, False for NOPUT."""
    prev_kv: bool
    progress_notify: bool
    fragment: bool
    caught_up: bool = False
    quiet: bool = True
    """True if no event was sent since the last `tick`."""


class WatchStream:
    """The watches of one client. `durable` is the last revision that may be sent."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._watches: dict[int, _Watch] = {}
        self._queued: deque[rpc.WatchResponse] = deque()
        self._progress_requested = False
        self._next_id = 0

    def receive(self, request: rpc.WatchRequest, durable: int) -> None:
        """Handle a request; its results are among the next responses."""
        match request.WhichOneof("request_union"):
            case "create_request":
                self._queued.append(self._create(request.create_request, durable))
            case "cancel_request":
                id_ = request.cancel_request.watch_id
                if self._watches.pop(id_, None) is not None:
                    header = self._core.header(durable)
                    self._queued.append(rpc.WatchResponse(header=header, watch_id=id_, canceled=True))
            case "progress_request":
                self._progress_requested = bool(self._watches)

    def responses(self, durable: int) -> Iterator[rpc.WatchResponse]:
        """All responses to send now. Requests and store changes may happen while this is iterated."""
        while self._queued:
            yield self._queued.popleft()
        for id_, watch in tuple(self._watches.items()):
            while watch.next <= durable and self._watches.get(id_) is watch:
                yield from self._next_responses(id_, watch, durable)
            watch.caught_up = True
        if self._progress_requested and all(watch.next == durable + 1 for watch in self._watches.values()):
            self._progress_requested = False
            if self._watches:
                yield rpc.WatchResponse(header=self._core.header(durable), watch_id=NO_WATCH)

    def tick(self, durable: int) -> None:
        """Send progress notifications to watches that requested them and were quiet since the last call."""
        for id_, watch in self._watches.items():
            if watch.progress_notify and watch.quiet and watch.next == durable + 1:
                self._queued.append(rpc.WatchResponse(header=self._core.header(durable), watch_id=id_))
            watch.quiet = True

    def _create(self, request: rpc.WatchCreateRequest, durable: int) -> rpc.WatchResponse:
        response = rpc.WatchResponse(header=self._core.header(durable), watch_id=NO_WATCH, created=True)
        interval = Interval.of(request.key or b"\0", request.range_end)
        id_ = request.watch_id
        if request.start_revision < 0:
            response.cancel_reason = Refusal.COMPACTED.error().message
        elif interval.end is not None and interval.start >= interval.end:
            response.cancel_reason = "mvcc: watcher range is empty"
        elif id_ and id_ in self._watches:
            response.cancel_reason = "mvcc: duplicate watch ID provided on the WatchStream"
        response.canceled = bool(response.cancel_reason)
        if response.canceled:
            return response
        if not id_:
            while self._next_id in self._watches:
                self._next_id += 1
            id_ = self._next_id
            self._next_id += 1
        self._watches[id_] = _Watch(
            interval,
            request.start_revision or durable + 1,
            frozenset(filter_ == rpc.WatchCreateRequest.NODELETE for filter_ in request.filters),
            request.prev_kv,
            request.progress_notify,
            request.fragment,
            caught_up=not request.start_revision or request.start_revision > durable,
        )
        response.watch_id = id_
        return response

    def _next_responses(self, id_: int, watch: _Watch, durable: int) -> Iterator[rpc.WatchResponse]:
        """The response with the next events of a watch, or its fragments; none if no record concerns it."""
        compacted = self._core.store.compacted
        if watch.next < compacted:
            del self._watches[id_]
            # As in etcd, this header has no revision.
            header = self._core.header(0)
            yield rpc.WatchResponse(header=header, watch_id=id_, canceled=True, compact_revision=compacted)
            return
        records, last = self._batch(watch, durable)
        watch.next = last + 1
        if not records:
            return
        watch.quiet = False
        response = rpc.WatchResponse(header=self._core.header(last if watch.caught_up else durable), watch_id=id_)
        response.events.extend(self._event(watch, record) for record in records)
        yield from _fragments(response) if watch.fragment else (response,)

    def _batch(self, watch: _Watch, durable: int) -> tuple[list[Record], int]:
        """The records of the next response, of whole revisions, and the last revision that they cover.

        One revision for a watch that has caught up, else many, up to about the size of a request.
        """
        limit = 1 if watch.caught_up else MOST_REVISIONS
        records: list[Record] = []
        revisions, size, last = 0, 0, watch.next - 1
        for record in self._core.store.since(watch.next):
            if record.main > durable:
                break
            if record.kv.key not in watch.interval or record.tombstone in watch.filters:
                continue
            if not records or record.main != records[-1].main:
                if revisions == limit or size > MOST_REQUEST_BYTES:
                    return records, last
                revisions += 1
            records.append(record)
            size += len(record.kv.key) + len(record.kv.value)
            last = record.main
        return records, last if limit == 1 and records else durable

    def _event(self, watch: _Watch, record: Record) -> rpc.Event:
        event = rpc.Event(type=rpc.Event.DELETE if record.tombstone else rpc.Event.PUT, kv=record.kv)
        if record.tombstone:
            event.kv.mod_revision = record.main
        if watch.prev_kv and record.kv.create_revision != record.main and record.main - 1 >= self._core.store.compacted:
            before = self._core.store.get(record.kv.key, record.main - 1)
            if before is not None:
                event.prev_kv.CopyFrom(before)
        return event


def _fragments(response: rpc.WatchResponse) -> Iterable[rpc.WatchResponse]:
    if len(response.events) < 2 or response.ByteSize() < MOST_MESSAGE_BYTES:
        return (response,)
    fragments = [rpc.WatchResponse(header=response.header, watch_id=response.watch_id, fragment=True)]
    size = 0
    for event in response.events:
        if fragments[-1].events and size + event.ByteSize() > MOST_MESSAGE_BYTES:
            fragments.append(rpc.WatchResponse(header=response.header, watch_id=response.watch_id, fragment=True))
            size = 0
        fragments[-1].events.append(event)
        size += event.ByteSize()
    fragments[-1].fragment = False
    return fragments
