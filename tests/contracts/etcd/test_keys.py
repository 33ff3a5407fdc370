"""Reading, writing and deleting keys, at the newest revision and at former ones."""

from __future__ import annotations

from contextlib import aclosing

import pytest
from msgspec.structs import replace

from espalier.etcd.client import Client
from espalier.etcd.errors import Compacted, FutureRevision, LeaseNotFound, Refused, RequestTooLarge
from espalier.etcd.requests import FROM_KEY, DeleteRange, Order, Put, Range, Target, prefix_range_end
from espalier.etcd.results import KeyValue, RangeResult
from tests.support.etcd import calls

pytestmark = pytest.mark.asyncio(loop_scope="session")


def names(result: RangeResult) -> list[str]:
    return [item.key.decode("latin-1").rpartition("/")[2] for item in result.items]


async def filled(client: Client, prefix: bytes, *keys: str) -> int:
    revision = 0
    for key in keys:
        revision = await client.put(prefix + key.encode(), f"value of {key}".encode())
    return revision


async def test_a_key_counts_its_revisions_and_versions(client: Client, prefix: bytes) -> None:
    key = prefix + b"k"
    assert await client.get(key) is None
    first = await client.put(key, b"1")
    second = await client.put(key, b"2")
    assert second == first + 1
    assert await client.get(key) == KeyValue(key, b"2", first, second, 2, 0)
    assert await client.delete(key) == 1
    third = await client.put(key, b"3")
    assert third == second + 2
    assert await client.get(key) == KeyValue(key, b"3", third, third, 1, 0)


async def test_values_may_be_empty_or_any_bytes(client: Client, prefix: bytes) -> None:
    for value in (b"", b"\0", bytes(range(256))):
        await client.put(prefix + b"k", value)
        stored = await client.get(prefix + b"k")
        assert stored is not None
        assert stored.value == value


async def test_a_key_can_be_read_as_it_was(client: Client, prefix: bytes) -> None:
    key = prefix + b"k"
    before = await client.put(prefix + b"other", b"")
    first = await client.put(key, b"1")
    await client.put(key, b"2")
    deleted = (await client.do(DeleteRange(key))).header.revision
    assert await client.get(key, revision=before) is None
    assert await client.get(key, revision=first) == KeyValue(key, b"1", first, first, 1, 0)
    assert (await client.get(key, revision=first + 1)) == KeyValue(key, b"2", first, first + 1, 2, 0)
    assert await client.get(key, revision=deleted) is None
    assert await client.get(key) is None


async def test_header_of_a_read_has_the_newest_revision(client: Client, prefix: bytes) -> None:
    first = await client.put(prefix + b"k", b"1")
    last = await client.put(prefix + b"k", b"2")
    assert (await client.do(Range(prefix + b"k", revision=first))).header.revision == last


async def test_range_has_keys_from_its_start_up_to_its_end(client: Client, prefix: bytes) -> None:
    await filled(client, prefix, "a", "aa", "b", "c")
    read = await client.do(Range(prefix + b"a", prefix + b"b"))
    assert (names(read), read.count, read.more) == (["a", "aa"], 2, False)
    assert names(await client.do(Range.of_prefix(prefix + b"a"))) == ["a", "aa"]
    assert names(await client.do(Range(prefix + b"b", prefix + b"a"))) == []
    assert names(await client.do(Range(prefix + b"b"))) == ["b"]


async def test_range_without_end_has_all_keys_from_its_start(client: Client, prefix: bytes) -> None:
    await filled(client, b"\xff" + prefix, "a", "b")  # behind what other tests write
    read = await client.do(Range(b"\xff" + prefix, FROM_KEY))
    assert names(read) == ["a", "b"]
    everything = await client.do(Range(FROM_KEY, FROM_KEY))
    assert everything.count > 2
    assert [item.key for item in everything.items] == sorted(item.key for item in everything.items)
    assert names(await client.do(Range.of_prefix(b"\xff"))) == ["a", "b"]
    assert (await client.do(Range.of_prefix(b""))).count == everything.count
    assert await client.delete(b"\xff", FROM_KEY) == 2


async def test_a_limit_cuts_and_the_count_does_not(client: Client, prefix: bytes) -> None:
    await filled(client, prefix, "a", "b", "c")
    for limit, item, more in ((1, ["a"], True), (2, ["a", "b"], True), (3, ["a", "b", "c"], False)):
        read = await client.do(Range(prefix, prefix_range_end(prefix), limit=limit))
        assert (names(read), read.count, read.more) == (item, 3, more)


