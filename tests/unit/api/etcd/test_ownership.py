"""Sync objects: what is written is read back; what is broken, foreign or not understood can't be taken for absent."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.api.etcd.ownership import (
    LARGEST,
    CopyOperation,
    FirstStart,
    Status,
    Unreadable,
    Writer,
    copy_operation_key,
    encoded,
    first_start_key,
    read_copy_operation,
    read_first_start,
)

NAMES = st.text(min_size=1, max_size=40)
OPERATIONS = st.builds(
    CopyOperation,
    epoch=st.integers(1, 2**53),
    status=st.sampled_from(Status),
    written_by=st.sampled_from(Writer),
    final_snapshot=st.none() | NAMES,
    progress=st.integers(0, 2**62),
    nonce=st.text(max_size=16),
)
MARKERS = st.builds(
    FirstStart,
    epoch=st.integers(1, 2**53),
    cluster=NAMES,
    release_seconds=st.floats(0.1, 86400),
    predecessor=st.none() | st.integers(1, 100),
    snapshots=st.lists(NAMES, max_size=4).map(tuple),
    lossless=st.booleans(),
)


@pytest.mark.soak
@given(OPERATIONS)
def test_a_copy_operation_is_read_as_it_was_written(operation: CopyOperation) -> None:
    assert read_copy_operation(encoded(operation), operation.epoch) == operation


@given(MARKERS)
def test_a_marker_is_read_as_it_was_written(marker: FirstStart) -> None:
    assert read_first_start(encoded(marker), marker.epoch, marker.cluster) == marker


@given(st.binary(max_size=200))
def test_whatever_lies_there_is_read_without_an_error(text: bytes) -> None:
    assert isinstance(read_copy_operation(text, 1), CopyOperation | Unreadable)
    assert isinstance(read_first_start(text, 1, "shoot"), FirstStart | Unreadable)


@pytest.mark.demand("G46")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "truncated"),
        (b'{"epoch": 3, "status": "Ready"', "truncated"),
        (b'{"epoch": 3, "status": "Paused", "writtenBy": "Source"}', "Paused"),
        (b'{"epoch": "3", "status": "Ready", "writtenBy": "Source"}', "epoch"),
        (b'{"epoch": 0, "status": "Ready", "writtenBy": "Source"}', "epoch"),
        (b'{"epoch": 4, "status": "Ready", "writtenBy": "Source"}', "epoch 4, at the key of epoch 3"),
        (b"[" * 100_000, "nested"),
        (b" " * (LARGEST + 1), "bytes"),
    ],
)
def test_an_object_that_is_not_understood_says_why(text: bytes, why: str) -> None:
    operation = read_copy_operation(text, 3)
    assert isinstance(operation, Unreadable)
    assert why in operation.why


def test_marker_of_another_cluster_names_the_container() -> None:
    marker = read_first_start(encoded(FirstStart(3, "shoot--a--b", 25)), 3, "shoot--a--c")
    assert marker == Unreadable("it is of epoch 3 of shoot--a--b, not of epoch 3 of shoot--a--c")


@pytest.mark.demand("G46")
def test_status_of_the_proposal_is_where_readers_look() -> None:
    text = encoded(CopyOperation(2, Status.INITIAL, Writer.DESTINATION))
    assert msgspec.json.decode(text) == {"epoch": 2, "status": "Initial", "writtenBy": "Destination"}


@pytest.mark.demand("G45")
@given(st.integers(1, 10**9), st.integers(1, 10**9))
def test_epochs_have_keys_unlike_snapshots(count: int, other: int) -> None:
    keys = {copy_operation_key(count), first_start_key(count), copy_operation_key(other), first_start_key(other)}
    assert len(keys) == (2 if count == other else 4)
    assert not any(folder in key for key in keys for folder in ("v1/", "v2/"))
