"""etcd's data in a bbolt file: its buckets and what lies in them, as of etcd 3.6 (`server/storage/schema`, `mvcc`).

Each change of a key is a record of the bucket `key`, by its revision; of a deletion, only the key is kept. What etcd
needs of a record to start (create revision, version, lease) lies in it, so a file of records with the right revisions
is a database. Members and the place in raft's log are rewritten by a restore (`etcdbackup/restore/`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple

from google.protobuf.message import DecodeError

from espalier.etcd.bbolt.layout import Meta
from espalier.etcd.bbolt.reading import Damaged, Database
from espalier.etcd.bbolt.writing import write_database
from espalier.etcd.messages import rpc_pb2 as rpc

KEY, META, LEASE, ALARM, CLUSTER = b"key", b"meta", b"lease", b"alarm", b"cluster"
BUCKETS = (ALARM, b"auth", b"authRoles", b"authUsers", CLUSTER, KEY, LEASE, b"members", b"members_removed", META)
"""All buckets that etcd creates, in order."""

CLUSTER_VERSION = b"clusterVersion"
CONSISTENT_INDEX, TERM, STORAGE_VERSION = b"consistent_index", b"term", b"storageVersion"
SCHEDULED_COMPACTION, FINISHED_COMPACTION = b"scheduledCompactRev", b"finishedCompactRev"
NEVER_COMPACTED = -1

_REVISION = struct.Struct(">QcQ")
_NUMBER = struct.Struct(">Q")
_TOMBSTONE = b"t"
_MOST = (1 << 63) - 1


def revision_key(main: int, sub: int = 0, *, tombstone: bool = False) -> bytes:
    """A revision as a key of the bucket `key`: as sorted bytes, records are in the order of their revisions."""
    key = _REVISION.pack(main, b"_", sub)
    return key + _TOMBSTONE if tombstone else key


def parse_revision_key(key: bytes) -> tuple[int, int, bool]:
    """Main and sub revision, and True for a deletion. Raises `Damaged`."""
    if len(key) != _REVISION.size and (len(key) != _REVISION.size + 1 or key[-1:] != _TOMBSTONE):
        raise Damaged(f"{key!r} is not an etcd revision: it has {len(key)} bytes, not 17, or 18 that end with t")
    main, separator, sub = _REVISION.unpack_from(key)
    if separator != b"_" or main > _MOST or sub > _MOST:
        raise Damaged(f"{key!r} is not an etcd revision: not two numbers of 63 bits around an underscore")
    return main, sub, len(key) > _REVISION.size


class Record(NamedTuple):
    """A change of a key. Those of one transaction share `main` and differ in `sub`."""

    main: int
    sub: int
    tombstone: bool
    kv: rpc.KeyValue
    """Of a deletion, the key only."""

    @classmethod
    def decode(cls, key: bytes, value: bytes) -> Record:
        """The record of an entry of the bucket `key`. Raises `Damaged`."""
        main, sub, tombstone = parse_revision_key(key)
        try:
            return cls(main, sub, tombstone, rpc.KeyValue.FromString(value))
        except DecodeError as error:
            raise Damaged(f"revision {main}/{sub} holds {len(value)} bytes that are not a KeyValue") from error

    def encode(self) -> tuple[bytes, bytes]:
        """The entry of the bucket `key`."""
        return revision_key(self.main, self.sub, tombstone=self.tombstone), self.kv.SerializeToString()


@dataclass(frozen=True)
class State:
    """The content of an etcd's database besides its records."""

    revision: int = 1
    """The last revision; 1 if there was no change."""
    compacted: int = NEVER_COMPACTED
    """The oldest readable revision."""
    leases: Mapping[int, int] = field(default_factory=dict)
    """Granted seconds, by lease ID."""
    alarms: Iterable[tuple[int, str]] = ()
    """Members, and the names of their alarms."""
    index: int = 1
    """The index of the last entry of raft's log that the data contain."""
    term: int = 1
    version: str = "3.6.0"
    """The version of the storage; empty before etcd 3.6, and of any etcd in its first seconds: it is written late."""
    cluster_version: str = "3.6.0"
    """The version that all members agreed on, which no etcd that starts with it may be older than; empty if none was
    agreed on yet."""


