"""Names of snapshots: what they say, and that nothing is lost between name and snapshot."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.etcdbackup.snapshots.names import Chunk, Compression, Kind, Snapshot, parse, parse_key

REVISIONS = st.integers(0, 2**63 - 1)


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    kind = draw(st.sampled_from(Kind))
    start, last = sorted((draw(REVISIONS) if kind is Kind.DELTA else 0, draw(REVISIONS)))
    created = draw(st.integers(0, 253_402_300_799))
    return Snapshot(kind, start, last, created, draw(st.sampled_from(Compression)), draw(st.booleans()))


@given(snapshots())
def test_a_name_says_all_of_a_snapshot(snapshot: Snapshot) -> None:
    assert parse(str(snapshot)) == snapshot
    assert parse_key(snapshot.key) == snapshot
    assert len(str(snapshot).split("-")) == 4


@given(st.one_of(st.text(), st.from_regex(r"(Full|Incr)-\d{1,9}-\d{1,9}-\d{1,4}(\.gz|\.Z|\.zip)?(\.final)?")))
def test_parsing_and_writing_a_name_give_the_same(name: str) -> None:
    snapshot = parse(name)
    assert snapshot is None or str(snapshot) == name


def test_a_snapshot_of_gardener_is_understood() -> None:
    snapshot = parse("Full-00000000-00009002-1565021494.gz.final")
    assert snapshot == Snapshot(Kind.FULL, 0, 9002, 1565021494, Compression.GZIP, is_final=True)
    assert snapshot.time.isoformat() == "2019-08-05T16:11:34+00:00"
    assert str(snapshot.without_final()) == "Full-00000000-00009002-1565021494.gz"


def test_keys_of_both_layouts_and_of_chunks_are_read() -> None:
    name = "Incr-00000001-00000009-1565021494"
    snapshot = parse(name)
    assert snapshot is not None
    assert parse_key(f"v1/Backup-1565021494/{name}") == snapshot
    assert parse_key(f"v2/{name}/0000000003") == Chunk(snapshot, 3)
    assert parse_key(f"v1/Backup-1565021494/{name}/0000000003") == Chunk(snapshot, 3)


@pytest.mark.parametrize(
    "key",
    ["", "v2", "v2/", "Full-00000000-00000001-1", "v3/Full-00000000-00000001-1", "v2/Full-00000000-00000001-1/part",
     "v2/Full-00000000-00000001-1/0000000001/2", "v1/Full-00000000-00000001-1", "v1/Backup-x/Full-00000000-00000001-1",
     "v2/Full-00000001-00000002-1", "v2/Incr-00000002-00000001-1", "v2/Full-0-1-1", "v2/Full-000000000-00000001-1",
     "v2/Full-00000000-00000001-1.zip", "v2/Full-00000000-00000001-1.final.gz", "v2/Full-00000000-00000001--1",
     "v2/Full-00000000-99999999999999999999-1", "v2/Full-00000000-00000001-999999999999", "v2/full-00000000-00000001-1",
     "v2/Full-00000000-0000000\u0661-1", "copyoperation.json"],
)  # fmt: skip
def test_any_other_key_is_foreign(key: str) -> None:
    assert parse_key(key) is None
