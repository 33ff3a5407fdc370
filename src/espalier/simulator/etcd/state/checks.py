"""Checks of requests that etcd makes before it reads anything (`etcdserver/api/v3rpc/key.go`)."""

from __future__ import annotations

from collections.abc import Iterable

from espalier.etcd.messages import rpc_pb2 as rpc
from espalier.simulator.etcd.state.mvcc import Interval
from espalier.simulator.etcd.state.refusals import Refusal

MOST_OPERATIONS = 128
"""The maximum operations in each part of a transaction (etcd's --max-txn-ops)."""


def check_range(request: rpc.RangeRequest) -> None:
    """Refuse a range without a key, or with an unknown order."""
    if not request.key:
        raise Refusal.NO_KEY.error()
    if request.sort_order not in rpc.RangeRequest.SortOrder.values():
        raise Refusal.INVALID_SORT.error()
    if request.sort_target not in rpc.RangeRequest.SortTarget.values():
        raise Refusal.INVALID_SORT.error()


def check_put(request: rpc.PutRequest) -> None:
    """Refuse a contradictory put."""
    if not request.key:
        raise Refusal.NO_KEY.error()
    if request.ignore_value and request.value:
        raise Refusal.VALUE_PROVIDED.error()
    if request.ignore_lease and request.lease:
        raise Refusal.LEASE_PROVIDED.error()


def check_delete_range(request: rpc.DeleteRangeRequest) -> None:
    """Refuse a deletion without a key."""
    if not request.key:
        raise Refusal.NO_KEY.error()


def check_txn(request: rpc.TxnRequest) -> None:
    """Refuse a transaction that is too large, contradictory, or writes a key twice."""
    _check_operations(request, MOST_OPERATIONS)
    _written_keys(request.success)
    _written_keys(request.failure)


def _check_operations(request: rpc.TxnRequest, most: int) -> None:
    count = max(len(request.compare), len(request.success), len(request.failure))
    if count > most:
        raise Refusal.TOO_MANY_OPERATIONS.error()
    if any(not compare.key for compare in request.compare):
        raise Refusal.NO_KEY.error()
    for operation in (*request.success, *request.failure):
        match operation.WhichOneof("request"):
            case "request_range":
                check_range(operation.request_range)
            case "request_put":
                check_put(operation.request_put)
            case "request_delete_range":
                check_delete_range(operation.request_delete_range)
            case "request_txn":
                _check_operations(operation.request_txn, most - count)
            case _:
                raise Refusal.KEY_NOT_FOUND.error()


def _written_keys(operations: Iterable[rpc.RequestOp]) -> tuple[set[bytes], list[Interval]]:
    """The keys that operations put, and the ranges that they delete; refuses a key that would be written twice.

    Nested transactions come first. Either branch of one may put the same key, as only one of them is executed.
    """
    operations = list(operations)
    puts: set[bytes] = set()
    deletions = [
        Interval.of(operation.request_delete_range.key, operation.request_delete_range.range_end)
        for operation in operations
        if operation.HasField("request_delete_range")
    ]
    for operation in operations:
        if operation.HasField("request_txn"):
            then_puts, then_deletions = _written_keys(operation.request_txn.success)
            else_puts, else_deletions = _written_keys(operation.request_txn.failure)
            _check_not_written(then_puts | else_puts, puts, deletions)
            puts |= then_puts | else_puts
            deletions += then_deletions + else_deletions
    for operation in operations:
        if operation.HasField("request_put"):
            _check_not_written({operation.request_put.key}, puts, deletions)
            puts.add(operation.request_put.key)
    return puts, deletions


def _check_not_written(keys: set[bytes], puts: set[bytes], deletions: list[Interval]) -> None:
    if keys & puts or any(key in interval for key in keys for interval in deletions):
        raise Refusal.DUPLICATE_KEY.error()
