"""Watches: from now and from the past, over compaction, with filters, progress, and what ends them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from espalier.etcd.client import Client
from espalier.etcd.errors import Compacted, Unavailable
from espalier.etcd.requests import FROM_KEY, DeleteRange, Put, Txn, prefix_range_end
from espalier.etcd.results import Event, KeyValue
from espalier.etcd.watch import Changes, Watch
from tests.support.etcd.etcds import Clients, Implementation, Limits
from tests.support.tasks import left_over

pytestmark = pytest.mark.asyncio(loop_scope="session")

SOON = 20.0
"""Seconds for what takes a moment."""


async def events(watch: Watch, count: int) -> list[Event]:
    """The next events, as many or a few more if they come in whole revisions."""
    results: list[Event] = []
    async with asyncio.timeout(SOON):
        while len(results) < count:
            results += (await anext(watch)).events
    return results


async def progress(watch: Watch) -> int:
    """The revision up to which there is nothing more."""
    await watch.request_progress()
    async with asyncio.timeout(SOON):
        while (changes := await anext(watch)).events:
            pass
    return changes.revision


def short(value: list[Event]) -> list[tuple[str, str, bytes]]:
    return [(each.type, each.item.key.decode().rpartition("/")[2], each.item.value) for each in value]


async def test_a_watch_reports_what_happens_from_now_on(client: Client, prefix: bytes) -> None:
    await client.put(prefix + b"a", b"before")
    async with client.watch(prefix, prefix_range_end(prefix)) as watch:
        first = await client.put(prefix + b"a", b"1")
        await client.put(b"/elsewhere", b"")
        await client.delete(prefix + b"a")
        put, deletion = await events(watch, 2)
    assert put == Event("PUT", KeyValue(prefix + b"a", b"1", first - 1, first, 2, 0), None)
    assert deletion == Event("DELETE", KeyValue(prefix + b"a", b"", 0, first + 2, 0, 0), None)


async def test_a_watch_of_one_key_leaves_out_those_it_begins(client: Client, prefix: bytes) -> None:
    async with client.watch(prefix + b"a") as watch:
        await client.put(prefix + b"aa", b"")
        await client.put(prefix + b"a", b"1")
        assert short(await events(watch, 1)) == [("PUT", "a", b"1")]


async def test_watch_from_past_reports_what_happened_since(client: Client, prefix: bytes) -> None:
    first = await client.put(prefix + b"a", b"1")
    await client.put(prefix + b"b", b"1")
    await client.delete(prefix + b"a")
    async with client.watch(prefix, prefix_range_end(prefix), start_revision=first) as watch:
        assert watch.revision == first - 1
        await client.put(prefix + b"b", b"2")
        results = await events(watch, 4)
        assert watch.revision == first + 3
    assert short(results) == [("PUT", "a", b"1"), ("PUT", "b", b"1"), ("DELETE", "a", b""), ("PUT", "b", b"2")]
    assert [each.item.mod_revision for each in results] == [first, first + 1, first + 2, first + 3]


async def test_a_watch_from_the_future_begins_there(client: Client, prefix: bytes) -> None:
    last = await client.put(prefix + b"a", b"0")
    async with client.watch(prefix, prefix_range_end(prefix), start_revision=last + 3) as watch:
        for number in range(1, 5):
            await client.put(prefix + b"a", str(number).encode())
        assert short(await events(watch, 2)) == [("PUT", "a", b"3"), ("PUT", "a", b"4")]


async def test_transaction_arrives_complete_and_in_order(client: Client, prefix: bytes) -> None:
    async with client.watch(prefix, prefix_range_end(prefix)) as watch:
        keys = [f"{number:03}" for number in reversed(range(128))]
        await client.do(Txn((), tuple(Put(prefix + key.encode(), b"x" * 1000) for key in keys)))
        async with asyncio.timeout(SOON):
            changes = await anext(watch)
    assert [each.item.key for each in changes.events] == [prefix + key.encode() for key in keys]
    assert {each.item.mod_revision for each in changes.events} == {changes.revision}


async def test_a_large_history_comes_in_whole_revisions(client: Client, prefix: bytes) -> None:
    """More than etcd puts into one message: it cuts, also through transactions."""
    value = b"x" * 100_000
    last = 0
    for number in range(8):
        puts = tuple(Put(prefix + f"{number}-{part}".encode(), value) for part in range(12))
        last = (await client.do(Txn((), puts))).header.revision
    results: list[Changes] = []
    async with client.watch(prefix, prefix_range_end(prefix), start_revision=last - 7) as watch:
        async with asyncio.timeout(SOON):
            while watch.revision < last:
                results.append(await anext(watch))
    assert sum(len(changes.events) for changes in results) == 96
    revisions = [{each.item.mod_revision for each in changes.events} for changes in results]
    assert all(left.isdisjoint(right) for left in revisions for right in revisions if left is not right)
    assert [max(each) for each in revisions] == [changes.revision for changes in results]


async def test_deleting_a_range_is_one_revision(client: Client, prefix: bytes) -> None:
    for key in (b"a", b"b", b"c"):
        await client.put(prefix + key, b"")
    async with client.watch(prefix, prefix_range_end(prefix)) as watch:
        await client.delete(prefix, prefix_range_end(prefix))
        async with asyncio.timeout(SOON):
            changes = await anext(watch)
    assert short(list(changes.events)) == [("DELETE", "a", b""), ("DELETE", "b", b""), ("DELETE", "c", b"")]


async def test_watch_reports_what_was_there_before_if_asked(client: Client, prefix: bytes) -> None:
    first = await client.put(prefix + b"a", b"1")
    async with client.watch(prefix, prefix_range_end(prefix), start_revision=first, prev_kv=True) as watch:
        await client.put(prefix + b"a", b"2")
        await client.delete(prefix + b"a")
        await client.put(prefix + b"a", b"3")
        results = await events(watch, 4)
    result, two = (
        KeyValue(prefix + b"a", b"1", first, first, 1, 0),
        KeyValue(prefix + b"a", b"2", first, first + 1, 2, 0),
    )
    assert [each.previous for each in results] == [None, result, two, None]


async def test_compacted_previous_value_is_left_out(client: Client, prefix: bytes) -> None:
    await client.put(prefix + b"a", b"1")
    second = await client.put(prefix + b"a", b"2")
    third = await client.put(prefix + b"a", b"3")
    await client.compact(second, physical=True)
    async with client.watch(prefix, prefix_range_end(prefix), start_revision=second, prev_kv=True) as watch:
        results = await events(watch, 2)
    assert results[0].previous is None
    assert results[1].previous is not None
    assert (results[1].previous.mod_revision, results[1].item.mod_revision) == (second, third)


async def test_filters_leave_out_puts_or_deletions(client: Client, prefix: bytes) -> None:
    async with (
        client.watch(prefix, prefix_range_end(prefix), filters=("NOPUT",)) as deletions,
        client.watch(prefix, prefix_range_end(prefix), filters=("NODELETE",)) as puts,
    ):
        await client.put(prefix + b"a", b"1")
        await client.delete(prefix + b"a")
        await client.put(prefix + b"b", b"1")
        await client.delete(prefix + b"b")
        assert short(await events(puts, 2)) == [("PUT", "a", b"1"), ("PUT", "b", b"1")]
        assert short(await events(deletions, 2)) == [("DELETE", "a", b""), ("DELETE", "b", b"")]


async def test_watch_of_compacted_revision_names_the_oldest(client: Client, prefix: bytes) -> None:
    first = await client.put(prefix + b"a", b"1")
    second = await client.put(prefix + b"a", b"2")
    third = await client.put(prefix + b"a", b"3")
    await client.compact(third)
    for start in (first, second):
        with pytest.raises(Compacted, match="required revision has been compacted") as compacted:
            async with client.watch(prefix, prefix_range_end(prefix), start_revision=start) as watch:
                await events(watch, 1)
        assert compacted.value.revision == third
    async with client.watch(prefix, prefix_range_end(prefix), start_revision=third) as watch:
        assert short(await events(watch, 1)) == [("PUT", "a", b"3")]


async def test_compaction_disturbs_no_current_watch(client: Client, prefix: bytes) -> None:
    async with client.watch(prefix, prefix_range_end(prefix)) as watch:
        await client.put(prefix + b"a", b"1")
        assert short(await events(watch, 1)) == [("PUT", "a", b"1")]
        await client.compact(await client.put(prefix + b"a", b"2"), physical=True)
        await client.put(prefix + b"a", b"3")
        assert short(await events(watch, 2)) == [("PUT", "a", b"2"), ("PUT", "a", b"3")]


async def test_progress_says_up_to_where_everything_was_told(client: Client, prefix: bytes) -> None:
    async with client.watch(prefix, prefix_range_end(prefix)) as watch:
        mine = await client.put(prefix + b"a", b"1")
        other = await client.put(b"/elsewhere", b"")
        assert other > mine
        assert await progress(watch) >= other
        assert watch.revision >= other


async def test_a_quiet_watch_gets_signs_of_progress_if_asked(
    implementation: Implementation, tmp_path: Path, prefix: bytes
) -> None:
    async with (
        implementation.run(tmp_path, Limits(progress_interval=0.1)) as clients,
        clients() as client,
        client.watch(prefix, prefix_range_end(prefix), progress_notify=True) as watch,
    ):
        elsewhere = await client.put(b"/elsewhere", b"")
        async with asyncio.timeout(SOON):
            while (changes := await anext(watch)).revision < elsewhere:
                assert changes.events == ()


async def test_many_watches_hear_of_one_write(client: Client, prefix: bytes) -> None:
    async with (
        client.watch(prefix + b"a") as opened,
        client.watch(prefix, prefix_range_end(prefix)) as below,
        client.watch(FROM_KEY, FROM_KEY) as everything,
    ):
        await client.put(prefix + b"a", b"1")
        for watch in (opened, below, everything):
            assert short(await events(watch, 1)) == [("PUT", "a", b"1")]


async def test_a_cancelled_wait_loses_nothing(client: Client, prefix: bytes) -> None:
    async with client.watch(prefix, prefix_range_end(prefix)) as watch:
        waiting = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await client.put(prefix + b"a", b"1")
        assert short(await events(watch, 1)) == [("PUT", "a", b"1")]


async def test_reopened_watch_loses_nothing(client: Client, prefix: bytes) -> None:
    async with client.watch(prefix, prefix_range_end(prefix)) as watch:
        waiting = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0)
        await client.put(prefix + b"a", b"1")
        await watch.reopen()
        await client.put(prefix + b"a", b"2")
        async with asyncio.timeout(SOON):
            results = list((await waiting).events)
        if len(results) < 2:
            results += await events(watch, 1)
    assert short(results) == [("PUT", "a", b"1"), ("PUT", "a", b"2")]


async def test_nothing_is_left_of_a_watch(clients: Clients, prefix: bytes) -> None:
    before = asyncio.all_tasks()
    async with clients() as client:
        async with client.watch(prefix, prefix_range_end(prefix)) as watch:
            waiting = asyncio.ensure_future(anext(watch))
            await client.put(prefix + b"a", b"1")
            await waiting
            pending = asyncio.ensure_future(anext(watch))
            await asyncio.sleep(0)
            pending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await pending
    assert not await left_over(before)


async def test_closing_the_client_ends_its_watches(clients: Clients, prefix: bytes) -> None:
    client = clients()
    async with client.watch(prefix, prefix_range_end(prefix)) as watch:
        waiting = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(Unavailable):
            async with asyncio.timeout(SOON):
                await waiting


async def test_deletions_by_transactions_are_reported(client: Client, prefix: bytes) -> None:
    await client.put(prefix + b"a", b"1")
    async with client.watch(prefix, prefix_range_end(prefix)) as watch:
        await client.do(Txn((), (DeleteRange(prefix + b"a"), Put(prefix + b"b", b"1"))))
        assert short(await events(watch, 2)) == [("DELETE", "a", b""), ("PUT", "b", b"1")]
