"""Moves from a source that is gone, and whose backups are damaged: nothing starts from less than there was, unasked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest

from espalier.api.etcd.ownership import CopyOperation, Status, Writer, copy_operation_key, encoded
from espalier.etcdbackup.copying.copier import Copied
from espalier.etcdbackup.running.copier import CopierRun
from espalier.etcdbackup.snapshots.reading import read_inventory
from espalier.etcdbackup.snapshots.sets import Inventory, SnapshotSet
from tests.support.etcd.moves import Moves, Seat, moving

Damage = Callable[[Seat, SnapshotSet], Awaitable[None]]


async def lost_source(moves: Moves) -> tuple[Seat, SnapshotSet]:
    """A source that is lost when it has taken some deltas."""
    source = await moves.founded()
    await asyncio.sleep(5.5 * moves.schedule.delta_period)
    await source.kill_agent()
    source.guard.kill()
    latest = (await read_inventory(source.bucket)).latest
    assert latest is not None
    assert len(latest.deltas) >= 3
    return source, latest


async def no_damage(_source: Seat, _latest: SnapshotSet) -> None:
    pass


async def damaged_full(source: Seat, latest: SnapshotSet) -> None:
    """There is a newer full snapshot, and its end is missing."""
    newer = replace(latest.full.snapshot, last=latest.last, created=latest.newest + 1)
    content = source.bucket.objects[latest.full.key].data

    async def half() -> AsyncIterator[bytes]:
        yield content[: len(content) // 2]

    await source.bucket.upload(newer.key, half())


def restored(damage: Damage) -> tuple[list[bytes], bool]:
    """The keys that a destination lacks, and whether its newest full snapshot is the source's first one."""

    async def story(moves: Moves) -> tuple[list[bytes], bool]:
        source, latest = await lost_source(moves)
        await damage(source, latest)
        destination = moves.seat()
        await moves.taken_over(destination)
        return await moves.missing(destination), latest.full.key in destination.bucket.objects

    return moving(story)


def test_older_snapshot_replaces_damaged_one() -> None:
    assert restored(damaged_full) == restored(no_damage)
    assert restored(no_damage)[1]


def without(number: int) -> Damage:
    async def damage(source: Seat, latest: SnapshotSet) -> None:
        await source.bucket.delete(latest.deltas[number].key)

    return damage


async def damaged_delta(source: Seat, latest: SnapshotSet) -> None:
    async def nothing() -> AsyncIterator[bytes]:
        yield b"no delta"

    key = latest.deltas[1].key
    await source.bucket.delete(key)
    await source.bucket.upload(key, nothing())


@pytest.mark.parametrize(
    ("damage", "cause"), [(without(1), "missing between"), (damaged_delta, "/Incr-")], ids=["a gap", "a damaged delta"]
)
def test_incomplete_restore_waits_for_a_deletion(damage: Damage, cause: str) -> None:
    """The status of the copy names the damage, and the gardenlet writes it into the Shoot."""

    async def story(moves: Moves) -> None:
        source, latest = await lost_source(moves)
        await damage(source, latest)
        destination = moves.seat()
        copy = moves.copy(destination)
        await moves.until(lambda: "can be restored" in copy.trouble)
        await asyncio.sleep(10 * moves.timing.poll_period)
        assert not copy.ready
        assert_names(copy, latest, cause)
        assert not [key for key in destination.bucket.objects if key.startswith("ownership/")]
        for stored in latest.deltas[1:]:
            source.bucket.objects.pop(stored.key, None)
        await moves.until(lambda: copy.ready)
        assert copy.trouble == ""
        run = destination.start_agent()
        await moves.until(lambda: run.ready)
        assert await moves.missing(destination), "what came after the gap is lost, as was agreed to"

    moving(story)


def assert_names(copy: CopierRun, latest: SnapshotSet, cause: str) -> None:
    first, second, third, *_ = latest.deltas
    message = copy.status().message
    assert f"revision {first.snapshot.last} can be restored, but the last one was {latest.last}: " in message
    assert cause in message
    assert f"if writes after revision {first.snapshot.last} may be lost, delete " in message
    assert third.name in message
    assert (second.name in message.partition("delete ")[2]) == (cause != "missing between")
    assert len(message) < 2000


