"""Content of delta snapshots: events as JSON, byte for byte as Go's encoding/json writes those of etcd-backup-restore.

`[{"etcdEvent":{"type":1,"kv":{"key":...}},"time":"..."},...]` and a SHA-256 (its pkg/snapshot/snapshotter, and
`mvccpb` of etcd for the fields): what is zero is left out, so that an event without a type is a put; numbers are
numbers; keys and values are base64; times are RFC 3339 with nanoseconds.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Annotated

import msgspec

from espalier.etcdbackup.snapshots.codecs import in_thread
from espalier.etcdbackup.snapshots.malformed import Malformed
from espalier.etcdbackup.snapshots.names import LAST_REVISION, Snapshot

PUT, DELETE = 0, 1
BATCH = 1 << 20
"""The approximate number of bytes of JSON that are decoded at once."""
LARGEST_EVENT = 64 << 20
"""Bytes of JSON within which a whole event must fit. Requests to etcd have 1.5 MiB, or 10 at other limits."""
_NANOSECONDS = 10**9
_BETWEEN = re.compile(rb'\}\s*,\s*(?=\{\s*"etcdEvent"\s*:)')
"""The separator of two events. JSON strings contain no unescaped quote, so it never occurs within an event."""


_Number = Annotated[int, msgspec.Meta(ge=0, le=LAST_REVISION)]


class KeyValue(msgspec.Struct, omit_defaults=True, frozen=True, gc=False):
    """`mvccpb.KeyValue`. For a deletion, etcd sends key and `mod_revision` alone."""

    key: bytes = b""
    create_revision: _Number = 0
    mod_revision: _Number = 0
    version: _Number = 0
    value: bytes = b""
    lease: _Number = 0


class EtcdEvent(msgspec.Struct, omit_defaults=True, frozen=True, gc=False):
    """`mvccpb.Event`."""

    type: Annotated[int, msgspec.Meta(ge=PUT, le=DELETE)] = PUT
    kv: KeyValue | None = None
    prev_kv: KeyValue | None = None


class Event(msgspec.Struct, frozen=True, rename={"etcd_event": "etcdEvent"}, gc=False):
    """An event of a watch, and the time of its arrival."""

    etcd_event: EtcdEvent
    time: Annotated[str, msgspec.Meta(max_length=64)]
    """RFC 3339; see `rfc3339`."""

    @property
    def revision(self) -> int:
        """The revision of the event."""
        key_value = self.etcd_event.kv
        return key_value.mod_revision if key_value is not None else 0


_DECODER = msgspec.json.Decoder(list[Event])


def rfc3339(nanoseconds: int) -> str:
    """Nanoseconds since 1970 as Go writes them in UTC: RFC 3339 without trailing zeros in the fraction."""
    seconds, remainder = divmod(nanoseconds, _NANOSECONDS)
    fraction = f".{remainder:09d}".rstrip("0") if remainder else ""
    return f"{_second(seconds)}{fraction}Z"


@lru_cache(maxsize=64)
def _second(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"


def event(kv: KeyValue, nanoseconds: int, *, is_deletion: bool = False) -> Event:
    """An event that arrived at this time, in nanoseconds since 1970."""
    return Event(EtcdEvent(DELETE if is_deletion else PUT, kv), rfc3339(nanoseconds))


class DeltaWriter:
    """Encodes the content of one delta from events in the order of their revisions. Keeps nothing but the hash."""

    def __init__(self) -> None:
        self.first = 0
        """Revision of the first event; 0 before the first event."""
        self.last = 0
        """Revision of the last event."""
        self.is_finished = False
        self._hash = hashlib.sha256()
        self._encoder = msgspec.json.Encoder()

    def write(self, events: Sequence[Event]) -> bytes:
        """The content of these events, which make up one or more whole revisions.

        Raises `ValueError` if they are out of order, or belong to a revision of which events were written before: a
        split revision would be restored in two halves.
        """
        if self.is_finished:
            raise ValueError("events: found some after the end of the delta; start a new delta")
        if not events:
            return b""
        revisions = [item.revision for item in events]
        if not self.last < revisions[0] <= revisions[-1] <= LAST_REVISION or revisions != sorted(revisions):
            range_ = f"{revisions[0]} to {revisions[-1]} after {self.last}"
            raise ValueError(f"revisions of events: found {range_}, allowed are rising ones, each at once")
        text = self._encoder.encode(list(events))
        content = (b"," if self.first else b"[") + text[1:-1]
        self.first, self.last = self.first or revisions[0], revisions[-1]
        self._hash.update(content)
        return content

    def finish(self) -> bytes:
        """The end of the content. Raises `ValueError` if there was no event: then there is no delta."""
        if not self.first:
            raise ValueError("events: found none, a delta has one or more")
        self.is_finished = True
        self._hash.update(b"]")
        return b"]" + self._hash.digest()


async def read_events(content: AsyncIterable[bytes], snapshot: Snapshot) -> AsyncGenerator[list[Event], None]:
    """The events of a delta (without its hash, which must be verified by now), in lists of whole revisions.

    Raises `Malformed` if the content is not JSON of events, if revisions decrease or are outside of those of the name,
    or if the last event has another revision than the name: something is missing.
    """
    pending: list[Event] = []
    last = 0
    async for batch in _batches(content):
        revisions = [item.revision for item in batch]
        if revisions != sorted(revisions) or revisions[0] < max(last, snapshot.start) or revisions[-1] > snapshot.last:
            raise Malformed(_out_of_order(revisions, last, snapshot))
        before, last = last, revisions[-1]
        split = bisect_left(revisions, last)  # from there on, more of the same revision may come
        if split or before != last:
            if done := pending + batch[:split]:
                yield done
            pending = batch[split:]
        else:
            pending += batch
    if last != snapshot.last:
        raise Malformed(f"its last event has revision {last}, but its name says {snapshot.last}")
    yield pending


async def _batches(content: AsyncIterable[bytes]) -> AsyncGenerator[list[Event], None]:
    """Non-empty lists of events, as the content arrives."""
    waiting, tried = bytearray(), 0
    is_begun = False
    async for chunk in content:
        waiting += chunk
        if len(waiting) < max(BATCH, tried):
            continue
        cut = _last_boundary(waiting)
        if cut is None:
            tried = 2 * len(waiting)
            if len(waiting) > LARGEST_EVENT:
                raise Malformed(f"{LARGEST_EVENT} bytes without a whole event")
            continue
        tried = 0
        end, start = cut
        text = (b"[" if is_begun else b"") + bytes(waiting[:end]) + b"]"
        del waiting[:start]
        is_begun = True
        yield await in_thread(partial(_decoded, text), len(text))
    text = (b"[" if is_begun else b"") + bytes(waiting)
    if events := await in_thread(partial(_decoded, text), len(text)):
        yield events


def _last_boundary(waiting: bytearray) -> tuple[int, int] | None:
    """Where the last whole event ends, and where the next event begins."""
    at = waiting.rfind(b'"etcdEvent"')
    while at >= 0:
        boundary = _BETWEEN.search(waiting, max(0, at - 64), min(len(waiting), at + 64))
        if boundary is not None:
            return boundary.start() + 1, boundary.end()
        at = waiting.rfind(b'"etcdEvent"', 0, at)
    return None


def _decoded(text: bytes) -> list[Event]:
    try:
        return _DECODER.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Malformed(f"it is not the JSON of events: {error}") from None
    except RecursionError:  # in skipped fields; measuring the depth first would take longer than decoding
        raise Malformed("it is not the JSON of events: the nesting is too deep") from None


def _out_of_order(revisions: list[int], last: int, snapshot: Snapshot) -> str:
    for before, revision in zip([last, *revisions], revisions, strict=False):
        if not snapshot.start <= revision <= snapshot.last:
            return f"an event has revision {revision}, but the name says {snapshot.start} to {snapshot.last}"
        if revision < before:
            return f"an event of revision {revision} comes after one of {before}"
    return "its events are out of order"