async def test_pages_are_of_one_revision(client: Client, prefix: bytes) -> None:
    await filled(client, prefix, "a", "b", "c", "d", "e")
    pages = []
    async with aclosing(client.pages(Range(prefix, prefix_range_end(prefix), limit=2))) as parts:
        async for page in parts:
            pages.append(names(page))
            await client.put(prefix + b"c", b"changed meanwhile")
            await client.put(prefix + b"cc", b"came meanwhile")
            assert all(item.value.startswith(b"value of") for item in page.items)
    assert pages == [["a", "b"], ["c", "d"], ["e"]]


async def test_keys_alone_or_only_their_number(client: Client, prefix: bytes) -> None:
    await filled(client, prefix, "a", "b")
    keys = await client.do(Range(prefix, prefix_range_end(prefix), keys_only=True))
    assert [(item.value, item.version) for item in keys.items] == [(b"", 1), (b"", 1)]
    count = await client.do(Range(prefix, prefix_range_end(prefix), count_only=True))
    assert (count.items, count.count, count.more) == ((), 2, False)
    limited = await client.do(Range(prefix, prefix_range_end(prefix), limit=1, count_only=True))
    assert (limited.items, limited.count) == ((), 2)


@pytest.mark.parametrize(
    ("target", "order", "item"),
    [
        ("KEY", "NONE", ["a", "b", "c"]),
        ("KEY", "ASCEND", ["a", "b", "c"]),
        ("KEY", "DESCEND", ["c", "b", "a"]),
        ("VERSION", "ASCEND", ["b", "c", "a"]),
        ("CREATE", "ASCEND", ["c", "a", "b"]),
        ("CREATE", "DESCEND", ["b", "a", "c"]),
        ("MOD", "ASCEND", ["b", "a", "c"]),
        ("MOD", "NONE", ["b", "a", "c"]),  # a target alone means ascending
        ("VALUE", "ASCEND", ["a", "c", "b"]),
        ("VALUE", "DESCEND", ["b", "c", "a"]),
    ],
)
async def test_ranges_are_sorted(client: Client, target: Target, order: Order, item: list[str]) -> None:
    prefix = f"/sorted/{target}/{order}/".encode()
    for key, value in (("c", "?"), ("a", "?"), ("b", "3"), ("a", "?"), ("a", "1"), ("c", "2")):
        await client.put(prefix + key.encode(), value.encode())
    read = await client.do(Range(prefix, prefix_range_end(prefix), target=target, order=order))
    assert names(read) == item
    limited = await client.do(Range(prefix, prefix_range_end(prefix), target=target, order=order, limit=2))
    assert (names(limited), limited.more, limited.count) == (item[:2], True, 3)


async def test_ranges_within_bounds_of_revisions(client: Client, prefix: bytes) -> None:
    last = await filled(client, prefix, "a", "b", "c", "a")
    first, all_keys = last - 3, Range.of_prefix(prefix)
    for bounds, item in (
        ({"min_mod_revision": first + 2}, ["a", "c"]),
        ({"max_mod_revision": first + 2}, ["b", "c"]),
        ({"min_mod_revision": first + 2, "max_mod_revision": first + 2}, ["c"]),
        ({"min_create_revision": first + 1}, ["b", "c"]),
        ({"max_create_revision": first}, ["a"]),
    ):
        assert names(await client.do(replace(all_keys, **bounds))) == item


async def test_a_put_reports_what_was_there_if_asked(client: Client, prefix: bytes) -> None:
    key = prefix + b"k"
    assert (await client.do(Put(key, b"1", prev_kv=True))).previous is None
    first = await client.get(key)
    assert (await client.do(Put(key, b"2"))).previous is None
    assert (await client.do(Put(key, b"3", prev_kv=True))).previous == KeyValue(
        key, b"2", first.create_revision if first else 0, (first.mod_revision if first else 0) + 1, 2, 0
    )


async def test_a_put_may_keep_the_value_or_the_lease(client: Client, prefix: bytes) -> None:
    key = prefix + b"k"
    lease = await calls.grant(client, 600)
    await client.do(Put(key, b"kept", lease.id))
    await client.do(Put(key, ignore_value=True))
    value = await client.get(key)
    assert value is not None
    assert (value.value, value.lease, value.version) == (b"kept", 0, 2)
    await client.do(Put(key, b"kept", lease.id))
    await client.do(Put(key, b"new", ignore_lease=True))
    value = await client.get(key)
    assert value is not None
    assert (value.value, value.lease, value.version) == (b"new", lease.id, 4)
    await calls.revoke(client, lease.id)


