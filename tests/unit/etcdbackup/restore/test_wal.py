"""The log of raft, read back by the rules of etcd's format (server/storage/wal/decoder.go, walpb/record.proto)."""

from __future__ import annotations

import json
from collections.abc import Iterator

from espalier.etcd.database.hashing import crc32c
from espalier.etcdbackup.restore import wal
from espalier.etcdbackup.restore.members import membership

THREE = membership("b", "a=http://a:1,b=http://b:1,c=http://c:1", "token", "http://b:1")


def fields(message: bytes) -> dict[int, int | bytes]:
    """A message of protobuf with numbers and bytes only."""
    values: dict[int, int | bytes] = {}
    rest = iter(message)
    for tag in rest:
        number = _varint(next(rest), rest)
        values[tag >> 3] = bytes(next(rest) for _ in range(number)) if tag & 7 else number
    return values


def _varint(byte: int, rest: Iterator[int]) -> int:
    return byte if byte < 0x80 else byte & 0x7F | _varint(next(rest), rest) << 7


def records(segment: bytes) -> list[tuple[int, bytes]]:
    """Kinds and data of all records, each of whose sums is compared."""
    records_of_segment, at, before = [], 0, b""
    while at < len(segment):
        padding = segment[at + 7] & 0x7F
        size = int.from_bytes(segment[at : at + 7], "little")
        assert (size + padding) % 8 == 0
        record = fields(segment[at + 8 : at + 8 + size])
        data = record.get(3, b"")
        assert isinstance(data, bytes)
        before += data
        assert record[2] == crc32c([before])
        kind = record[1]
        assert isinstance(kind, int)
        records_of_segment.append((kind, data))
        at += 8 + size + padding
    return records_of_segment


def test_log_says_who_member_is_and_adds_all_members() -> None:
    records_of_log = records(wal.segment(THREE))
    assert [kind for kind, _ in records_of_log] == [4, 1, 5, 2, 2, 2, 3, 5]
    assert fields(records_of_log[1][1]) == {1: THREE.own.id, 2: THREE.cluster_id}
    assert fields(records_of_log[2][1]) == {1: 0, 2: 0}
    for index, (member, (_, data)) in enumerate(zip(THREE.members, records_of_log[3:6], strict=True), 1):
        entry = fields(data)
        assert (entry[1], entry[2], entry[3]) == (1, wal.TERM, index)
        change = entry[4]
        assert isinstance(change, bytes)
        assert fields(change) == {1: 0, 2: 0, 3: member.id, 4: member.encode()}
    assert fields(records_of_log[6][1]) == {1: wal.TERM, 2: THREE.members[0].id, 3: wal.last_index(THREE)}
    taken = fields(records_of_log[7][1])
    assert (taken[1], taken[2]) == (wal.last_index(THREE), wal.TERM)


def test_raft_snapshot_has_all_members_and_its_sum() -> None:
    snapshot = fields(wal.snapshot(THREE))
    content = snapshot[2]
    assert isinstance(content, bytes)
    assert snapshot[1] == crc32c([content])
    data = fields(content)[1]
    assert isinstance(data, bytes)
    known = json.loads(data)["Root"]["Children"]["0"]["Children"]["members"]["Children"]
    assert known.keys() == {f"{member.id:x}" for member in THREE.members}
    assert wal.snapshot_name(THREE) == f"{wal.TERM:016x}-{3:016x}.snap"
