"""Logs of raft that can be replayed, and those that can't."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from espalier.assets.component import Component
from espalier.assets.recipes import ETCD, ETCD_BEFORE
from espalier.etcdbackup.restore import wal
from espalier.etcdbackup.restore.members import membership
from espalier.etcdbackup.restore.wal_checking import damage
from tests.support.etcd.real_etcd import built, real_etcd

SEGMENT = wal.segment(membership())


def made(folder: Path, content: bytes, name: str = wal.SEGMENT) -> Path:
    (folder / name).write_bytes(content)
    return folder


def test_a_log_as_a_restore_makes_it_is_whole(tmp_path: Path) -> None:
    assert damage(made(tmp_path, SEGMENT)) == ""
    assert damage(made(tmp_path, SEGMENT + bytes(4096))) == "", "space that was allocated"


def ends_of_records() -> Iterator[int]:
    """The last bytes of each record that has data."""
    at = 0
    while at < len(SEGMENT):
        length, padding = int.from_bytes(SEGMENT[at : at + 7], "little"), SEGMENT[at + 7] & 0x07
        end = at + 8 + length
        if length > 10:
            yield from range(end - 4, end)
        at = end + padding


def test_a_flipped_byte_of_data_is_found(tmp_path: Path) -> None:
    places = list(ends_of_records())
    assert len(places) > 10
    for at in places:
        flipped = bytearray(SEGMENT)
        flipped[at] ^= 0x40
        assert "has the wrong checksum" in damage(made(tmp_path, bytes(flipped)))


def test_the_last_segment_may_end_anywhere(tmp_path: Path) -> None:
    for size in range(1, len(SEGMENT)):
        assert damage(made(tmp_path, SEGMENT[:size])) == ""


def test_a_segment_before_the_last_may_not(tmp_path: Path) -> None:
    made(tmp_path, SEGMENT[:-3])
    made(tmp_path, b"", f"{1:016x}-{9:016x}.wal")
    assert "the record at" in damage(tmp_path)


def test_missing_segments_are_found(tmp_path: Path) -> None:
    assert "has no WAL segments" in damage(tmp_path)
    made(tmp_path, SEGMENT)
    made(tmp_path, b"", f"{2:016x}-{9:016x}.wal")
    assert "is missing" in damage(tmp_path)


@pytest.mark.envtest
@pytest.mark.parametrize("component", [ETCD_BEFORE, ETCD], ids=["etcd-before", "etcd"])
async def test_flipped_byte_in_log_of_real_etcd_is_noticed(tmp_path: Path, component: Component) -> None:
    programs = built(component)
    if programs is None:
        pytest.skip(f"etcd {component.version} was not built: run make real-assets")
    async with real_etcd(programs, tmp_path) as etcd:
        async with etcd.client() as client:
            for number in range(200):
                await client.put(b"/registry/%d" % number, b"value" * number)
        await etcd.kill()
        folder = etcd.data / "member/wal"
        assert damage(folder) == ""
        (segment,) = folder.glob("*.wal")
        content = bytearray(segment.read_bytes())
        content[20_000] ^= 0x01
        segment.write_bytes(content)
        assert "has the wrong checksum" in damage(folder)
