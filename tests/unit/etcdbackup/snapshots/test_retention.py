"""Retention: what is kept for how long, and that nothing goes which the latest set needs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from espalier.etcdbackup.snapshots.names import Kind, Snapshot
from espalier.etcdbackup.snapshots.retention import Exponential, Newest, Policy, deletable
from espalier.etcdbackup.snapshots.sets import Inventory, StoredChunk, inventory_of
from espalier.etcdbackup.stores.store import StoredObject

NOW = datetime(2026, 3, 18, 15, 30, tzinfo=UTC)


def full(taken: datetime, last: int) -> Snapshot:
    return Snapshot(Kind.FULL, 0, last, int(taken.timestamp()))


def delta(taken: datetime, start: int, last: int) -> Snapshot:
    return Snapshot(Kind.DELTA, start, last, int(taken.timestamp()))


def inventory(*snapshots: Snapshot, empty: tuple[Snapshot, ...] = (), chunks: tuple[str, ...] = ()) -> Inventory:
    made = [StoredObject(snapshot.key, 0 if snapshot in empty else 9, NOW) for snapshot in snapshots]
    return inventory_of([*made, *(StoredObject(key, 9, NOW) for key in chunks)])


def fulls(*taken: datetime) -> list[Snapshot]:
    return [full(time, 100 + at) for at, time in enumerate(sorted(taken))]


def gone(
    store_inventory: Inventory, policy: Policy, now: datetime = NOW, retention: timedelta = timedelta()
) -> list[str]:
    return [stored.key for stored in deletable(store_inventory, policy, now, delta_retention=retention)]


def retained(taken: list[datetime], policy: Policy) -> list[datetime]:
    store_inventory = inventory(*fulls(*taken))
    left = {stored.key for stored in store_inventory.snapshots} - set(gone(store_inventory, policy))
    return [stored.snapshot.time for stored in store_inventory.snapshots if stored.key in left]


def test_snapshots_of_this_hour_and_day_are_kept() -> None:
    at = [NOW.replace(hour=hour, minute=minute) for hour in (13, 14, 15) for minute in (0, 10, 20)]
    assert retained(at, Exponential()) == [at[2], at[5], *at[6:]]


def test_last_of_seven_days_and_four_weeks_is_kept() -> None:
    at = [NOW.replace(hour=hour) - timedelta(days=days) for days in range(45) for hour in (3, 9)]
    ages = [(NOW.date() - time.date()).days for time in retained(at, Exponential())]
    assert ages == [29, 22, 15, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0]
    assert {time.hour for time in retained(at, Exponential())} == {3, 9}


def test_by_count_the_newest_are_kept() -> None:
    at = [NOW - timedelta(days=days) for days in range(10)]
    assert retained(at, Newest(3)) == sorted(at[:3])
    with pytest.raises(ValueError, match="found 0, allowed is 1 or more"):
        Newest(0)


def test_the_only_set_is_kept_however_old_it_is() -> None:
    old = NOW - timedelta(days=400)
    store_inventory = inventory(full(old, 10), delta(old, 11, 20))
    assert gone(store_inventory, Exponential()) == gone(store_inventory, Newest(1)) == []


def test_deltas_go_before_their_full_snapshot() -> None:
    old = NOW - timedelta(days=50)
    first, of_first, second, of_second = full(old, 10), delta(old, 11, 20), full(NOW, 20), delta(NOW, 21, 30)
    store_inventory = inventory(first, of_first, second, of_second)
    assert gone(store_inventory, Exponential()) == [of_first.key, first.key]
    assert gone(store_inventory, Newest(2)) == [of_first.key]


def test_retained_deltas_keep_what_they_need() -> None:
    at = NOW - timedelta(hours=2)
    first, early, late = full(at, 10), delta(at, 11, 15), delta(NOW - timedelta(minutes=5), 16, 20)
    store_inventory = inventory(first, early, late, full(NOW, 20))
    assert gone(store_inventory, Newest(1), retention=timedelta(hours=1)) == [early.key]
    assert gone(store_inventory, Newest(1), retention=timedelta(minutes=1)) == [early.key, late.key, first.key]


WEEK = timedelta(days=7)


@pytest.mark.parametrize("policy", [Exponential(), Newest(1)], ids=["exponential", "by count"])
@pytest.mark.parametrize("after", [21 + 10**9, 41], ids=["revisions were skipped", "another history"])
def test_snapshots_before_a_loss_stay_for_a_week(policy: Policy, after: int) -> None:
    """Those who find that something is missing can restore it elsewhere, with the last delta that there is."""
    lost, begun = NOW - WEEK - timedelta(days=2), NOW - WEEK + timedelta(minutes=1)
    first, of_first = full(lost, 10), delta(lost, 11, 20)
    restored, later = full(begun, after), [full(begun + timedelta(days=day), after + day) for day in (1, 2)]
    deltas = [delta(snapshot.time, snapshot.last, snapshot.last + 1) for snapshot in (restored, later[0])]
    store_inventory = inventory(first, of_first, restored, *later, *deltas)
    assert not {first.key, of_first.key} & set(gone(store_inventory, policy))
    assert {first.key, of_first.key} <= set(gone(store_inventory, Newest(1), NOW + timedelta(minutes=2)))


def test_full_snapshot_before_skipped_revisions_stays() -> None:
    lost, begun = NOW - timedelta(hours=9), NOW - timedelta(hours=8)
    store_inventory = inventory(full(lost, 10), full(begun, 10 + 10**9), full(NOW, 12 + 10**9))
    assert gone(store_inventory, Newest(1)) == []
    assert gone(store_inventory, Newest(1), begun + WEEK) == [full(lost, 10).key, full(begun, 10 + 10**9).key]


def test_week_counts_from_first_snapshot_after_loss() -> None:
    lost, of_lost = full(NOW - timedelta(hours=1), 10), delta(NOW - timedelta(minutes=30), 11, 20)
    there = [lost, of_lost]
    for day in range(7):
        there.append(full(NOW + timedelta(days=day), 41 + day))
        keys = gone(inventory(*there), Newest(1), NOW + timedelta(days=day))
        there = [snapshot for snapshot in there if snapshot.key not in keys]
        assert there[:3] == [lost, of_lost, full(NOW, 41)]
    there.append(full(NOW + WEEK, 48))
    assert gone(inventory(*there), Newest(1), NOW + WEEK) == [
        snapshot.key for snapshot in (of_lost, lost, *there[2:-1])
    ]


def test_full_snapshot_makes_earlier_deltas_unneeded() -> None:
    before, middle = full(NOW - timedelta(hours=1), 10), full(NOW, 25)
    until = [before, delta(NOW - timedelta(minutes=30), 11, 20), middle]
    assert gone(inventory(*until), Newest(2)) == [], "not before a delta leads across it"
    assert gone(inventory(*until, delta(NOW, 21, 30)), Newest(2)) == [until[1].key]


def test_empty_full_snapshot_deletes_no_other() -> None:
    first, of_first = full(NOW - timedelta(days=50), 10), delta(NOW - timedelta(days=49), 11, 20)
    for torn in (full(NOW, 20), full(NOW, 21)):  # deltas lead to the first of them: no history ends there
        store_inventory = inventory(first, of_first, torn, empty=(torn,))
        assert gone(store_inventory, Newest(1)) == gone(store_inventory, Exponential()) == []


def test_deltas_without_a_full_snapshot_go_later() -> None:
    stray = delta(NOW - timedelta(days=1), 5, 9)
    assert gone(inventory(stray), Newest(1)) == []
    assert gone(inventory(stray, full(NOW, 10)), Newest(1)) == [stray.key]


def test_chunks_stay_during_upload_and_then_go() -> None:
    first, second = full(NOW - timedelta(days=1), 10), full(NOW, 20)
    coming = full(NOW, 30), full(NOW + timedelta(seconds=1), 20)
    chunks = tuple(f"{snapshot.key}/0000000001" for snapshot in (full(NOW - timedelta(days=2), 5), second, *coming))
    store_inventory = inventory(first, second, chunks=chunks)
    assert [
        stored.key for stored in deletable(store_inventory, Newest(9), NOW) if isinstance(stored, StoredChunk)
    ] == list(chunks[:2])


def test_snapshots_dated_in_the_future_stay() -> None:
    assert len(retained([NOW + timedelta(hours=1), NOW + timedelta(days=3), NOW], Exponential())) == 3


def test_a_clock_in_another_zone_keeps_the_same() -> None:
    store_inventory = inventory(*fulls(*(NOW - timedelta(hours=hours) for hours in range(300))))
    assert gone(store_inventory, Exponential()) == gone(
        store_inventory, Exponential(), NOW.astimezone(timezone(timedelta(hours=-9)))
    )


SNAPSHOTS = st.lists(
    st.tuples(st.booleans(), st.integers(0, 300), st.integers(0, 20), st.integers(-100, 4000)), max_size=15
)
POLICIES = st.one_of(st.just(Exponential()), st.integers(1, 4).map(Newest))


@given(SNAPSHOTS, POLICIES, st.integers(0, 3000))
@example([(False, 0, 0, 0), (True, 0, 0, 0), (True, 1, 0, 0), (True, 2, 0, 504)], Newest(1), 0)
def test_nothing_goes_that_the_latest_set_needs(
    made: list[tuple[bool, int, int, int]], policy: Policy, retention: int
) -> None:
    taken = [
        full(NOW - timedelta(minutes=ago * 20), last) if is_full
        else delta(NOW - timedelta(minutes=ago * 20), max(0, last - length), last)
        for is_full, last, length, ago in made
    ]  # fmt: skip
    store_inventory = inventory(*dict.fromkeys(taken))
    keys = gone(store_inventory, policy, retention=timedelta(minutes=retention))
    assert len(set(keys)) == len(keys)
    latest = store_inventory.latest
    assert latest is not None or not keys
    left = inventory_of(
        StoredObject(stored.key, stored.size, NOW) for stored in store_inventory.snapshots if stored.key not in keys
    )
    assert left.latest == latest
    if latest is not None:
        assert not {stored.key for stored in latest.members} & set(keys)
        assert gone(left, policy, retention=timedelta(minutes=retention)) == []
        for snapshot_set in left.sets:
            assert snapshot_set.full in store_inventory.snapshots
