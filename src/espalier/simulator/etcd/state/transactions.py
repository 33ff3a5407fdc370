"""Ranges, puts, deletions and transactions: requests in, responses out, on a `Write` of the store.

A transaction is decided first (all comparisons, of nested ones too), then checked, then executed: nothing fails after
the first write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import NamedTuple

from espalier.etcd.messages import rpc_pb2 as rpc
from espalier.simulator.etcd.state.leases import Leases
from espalier.simulator.etcd.state.mvcc import Interval, Write
from espalier.simulator.etcd.state.refusals import Refusal

_SORT_KEYS: dict[int, Callable[[rpc.KeyValue], bytes | int]] = {
    rpc.RangeRequest.KEY: attrgetter("key"),
    rpc.RangeRequest.VERSION: attrgetter("version"),
    rpc.RangeRequest.CREATE: attrgetter("create_revision"),
    rpc.RangeRequest.MOD: attrgetter("mod_revision"),
    rpc.RangeRequest.VALUE: attrgetter("value"),
}


def apply_range(write: Write, request: rpc.RangeRequest) -> rpc.RangeResponse:
    """Read keys at a readable revision. As in etcd, `count` ignores the limit and the bounds of revisions."""
    revision = request.revision if request.revision > 0 else write.revision
    kvs = list(write.store.scan(Interval.of(request.key, request.range_end), revision))
    response = rpc.RangeResponse(header=rpc.ResponseHeader(revision=write.revision), count=len(kvs))
    if request.count_only:
        return response
    kvs = _sorted(_within_bounds(kvs, request), request)
    if 0 < request.limit < len(kvs):
        kvs = kvs[: request.limit]
        response.more = True
    if request.keys_only:
        for kv in kvs:
            without_value = response.kvs.add()
            without_value.CopyFrom(kv)
            without_value.ClearField("value")
    else:
        response.kvs.extend(kvs)
    return response


def _within_bounds(kvs: list[rpc.KeyValue], request: rpc.RangeRequest) -> list[rpc.KeyValue]:
    if request.max_mod_revision:
        kvs = [kv for kv in kvs if kv.mod_revision <= request.max_mod_revision]
    if request.min_mod_revision:
        kvs = [kv for kv in kvs if kv.mod_revision >= request.min_mod_revision]
    if request.max_create_revision:
        kvs = [kv for kv in kvs if kv.create_revision <= request.max_create_revision]
    if request.min_create_revision:
        kvs = [kv for kv in kvs if kv.create_revision >= request.min_create_revision]
    return kvs


def _sorted(kvs: list[rpc.KeyValue], request: rpc.RangeRequest) -> list[rpc.KeyValue]:
    descending = request.sort_order == rpc.RangeRequest.DESCEND
    if request.sort_target == rpc.RangeRequest.KEY and not descending:
        return kvs
    return sorted(kvs, key=_SORT_KEYS[request.sort_target], reverse=descending)


def apply_put(write: Write, leases: Leases, request: rpc.PutRequest) -> rpc.PutResponse:
    """Write a key, after `check_put_possible`."""
    before = write.get(request.key)
    response = rpc.PutResponse()
    if request.prev_kv and before is not None:
        response.prev_kv.CopyFrom(before)
    value = before.value if request.ignore_value and before is not None else request.value
    lease = before.lease if request.ignore_lease and before is not None else request.lease
    leases.attach(request.key, 0 if before is None else before.lease, lease)
    write.put(request.key, value, lease)
    response.header.revision = write.revision
    return response


def apply_delete_range(write: Write, leases: Leases, request: rpc.DeleteRangeRequest) -> rpc.DeleteRangeResponse:
    """Delete keys."""
    kvs = list(write.store.scan(Interval.of(request.key, request.range_end), write.revision))
    for kv in kvs:
        leases.attach(kv.key, kv.lease, 0)
        write.delete(kv.key)
    response = rpc.DeleteRangeResponse(deleted=len(kvs), prev_kvs=kvs if request.prev_kv else ())
    response.header.revision = write.revision
    return response


class Decision(NamedTuple):
    """The branch of a transaction to execute, after its comparisons."""

    succeeded: bool
    operations: Sequence[rpc.RequestOp]
    nested: Sequence[Decision | None]
    """For each operation that is a transaction, how that one was decided."""


def decide(write: Write, request: rpc.TxnRequest) -> Decision:
    """Evaluate all comparisons, before anything is written."""
    succeeded = all(_holds(write, compare) for compare in request.compare)
    operations = request.success if succeeded else request.failure
    nested = [
        decide(write, operation.request_txn) if operation.HasField("request_txn") else None for operation in operations
    ]
    return Decision(succeeded, operations, nested)


def check_possible(write: Write, leases: Leases, decision: Decision) -> None:
    """Refuse a transaction that can't be executed, before anything is written."""
    for operation, nested in zip(decision.operations, decision.nested, strict=True):
        if nested is not None:
            check_possible(write, leases, nested)
        elif operation.HasField("request_range"):
            write.store.check_readable(operation.request_range.revision)
        elif operation.HasField("request_put"):
            check_put_possible(write, leases, operation.request_put)


