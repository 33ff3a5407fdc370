"""Sizes of packs, before anything of them is unpacked: packs of Git's own, and some written by hand."""

from __future__ import annotations

import io
import random
import tracemalloc
import zlib
from pathlib import Path

import pytest

from espalier.gitops import packs
from tests.support.servers.git_server import git

MIB = 1 << 20
BLOB, DELTA = 3, 7
BASE = bytes(20)


def number(value: int) -> bytes:
    parts = []
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def entry(kind: int, content: bytes, size: int | None = None) -> bytes:
    """An object of a pack; `size` is what its header states, if it is another than that of its content."""
    size = len(content) if size is None else size
    first, more = size & 15 | kind << 4, size >> 4
    header = bytes([first | 128]) + number(more) if more else bytes([first])
    return header + (BASE if kind == DELTA else b"") + zlib.compress(content)


def pack(*entries: bytes, count: int | None = None) -> io.BytesIO:
    counted = len(entries) if count is None else count
    return io.BytesIO(b"PACK" + (2).to_bytes(4) + counted.to_bytes(4) + b"".join(entries) + bytes(20))


def delta(*commands: bytes, base: int = 1000, size: int = 1000) -> bytes:
    return number(base) + number(size) + b"".join(commands)


def check(received: io.BytesIO, most_bytes: int = MIB, most_objects: int = 10) -> None:
    packs.check(received, most_bytes=most_bytes, most_objects=most_objects)


def test_a_pack_within_its_limits_is_accepted() -> None:
    check(pack(entry(BLOB, bytes(MIB - 10)), entry(BLOB, b"0123456789")))
    check(pack(*[entry(BLOB, b"")] * 10))


@pytest.mark.parametrize("received", [[bytes(2 * MIB)], [bytes(MIB), b"x"], [b"x" * (MIB // 2 + 1)] * 2])
def test_too_many_bytes_are_refused(received: list[bytes]) -> None:
    with pytest.raises(packs.TooMuch, match="1 MiB"):
        check(pack(*(entry(BLOB, content) for content in received)))


def test_a_stated_size_is_enough_for_a_refusal() -> None:
    with pytest.raises(packs.TooMuch, match="1 MiB"):
        check(pack(entry(BLOB, b"x", size=2 * MIB)))


def test_a_size_that_is_not_as_stated_is_refused() -> None:
    """Not inflated either: the limit of memory is another one than that of the pack."""
    received = pack(entry(BLOB, bytes(16 * MIB), size=5))
    tracemalloc.start()
    try:
        with pytest.raises(packs.Damaged, match="an object of 5 bytes has more"):
            check(received)
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()


def test_too_many_objects_are_refused_unread() -> None:
    with pytest.raises(packs.TooMuch, match="10 objects"):
        check(pack(count=11))


@pytest.mark.parametrize(
    ("commands", "size"),
    [
        ([b"\x05abcde"], 5),
        ([b"\x80"], 0x10000),
        ([b"\x90\x07"], 7),
        ([b"\xb0\x07\x01"], 0x107),
        ([b"\xf1\x09\x01\x02\x03"], 0x30201),
        ([b"\xff\x01\x02\x03\x04\x01\x02\x03", b"\x01z"], 0x30201 + 1),
    ],
)
def test_a_delta_counts_with_what_it_makes(commands: list[bytes], size: int) -> None:
    content = delta(*commands)
    check(pack(entry(DELTA, content)), most_bytes=len(content) + size)
    with pytest.raises(packs.TooMuch):
        check(pack(entry(DELTA, content)), most_bytes=len(content) + size - 1)


def test_a_delta_of_many_copies_is_refused() -> None:
    """Whatever it states to make: each of these commands copies 64 KiB."""
    with pytest.raises(packs.TooMuch, match="1 MiB"):
        check(pack(entry(DELTA, delta(*[b"\x80"] * 17))))


@pytest.mark.parametrize("cut", [0, 3, 11, 12, 13, 20, -30])
def test_a_pack_that_ends_early_is_refused(cut: int) -> None:
    received = pack(entry(BLOB, random.Random(1).randbytes(200)), entry(DELTA, delta(b"\x01z"))).getvalue()[:cut]
    with pytest.raises(packs.Damaged):
        check(io.BytesIO(received))


@pytest.mark.parametrize(
    "received",
    [
        b"<html>not found</html>",
        pack(b"\x33nozlib").getvalue(),
        pack(b"\xb3" + b"\xff" * 30).getvalue(),
        pack(entry(DELTA, b"")).getvalue()[:30],
    ],
)
def test_what_is_no_pack_is_refused(received: bytes) -> None:
    with pytest.raises(packs.Damaged):
        check(io.BytesIO(received))


@pytest.mark.parametrize("content", [delta(b"\xff"), delta(b"\x90"), delta(b"\x7fabc"), b"", b"\xff\xff"])
def test_a_delta_that_ends_early_is_refused(content: bytes) -> None:
    with pytest.raises(packs.Damaged):
        check(pack(entry(DELTA, content)))


def test_a_slow_check_is_ended() -> None:
    def late() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        packs.check(pack(entry(BLOB, b"x")), most_bytes=MIB, most_objects=10, in_time=late)


def test_sizes_of_gits_packs_are_those_of_its_objects(tmp_path: Path) -> None:
    """Deltas of both forms, as Git writes them: counted is what the library finds in them, and the deltas."""
    folder = tmp_path / "bare"
    git("init", "--bare", "-q", folder)
    lines = [f"{line}: {random.Random(line).random()}\n" for line in range(3000)]
    blobs = []
    for version in range(20):
        lines[version * 100] = f"changed {version}\n"
        blobs.append(git("-C", folder, "hash-object", "-w", "--stdin", stdin="".join(lines).encode()))
    size = sum(int(git("-C", folder, "cat-file", "-s", blob)) for blob in blobs)
    for words in ([], ["--delta-base-offset"]):
        name = git("-C", folder, "pack-objects", *words, folder / "p", stdin="\n".join(blobs).encode())
        path = folder / f"p-{name}.pack"
        assert path.stat().st_size < size / 10
        received = io.BytesIO(path.read_bytes())
        check(received, most_bytes=size + 20_000, most_objects=20)
        assert received.tell() == len(received.getvalue()) - 20, "the checksum is left"
        with pytest.raises(packs.TooMuch):
            check(io.BytesIO(path.read_bytes()), most_bytes=size, most_objects=20)
        path.unlink()
        path.with_suffix(".idx").unlink()
