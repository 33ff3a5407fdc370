"""Backups over days: what is kept, what goes, and what an agent says when it can't take any."""

from __future__ import annotations

import asyncio
import errno

import pytest

from espalier.etcdbackup.snapshots.names import Kind, Snapshot
from espalier.etcdbackup.snapshots.retention import Newest, Policy
from espalier.etcdbackup.snapshots.writing import DeltaBuilder
from espalier.etcdbackup.snapshotter import snapshotter
from espalier.etcdbackup.snapshotter.collection import Retention, collect
from espalier.etcdbackup.snapshotter.requests import Inactive
from espalier.etcdbackup.snapshotter.schedule import Schedule
from espalier.etcdbackup.stores.errors import Refused, Unavailable
from tests.support.etcd.backing_up import backing_up
from tests.support.etcd.backups import delta, full, put
from tests.support.etcd.snapshotting import HOUR, MINUTE, Setting, simulated


@pytest.mark.soak
def test_sets_of_a_day_are_kept_by_number() -> None:
    async def story(setting: Setting) -> None:
        async with backing_up(setting):
            for _ in range(24 * 4):
                await setting.write()
                await asyncio.sleep(15 * MINUTE)
            inventory = await setting.inventory()
            assert len(inventory.sets) == 3
            assert [len(snapshot_set.deltas) for snapshot_set in inventory.sets[:-1]] == [0, 0]
            assert not inventory.stray
            last = await setting.write()
            await asyncio.sleep(MINUTE)
            assert await setting.reach() == last
            assert setting.measured("etcdbr_snapshot_gc_total", "Full") == 25 - 3

    simulated(story)


@pytest.mark.parametrize("policy", [Newest(1)])
def test_nothing_is_deleted_while_a_copy_may_need_it(policy: Policy) -> None:
    async def story(setting: Setting) -> None:
        may = [False]
        async with backing_up(setting, Retention(policy), lambda: may[0]):
            await asyncio.sleep(5 * HOUR)
            assert len((await setting.inventory()).sets) == 6
            may[0] = True
            await asyncio.sleep(2 * MINUTE)
            assert len((await setting.inventory()).sets) == 1

    simulated(story)


def test_nothing_is_deleted_before_snapshots_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """An etcd that does not answer may be one whose backups are all that is left."""

    async def hangs(_etcd: object) -> int:
        await asyncio.Event().wait()
        return 0

    async def story(setting: Setting) -> None:
        await put(setting.bucket, full(1, 0), full(5, 3600), full(6, 7200))
        monkeypatch.setattr(snapshotter, "newest_revision", hangs)
        async with backing_up(setting, Retention(Newest(1))):
            await asyncio.sleep(10 * MINUTE)
            assert len((await setting.inventory()).sets) == 3

    simulated(story)


@pytest.mark.parametrize("held", [full(1, 0), delta(2, 5, 60)], ids=["full", "delta"])
def test_object_held_by_the_store_keeps_what_it_needs(held: Snapshot) -> None:
    async def story(setting: Setting) -> None:
        old = [
            stored.key
            for stored in await put(setting.bucket, full(1, 0), delta(2, 5, 60), full(5, 3600), full(6, 7200))
        ]
        setting.store.before["delete"] = lambda key: Refused(key, "it is held") if key == held.key else None
        async with backing_up(setting, Retention(Newest(1))):
            await setting.write(6)
            await asyncio.sleep(5 * MINUTE)
            left = [key for key in old if key in setting.bucket.objects]
            assert left == ([held.key] if held.kind is Kind.FULL else old[:2])

    simulated(story)


def test_while_etcd_is_away_the_agent_says_so() -> None:
    async def story(setting: Setting) -> None:
        async with backing_up(setting) as backups:
            await asyncio.sleep(1)
            assert not backups.trouble
            await setting.member.close()
            await asyncio.sleep(MINUTE)
            assert backups.trouble
            with pytest.raises(Inactive):
                await backups.full()

    simulated(story)


def test_trouble_with_the_store_is_reported_and_ends() -> None:
    async def story(setting: Setting) -> None:
        setting.store.before["list"] = lambda key: Refused("s3://backups", "the credentials are wrong")
        async with backing_up(setting) as backups:
            await asyncio.sleep(MINUTE)
            assert "the credentials are wrong" in backups.trouble
            setting.store.before.clear()
            await asyncio.sleep(10)
            assert not backups.trouble
            setting.store.before["upload"] = lambda key: Unavailable("s3://backups", "no answer")
            await setting.write()
            await asyncio.sleep(MINUTE)
            assert "no answer" in backups.trouble
            setting.store.before.clear()
            await asyncio.sleep(10)
            assert not backups.trouble

    simulated(story)


def test_members_are_defragmented_by_the_schedule() -> None:
    async def story(setting: Setting) -> None:
        async with backing_up(setting):
            await asyncio.sleep(3 * HOUR)
        counts = [line for line in setting.measures.exposition().decode().splitlines() if "defragmentation" in line]
        assert 'etcdbr_defragmentation_duration_seconds_count{succeeded="true"} 3.0' in counts

    simulated(story, Schedule(defragmentation="15 * * * *"))


@pytest.mark.soak
def test_etcd_behind_its_backups_deletes_nothing() -> None:
    async def story(setting: Setting) -> None:
        await put(setting.bucket, full(500, 0), full(600, 88_000_000), full(700, 88_100_000), full(800, 88_200_000))
        async with backing_up(setting) as backups:
            await asyncio.sleep(HOUR)
            assert "etcd has revision 1, but its backups" in backups.trouble
            assert len(setting.bucket.objects) == 4

    simulated(story)


def test_etcd_once_behind_begins_its_own_backups() -> None:
    async def story(setting: Setting) -> None:
        await put(setting.bucket, full(10, 88_000_000), delta(11, 20, 88_000_060))
        async with backing_up(setting) as backups:
            await asyncio.sleep(MINUTE)
            assert "etcd has revision 1, but its backups" in backups.trouble
            last = await setting.write(40)
            await asyncio.sleep(MINUTE)
            assert not backups.trouble
        assert (await setting.names())[-1] == f"Full-0-{last}"

    simulated(story)


def test_missing_temporary_space_is_reported_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_full(*_given: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def story(setting: Setting) -> None:
        async with backing_up(setting) as backups:
            await asyncio.sleep(1)
            with monkeypatch.context() as patched:
                patched.setattr(DeltaBuilder, "add", is_full)
                await setting.write()
                await asyncio.sleep(MINUTE)
                assert "No space left on device" in backups.trouble
            await asyncio.sleep(MINUTE)
            assert not backups.trouble
            assert await setting.reach() == 2

    simulated(story)


def test_deletion_stops_at_the_object_of_a_copy() -> None:
    async def story(setting: Setting) -> None:
        await put(setting.bucket, full(1, 0), full(5, 3600), full(6, 7200), full(7, 10800))
        may = iter((True, False))
        retention = Retention(Newest(1))
        assert (
            await collect(setting.store, setting.simulation.clock, retention, setting.measures, lambda: next(may)) == 1
        )
        assert len(setting.bucket.objects) == 3

    simulated(story)


def test_deletion_stops_when_store_is_away() -> None:
    async def story(setting: Setting) -> None:
        await put(setting.bucket, full(1, 0), full(5, 3600), full(6, 7200))
        setting.store.before["delete"] = lambda key: Unavailable(key, "no answer")
        retention = Retention(Newest(1))
        assert await collect(setting.store, setting.simulation.clock, retention, setting.measures, lambda: True) == 0
        assert [operation for operation, _ in setting.store.seen].count("delete") == 1

    simulated(story)