def check_put_possible(write: Write, leases: Leases, request: rpc.PutRequest) -> None:
    """Refuse a put for a missing lease, or of a missing key."""
    if (request.ignore_value or request.ignore_lease) and write.get(request.key) is None:
        raise Refusal.KEY_NOT_FOUND.error()
    if request.lease and request.lease not in leases:
        raise Refusal.LEASE_NOT_FOUND.error()


def apply_txn(write: Write, leases: Leases, decision: Decision) -> rpc.TxnResponse:
    """Execute a transaction, after `decide` and `check_possible`."""
    response = rpc.TxnResponse(header=rpc.ResponseHeader(), succeeded=decision.succeeded)
    for operation, nested in zip(decision.operations, decision.nested, strict=True):
        result = response.responses.add()
        if nested is not None:
            result.response_txn.CopyFrom(apply_txn(write, leases, nested))
        elif operation.HasField("request_range"):
            result.response_range.CopyFrom(apply_range(write, operation.request_range))
        elif operation.HasField("request_put"):
            result.response_put.CopyFrom(apply_put(write, leases, operation.request_put))
        else:
            deletion = apply_delete_range(write, leases, operation.request_delete_range)
            result.response_delete_range.CopyFrom(deletion)
    return response


def put_sizes(operations: Sequence[rpc.RequestOp]) -> int:
    """The approximate bytes of the puts among operations; 0 without a put."""
    total = 0
    for operation in operations:
        if operation.HasField("request_put"):
            total += put_size(operation.request_put)
        elif operation.HasField("request_txn"):
            total += max(put_sizes(operation.request_txn.success), put_sizes(operation.request_txn.failure))
    return total


def put_size(request: rpc.PutRequest) -> int:
    """The approximate bytes of a put, as etcd estimates them for its quota."""
    return 256 + len(request.key) + len(request.value)


def _holds(write: Write, compare: rpc.Compare) -> bool:
    kvs = list(write.store.scan(Interval.of(compare.key, compare.range_end), write.revision))
    if not kvs:
        # As in etcd, a missing key compares as zeros, except its value: no comparison of it holds.
        return compare.target != rpc.Compare.VALUE and _matches(compare, rpc.KeyValue())
    return all(_matches(compare, kv) for kv in kvs)


def _matches(compare: rpc.Compare, kv: rpc.KeyValue) -> bool:
    match compare.target:
        case rpc.Compare.VERSION:
            return _compares(compare, kv.version, compare.version)
        case rpc.Compare.CREATE:
            return _compares(compare, kv.create_revision, compare.create_revision)
        case rpc.Compare.MOD:
            return _compares(compare, kv.mod_revision, compare.mod_revision)
        case rpc.Compare.VALUE:
            left, right = kv.value, compare.value
            return _compares(compare, (left > right) - (left < right), 0)
        case rpc.Compare.LEASE:
            return _compares(compare, kv.lease, compare.lease)
    return _compares(compare, 0, 0)


def _compares(compare: rpc.Compare, left: int, right: int) -> bool:
    match compare.result:
        case rpc.Compare.EQUAL:
            return left == right
        case rpc.Compare.NOT_EQUAL:
            return left != right
        case rpc.Compare.GREATER:
            return left > right
        case rpc.Compare.LESS:
            return left < right
    return True
