"""Keys with all their versions since the last compaction, like etcd's package `mvcc`, in memory. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from espalier.etcd.database.backend import NEVER_COMPACTED, Record
from espalier.etcd.messages import rpc_pb2 as rpc
from espalier.simulator.etcd.state.refusals import Refusal

RECORD_OVERHEAD = 64
"""The approximate bytes of a record in a database, besides key and value."""


class Interval(NamedTuple):
    """Keys from `start` on and less than `end`; None: all from `start` on."""

    start: bytes
    end: bytes | None

    @classmethod
    def of(cls, key: bytes, range_end: bytes) -> Interval:
        """The interval of a request's key and range end: without an end the key alone, all from it on for b"\\0"."""
        if not range_end:
            return cls(key, key + b"\0")
        return cls(key, None if range_end == b"\0" else range_end)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, bytes) and self.start <= key and (self.end is None or key < self.end)


class Store:
    """All records by revision, and the history of each key."""

    def __init__(self, records: Iterable[Record] = (), *, compacted: int = NEVER_COMPACTED) -> None:
        self.records: list[Record] = []
        self.compacted = compacted
        """Reads at earlier revisions are refused; -1 before the first compaction."""
        self.size = 0
        """The approximate bytes of all records."""
        self._histories: dict[bytes, list[Record]] = {}
        for record in records:
            self._histories.setdefault(record.kv.key, []).append(record)
            self.records.append(record)
            self.size += _size(record)
        self._keys = sorted(self._histories)
        self.revision = max(1, compacted, self.records[-1].main if self.records else 0)
        """The revision of the last change."""

    def check_readable(self, revision: int) -> None:
        """Refuse a compacted or future revision. Raises `EtcdError`."""
        if revision > self.revision:
            raise Refusal.FUTURE_REVISION.error()
        if 0 < revision < self.compacted:
            raise Refusal.COMPACTED.error()

    def get(self, key: bytes, revision: int) -> rpc.KeyValue | None:
        """A key as it was at a revision; None if it did not exist."""
        history = self._histories.get(key)
        if not history:
            return None
        record = history[-1]
        if record.main > revision:
            count = bisect_right(history, revision, key=lambda record: record.main)
            if not count:
                return None
            record = history[count - 1]
        return None if record.tombstone else record.kv

    def scan(self, interval: Interval, revision: int) -> Iterator[rpc.KeyValue]:
        """The keys of an interval as they were at a revision, in order."""
        first = bisect_left(self._keys, interval.start)
        last = len(self._keys) if interval.end is None else bisect_left(self._keys, interval.end, first)
        for key in self._keys[first:last]:
            if (kv := self.get(key, revision)) is not None:
                yield kv

    def since(self, revision: int) -> Iterator[Record]:
        """The records from a revision on. The store must not change while this is iterated."""
        for index in range(bisect_left(self.records, revision, key=lambda record: record.main), len(self.records)):
            yield self.records[index]

    def write(self) -> Write:
        """Begin a write transaction; only one may be open."""
        return Write(self)

    def compact(self, revision: int) -> list[Record]:
        """Drop records that are invisible from a revision on; return them.

        As in etcd since 3.5.15, a deletion at this very revision stays until the next compaction.
        """
        if revision <= self.compacted:
            raise Refusal.COMPACTED.error()
        if revision > self.revision:
            raise Refusal.FUTURE_REVISION.error()
        self.compacted = revision
        removed: list[Record] = []
        for key in {record.kv.key: None for record in self.records if record.main <= revision}:
            history = self._histories[key]
            first_retained = bisect_right(history, revision, key=lambda record: record.main)
            if not (history[first_retained - 1].tombstone and history[first_retained - 1].main < revision):
                first_retained -= 1
            removed += history[:first_retained]
            del history[:first_retained]
            if not history:
                del self._histories[key]
        if removed:
            revisions = {(record.main, record.sub) for record in removed}
            self.records = [record for record in self.records if (record.main, record.sub) not in revisions]
            self._keys = sorted(self._histories)
            self.size -= sum(map(_size, removed))
        return removed

    def append(self, record: Record) -> None:
        """Add a record; for `Write` alone."""
        key = record.kv.key
        if key not in self._histories:
            insort(self._keys, key)
            self._histories[key] = []
        self._histories[key].append(record)
        self.records.append(record)
        self.size += _size(record)


class Write:
    """A write transaction: its changes share one revision, and its own reads see them at once."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.changes: list[Record] = []

    @property
    def revision(self) -> int:
        """The revision seen from here: the store's, plus one after the first change."""
        return self.store.revision + bool(self.changes)

    def get(self, key: bytes) -> rpc.KeyValue | None:
        """A key as this transaction sees it; None if it does not exist."""
        return self.store.get(key, self.revision)

    def put(self, key: bytes, value: bytes, lease: int) -> rpc.KeyValue:
        """Write a key."""
        main = self.store.revision + 1
        before = self.get(key)
        kv = rpc.KeyValue(
            key=key,
            value=value,
            create_revision=main if before is None else before.create_revision,
            mod_revision=main,
            version=1 if before is None else before.version + 1,
            lease=lease,
        )
        self._add(Record(main, len(self.changes), False, kv))
        return kv

    def delete(self, key: bytes) -> None:
        """Delete an existing key."""
        self._add(Record(self.store.revision + 1, len(self.changes), True, rpc.KeyValue(key=key)))

    def end(self) -> int:
        """Apply the changes to the store; return its revision."""
        self.store.revision = self.revision
        self.changes = []
        return self.store.revision

    def _add(self, record: Record) -> None:
        self.store.append(record)
        self.changes.append(record)


def _size(record: Record) -> int:
    return len(record.kv.key) + len(record.kv.value) + RECORD_OVERHEAD
