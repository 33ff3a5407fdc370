"""The write-ahead log and the raft snapshot from which etcd starts with restored data.

They are those of an etcd that added its members to raft, and took a raft snapshot: a configuration change for each
member, all committed. The database says that they were applied. The log ends with the snapshot, so a member that joins
later gets the database from its leader. Without it, the leader would send it the entries of the log alone, of which the
new member would make an etcd without the restored data.

Format as of etcd 3.5 to 3.7 (server/storage/wal, walpb/record.proto, snappb/snap.proto, raftpb/raft.proto): a record is
its length in 8 bytes, the message, and zeros up to a multiple of 8; a length's highest byte is 0x80 and the number of
those zeros. The CRC-32C of a record covers the data of all records so far.
"""

from __future__ import annotations

from typing import Any

import msgspec

from espalier.etcd.database.hashing import crc32c
from espalier.etcdbackup.restore.members import Membership

SEGMENT = f"{0:016x}-{0:016x}.wal"
"""Name of the first segment: its number, and the index of its first entry."""
TERM = 1
_METADATA, _ENTRY, _STATE, _CRC, _SNAPSHOT = 1, 2, 3, 4, 5
_CONF_CHANGE = 1
_ADD_NODE = 0
_ALIGNMENT = 8


def snapshot_name(membership: Membership) -> str:
    """Name of the raft snapshot's file: its term and its index."""
    return f"{TERM:016x}-{last_index(membership):016x}.snap"


def snapshot(membership: Membership) -> bytes:
    """The content of the raft snapshot. Its data are the members, in the tree of etcd's API v2."""
    members: dict[str, Any] = {}
    for index, member in enumerate(membership.members, 1):
        path = f"/0/members/{member.id:x}"
        urls = msgspec.json.encode({"peerURLs": member.peer_urls}).decode()
        attributes = _node(f"{path}/raftAttributes", index, value=urls)
        members[f"{member.id:x}"] = _node(path, index, children={"raftAttributes": attributes})
    namespaces = {"0": _node("/0", 0, children={"members": _node("/0/members", 1, children=members)})}
    namespaces["1"] = _node("/1", 0, children={})
    root = _node("/", 0, children=namespaces)
    tree = {"Root": root, "CurrentIndex": last_index(membership), "CurrentVersion": 2}
    metadata = _bytes(1, _voters(membership)) + _number(2, last_index(membership)) + _number(3, TERM)
    content = _bytes(1, msgspec.json.encode(tree)) + _bytes(2, metadata)
    return _number(1, crc32c([content])) + _bytes(2, content)


def conf_state(membership: Membership) -> bytes:
    """The members as etcd's database has them."""
    return msgspec.json.encode({"voters": [member.id for member in membership.members], "auto_leave": False})


def _node(path: str, index: int, *, value: str = "", children: dict[str, Any] | None = None) -> dict[str, Any]:
    times = {"CreatedIndex": index, "ModifiedIndex": index, "ExpireTime": "0001-01-01T00:00:00Z"}
    return {"Path": path, **times, "Value": value, "Children": children}


def _voters(membership: Membership) -> bytes:
    return b"".join(_number(1, member.id) for member in membership.members) + _number(5, 0)


def last_index(membership: Membership) -> int:
    """Index of the last entry, which is committed."""
    return len(membership.members)


def segment(membership: Membership) -> bytes:
    """The content of the segment."""
    node, cluster = membership.own.id, membership.cluster_id
    records: list[tuple[int, bytes]] = [
        (_CRC, b""),
        (_METADATA, _number(1, node) + _number(2, cluster)),
        (_SNAPSHOT, _number(1, 0) + _number(2, 0)),
    ]
    for index, member in enumerate(membership.members, 1):
        change = _number(1, 0) + _number(2, _ADD_NODE) + _number(3, member.id) + _bytes(4, member.encode())
        entry = _number(1, _CONF_CHANGE) + _number(2, TERM) + _number(3, index) + _bytes(4, change)
        records.append((_ENTRY, entry))
    vote = membership.members[0].id
    records.append((_STATE, _number(1, TERM) + _number(2, vote) + _number(3, last_index(membership))))
    taken = _number(1, last_index(membership)) + _number(2, TERM) + _bytes(3, _voters(membership))
    records.append((_SNAPSHOT, taken))
    content, before = bytearray(), b""
    for kind, data in records:
        before += data
        content += _framed(_number(1, kind) + _number(2, crc32c([before])) + (_bytes(3, data) if data else b""))
    return bytes(content)


def _framed(message: bytes) -> bytes:
    padding = -len(message) % _ALIGNMENT
    length = len(message) | ((0x80 | padding) << 56 if padding else 0)
    return length.to_bytes(8, "little") + message + bytes(padding)


def _number(field: int, value: int) -> bytes:
    """A protobuf field with a number. Zero is written as well, as etcd does here."""
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    """A protobuf field with bytes."""
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
