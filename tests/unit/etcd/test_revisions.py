"""Whole revisions out of messages that are cut anywhere."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.etcd import revisions
from espalier.etcd.errors import NotEtcd, ResponseTooLarge
from espalier.etcd.requests import FROM_KEY, prefix_range_end
from espalier.etcd.results import Event, KeyValue
from espalier.etcd.revisions import Revisions


def event(revision: int, key: int = 0, size: int = 0) -> Event:
    return Event("PUT", KeyValue(b"%d" % key, b"x" * size, revision, revision, 1, 0), None)


histories = st.lists(st.integers(1, 4), min_size=1, max_size=8).map(
    lambda sizes: [event(revision, key) for revision, size in enumerate(sizes, 1) for key in range(size)]
)


@given(histories, st.data())
def test_revisions_are_complete_and_in_order(history: list[Event], data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(1, len(history)), unique=True).map(sorted))
    bounds = [0, *(cut for cut in cuts if cut < len(history)), len(history)]
    joined = Revisions()
    revisions = []
    for start, end in itertools.pairwise(bounds):
        out = joined.add(tuple(history[start:end]), more=end < len(history))
        revisions.append(out)
        if out:
            assert joined.last == out[-1].item.mod_revision
    assert [event for out in revisions for event in out] == history
    seen = [{event.item.mod_revision for event in out} for out in revisions]
    assert all(left.isdisjoint(right) for left, right in itertools.combinations(seen, 2))


def test_broken_connection_forgets_what_was_not_whole() -> None:
    joined = Revisions()
    assert joined.add((event(1), event(2, 0)), more=True) == (event(1),)
    joined.drop()
    assert joined.last == 1
    assert joined.add((event(2, 0), event(2, 1)), more=False) == (event(2, 0), event(2, 1))


def test_events_that_go_back_are_not_taken() -> None:
    joined = Revisions()
    joined.add((event(5),), more=False)
    for wrong in ((event(4),), (event(5),), (event(7), event(6))):
        with pytest.raises(NotEtcd, match="a watch went back from revision"):
            joined.add(wrong, more=False)


def test_a_revision_that_never_ends_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(revisions, "LARGEST_REVISION", 1000)
    joined = Revisions()
    for revision in range(1, 20):  # many revisions may be longer together
        joined.add((event(revision, size=600),), more=True)
    with pytest.raises(ResponseTooLarge, match="revision 19 of a watch has more than 1000 bytes"):
        joined.add((event(19, 1, size=600),), more=True)


@given(st.binary(max_size=4), st.binary(max_size=6))
def test_prefix_has_exactly_keys_that_begin_with_it(prefix: bytes, key: bytes) -> None:
    end = prefix_range_end(prefix)
    assert (prefix <= key and (end == FROM_KEY or key < end)) == key.startswith(prefix)


def test_progress_of_a_lagging_member_does_not_go_back() -> None:
    """Revisions already returned would be asked for again, and come twice."""
    revisions = Revisions()
    revisions.advance(9)
    revisions.advance(7)
    assert revisions.last == 9