async def test_puts_that_contradict_themselves_are_refused(client: Client, prefix: bytes) -> None:
    key = prefix + b"k"
    for put, complaint in (
        (Put(b"", b"value"), "etcdserver: key is not provided"),
        (Put(key, b"value", ignore_value=True), "etcdserver: value is provided"),
        (Put(key, b"value", 7, ignore_lease=True), "etcdserver: lease is provided"),
        (Put(key, ignore_value=True), "etcdserver: key not found"),
        (Put(key, b"value", ignore_lease=True), "etcdserver: key not found"),
    ):
        with pytest.raises(Refused) as refused:
            await client.do(put)
        assert refused.value.message == complaint
    with pytest.raises(LeaseNotFound, match="etcdserver: requested lease not found"):
        await client.do(Put(key, b"value", 7))
    assert await client.get(key) is None


async def test_a_range_needs_a_key(client: Client) -> None:
    with pytest.raises(Refused, match="etcdserver: key is not provided"):
        await client.do(Range(b""))
    with pytest.raises(Refused, match="etcdserver: key is not provided"):
        await client.do(DeleteRange(b""))


async def test_deletion_reports_the_number_and_the_keys(client: Client, prefix: bytes) -> None:
    last = await filled(client, prefix, "a", "b", "c")
    result = await client.do(DeleteRange(prefix + b"a", prev_kv=True))
    assert (result.deleted, [item.key for item in result.previous]) == (1, [prefix + b"a"])
    assert result.header.revision == last + 1
    rest = await client.do(DeleteRange(prefix, prefix_range_end(prefix)))
    assert (rest.deleted, rest.previous, rest.header.revision) == (2, (), last + 2)


async def test_deleting_nothing_makes_no_revision(client: Client, prefix: bytes) -> None:
    last = await filled(client, prefix, "a")
    nothing = await client.do(DeleteRange(prefix + b"b", prefix_range_end(prefix)))
    assert (nothing.deleted, nothing.header.revision) == (0, last)


async def test_a_revision_that_is_not_there_yet_is_refused(client: Client, prefix: bytes) -> None:
    last = await filled(client, prefix, "a")
    with pytest.raises(FutureRevision, match="etcdserver: mvcc: required revision is a future revision"):
        await client.do(Range(prefix + b"a", revision=last + 1))


async def test_compacted_revisions_can_not_be_read(client: Client, prefix: bytes) -> None:
    key = prefix + b"k"
    first = await client.put(key, b"1")
    second = await client.put(key, b"2")
    third = await client.put(key, b"3")
    await client.compact(second)
    with pytest.raises(Compacted, match="etcdserver: mvcc: required revision has been compacted"):
        await client.get(key, revision=first)
    value = await client.get(key, revision=second)  # the revision itself stays readable
    assert value == KeyValue(key, b"2", first, second, 2, 0)
    assert await client.get(key, revision=third) == KeyValue(key, b"3", first, third, 3, 0)


async def test_compaction_only_goes_forward_to_the_present(client: Client, prefix: bytes) -> None:
    await filled(client, prefix, "a", "b")
    last = await filled(client, prefix, "c")
    await client.compact(last - 1, physical=True)
    for revision in (last - 2, last - 1):
        with pytest.raises(Compacted, match="etcdserver: mvcc: required revision has been compacted"):
            await client.compact(revision)
    with pytest.raises(FutureRevision, match="etcdserver: mvcc: required revision is a future revision"):
        await client.compact(last + 1)
    assert (await client.compact(last)).revision == last


async def test_compaction_forgets_deleted_keys_only(client: Client, prefix: bytes) -> None:
    await filled(client, prefix, "a", "b", "a")
    await client.delete(prefix + b"b")
    last = await filled(client, prefix, "c")
    before = (await client.do(Range.of_prefix(prefix))).items
    await client.compact(last, physical=True)
    assert (await client.do(Range.of_prefix(prefix))).items == before
    assert names(await client.do(Range.of_prefix(prefix))) == ["a", "c"]


async def test_a_request_that_is_too_large_is_refused(client: Client, prefix: bytes) -> None:
    fits = b"x" * (1536 * 1024 - 512)
    await client.put(prefix + b"k", fits)
    with pytest.raises(RequestTooLarge, match="etcdserver: request is too large"):
        await client.put(prefix + b"k", b"x" * (1536 * 1024 + 1))
    with pytest.raises(RequestTooLarge, match="larger than max"):  # gRPC's own limit is half a MiB above
        await client.put(prefix + b"k", b"x" * (2560 * 1024))
    value = await client.get(prefix + b"k")
    assert value is not None
    assert value.version == 1


async def test_stale_read_equals_any_on_a_single_member(client: Client, prefix: bytes) -> None:
    await filled(client, prefix, "a")
    assert names(await client.do(Range.of_prefix(prefix))) == ["a"]
    assert names(await client.do(Range(prefix, prefix_range_end(prefix), serializable=True))) == ["a"]
