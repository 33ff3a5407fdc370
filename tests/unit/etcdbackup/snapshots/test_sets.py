"""Sets of snapshots: which belong together, how far they lead, and what is missing between them."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.etcdbackup.snapshots.names import Snapshot
from espalier.etcdbackup.snapshots.sets import FindingReason, Inventory, SnapshotSet, StoredSnapshot, inventory_of
from espalier.etcdbackup.stores.store import StoredObject
from tests.support.etcd.backups import delta, full


def inventory(*snapshots: Snapshot, others: tuple[str, ...] = ()) -> Inventory:
    keys = [*(snapshot.key for snapshot in snapshots), *others]
    return inventory_of(StoredObject(key, 100, datetime.now(UTC)) for key in keys)


def members(snapshot_set: SnapshotSet | None) -> list[Snapshot]:
    assert snapshot_set is not None
    return [stored.snapshot for stored in snapshot_set.members]


def test_latest_set_is_a_full_snapshot_with_its_deltas() -> None:
    old, new = full(10, 0), full(30, 200)
    deltas = [delta(11, 20, 50), delta(21, 30, 100), delta(31, 40, 300), delta(41, 41, 400)]
    store_inventory = inventory(deltas[3], new, deltas[0], old, deltas[2], deltas[1])
    assert members(store_inventory.latest) == [new, deltas[2], deltas[3]]
    assert [members(snapshot_set) for snapshot_set in store_inventory.sets] == [
        [old, deltas[0], deltas[1]],
        [new, deltas[2], deltas[3]],
    ]
    assert [snapshot_set.findings() for snapshot_set in store_inventory.sets] == [[], []]
    assert store_inventory.latest is not None
    assert (store_inventory.latest.reach, store_inventory.latest.last) == (41, 41)


def test_later_of_two_full_snapshots_counts() -> None:
    for first, second in ((True, False), (False, True)):
        earlier, later = full(10, 0, final=first), full(10, 1, final=second)
        assert members(inventory(later, earlier).latest) == [later]


def test_delta_up_to_full_snapshot_is_not_of_its_set() -> None:
    before, same, after, base = delta(5, 10, 99), delta(5, 10, 100), delta(5, 10, 101), full(10, 100)
    store_inventory = inventory(before, after, base, same)
    assert members(store_inventory.latest) == [base]
    assert len(store_inventory.stray) == 3


def test_deltas_without_a_full_snapshot_are_in_no_set() -> None:
    store_inventory = inventory(delta(1, 5, 0), delta(6, 9, 1))
    assert (store_inventory.latest, store_inventory.sets, len(store_inventory.stray)) == (None, (), 2)
    store_inventory = inventory(delta(1, 5, 0), full(6, 1), delta(7, 9, 2))
    assert [str(stored.snapshot) for stored in store_inventory.stray] == [str(delta(1, 5, 0))]


@pytest.mark.demand(G45="they are no snapshots")
def test_foreign_objects_and_chunks_change_nothing() -> None:
    base = full(10, 0)
    others = ("copyoperation.json", f"{base.key}/0000000001", "v2/Full-1", "v2/readme", "other/v2/x")
    store_inventory = inventory(base, others=others)
    assert members(store_inventory.latest) == [base]
    assert store_inventory.foreign == ("copyoperation.json", "other/v2/x", "v2/Full-1", "v2/readme")
    assert [chunk.chunk.number for chunk in store_inventory.chunks] == [1]


def test_missing_revisions_are_named_with_neighbours() -> None:
    snapshot_set = inventory(full(10, 0), delta(11, 20, 1), delta(25, 30, 2), delta(32, 40, 3)).latest
    assert snapshot_set is not None
    assert snapshot_set.reach == 20
    assert [finding.message for finding in snapshot_set.findings()] == [
        f"revisions 21 to 24 are missing between {delta(11, 20, 1)} and {delta(25, 30, 2)}",
        f"revision 31 is missing between {delta(25, 30, 2)} and {delta(32, 40, 3)}",
    ]


def test_overlapping_deltas_lead_to_the_end() -> None:
    snapshot_set = inventory(full(10, 0), delta(11, 20, 1), delta(15, 30, 2), delta(11, 25, 2)).latest
    assert snapshot_set is not None
    assert snapshot_set.reach == 30
    assert [stored.snapshot for stored in snapshot_set.chain] == [delta(11, 25, 2), delta(15, 30, 2)]
    assert {finding.reason for finding in snapshot_set.findings()} == {FindingReason.OVERLAP}
    assert not any(finding.is_fault for finding in snapshot_set.findings())


def test_a_delta_within_a_later_one_makes_no_gap() -> None:
    snapshot_set = inventory(full(10, 0), delta(15, 20, 2), delta(11, 30, 3)).latest
    assert snapshot_set is not None
    assert (snapshot_set.reach, len(snapshot_set.chain)) == (30, 1)
    assert not any(finding.is_fault for finding in snapshot_set.findings())


def test_two_histories_in_one_store_are_reported() -> None:
    snapshot_set = inventory(full(10, 0), delta(11, 20, 500), delta(21, 50, 60)).latest
    assert snapshot_set is not None
    assert "was taken 440 s before it: two histories" in snapshot_set.findings()[-1].message


@given(st.integers(12, 30), st.integers(0, 20), st.integers(1, 999))
def test_a_nested_delta_is_no_fork(start: int, length: int, created: int) -> None:
    """Whenever it was taken: nothing of it is applied."""
    outer, nested = delta(11, 50, 500), delta(start, start + length, created)
    snapshot_set = inventory(full(10, 0), outer, nested).latest
    assert snapshot_set is not None
    assert [stored.snapshot for stored in snapshot_set.chain] == [outer]
    assert [finding.message for finding in snapshot_set.findings()] == [
        f"{nested} has only revisions that {outer} has too"
    ]


def test_an_object_without_content_is_a_fault() -> None:
    snapshot_set = SnapshotSet(StoredSnapshot(full(10, 0), "v2/a", 0))
    assert [finding.is_fault for finding in snapshot_set.findings()] == [True]


RANGES = st.lists(st.tuples(st.integers(5, 40), st.integers(0, 12), st.integers(0, 99)), max_size=12)


@given(st.integers(1, 30), RANGES)
def test_chain_leads_as_far_as_any_order_of_deltas_can(base: int, ranges: list[tuple[int, int, int]]) -> None:
    deltas = [delta(start, start + length, 100 + at) for start, length, at in ranges]
    snapshot_set = inventory(full(base, 0), *deltas).latest
    assert snapshot_set is not None
    reach = base
    for _ in deltas:
        reach = max([reach, *(snapshot.last for snapshot in deltas if snapshot.start <= reach + 1)])
    assert snapshot_set.reach == reach
    known = base
    for stored in snapshot_set.chain:
        assert stored.snapshot.start <= known + 1 <= stored.snapshot.last
        known = stored.snapshot.last
    gaps = [finding for finding in snapshot_set.findings() if finding.reason is FindingReason.GAP]
    assert bool(gaps) == (snapshot_set.reach < snapshot_set.last)


@given(st.integers(1, 30), RANGES, st.randoms(use_true_random=False))
def test_the_order_of_a_listing_does_not_matter(base: int, ranges: list[tuple[int, int, int]], rng: Random) -> None:
    objects = [full(base, 0), full(base + 9, 50), *(delta(s, s + n, at) for s, n, at in ranges)]
    shuffled = list(objects)
    rng.shuffle(shuffled)
    assert inventory(*objects) == inventory(*shuffled)
