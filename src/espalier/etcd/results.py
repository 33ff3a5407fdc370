"""Results of etcd, as values."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from espalier.etcd.errors import NotEtcd
from espalier.etcd.messages import rpc_pb2 as rpc


class KeyValue(Struct, frozen=True, gc=False):
    """A key at one revision."""

    key: bytes
    value: bytes
    create_revision: int
    """The revision of the key's last creation."""
    mod_revision: int
    """The revision of the key's last write; in the event of a deletion, that of the deletion."""
    version: int
    """How often the key was written since it was created."""
    lease: int
    """The lease with which the key expires; 0: none."""


class Header(Struct, frozen=True, gc=False):
    """The header of every response, about the member that sent it."""

    cluster_id: int
    member_id: int
    revision: int
    """The store's revision when the request was executed."""
    raft_term: int


class RangeResult(Struct, frozen=True):
    """Keys that were read."""

    header: Header
    items: tuple[KeyValue, ...]
    count: int
    """Number of keys in the range, whatever the limit (but without those that minimum and maximum revisions exclude).
    """
    more: bool
    """True if the limit excluded some."""


class PutResult(Struct, frozen=True):
    """A key was written."""

    header: Header
    previous: KeyValue | None
    """With `prev_kv`: the previous key and value, if there were any."""


class DeleteResult(Struct, frozen=True):
    """Keys were deleted."""

    header: Header
    deleted: int
    previous: tuple[KeyValue, ...]
    """With `prev_kv`: the deleted keys and values."""


class TxnResult(Struct, frozen=True):
    """A transaction was executed. Headers of `results` contain only the revision."""

    header: Header
    succeeded: bool
    """True if all comparisons held."""
    results: tuple[Result, ...]
    """Of each executed operation, in order."""


Result: TypeAlias = RangeResult | PutResult | DeleteResult | TxnResult


class Event(Struct, frozen=True, gc=False):
    """A change. A deletion has key and `mod_revision` only."""

    type: Literal["PUT", "DELETE"]
    item: KeyValue
    previous: KeyValue | None
    """With `prev_kv`: the previous key and value, unless they were compacted."""


class LeaseResult(Struct, frozen=True):
    """A lease. `ttl` is in seconds; -1 for one that ended, or never existed."""

    id: int
    ttl: int
    granted_ttl: int = 0
    keys: tuple[bytes, ...] = ()


class Status(Struct, frozen=True):
    """State of one member."""

    header: Header
    version: str
    db_size: int
    """Bytes of the database file."""
    db_size_in_use: int
    """Bytes that would remain after defragmentation."""
    db_size_quota: int
    """The quota in bytes; 0: an etcd before 3.6, which does not report it."""
    leader: int
    """The ID of the leading member; 0: there is none."""
    raft_index: int
    raft_applied_index: int
    errors: tuple[str, ...]
    is_learner: bool
    storage_version: str
    """Version of the schema of the database; empty before 3.6."""

    @property
    def leads(self) -> bool:
        """True if this member is the leader."""
        return self.leader != 0 and self.leader == self.header.member_id


class HashResult(Struct, frozen=True):
    """A hash of all keys and their history, from the compacted revision to `revision`."""

    header: Header
    hash: int
    compact_revision: int
    """-1: never compacted."""
    revision: int
    """The requested revision; an etcd before 3.6 does not report it, then it is the header's or the requested one."""


class Alarm(Struct, frozen=True):
    """An alarm of a member."""

    member_id: int
    type: Literal["NOSPACE", "CORRUPT"]


class Member(Struct, frozen=True):
    """A member of the cluster."""

    id: int
    name: str
    """Empty until the member has started."""
    peer_urls: tuple[str, ...]
    client_urls: tuple[str, ...]
    is_learner: bool


def key_value(message: rpc.KeyValue) -> KeyValue:
    """A key of a message."""
    return KeyValue(
        message.key, message.value, message.create_revision, message.mod_revision, message.version, message.lease
    )


def header(message: rpc.ResponseHeader) -> Header:
    """The header of a message."""
    return Header(message.cluster_id, message.member_id, message.revision, message.raft_term)


def range_result(message: rpc.RangeResponse) -> RangeResult:
    """The result of a read."""
    return RangeResult(header(message.header), tuple(map(key_value, message.kvs)), message.count, message.more)


def put_result(message: rpc.PutResponse) -> PutResult:
    """The result of a write."""
    previous = key_value(message.prev_kv) if message.HasField("prev_kv") else None
    return PutResult(header(message.header), previous)


def delete_result(message: rpc.DeleteRangeResponse) -> DeleteResult:
    """The result of a deletion."""
    return DeleteResult(header(message.header), message.deleted, tuple(map(key_value, message.prev_kvs)))


def txn_result(message: rpc.TxnResponse) -> TxnResult:
    """The result of a transaction. Raises `NotEtcd` for an operation of no known kind."""
    return TxnResult(header(message.header), message.succeeded, tuple(map(_result, message.responses)))


def _result(message: rpc.ResponseOp) -> Result:
    match message.WhichOneof("response"):
        case "response_range":
            return range_result(message.response_range)
        case "response_put":
            return put_result(message.response_put)
        case "response_delete_range":
            return delete_result(message.response_delete_range)
        case "response_txn":
            return txn_result(message.response_txn)
    raise NotEtcd("the answer to a transaction has an unknown operation")


def event(message: rpc.Event) -> Event:
    """A change of a watch's message."""
    previous = key_value(message.prev_kv) if message.HasField("prev_kv") else None
    return Event("DELETE" if message.type == rpc.Event.DELETE else "PUT", key_value(message.kv), previous)


def status(message: rpc.StatusResponse) -> Status:
    """The state of a member."""
    return Status(
        header(message.header),
        version=message.version,
        db_size=message.db_size,
        db_size_in_use=message.db_size_in_use,
        db_size_quota=message.db_size_quota,
        leader=message.leader,
        raft_index=message.raft_index,
        raft_applied_index=message.raft_applied_index,
        errors=tuple(message.errors),
        is_learner=message.is_learner,
        storage_version=message.storage_version,
    )


def member(message: rpc.Member) -> Member:
    """A member of a message."""
    return Member(
        message.id, message.name, tuple(message.peer_urls), tuple(message.client_urls), bool(message.is_learner)
    )