def write_backend(file: BinaryIO, records: Iterable[Record], state: State, *, page_size: int = 4096) -> Meta:
    """Write a database from its start; `records` in order. Only `state` is held in memory."""
    alarms = sorted(
        rpc.AlarmMember(member_id=member, alarm=alarm).SerializeToString() for member, alarm in state.alarms
    )
    meta = {CONSISTENT_INDEX: _NUMBER.pack(state.index), TERM: _NUMBER.pack(state.term)}
    if state.compacted > 0:
        meta |= dict.fromkeys((SCHEDULED_COMPACTION, FINISHED_COMPACTION), revision_key(state.compacted))
    if state.version:
        meta[STORAGE_VERSION] = state.version.encode()
    content: dict[bytes, Iterable[tuple[bytes, bytes]]] = {
        KEY: (record.encode() for record in records),
        META: sorted(meta.items()),
        LEASE: sorted(stored_lease(id_, ttl) for id_, ttl in state.leases.items()),
        ALARM: ((alarm, b"") for alarm in alarms),
        CLUSTER: [(CLUSTER_VERSION, state.cluster_version.encode())] if state.cluster_version else [],
    }
    return write_database(file, ((name, content.get(name, ())) for name in BUCKETS), page_size=page_size)


def stored_lease(id_: int, ttl: int) -> tuple[bytes, bytes]:
    """The entry of the bucket `lease` for a lease of `ttl` seconds."""
    return _NUMBER.pack(id_), rpc.StoredLease(id=id_, ttl=ttl).SerializeToString()


def read_records(database: Database, start: int = 0) -> Iterator[Record]:
    """The records of a database from a revision on, in order. Raises `Damaged`."""
    bucket = database.bucket(KEY)
    if bucket is None:
        database.refuse("it has no bucket key, which every etcd makes")
    for key, value in bucket.items(revision_key(start) if start > 0 else b""):
        yield Record.decode(key, value)


def read_state(database: Database) -> State:
    """The content of a database besides its records. Raises `Damaged`."""
    entries = {
        name: dict(bucket.items()) for name in (META, LEASE, ALARM, CLUSTER) if (bucket := database.bucket(name))
    }
    meta = entries.get(META, {})
    compacted = max(_compaction(meta, FINISHED_COMPACTION), _compaction(meta, SCHEDULED_COMPACTION))
    try:
        leases = [rpc.StoredLease.FromString(value) for value in entries.get(LEASE, {}).values()]
        messages = [rpc.AlarmMember.FromString(key) for key in entries.get(ALARM, {})]
        alarms = tuple((alarm.member_id, rpc.AlarmType.Name(alarm.alarm)) for alarm in messages)
    except (DecodeError, ValueError) as error:
        raise Damaged(f"{database.name} is damaged: a lease or an alarm is not an etcd message") from error
    return State(
        revision=max(last_revision(database), compacted, 1),
        compacted=compacted,
        leases={lease.id: lease.ttl for lease in leases},
        alarms=alarms,
        index=_number(meta, CONSISTENT_INDEX),
        term=_number(meta, TERM),
        version=meta.get(STORAGE_VERSION, b"").decode("ascii", "replace"),
        cluster_version=entries.get(CLUSTER, {}).get(CLUSTER_VERSION, b"").decode("ascii", "replace"),
    )


def last_revision(database: Database) -> int:
    """The revision of the last record, 0 without records. Only the tree's right edge is read. Raises `Damaged`."""
    bucket = database.bucket(KEY)
    last = bucket.last() if bucket is not None else None
    return parse_revision_key(last[0])[0] if last is not None else 0


def _compaction(meta: Mapping[bytes, bytes], name: bytes) -> int:
    return parse_revision_key(meta[name])[0] if name in meta else NEVER_COMPACTED


def _number(meta: Mapping[bytes, bytes], name: bytes) -> int:
    value = meta.get(name, bytes(_NUMBER.size))
    if len(value) != _NUMBER.size:
        raise Damaged(f"{name.decode()} has {len(value)} bytes; it is a number of {_NUMBER.size}")
    number: int = _NUMBER.unpack(value)[0]
    return number
