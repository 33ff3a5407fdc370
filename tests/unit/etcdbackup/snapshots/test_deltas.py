"""Deltas: the JSON of Go byte for byte, whole revisions, and content that strangers wrote."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.etcdbackup.snapshots import deltas
from espalier.etcdbackup.snapshots.deltas import DeltaWriter, Event, KeyValue, event, read_events, rfc3339
from espalier.etcdbackup.snapshots.malformed import Malformed
from espalier.etcdbackup.snapshots.names import Kind, Snapshot
from tests.support.etcd.backups import chunks, delta_content, events

OF_GO = (
    b'[{"etcdEvent":{"kv":{"key":"L2E=","create_revision":2,"mod_revision":2,"version":1,"value":"PHg+Jv8A",'
    b'"lease":7587}},"time":"2023-11-14T22:13:20.123456789Z"},{"etcdEvent":{"type":1,"kv":{"key":"L2E=",'
    b'"mod_revision":3}},"time":"2023-11-14T22:13:20.12Z"},{"etcdEvent":{"kv":{"key":"L2I=","create_revision":4,'
    b'"mod_revision":4,"version":1}},"time":"2023-11-14T22:13:20Z"}]'
)
"""The output of Go's encoding/json for these events, with the fields of mvccpb and of etcd-backup-restore."""
SECOND = 1_700_000_000 * 10**9
SAME = [
    event(KeyValue(b"/a", 2, 2, 1, b"<x>&\xff\x00", 7587), SECOND + 123_456_789),
    event(KeyValue(b"/a", mod_revision=3), SECOND + 120_000_000, is_deletion=True),
    event(KeyValue(b"/b", 4, 4, 1), SECOND),
]


def snapshot(start: int, last: int) -> Snapshot:
    return Snapshot(Kind.DELTA, start, last, 1_700_000_000)


async def read(content: bytes, start: int, last: int, size: int = 1000) -> list[list[Event]]:
    return [batch async for batch in read_events(chunks(content, size), snapshot(start, last))]


def test_events_are_written_as_go_writes_them() -> None:
    assert delta_content(SAME) == OF_GO + hashlib.sha256(OF_GO).digest()


async def test_events_of_go_are_read() -> None:
    assert [item for batch in await read(OF_GO, 2, 4) for item in batch] == SAME


def test_a_delta_may_be_written_bit_by_bit() -> None:
    made = events(2, 60)
    writer = DeltaWriter()
    text = b"".join(writer.write([item for item in made if item.revision == revision]) for revision in range(2, 61))
    assert (writer.first, writer.last) == (2, 60)
    assert text + writer.finish() == delta_content(made)


def test_events_of_a_revision_are_never_split() -> None:
    writer = DeltaWriter()
    made = events(2, 5)
    writer.write(made[:-1])
    with pytest.raises(ValueError, match=r"found 5 to 5 after 5"):
        writer.write(made[-1:])


@pytest.mark.parametrize("revisions", [[3, 2], [0], [2, 1, 3]])
def test_events_out_of_order_are_not_written(revisions: list[int]) -> None:
    with pytest.raises(ValueError, match="rising"):
        DeltaWriter().write([event(KeyValue(b"a", mod_revision=revision), 0) for revision in revisions])


def test_a_delta_without_events_is_none() -> None:
    with pytest.raises(ValueError, match="found none"):
        DeltaWriter().finish()


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    made, revision = [], draw(st.integers(1, 2**40))
    for _ in range(draw(st.integers(1, 12))):
        revision += draw(st.integers(1, 3))
        for _ in range(draw(st.integers(1, 4))):
            key, value = draw(st.binary(max_size=40)), draw(st.binary(max_size=60))
            kv = KeyValue(key, draw(st.integers(0, revision)), revision, 1, value, draw(st.integers(0, 2**63 - 1)))
            made.append(event(kv, draw(st.integers(0, 2**62)), is_deletion=draw(st.booleans())))
    return made


