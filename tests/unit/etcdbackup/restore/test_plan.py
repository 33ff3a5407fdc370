"""Which snapshots are applied to which."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.etcdbackup.restore import plan
from espalier.etcdbackup.restore.errors import Incomplete, NothingToRestore
from espalier.etcdbackup.snapshots.names import Snapshot
from espalier.etcdbackup.snapshots.sets import Inventory, inventory_of
from espalier.etcdbackup.stores.store import StoredObject
from tests.support.etcd.backups import delta, full


def inventory(*snapshots: Snapshot) -> Inventory:
    return inventory_of(StoredObject(snapshot.key, 100, datetime(2026, 1, 1, tzinfo=UTC)) for snapshot in snapshots)


def test_deltas_lead_from_revision_that_content_has() -> None:
    held = inventory(full(10, 0), delta(11, 20, 1), delta(21, 30, 2))
    (latest,) = plan.full_snapshots(held)
    assert [delta_.snapshot.last for delta_ in plan.path(latest, 10, held).deltas] == [20, 30]
    assert [delta_.snapshot.last for delta_ in plan.path(latest, 25, held).deltas] == [30]
    assert plan.path(latest, 31, held).deltas == ()


def test_incomplete_full_snapshot_is_filled_by_deltas() -> None:
    held = inventory(full(5, 0), delta(6, 12, 1), full(12, 2), delta(13, 20, 3))
    latest = plan.full_snapshots(held)[0]
    assert [delta_.snapshot.last for delta_ in plan.path(latest, 10, held).deltas] == [12, 20]


def test_missing_snapshots_are_named() -> None:
    held = inventory(full(10, 0), delta(15, 20, 1))
    (latest,) = plan.full_snapshots(held)
    with pytest.raises(Incomplete, match=f"revision 10 can be restored from {latest.name} but .* 11 to 14 are missing"):
        plan.path(latest, 10, held)
    assert plan.path(latest, 10, held, partial=True).deltas == ()
    with pytest.raises(Incomplete, match="content ends at revision 9, not 10, but the last one in the store is 10"):
        plan.path(latest, 9, inventory(full(10, 0)))


def test_older_full_snapshot_needs_deltas_as_far() -> None:
    all_there = inventory(full(5, 0), delta(6, 10, 1), full(10, 2), delta(11, 20, 3))
    assert [stored.snapshot.last for stored in plan.full_snapshots(all_there)] == [10, 5]
    collected = inventory(full(5, 0), full(10, 2), delta(11, 20, 3))
    assert [stored.snapshot.last for stored in plan.full_snapshots(collected)] == [10]
    assert [stored.snapshot.last for stored in plan.full_snapshots(collected, partial=True)] == [10, 5]


def test_a_store_without_full_snapshots_is_refused() -> None:
    with pytest.raises(NothingToRestore):
        plan.full_snapshots(inventory(delta(2, 3, 0)))


def test_final_is_what_the_newest_snapshot_says() -> None:
    assert plan.is_final(inventory(full(5, 0), full(10, 2, final=True)))
    assert not plan.is_final(inventory(full(10, 2, final=True), delta(11, 12, 3)))
    assert not plan.is_final(inventory())


ranges = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 10)), max_size=8)


@given(ranges, st.integers(1, 30), st.integers(1, 40))
def test_a_path_has_every_revision_or_is_refused(
    ranges_of_deltas: list[tuple[int, int]], last: int, revision: int
) -> None:
    held = inventory(
        full(last, 0), *(delta(start, start + more, at) for at, (start, more) in enumerate(ranges_of_deltas))
    )
    there = {number for start, more in ranges_of_deltas for number in range(start, start + more + 1)}
    wanted = range(revision + 1, plan.target(held) + 1)
    latest = plan.full_snapshots(held)[0]
    try:
        path = plan.path(latest, revision, held)
    except Incomplete:
        assert not there.issuperset(wanted)
        return
    led = {number for stored in path.deltas for number in range(stored.snapshot.start, stored.snapshot.last + 1)}
    assert led.issuperset(wanted)
