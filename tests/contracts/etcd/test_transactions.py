"""Transactions: comparisons of all kinds, branches, nested transactions, limits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from espalier.etcd.client import Client
from espalier.etcd.errors import Compacted, FutureRevision, LeaseNotFound, Refused, RequestTooLarge
from espalier.etcd.requests import (
    Compare,
    DeleteRange,
    Put,
    Range,
    Relation,
    Txn,
    mod_revision,
    prefix_range_end,
)
from espalier.etcd.results import DeleteResult, PutResult, RangeResult, TxnResult
from tests.support.etcd import calls

pytestmark = pytest.mark.asyncio(loop_scope="session")


def _compare(target: Any, key: bytes, relation: Relation, operand: int | bytes, end: bytes = b"") -> Compare:
    return Compare(key, target, relation, operand, end)


NO_LEASE = 0
version, create_revision, value, lease_of = (
    partial(_compare, target) for target in ("VERSION", "CREATE", "VALUE", "LEASE")
)
COMPARISONS: dict[str, Callable[..., Compare]] = {
    "version": version,
    "create_revision": create_revision,
    "mod_revision": mod_revision,
    "value": value,
    "lease": lease_of,
}


async def holds(client: Client, *compare: Compare) -> bool:
    return (await client.do(Txn(compare))).succeeded


@pytest.mark.parametrize("target", COMPARISONS)
@pytest.mark.parametrize(
    ("relation", "below", "same", "above"),
    [("=", False, True, False), ("!=", True, False, True), (">", True, False, False), ("<", False, False, True)],
)
async def test_a_comparison_holds_or_not(
    client: Client, target: str, relation: Relation, below: bool, same: bool, above: bool
) -> None:
    key = f"/compare/{target}/{relation}".encode()
    lease = await calls.grant(client, 600)
    await client.do(Put(key, b"m", lease.id))
    item = await client.get(key)
    assert item is not None
    operands: tuple[Any, Any, Any]
    if target == "value":
        operands = (b"l", b"m", b"n")
    else:
        number = getattr(item, target)
        operands = (number - 1, number, number + 1)
    compare = COMPARISONS[target]
    result = tuple([await holds(client, compare(key, relation, operand)) for operand in operands])
    assert result == (below, same, above)
    await calls.revoke(client, lease.id)


async def test_values_are_compared_byte_by_byte(client: Client, prefix: bytes) -> None:
    await client.put(prefix + b"k", b"\x7f")
    assert await holds(client, value(prefix + b"k", "<", b"\x80"))
    assert await holds(client, value(prefix + b"k", "<", b"\x7f\0"))
    assert await holds(client, value(prefix + b"k", ">", b""))


async def test_a_missing_key_has_zeros_and_no_value(client: Client, prefix: bytes) -> None:
    key = prefix + b"k"
    for compare in (version(key, "=", 0), create_revision(key, "=", 0), mod_revision(key, "=", 0)):
        assert await holds(client, compare)
    assert await holds(client, lease_of(key, "=", NO_LEASE))
    assert not await holds(client, mod_revision(key, ">", 0))
    for relation in ("=", "!=", "<", ">"):
        assert not await holds(client, value(key, relation, b""))


async def test_comparison_of_a_range_holds_for_each_key(client: Client, prefix: bytes) -> None:
    end = prefix_range_end(prefix)
    assert not await holds(client, version(prefix, ">", 0, end))  # of no keys, it compares zeros
    assert await holds(client, version(prefix, "=", 0, end))
    await client.put(prefix + b"a", b"1")
    await client.put(prefix + b"b", b"1")
    assert await holds(client, value(prefix, "=", b"1", end))
    assert await holds(client, version(prefix, "=", 1, end))
    await client.put(prefix + b"b", b"2")
    assert not await holds(client, value(prefix, "=", b"1", end))
    assert not await holds(client, version(prefix, "=", 1, end))


async def test_all_comparisons_must_hold(client: Client, prefix: bytes) -> None:
    await client.put(prefix + b"a", b"1")
    assert await holds(client)
    assert await holds(client, version(prefix + b"a", "=", 1), value(prefix + b"a", "=", b"1"))
    assert not await holds(client, version(prefix + b"a", "=", 1), value(prefix + b"a", "=", b"2"))


async def test_transaction_changes_only_what_is_expected(client: Client, prefix: bytes) -> None:
    key = prefix + b"k"
    create = Txn((mod_revision(key, "=", 0),), (Put(key, b"1"),), (Range(key),))
    created = await client.do(create)
    assert created.succeeded
    again = await client.do(create)
    assert not again.succeeded
    assert again.header.revision == created.header.revision  # nothing was written
    (read,) = again.results
    assert isinstance(read, RangeResult)
    assert read.items[0].mod_revision == created.header.revision

    update = Txn((mod_revision(key, "=", created.header.revision),), (Put(key, b"2"),), (Range(key),))
    updated = await client.do(update)
    assert updated.succeeded
    stale = await client.do(update)
    assert not stale.succeeded

    delete = Txn((mod_revision(key, "=", updated.header.revision),), (DeleteRange(key, prev_kv=True),), (Range(key),))
    deleted = await client.do(delete)
    (removed,) = deleted.results
    assert isinstance(removed, DeleteResult)
    assert (removed.deleted, removed.previous[0].value) == (1, b"2")
    (gone,) = (await client.do(delete)).results
    assert isinstance(gone, RangeResult)
    assert gone.items == ()


async def test_operations_see_earlier_ones_at_one_revision(client: Client, prefix: bytes) -> None:
    before = await client.put(prefix + b"a", b"0")
    done = await client.do(
        Txn(
            (),
            (
                Put(prefix + b"a", b"1", prev_kv=True),
                Range(prefix + b"a"),
                Put(prefix + b"b", b"1"),
                DeleteRange(prefix + b"c", prefix + b"d"),
                Range(prefix, prefix_range_end(prefix)),
            ),
        )
    )
    put, first, _, nothing, second = done.results
    assert done.header.revision == before + 1
    assert isinstance(put, PutResult)
    assert put.previous is not None
    assert put.previous.value == b"0"
    assert isinstance(first, RangeResult)
    assert [(item.value, item.mod_revision, item.version) for item in first.items] == [(b"1", before + 1, 2)]
    assert isinstance(nothing, DeleteResult)
    assert nothing.deleted == 0
    assert isinstance(second, RangeResult)
    assert [item.key for item in second.items] == [prefix + b"a", prefix + b"b"]


async def test_transaction_that_only_reads_makes_no_revision(client: Client, prefix: bytes) -> None:
    last = await client.put(prefix + b"a", b"")
    done = await client.do(Txn((), (Range(prefix + b"a"), DeleteRange(prefix + b"b"))))
    assert done.header.revision == last


async def test_transactions_nest(client: Client, prefix: bytes) -> None:
    key = prefix + b"k"
    inner = Txn((version(key, "=", 1),), (Put(prefix + b"then", b""),), (Put(prefix + b"else", b""),))
    before = await client.put(prefix + b"other", b"")
    done = await client.do(
        Txn((version(key, "=", 0),), (Put(key, b"1"), inner, Range(prefix, prefix_range_end(prefix))))
    )
    _, nested, read = done.results
    assert isinstance(nested, TxnResult)
    assert not nested.succeeded  # comparisons are made before anything is done
    assert isinstance(nested.results[0], PutResult)
    assert isinstance(read, RangeResult)
    assert [item.key for item in read.items] == [prefix + b"else", key, prefix + b"other"]
    assert {item.mod_revision for item in read.items} == {before, before + 1}


async def test_failing_read_at_a_revision_writes_nothing(client: Client, prefix: bytes) -> None:
    key = prefix + b"k"
    first = await client.put(key, b"1")
    second = await client.put(key, b"2")
    old, last = (await client.do(Txn((), (Range(key, revision=first), Range(key))))).results
    assert isinstance(old, RangeResult)
    assert isinstance(last, RangeResult)
    assert (old.items[0].value, last.items[0].value) == (b"1", b"2")
    await client.compact(second)
    with pytest.raises(Compacted):
        await client.do(Txn((), (Put(key, b"3"), Range(key, revision=first))))
    with pytest.raises(FutureRevision):
        await client.do(Txn((), (Put(key, b"3"), Range(key, revision=second + 10))))
    with pytest.raises(LeaseNotFound):
        await client.do(Txn((), (Put(key, b"3"), Put(prefix + b"l", b"", 12345))))
    stored = await client.get(key)
    assert stored is not None
    assert stored.value == b"2"


async def test_a_key_may_be_written_once_in_a_transaction(client: Client, prefix: bytes) -> None:
    key = prefix + b"k"
    twice = (
        (Put(key, b"1"), Put(key, b"2")),
        (Put(key, b"1"), DeleteRange(key)),
        (DeleteRange(prefix, prefix_range_end(prefix)), Put(key, b"1")),
        (Put(key, b"1"), Txn((), (Put(key, b"2"),))),
    )
    for operations in twice:
        with pytest.raises(Refused, match="etcdserver: duplicate key given in txn request"):
            await client.do(Txn((), operations))
    either_way = Txn((version(key, "=", 0),), (Put(key, b"1"),), (Put(key, b"2"),))
    assert (await client.do(either_way)).succeeded
    assert (await client.do(Txn((), (DeleteRange(key), DeleteRange(key))))).succeeded


async def test_transaction_part_has_at_most_128_operations(client: Client, prefix: bytes) -> None:
    puts = tuple(Put(prefix + str(number).encode()) for number in range(129))
    assert (await client.do(Txn((), puts[:128]))).succeeded
    with pytest.raises(RequestTooLarge, match="etcdserver: too many operations in txn request"):
        await client.do(Txn((), puts))
    with pytest.raises(RequestTooLarge, match="etcdserver: too many operations in txn request"):
        await client.do(Txn((), (), puts))
    with pytest.raises(RequestTooLarge, match="etcdserver: too many operations in txn request"):
        await client.do(Txn(tuple(version(put.key, "=", 1) for put in puts)))


async def test_operations_without_a_key_are_refused(client: Client) -> None:
    for txn in (Txn((), (Put(b""),)), Txn((), (), (Range(b""),)), Txn((version(b"", "=", 0),))):
        with pytest.raises(Refused, match="etcdserver: key is not provided"):
            await client.do(txn)
