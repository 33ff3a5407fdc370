"""Compression of snapshots: what comes out is what went in; what was damaged, or would fill the disk, is refused."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import zlib
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.etcdbackup.snapshots.codecs import STEP, compress, decoder, decompress
from espalier.etcdbackup.snapshots.lzw import LzwReader
from espalier.etcdbackup.snapshots.malformed import Malformed
from espalier.etcdbackup.snapshots.names import Compression
from tests.support.etcd.backups import chunks
from tests.support.sampling import sampled

WRITTEN = (Compression.NONE, Compression.GZIP, Compression.ZLIB)
DEFLATED = (Compression.GZIP, Compression.ZLIB)


def unpacked(pieces: Iterable[bytes], compression: Compression) -> bytes:
    codec = decoder(compression)
    content = b"".join(piece for data in pieces for piece in codec.read(data))
    codec.finish()
    return content


def split(data: bytes, sizes: list[int]) -> list[bytes]:
    pieces = []
    for size in sizes:
        pieces.append(data[:size])
        data = data[size:]
    return [*pieces, data]


@pytest.mark.parametrize("compression", WRITTEN)
@pytest.mark.parametrize("size", [0, 1, 5000, 3_000_000])
async def test_compressed_data_come_back(compression: Compression, size: int) -> None:
    data = (b"rose" * 1000 + bytes(range(256)) * 7)[:size] * (1 + size // 5793)
    stored = b"".join([piece async for piece in compress(chunks(data, 100_000), compression)])
    back = [piece async for piece in decompress(chunks(stored, 70_000), compression, most=len(data))]
    assert b"".join(back) == data
    assert max(map(len, back), default=0) <= STEP


@given(st.binary(max_size=300), st.lists(st.integers(0, 20)), st.sampled_from(DEFLATED))
def test_it_does_not_matter_how_a_stream_is_cut(data: bytes, sizes: list[int], compression: Compression) -> None:
    stored = gzip.compress(data) if compression is Compression.GZIP else zlib.compress(data)
    assert unpacked(split(stored, sizes), compression) == data


def test_several_members_of_gzip_are_one_content() -> None:
    assert unpacked([gzip.compress(b"ro"), gzip.compress(b"se")], Compression.GZIP) == b"rose"


@pytest.mark.parametrize("compression", DEFLATED)
def test_every_prefix_of_a_stream_is_malformed(compression: Compression) -> None:
    stored = gzip.compress(b"rose" * 30) if compression is Compression.GZIP else zlib.compress(b"rose" * 30)
    for end in range(len(stored)):
        with pytest.raises(Malformed, match="ends in the middle"):
            unpacked([stored[:end]], compression)


@pytest.mark.parametrize("compression", DEFLATED)
def test_data_after_the_end_are_malformed(compression: Compression) -> None:
    stored = gzip.compress(b"rose") if compression is Compression.GZIP else zlib.compress(b"rose")
    for pieces in ([stored + b"x"], [stored, b"x"]):
        with pytest.raises(Malformed):
            unpacked(pieces, compression)


@pytest.mark.parametrize("compression", sampled(DEFLATED, 1))
async def test_a_content_that_grows_without_end_is_stopped(compression: Compression) -> None:
    bomb = b"".join([piece async for piece in compress(chunks(bytes(50 << 20), 1 << 20), compression)])
    assert len(bomb) < 60_000
    come: list[int] = []
    with pytest.raises(Malformed, match="more than the allowed 3000000 bytes"):
        come += [len(piece) async for piece in decompress(chunks(bomb, 1 << 20), compression, most=3_000_000)]
    assert sum(come) <= 3_000_000


async def test_lzw_is_only_read() -> None:
    with pytest.raises(ValueError, match="lzw is only read"):
        [piece async for piece in compress(chunks(b"a"), Compression.LZW)]


def lzw(data: bytes) -> bytes:
    """Compressed as Go's compress/lzw does it: codes by GIF89a, Appendix F, a clear code when the table is full."""
    bits, count, out = 0, 0, bytearray()

    def emit(code: int) -> None:
        nonlocal bits, count
        bits |= code << count
        count += width
        while count >= 8:
            out.append(bits & 255)
            bits >>= 8
            count -= 8

    table: dict[bytes, int] = {}
    width, top, entry = 9, 257, b""
    emit(256)
    for byte in data:
        longer = entry + bytes((byte,))
        if len(longer) == 1 or longer in table:
            entry = longer
            continue
        emit(table.get(entry, entry[0]))
        entry = longer[-1:]
        top += 1
        if top == 1 << width and width < 12:
            width += 1
        if top == 4095:
            emit(256)
            table, width, top = {}, 9, 257
        else:
            table[longer] = top
    if entry:
        emit(table.get(entry, entry[0]))
        top += 1
        if top == 1 << width and width < 12:
            width += 1
    emit(257)
    return bytes(out + (bytes((bits & 255,)) if count else b""))


def made_of_repetitions(size: int) -> bytes:
    """Bytes that compress somewhat, the same ones always."""
    data, state = bytearray(), 1
    while len(data) < size:
        state = (state * 1664525 + 1013904223) % 2**32
        if not state >> 31:
            data.append((state >> 24) % 7 + ord("a"))
        elif (back := (state >> 20) % 50) < len(data):
            data += data[len(data) - back - 1 :]
        else:
            data.append(state >> 16 & 255)
    return bytes(data[:size])


OF_GO = "0b333e78957b0ef216dcb0bc5e5f5975dd654eb476550d4ec883714175332c77"
"""SHA-256 of what compress/lzw of Go 1.26 makes of 100,000 such bytes."""


def test_lzw_of_go_is_read() -> None:
    data = made_of_repetitions(100_000)
    stored = lzw(data)
    assert hashlib.sha256(stored).hexdigest() == OF_GO
    assert unpacked([stored], Compression.LZW) == data


@given(st.binary(max_size=2000), st.lists(st.integers(0, 20)))
def test_lzw_comes_back_however_it_is_cut(data: bytes, sizes: list[int]) -> None:
    assert unpacked(split(lzw(data), sizes), Compression.LZW) == data


def test_truncated_or_extended_lzw_is_malformed() -> None:
    stored = lzw(b"rose" * 100)
    for end in range(len(stored) - 1):
        with pytest.raises(Malformed, match="ends in the middle"):
            unpacked([stored[:end]], Compression.LZW)
    with pytest.raises(Malformed, match="after its end"):
        unpacked([stored + b"x"], Compression.LZW)


@given(st.binary(max_size=5000))
def test_random_bytes_are_malformed_or_small(data: bytes) -> None:
    reader, size = LzwReader(), 0
    with contextlib.suppress(Malformed):
        size = len(reader.read(data))
    assert size <= 4096 * len(data)