@pytest.mark.soak
@given(histories(), st.integers(1, 300), st.sampled_from([1, 50, 400]))
async def test_written_deltas_are_read_in_whole_revisions(made: list[Event], size: int, batch: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deltas, "BATCH", batch)
        batches = await read(delta_content(made)[:-32], made[0].revision, made[-1].revision, size)
    assert [item for batch in batches for item in batch] == made
    assert all(before[-1].revision < after[0].revision for before, after in pairwise(batches))
    if batch == 1 and size < 50 and len({item.revision for item in made}) > 2:
        assert len(batches) > 1


@given(histories())
async def test_json_in_the_style_of_others_is_read_as_well(made: list[Event]) -> None:
    tree = json.loads(delta_content(made)[:-32])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deltas, "BATCH", 100)
        for text in (json.dumps(tree, indent=3), json.dumps([{**entry, "more": [1]} for entry in tree])):
            batches = await read(text.encode(), made[0].revision, made[-1].revision, 70)
            assert [item for batch in batches for item in batch] == made


def test_times_are_those_of_go() -> None:
    assert rfc3339(0) == "1970-01-01T00:00:00Z"
    assert rfc3339(10**9 + 1) == "1970-01-01T00:00:01.000000001Z"
    assert rfc3339(1_500_000_000) == "1970-01-01T00:00:01.5Z"


def text_of(revisions: Sequence[int]) -> bytes:
    entries = [{"etcdEvent": {"kv": {"key": "YQ==", "mod_revision": revision}}, "time": ""} for revision in revisions]
    return json.dumps(entries).encode()


@pytest.mark.parametrize(
    ("revisions", "message"),
    [
        ([5, 6], "its last event has revision 6, but its name says 7"),
        ([4, 7], "an event has revision 4, but the name says 5 to 7"),
        ([5, 8], "an event has revision 8, but the name says 5 to 7"),
        ([6, 5, 7], "an event of revision 5 comes after one of 6"),
        ([], "its last event has revision 0"),
    ],
)
@pytest.mark.parametrize("batch", [1, 10_000])
async def test_events_that_the_name_does_not_fit_are_named(
    revisions: list[int], message: str, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deltas, "BATCH", batch)
    with pytest.raises(Malformed, match=message):
        await read(text_of(revisions), 5, 7, 10)


def with_value(kv: bytes, event: bytes = b"") -> bytes:
    return b'[{"etcdEvent":{%s"kv":{%s}},"time":""}]' % (event, kv)


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"[", b"{}", b"null", b"[1]", b"[" * 100_000),
        *(b'[{"etcdEvent":{}}]', b'[{"etcdEvent":null,"time":""}]', with_value(b"")),
        *(with_value(b'"mod_revision":%s' % number) for number in (b'"5"', b"9223372036854775808", b"-5", b"5.5")),
        *(with_value(b'"mod_revision":5,"key":%s' % key) for key in (b'"\xff"', b'"?"', b"1")),
        with_value(b'"mod_revision":5', b'"type":2,'),
        with_value(b'"mod_revision":5,"x":' + b"[" * 100_000),
        *(text_of([5, 6]) + b"]", text_of([5])[:-1] + b",]", text_of([5])[:-1] + b"," + text_of([6])),
    ],
)
@pytest.mark.parametrize("batch", [1, 10_000])
async def test_json_that_holds_no_events_is_malformed(
    content: bytes, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deltas, "BATCH", batch)
    with pytest.raises(Malformed):
        await read(content, 5, 6, 7)


async def test_an_event_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deltas, "LARGEST_EVENT", 10_000)
    monkeypatch.setattr(deltas, "BATCH", 100)
    with pytest.raises(Malformed, match="10000 bytes without a whole event"):
        await read(b'[{"etcdEvent":{"kv":{"key":"' + b"A" * 100_000, 5, 6)


async def test_key_that_looks_like_boundary_of_events_is_key() -> None:
    made = [event(KeyValue(b'},{"etcdEvent":', mod_revision=5), 0), event(KeyValue(b"b", mod_revision=6), 0)]
    text = text_of([5, 6]).replace(b'"time": ""', b'"time": "},{\\"etcdEvent\\":"')
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deltas, "BATCH", 1)
        assert await read(delta_content(made)[:-32], 5, 6, 1) == [made[:1], made[1:]]
        assert [len(batch) for batch in await read(text, 5, 6, 1)] == [1, 1]
