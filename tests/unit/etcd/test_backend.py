"""etcd's data in a file: records and what is beside them come back, and the hashes are etcd's."""

from __future__ import annotations

import hashlib
import io

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from espalier.etcd.bbolt.checking import check
from espalier.etcd.bbolt.reading import Damaged, Database
from espalier.etcd.bbolt.writing import write_database
from espalier.etcd.database.backend import (
    KEY,
    Record,
    State,
    last_revision,
    parse_revision_key,
    read_records,
    read_state,
    revision_key,
    write_backend,
)
from espalier.etcd.database.hashing import check_snapshot, crc32c, hash_kv, snapshot_chunks
from espalier.etcd.messages import rpc_pb2 as rpc

numbers = st.integers(0, (1 << 63) - 1)


def _put(revision: int, key: bytes, value: bytes, create: int, version: int, lease: int = 0) -> Record:
    kv = rpc.KeyValue(key=key, value=value, create_revision=create, mod_revision=revision, version=version, lease=lease)
    return Record(revision, 0, False, kv)


HISTORY = [
    _put(2, b"k1", b"v1", 2, 1),
    _put(3, b"k2", b"v2", 3, 1),
    _put(4, b"k3", b"v3", 4, 1),
    _put(5, b"k4", b"v4", 5, 1),
    Record(6, 0, True, rpc.KeyValue(key=b"k3")),
    _put(7, b"k1", b"again", 2, 2),
]


def _database(records: list[Record], state: State) -> Database:
    file = io.BytesIO()
    write_backend(file, records, state)
    return Database.of(file.getvalue())


@given(numbers, numbers, st.booleans())
def test_a_revision_is_parsed_from_its_key(main: int, sub: int, tombstone: bool) -> None:
    assert parse_revision_key(revision_key(main, sub, tombstone=tombstone)) == (main, sub, tombstone)


@given(st.lists(st.tuples(numbers, numbers), unique=True))
def test_keys_sort_as_revisions_do(revisions: list[tuple[int, int]]) -> None:
    keys = [revision_key(main, sub) for main, sub in sorted(revisions)]
    assert keys == sorted(keys)


@pytest.mark.parametrize("key", [b"", b"1" * 17, revision_key(1)[:-1], revision_key(1) + b"x", b"\xff" * 8 + b"_" * 9])
def test_an_invalid_revision_is_named(key: bytes) -> None:
    with pytest.raises(Damaged, match="is not an etcd revision"):
        parse_revision_key(key)


def test_records_and_state_are_read_back() -> None:
    state = State(revision=7, compacted=3, leases={7: 60, 1 << 62: 5}, alarms=((9, "NOSPACE"),), index=12, term=3)
    database = _database(HISTORY, state)
    assert list(read_records(database)) == HISTORY
    assert list(read_records(database, 5)) == HISTORY[3:]
    assert read_state(database) == state
    assert last_revision(database) == 7
    check(database)


def test_an_empty_etcd_has_revision_1() -> None:
    database = _database([], State())
    assert read_state(database) == State()
    assert list(read_records(database)) == []
    assert last_revision(database) == 0


def test_a_record_that_is_no_message_is_named() -> None:
    file = io.BytesIO()
    write_database(file, [(KEY, [(revision_key(4), b"\xff\xff")])])
    with pytest.raises(Damaged, match="revision 4/0 holds 2 bytes that are not a KeyValue"):
        list(read_records(Database.of(file.getvalue())))


def test_crc32c_is_that_of_rfc_3720() -> None:
    assert crc32c([b"123456789"]) == 0xE3069283
    assert crc32c([bytes(32)]) == 0x8A9136AA
    assert crc32c([]) == 0


@given(st.lists(st.binary(max_size=20)))
def test_a_checksum_does_not_depend_on_how_bytes_come(chunks: list[bytes]) -> None:
    assert crc32c(chunks) == crc32c([b"".join(chunks)])


@pytest.mark.parametrize(
    ("revision", "compacted", "expected"), [(7, 4, 262608647), (7, -1, 2297728533), (5, -1, 2481320837)]
)
def test_the_hash_of_keys_is_that_of_etcd(revision: int, compacted: int, expected: int) -> None:
    """Expected are the answers of an etcd 3.6 to these six writes."""
    entries = [record.encode() for record in HISTORY]
    assert hash_kv(lambda: entries, revision, compacted) == expected


def test_a_snapshot_ends_with_its_digest() -> None:
    content = bytes(range(256)) * 40
    chunks = list(snapshot_chunks(io.BytesIO(content), 1000))
    assert b"".join(chunks) == content + hashlib.sha256(content).digest()
    assert max(map(len, chunks)) == 1000


@given(st.integers(0, 2 * 512 + 31), st.binary(min_size=1, max_size=3))
def test_a_snapshot_that_was_changed_anywhere_is_named(at: int, change: bytes) -> None:
    content = bytes(range(256)) * 4
    complete = b"".join(snapshot_chunks(io.BytesIO(content), 512))
    check_snapshot(io.BytesIO(complete), "a file")
    check_snapshot(io.BytesIO(content), "a copied database")
    changed = complete[:at] + change + complete[at + len(change) :]
    assume(changed != complete)
    with pytest.raises(
        Damaged, match=r"a file (is damaged: the sha256 of .* differs|has .* bytes: allowed is a multiple)"
    ):
        check_snapshot(io.BytesIO(changed), "a file")
    with pytest.raises(Damaged, match="a file has 1055 bytes: allowed is a multiple of 512"):
        check_snapshot(io.BytesIO(complete[:-1]), "a file")
