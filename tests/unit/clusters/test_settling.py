"""The settle time: when a change begins, over random edits and pauses."""

from __future__ import annotations

import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.group import PAUSED_ANNOTATION
from espalier.clusters.design.drift import gate
from espalier.clusters.design.drift.gate import Isolation
from espalier.clusters.observe.scope import Scope
from espalier.clusters.observe.settling import LONGEST, Settling
from tests.support.objects.made_clusters import objects, settled
from tests.support.objects.observed_clusters import as_object, datacenter, example, observer

SECONDS = 3.0
DONE = "done"
"""The content of the last complete reconcile."""


@functools.cache
def scope(content: str, *, paused: bool = False, isolation: Isolation = Isolation.LAYERS) -> Scope:
    """A cluster whose objects exist, with this content in a label of its workers."""
    tree, done = example()[0], example()[0]
    for each, label in ((tree, content), (done, DONE)):
        each["spec"]["workerNodeGroupConfigurations"][0]["labels"] = {"content": label}
    annotations = {metadata_keys.GATE_ANNOTATION: gate.content_hash(as_object(done), [as_object(datacenter())])}
    tree["metadata"]["annotations"] = annotations | ({PAUSED_ANNOTATION: "true"} if paused else {})
    tree["status"] = settled()
    observed = observer(tree, datacenter(), *objects()).scope(as_object(tree).key)
    assert observed is not None
    return replace(observed, isolation=isolation)


def waits(settling: Settling, content: str, now: float, *, paused: bool = False) -> float | None:
    result = settling.judge(scope(content, paused=paused), now)
    return result.after if result is not None else None


@pytest.fixture
def settling() -> Settling:
    return Settling(SECONDS)


def test_cluster_that_nobody_changes_waits_for_nothing(settling: Settling) -> None:
    assert [waits(settling, DONE, now) for now in (0, 1, 100)] == [None, None, None]


def test_each_edit_begins_the_settle_time_anew(settling: Settling) -> None:
    assert waits(settling, DONE, 0) is None
    assert waits(settling, "a", 10) == SECONDS
    assert waits(settling, "a", 12) == 1
    assert waits(settling, "b", 12.5) == SECONDS
    assert waits(settling, "b", 15.5) is None
    assert waits(settling, "b", 16) is None, "and it goes on until it is done"
    assert waits(settling, "c", 17) == SECONDS, "also in the middle of a change"
    assert waits(settling, "b", 18) is None, "what was taken back is still in progress"


def test_started_manager_takes_any_change_for_new(settling: Settling) -> None:
    assert waits(settling, "a", 1000) == SECONDS
    assert waits(settling, "a", 1003) is None


def test_a_deleted_cluster_is_forgotten(settling: Settling) -> None:
    assert waits(settling, "a", 0) == SECONDS
    assert waits(settling, "a", 3) is None
    settling.forget(scope("a").key)
    assert waits(settling, "a", 4) == SECONDS


def test_constantly_edited_cluster_changes_in_the_end(settling: Settling) -> None:
    now = 100.0
    assert waits(settling, DONE, now) is None
    now += 2 * settling.longest  # time without a change counts for nothing
    assert [waits(settling, content, now + at) for at, content in enumerate("abcdef" * 10)].count(None) == 0
    assert waits(settling, "a", now + settling.longest) is None


def test_edit_after_a_pause_waits_as_any_other(settling: Settling) -> None:
    assert waits(settling, DONE, 0) is None
    assert waits(settling, "a", 1, paused=True) is None
    assert waits(settling, "b", 2 * settling.longest, paused=True) is None
    assert waits(settling, "c", 2 * settling.longest + 1) == SECONDS


def test_the_deletion_of_a_cluster_waits_for_nothing(settling: Settling) -> None:
    edited = scope("a")
    metadata = replace(edited.cluster.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    assert settling.judge(replace(edited, cluster=replace(edited.cluster, metadata=metadata)), 0) is None


def test_new_credentials_wait_for_nothing(settling: Settling) -> None:
    edited = scope("a")
    assert waits(settling, "a", 0) == SECONDS
    assert waits(settling, "a", 3) is None
    assert settling.judge(replace(edited, credentials={"Secret eksa-system/account": {"password": b"b"}}), 4) is None


CREATED = "2026-01-01T00:00:00Z"
JUST_BEFORE, LONG_BEFORE = "2025-12-31T23:59:58Z", "2025-12-31T23:59:50Z"


@pytest.mark.parametrize(
    ("generation", "linked_since", "is_made", "wait"),
    [
        (1, JUST_BEFORE, False, None),
        (2, JUST_BEFORE, False, SECONDS),
        (1, LONG_BEFORE, False, SECONDS),
        (1, JUST_BEFORE, True, SECONDS),
    ],
    ids=["created together", "edited since", "beside an older object", "already made"],
)
def test_new_cluster_waits_unless_created_together(
    settling: Settling, generation: int, linked_since: str, is_made: bool, wait: float | None
) -> None:
    tree, linked = example()[0], datacenter()
    tree["metadata"] |= {"creationTimestamp": CREATED, "generation": 1}
    linked["metadata"] |= {"creationTimestamp": linked_since, "generation": generation}
    observed = observer(tree, linked, *(objects() if is_made else ())).scope(as_object(tree).key)
    assert observed is not None
    judged = settling.judge(observed, 0)
    assert (judged.after if judged is not None else None) == wait


def test_zero_switches_it_off() -> None:
    assert waits(Settling(0), "a", 0) is None


def test_manager_without_isolation_does_not_wait(settling: Settling) -> None:
    assert settling.judge(scope(DONE, isolation=Isolation.OFF), 0) is None


Edit = tuple[float, str, bool]
"""Seconds after the one before, the content, and whether the Cluster is paused."""


@given(st.lists(st.tuples(st.sampled_from([0.1, 1.0, 2.9, 3.0, 7.0]), st.sampled_from("abc"), st.booleans())))
def test_no_change_begins_early_or_waits_for_ever(edits: list[Edit]) -> None:
    settling, now, begun = Settling(SECONDS), 0.0, DONE
    assert waits(settling, DONE, now) is None
    quiet_since = waiting_since = now
    last = DONE
    for seconds, content, paused in edits:
        now += seconds
        if content != last:
            quiet_since = now
            if last == begun:
                waiting_since = now
            last = content
        if paused:
            waiting_since = now
        wait = waits(settling, content, now, paused=paused)
        if paused or content == begun:
            assert wait is None
        elif wait is None:
            assert now >= min(quiet_since + SECONDS, waiting_since + LONGEST * SECONDS)
            begun = content
        else:
            assert now + wait == pytest.approx(min(quiet_since + SECONDS, waiting_since + LONGEST * SECONDS))
