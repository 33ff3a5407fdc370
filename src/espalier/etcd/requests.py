"""Requests of etcd's KV service as values (`Op` and `Cmp` of clientv3), and their protobuf messages.

Each can be sent alone, or in a transaction.

A range is `key` alone, or from `key` up to but without `range_end`; `FROM_KEY` as the end means all keys from `key`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from espalier.etcd.messages import rpc_pb2 as rpc

FROM_KEY = b"\0"
"""The end of a range without an end; as `key`, with this end, it means all keys."""

Target = Literal["KEY", "VERSION", "CREATE", "MOD", "VALUE"]
Order = Literal["NONE", "ASCEND", "DESCEND"]
Relation = Literal["=", "!=", ">", "<"]


def prefix_range_end(prefix: bytes) -> bytes:
    """The end of the range of all keys with a prefix: the first key after them; `FROM_KEY` if there is none."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else FROM_KEY


class Range(Struct, frozen=True):
    """Read keys. `limit` 0 means all, `revision` 0 the newest."""

    key: bytes
    range_end: bytes = b""
    limit: int = 0
    revision: int = 0
    order: Order = "NONE"
    target: Target = "KEY"
    """The field by which the result is sorted."""
    serializable: bool = False
    """Let the member answer from its own data: faster, and possibly stale."""
    keys_only: bool = False
    count_only: bool = False
    min_mod_revision: int = 0
    max_mod_revision: int = 0
    min_create_revision: int = 0
    max_create_revision: int = 0

    @classmethod
    def of_prefix(cls, prefix: bytes) -> Range:
        """All keys with a prefix; all keys, if it is empty."""
        return cls(prefix or FROM_KEY, prefix_range_end(prefix))


class Put(Struct, frozen=True):
    """Write a key."""

    key: bytes
    value: bytes = b""
    lease: int = 0
    """The key is deleted when this lease ends; 0: never."""
    prev_kv: bool = False
    """Return the previous key and value."""
    ignore_value: bool = False
    """Keep the value of an existing key; `value` must be empty."""
    ignore_lease: bool = False
    """Keep the lease of an existing key; `lease` must be 0."""


class DeleteRange(Struct, frozen=True):
    """Delete keys."""

    key: bytes
    range_end: bytes = b""
    prev_kv: bool = False
    """Return the deleted keys and values."""


class Compare(Struct, frozen=True):
    """A condition on a key, or on each key of a range. All numbers of a missing key are 0. A comparison of the value of
    a missing key fails, whatever the relation."""

    key: bytes
    target: Literal["VERSION", "CREATE", "MOD", "VALUE", "LEASE"]
    relation: Relation
    operand: int | bytes
    range_end: bytes = b""


class Txn(Struct, frozen=True):
    """If all comparisons hold, execute `success`, otherwise `failure`; in order, at one revision."""

    compare: tuple[Compare, ...] = ()
    success: tuple[Operation, ...] = ()
    failure: tuple[Operation, ...] = ()


Operation: TypeAlias = Range | Put | DeleteRange | Txn


def mod_revision(key: bytes, relation: Relation, operand: int, range_end: bytes = b"") -> Compare:
    """A condition on the revision at which a key was last written."""
    return Compare(key, "MOD", relation, operand, range_end)


def is_write(operation: Operation) -> bool:
    """True if the operation could change anything."""
    if isinstance(operation, Txn):
        return any(map(is_write, operation.success + operation.failure))
    return not isinstance(operation, Range)


_RESULTS = {"=": rpc.Compare.EQUAL, "!=": rpc.Compare.NOT_EQUAL, ">": rpc.Compare.GREATER, "<": rpc.Compare.LESS}


def range_request(request: Range) -> rpc.RangeRequest:
    """The protobuf message of a range."""
    return rpc.RangeRequest(
        key=request.key,
        range_end=request.range_end,
        limit=request.limit,
        revision=request.revision,
        sort_order=request.order,
        sort_target=request.target,
        serializable=request.serializable,
        keys_only=request.keys_only,
        count_only=request.count_only,
        min_mod_revision=request.min_mod_revision,
        max_mod_revision=request.max_mod_revision,
        min_create_revision=request.min_create_revision,
        max_create_revision=request.max_create_revision,
    )


def put_request(request: Put) -> rpc.PutRequest:
    """The protobuf message of a put."""
    return rpc.PutRequest(
        key=request.key,
        value=request.value,
        lease=request.lease,
        prev_kv=request.prev_kv,
        ignore_value=request.ignore_value,
        ignore_lease=request.ignore_lease,
    )


def delete_range_request(request: DeleteRange) -> rpc.DeleteRangeRequest:
    """The protobuf message of a deletion."""
    return rpc.DeleteRangeRequest(key=request.key, range_end=request.range_end, prev_kv=request.prev_kv)


def txn_request(request: Txn) -> rpc.TxnRequest:
    """The protobuf message of a transaction, with nested ones."""
    return rpc.TxnRequest(
        compare=map(_compare_request, request.compare),
        success=map(_request_op, request.success),
        failure=map(_request_op, request.failure),
    )


def _request_op(operation: Operation) -> rpc.RequestOp:
    match operation:
        case Range():
            return rpc.RequestOp(request_range=range_request(operation))
        case Put():
            return rpc.RequestOp(request_put=put_request(operation))
        case DeleteRange():
            return rpc.RequestOp(request_delete_range=delete_range_request(operation))
    return rpc.RequestOp(request_txn=txn_request(operation))


def _compare_request(compare: Compare) -> rpc.Compare:
    message = rpc.Compare(
        key=compare.key, range_end=compare.range_end, target=compare.target, result=_RESULTS[compare.relation]
    )
    setattr(message, _FIELDS[compare.target], compare.operand)
    return message


_FIELDS = {
    "VERSION": "version",
    "CREATE": "create_revision",
    "MOD": "mod_revision",
    "VALUE": "value",
    "LEASE": "lease",
}