def test_nothing_starts_without_a_full_snapshot() -> None:
    async def story(moves: Moves) -> None:
        source, latest = await lost_source(moves)
        await damaged_full(source, latest)
        await source.bucket.delete(latest.full.key)
        copy = moves.copy(moves.seat())
        await moves.until(lambda: "no intact full snapshot" in copy.trouble)
        await asyncio.sleep(60)
        assert not copy.ready

    moving(story)


async def closed_source(moves: Moves, *, is_quiet: bool) -> tuple[Seat, str]:
    """A source that has handed its data over, and the end of whose final snapshot is missing. If it `is_quiet`, the
    last delta has all of it, too."""
    source = await moves.founded()
    await asyncio.sleep(2.5 * moves.schedule.delta_period)
    if is_quiet:
        await source.without_clients()
        await asyncio.sleep(2 * moves.schedule.delta_period)
    await moves.initiated(source)
    (final,) = [key for key in source.bucket.objects if key.endswith(".final")]
    content = source.bucket.objects[final].data

    async def half() -> AsyncIterator[bytes]:
        yield content[: len(content) // 2]

    await source.bucket.delete(final)
    await source.bucket.upload(final, half())
    return source, final


def test_damaged_final_snapshot_is_replaced_by_deltas() -> None:
    async def story(moves: Moves) -> None:
        await closed_source(moves, is_quiet=True)
        destination = moves.seat()
        await moves.taken_over(destination)
        assert await moves.missing(destination) == []

    moving(story)


def test_lost_final_snapshot_needs_an_operator() -> None:
    async def story(moves: Moves) -> None:
        source, final = await closed_source(moves, is_quiet=False)
        destination = moves.seat()
        copy = moves.copy(destination)
        await moves.until(lambda: f"delete {final.rpartition('/')[2]} there" in copy.trouble)
        await source.bucket.delete(final)
        await moves.until(lambda: "is not in its latest set; it may still appear; if it is lost, " in copy.trouble)
        await asyncio.sleep(60)
        assert not copy.ready
        await moves.end_copies()
        await source.bucket.delete(copy_operation_key(1))
        await source.bucket.create(copy_operation_key(1), encoded(CopyOperation(1, Status.READY, Writer.DESTINATION)))
        await moves.taken_over(destination)

    moving(story)


def test_copy_without_the_final_snapshot_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else has what clients wrote last, so no epoch starts from a copy that lacks it."""

    async def story(moves: Moves) -> None:
        source = await moves.founded()
        await asyncio.sleep(2.5 * moves.schedule.delta_period)
        await moves.initiated(source)
        intact, runs = CopierRun._copy_intact, list[int]()

        async def lacking(run: CopierRun, inventory: Inventory) -> tuple[Copied, frozenset[str]]:
            runs.append(1)
            return (Copied((), (), 0, False, None), frozenset()) if len(runs) < 3 else await intact(run, inventory)

        monkeypatch.setattr(CopierRun, "_copy_intact", lacking)
        destination = moves.seat()
        copy = moves.copy(destination)
        await moves.until(lambda: "was not copied; copy again" in copy.trouble)
        assert not copy.ready
        await moves.end_copies()
        await moves.taken_over(destination)
        assert await moves.missing(destination) == []
        assert len(runs) >= 3

    moving(story)


async def later_snapshot(source: Seat, *, is_final: bool) -> None:
    """There is a later snapshot than the one that the CopyOperation names, with the same content."""
    latest = (await read_inventory(source.bucket)).latest
    assert latest is not None
    content = source.bucket.objects[latest.full.key].data

    async def chunks() -> AsyncIterator[bytes]:
        yield content

    later = replace(latest.full.snapshot, created=latest.full.snapshot.created + 1, is_final=is_final)
    await source.bucket.upload(later.key, chunks())


def test_final_snapshots_of_two_members_are_as_good() -> None:
    """Another member had become etcd's leader, and its agent has stored one as well: the last one has all, too."""

    async def story(moves: Moves) -> None:
        source = await moves.founded()
        await moves.initiated(source)
        await later_snapshot(source, is_final=True)
        destination = moves.seat()
        await moves.taken_over(destination)
        assert await moves.missing(destination) == []

    moving(story)


def test_snapshot_after_final_one_needs_an_operator() -> None:
    async def story(moves: Moves) -> None:
        source = await moves.founded()
        await moves.initiated(source)
        await later_snapshot(source, is_final=False)
        copy = moves.copy(moves.seat())
        await moves.until(lambda: "is not in its latest set" in copy.trouble)
        await asyncio.sleep(60)
        assert not copy.ready

    moving(story)
