"""Snapshots of an etcd that runs: when which is taken, and that what is in them leads to every acknowledged write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable
from dataclasses import replace
from datetime import timedelta

import pytest

from espalier.etcd.requests import Put, Txn
from espalier.etcdbackup.snapshots.names import LAST_SECOND, Kind
from espalier.etcdbackup.snapshotter.continuity import LastWrites, OtherHistory, compare, last_written
from espalier.etcdbackup.snapshotter.full import newest_revision
from espalier.etcdbackup.snapshotter.requests import Inactive
from espalier.etcdbackup.snapshotter.schedule import Schedule
from espalier.etcdbackup.snapshotter.snapshotter import Behind, Snapshotter
from espalier.etcdbackup.stores.errors import Unavailable
from espalier.etcdbackup.stores.store import StoredObject
from espalier.runtime.clock import LoopClock
from tests.support.etcd.backups import EPOCH, delta, full, put
from tests.support.etcd.snapshotting import HOUR, MINUTE, MORNING, Setting, simulated


def test_full_snapshot_precedes_a_delta_per_period() -> None:
    async def story(setting: Setting) -> None:
        await setting.write(5)
        async with setting.running():
            await asyncio.sleep(1)
            assert await setting.names() == ["Full-0-6"]
            await asyncio.sleep(MINUTE)
            assert await setting.names() == ["Full-0-6"]  # nothing was written: no delta
            await setting.write(3)
            await asyncio.sleep(19)
            await setting.write(2)
            assert await setting.names() == ["Full-0-6"]
            await asyncio.sleep(2)
            assert await setting.names() == ["Full-0-6", "Incr-7-11"]
            assert await setting.reach() == 11

    simulated(story)


def test_full_snapshots_follow_their_schedule() -> None:
    async def story(setting: Setting) -> None:
        async with setting.running():
            for _ in range(3 * 60):
                await setting.write()
                await asyncio.sleep(MINUTE)
            inventory = await setting.inventory()
            taken = [snapshot_set.full.snapshot.time for snapshot_set in inventory.sets]
            assert [f"{time:%H:%M}" for time in taken] == ["08:30", "09:00", "10:00", "11:00"]
            for snapshot_set in inventory.sets:
                assert not [finding for finding in snapshot_set.findings() if finding.is_fault]
            await asyncio.sleep(MINUTE)
            assert await setting.reach() == await newest_revision(setting.client)

    simulated(story)


def test_large_delta_is_stored_early() -> None:
    async def story(setting: Setting) -> None:
        async with setting.running():
            await asyncio.sleep(1)
            await setting.client.put(b"/large", bytes(3000))
            await asyncio.sleep(0.1)
            assert await setting.names() == ["Full-0-1", "Incr-2-2"]

    simulated(story, Schedule(delta_memory=2000))


def test_restarted_agent_continues_with_a_delta() -> None:
    async def story(setting: Setting) -> None:
        async with setting.running():
            await setting.write(3)
            await asyncio.sleep(MINUTE)
        await setting.write(4)  # while no agent runs
        async with setting.running():
            await asyncio.sleep(1)
            assert (await setting.names())[-1] == "Incr-5-8"
            assert len((await setting.inventory()).sets) == 1
            assert await setting.reach() == 8

    simulated(story)


@pytest.mark.parametrize(
    "stored",
    [
        (),
        (full(1, 0),),
        (full(1, 88_000_000, final=True),),
        (full(1, 88_000_000), delta(3, 3, 88_000_060)),
    ],
    ids=["none", "older than a day", "final", "with a gap"],
)
def test_unfit_latest_set_begins_a_full_snapshot(stored: tuple[object, ...]) -> None:
    async def story(setting: Setting) -> None:
        await setting.write(9)
        await put(setting.bucket, *stored)  # type: ignore[arg-type]
        before = len((await setting.inventory()).sets)
        async with setting.running():
            await asyncio.sleep(1)
        inventory = await setting.inventory()
        assert len(inventory.sets) == before + 1
        assert inventory.latest is not None
        assert inventory.latest.full.snapshot.last == 10

    simulated(story)


def test_unseen_compaction_leads_to_a_full_snapshot() -> None:
    async def story(setting: Setting) -> None:
        async with setting.running():
            await setting.write(3)
            await asyncio.sleep(MINUTE)
        last = await setting.write(10)
        await setting.client.compact(last)
        async with setting.running():
            await asyncio.sleep(1)
            assert (await setting.names())[-1] == f"Full-0-{last}"
            await setting.write(2)
            await asyncio.sleep(MINUTE)
            assert await setting.reach() == last + 2

    simulated(story)


def test_etcd_behind_its_backups_is_not_backed_up() -> None:
    async def story(setting: Setting) -> None:
        await put(setting.bucket, full(100, 88_000_000), delta(101, 120, 88_000_060))
        with pytest.raises(Behind, match=r"etcd has revision 1, but its backups in s3://backups/etcd-main end at 120"):
            await setting.snapshotter().run()
        assert len(setting.bucket.objects) == 2

    simulated(story)


def test_etcd_with_other_writes_begins_own_set() -> None:
    async def story(setting: Setting) -> None:
        await put(setting.bucket, full(10, 88_000_000), delta(11, 20, 88_000_060))
        last = await setting.write(40)
        async with setting.running():
            await asyncio.sleep(1)
            assert (await setting.names())[-1] == f"Full-0-{last}"

    simulated(story)


def test_full_snapshot_alone_is_not_continued() -> None:
    async def story(setting: Setting) -> None:
        await put(setting.bucket, full(10, 88_000_000))
        last = await setting.write(40)
        async with setting.running():
            await asyncio.sleep(1)
            assert await setting.names() == ["Full-0-10", f"Full-0-{last}"]

    simulated(story)


def test_compacted_last_write_is_not_continued() -> None:
    """Also where the next one was not: etcd would tell all that comes after it."""

    async def story(setting: Setting) -> None:
        await put(setting.bucket, full(10, 88_000_000), delta(11, 20, 88_000_060))
        last = await setting.write(40)
        await setting.client.compact(21)
        async with setting.running():
            await asyncio.sleep(1)
            assert (await setting.names())[-1] == f"Full-0-{last}"

    simulated(story)


def test_etcd_with_other_writes_is_backed_up_later() -> None:
    """Its deltas would fit behind those of the other one, were the full snapshot between them lost."""

    async def story(setting: Setting) -> None:
        await put(setting.bucket, full(10, 88_000_000), delta(11, 20, 88_000_060))
        await setting.write(19)
        with pytest.raises(Behind, match="the writes of revision 20 differ"):
            await asyncio.wait_for(setting.snapshotter().run(), HOUR)
        await setting.write()
        async with setting.running():
            await asyncio.sleep(1)
            assert (await setting.names())[-1] == "Full-0-21"

    simulated(story)


def test_etcd_that_lost_its_data_is_not_continued() -> None:
    """It was away for less than a second, so nothing but its watch ended; what the agent had seen is stored."""

    async def story(setting: Setting) -> None:
        running = asyncio.create_task(setting.snapshotter().run())
        await asyncio.sleep(1)
        await setting.write(5)
        await asyncio.sleep(MINUTE)
        await setting.write(2)
        await asyncio.sleep(1)
        await setting.lose_all_data()
        with pytest.raises(Behind, match=r"etcd has revision 1, but its backups in \S+ end at 8"):
            await asyncio.wait_for(running, HOUR)
        assert await setting.names() == ["Full-0-1", "Incr-2-6", "Incr-7-8"]

    simulated(story)


def test_etcd_written_after_a_loss_begins_its_own_set() -> None:
    async def story(setting: Setting) -> None:
        async with setting.running():
            await asyncio.sleep(1)
            await setting.write(5)
            await asyncio.sleep(MINUTE)
            await setting.lose_all_data()
            last = await setting.write(30)
            await asyncio.sleep(MINUTE)
            assert (await setting.names())[:2] == ["Full-0-1", "Incr-2-6"]
            latest = (await setting.inventory()).latest
            assert latest is not None
            assert latest.full.snapshot.last > 6
            assert await setting.reach() == last

    simulated(story)


def test_agent_failed_before_a_delta_needs_no_full() -> None:
    """It knows etcd by what it had when it was taken, and would take another one every few seconds."""

    async def story(setting: Setting) -> None:
        await setting.write(3)
        snapshotter = setting.snapshotter()
        for _ in range(3):
            running = asyncio.create_task(snapshotter.run())
            await asyncio.sleep(1)
            await setting.write()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        assert len((await setting.inventory()).sets) == 1
        await setting.lose_all_data()
        last = await setting.write(30)
        running = asyncio.create_task(snapshotter.run())
        await asyncio.sleep(1)
        running.cancel()
        assert (await setting.names())[-1] == f"Full-0-{last}"

    simulated(story)


def test_a_watch_that_was_cut_goes_on_where_it_was() -> None:
    async def story(setting: Setting) -> None:
        async with setting.running():
            await asyncio.sleep(1)
            await setting.write(5)
            await asyncio.sleep(MINUTE)
            setting.cut_streams()
            await setting.write(5)
            await asyncio.sleep(MINUTE)
            assert await setting.reach() == 11
            assert len((await setting.inventory()).sets) == 1

    simulated(story)


def test_damaged_last_delta_is_not_continued() -> None:
    async def story(setting: Setting) -> None:
        async with setting.running():
            await setting.write(3)
            await asyncio.sleep(MINUTE)
        key = next(key for key in setting.bucket.objects if "Incr" in key)
        await setting.bucket.put(key, setting.bucket.objects[key].data[:-9])
        async with setting.running():
            await asyncio.sleep(1)
            assert (await setting.names())[-1] == "Full-0-4"

    simulated(story)


@pytest.mark.soak
def test_absent_store_loses_and_gathers_nothing() -> None:
    async def story(setting: Setting) -> None:
        async with setting.running() as snapshotter:
            await asyncio.sleep(1)
            setting.store.before["upload"] = lambda key: Unavailable(key, "no answer")
            last = 0
            for _ in range(200):
                last = await setting.write(5)
                await asyncio.sleep(5)
            assert await setting.names() == ["Full-0-1"]
            assert set(snapshotter.failures) == {Kind.DELTA, Kind.FULL}  # 09:00 has passed meanwhile
            assert "no answer" in snapshotter.failures[Kind.DELTA]
            assert setting.measured("etcdbr_snapshot_required", "Incr") == 1
            setting.store.before.clear()
            await asyncio.sleep(MINUTE)
            assert await setting.reach() == last
            assert not snapshotter.failures
            assert setting.measured("etcdbr_snapshot_required", "Incr") == 0

    simulated(story, Schedule(full="40 * * * *"))


def test_requested_snapshot_has_all_earlier_writes() -> None:
    async def story(setting: Setting) -> None:
        async with setting.running() as snapshotter:
            await asyncio.sleep(1)
            assert await snapshotter.delta() is None
            last = await setting.write(4)
            made = await snapshotter.delta()
            assert made is not None
            assert (made.snapshot.start, made.snapshot.last) == (2, last)
            last = await setting.write(2)
            taken = await asyncio.gather(snapshotter.full(), snapshotter.full(is_final=True))
            assert {stored.snapshot.last for stored in taken} == {last}
            assert all(stored.snapshot.is_final for stored in taken)
            assert taken[0] == taken[1]  # one for all who asked

    simulated(story)


async def _ends(setting: Setting) -> list[tuple[str, int]]:
    """Kinds and last revisions in the order in which etcd-backup-restore takes them: by these, then by time."""
    snapshots = sorted(
        (stored.snapshot for stored in (await setting.inventory()).snapshots),
        key=lambda snapshot: (snapshot.last, snapshot.created),
    )
    assert len({(snapshot.last, snapshot.created) for snapshot in snapshots}) == len(snapshots)  # else it has no order
    return [(snapshot.kind.name, snapshot.last) for snapshot in snapshots]


def test_full_snapshot_follows_an_equal_delta() -> None:
    async def story(setting: Setting) -> None:
        async with setting.running() as snapshotter:
            await asyncio.sleep(1)
            await setting.write(3)
            await snapshotter.delta()
            await snapshotter.full(is_final=True)
            await snapshotter.full(is_final=True)
            assert await _ends(setting) == [("FULL", 1), ("DELTA", 4), ("FULL", 4), ("FULL", 4)]

    simulated(story)


def test_restarted_agent_stores_snapshot_after_others() -> None:
    """Its clock may have been set back, too."""

    async def story(setting: Setting) -> None:
        async with setting.running() as snapshotter:
            await asyncio.sleep(1)
            await setting.write(3)
            await snapshotter.delta()
        setting.simulation = replace(setting.simulation, clock=LoopClock(MORNING - timedelta(hours=1)))
        async with setting.running() as snapshotter:
            await asyncio.sleep(1)
            await snapshotter.full()
            assert await _ends(setting) == [("FULL", 1), ("DELTA", 4), ("FULL", 4)]

    simulated(story)


def test_full_snapshot_follows_a_later_empty_delta() -> None:
    """The usual case: something is written, a full snapshot has it, and a period later a delta has it as well."""

    async def story(setting: Setting) -> None:
        async with setting.running() as snapshotter:
            await asyncio.sleep(1)
            await setting.write(3)
            await asyncio.sleep(1)
            await snapshotter.full()
            await asyncio.sleep(MINUTE)
            await setting.write(2)
            await asyncio.sleep(MINUTE)
            assert await _ends(setting) == [("FULL", 1), ("DELTA", 4), ("FULL", 4), ("DELTA", 6)]

    simulated(story)


def test_full_snapshot_follows_a_concurrent_delta(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(setting: Setting) -> None:
        async with setting.running() as snapshotter:
            await asyncio.sleep(1)
            passed_on, goes_on = setting.store.upload, asyncio.Event()

            async def held(key: str, chunks: AsyncIterable[bytes]) -> StoredObject:
                if "Full" in key:
                    await goes_on.wait()
                return await passed_on(key, chunks)

            monkeypatch.setattr(setting.store, "upload", held)
            await setting.write(3)
            taken = asyncio.create_task(snapshotter.full())
            await asyncio.sleep(MINUTE)
            await setting.write(2)
            await asyncio.sleep(MINUTE)
            goes_on.set()
            await taken
            assert await _ends(setting) == [("FULL", 1), ("DELTA", 4), ("FULL", 4), ("DELTA", 6)]

    simulated(story)


def test_last_second_of_names_ends_no_agent() -> None:
    """Whoever wrote it had a clock that was wrong, or wants that."""

    async def story(setting: Setting) -> None:
        async with setting.running() as snapshotter:
            await asyncio.sleep(1)
            await put(setting.bucket, full(1, LAST_SECOND - EPOCH))
            taken = await snapshotter.full()
            assert taken.snapshot.last == 1

    simulated(story)


def test_the_answer_says_why_no_snapshot_is_taken() -> None:
    async def story(setting: Setting) -> None:
        snapshotter = setting.snapshotter()
        with pytest.raises(Inactive, match="just started"):
            await snapshotter.full()
        async with setting.running() as snapshotter:
            await asyncio.sleep(1)
            setting.store.before["upload"] = lambda key: Unavailable(key, "no answer")
            with pytest.raises(Unavailable):
                await snapshotter.full()
            await setting.write()
            with pytest.raises(Unavailable):
                await snapshotter.delta()
            waiting = asyncio.create_task(snapshotter.delta())
            await asyncio.sleep(0.5)
        with pytest.raises(Inactive, match="was stopped"):
            await waiting
        with pytest.raises(Inactive, match="was stopped"):
            await snapshotter.delta()

    simulated(story)


def test_without_deltas_there_are_full_snapshots_alone() -> None:
    async def story(setting: Setting) -> None:
        async with setting.running() as snapshotter:
            await asyncio.sleep(1)
            await setting.write(3)
            await asyncio.sleep(HOUR)
            assert await setting.names() == ["Full-0-1", "Full-0-4"]
            with pytest.raises(Inactive, match="period is less than a second"):
                await snapshotter.delta()

    simulated(story, Schedule(delta_period=0))


def test_a_transaction_is_never_split_over_two_deltas() -> None:
    async def story(setting: Setting) -> None:
        async with setting.running():
            await asyncio.sleep(1)
            for number in range(30):
                await setting.client.do(
                    Txn(success=tuple(Put(b"%d-%d" % (number, key), bytes(100)) for key in range(20)))
                )
            await asyncio.sleep(MINUTE)
            deltas = [stored.snapshot for stored in (await setting.inventory()).snapshots[1:]]
            assert len(deltas) > 5
            assert await setting.reach() == 31

    simulated(story, Schedule(delta_memory=5000))


async def taking(snapshotter: Snapshotter, seconds: float) -> None:
    """Have it run for so long, as while its member leads."""
    running = asyncio.create_task(snapshotter.run())
    await asyncio.sleep(seconds)
    is_over = running.done()
    running.cancel()
    await asyncio.gather(running, return_exceptions=not is_over)


def test_etcd_once_behind_waits_until_it_is_ahead() -> None:
    async def story(setting: Setting) -> None:
        await put(setting.bucket, full(10, 88_000_000), delta(11, 20, 88_000_060))
        snapshotter = setting.snapshotter()
        with pytest.raises(Behind, match="etcd has revision 1,"):
            await taking(snapshotter, 1)
        assert await setting.write(19) == 20
        with pytest.raises(Behind, match="etcd has revision 20,"):
            await taking(snapshotter, 1)
        assert await setting.names() == ["Full-0-10", "Incr-11-20"]

    simulated(story)


def test_etcd_that_was_behind_begins_own_set_once() -> None:
    async def story(setting: Setting) -> None:
        snapshotter = setting.snapshotter()
        running = asyncio.create_task(snapshotter.run())
        await asyncio.sleep(1)
        await setting.client.put(b"/a", b"lost")
        await setting.client.put(b"/b", b"same")
        await asyncio.sleep(MINUTE)
        await setting.lose_all_data()
        with pytest.raises(Behind):
            await asyncio.wait_for(running, HOUR)
        await setting.client.put(b"/a", b"other")
        await setting.client.put(b"/b", b"same")
        await setting.client.put(b"/c", b"more")
        await taking(snapshotter, 1)
        assert await setting.names() == ["Full-0-1", "Incr-2-3", "Full-0-4"]
        await setting.write()
        await taking(snapshotter, 1)
        assert await setting.names() == ["Full-0-1", "Incr-2-3", "Full-0-4", "Incr-5-5"]

    simulated(story)


def test_leader_compares_with_snapshots_of_others() -> None:
    """Its own knowledge is in etcd: that was restored to it from an older backup, and went on another way."""

    async def story(setting: Setting) -> None:
        snapshotter = setting.snapshotter()
        running = asyncio.create_task(snapshotter.run())
        await asyncio.sleep(1)
        await setting.client.put(b"/a", b"known")
        await asyncio.sleep(MINUTE)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await setting.client.put(b"/b", b"lost")
        await taking(setting.snapshotter(), 1)  # another member's
        assert await setting.names() == ["Full-0-1", "Incr-2-2", "Incr-3-3"]
        await setting.lose_all_data()
        for key, value in ((b"/a", b"known"), (b"/b", b"other"), (b"/c", b"other")):
            await setting.client.put(key, value)
        await taking(snapshotter, 1)
        assert (await setting.names())[3:] == ["Full-0-4"]

    simulated(story)


def test_leader_does_not_continue_a_foreign_snapshot() -> None:
    async def story(setting: Setting) -> None:
        snapshotter = setting.snapshotter()
        await taking(snapshotter, 1)
        await put(setting.bucket, full(10, 88_000_000))
        last = await setting.write(20)
        await taking(snapshotter, 1)
        assert await setting.names() == ["Full-0-1", "Full-0-10", f"Full-0-{last}"]

    simulated(story)


def test_agent_after_final_snapshot_takes_full_one() -> None:
    async def story(setting: Setting) -> None:
        async with setting.running() as snapshotter:
            await asyncio.sleep(1)
            assert (await snapshotter.full(is_final=True)).snapshot.is_final
            await setting.write()
            await asyncio.sleep(MINUTE)
        assert await setting.names() == ["Full-0-1", "Full-0-1", "Incr-2-2"]
        async with setting.running():
            await asyncio.sleep(1)
            assert (await setting.names())[3:] == ["Full-0-2"]

    simulated(story)


def test_lost_revision_is_reported_at_once() -> None:
    async def story(setting: Setting) -> None:
        async with asyncio.timeout(1):
            with pytest.raises(OtherHistory, match="etcd has revision 1, but had 8"):
                await compare(setting.client, LastWrites(8, frozenset()))

    simulated(story)


def test_an_etcd_without_writes_is_not_waited_for() -> None:
    """No watch shows anything of its first revision."""

    async def story(setting: Setting) -> None:
        async with asyncio.timeout(1):
            written = await last_written(setting.client)
            assert written == LastWrites(1, frozenset())
            await compare(setting.client, written)

    simulated(story)
