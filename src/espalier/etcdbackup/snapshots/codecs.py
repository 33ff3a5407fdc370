"""Compression of snapshots as streams, with bounded memory and bounded output.

gzip as in RFC 1952 (several members in a row are one content, as in Go), zlib as in RFC 1950, LZW for reading only.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterator
from functools import partial
from typing import Protocol, TypeVar

from espalier.etcdbackup.snapshots.lzw import LzwReader
from espalier.etcdbackup.snapshots.malformed import Malformed
from espalier.etcdbackup.snapshots.names import Compression
from espalier.runtime.virtual import VirtualLoop

T = TypeVar("T")

STEP = 1 << 20
"""The largest output of a decoder at once, in bytes (for LZW, a few times that)."""
INLINE = 1 << 16
"""Bytes up to which work runs on the event loop; for more, a thread pays off. Simulations have no threads."""
_LZW_STEP = 1024
"""The largest input of LZW at once, in bytes: 682 codes of 4 KiB each, at most."""
_GZIP, _ZLIB = 31, 15
"""Window bits of zlib that select these formats."""
LEVEL = 6


class Decoder(Protocol):
    """Decodes stored bytes to content."""

    def read(self, data: bytes) -> Iterator[bytes]:
        """The content of the next bytes, in pieces. Raises `Malformed`."""

    def finish(self) -> None:
        """Raise `Malformed` unless the stream is at its end."""


class _Plain:
    def read(self, data: bytes) -> Iterator[bytes]:
        yield data

    def finish(self) -> None:
        pass


class _Deflated:
    def __init__(self, window_bits: int, title: str) -> None:
        self._window_bits = window_bits
        self._title = title
        self._stream: zlib._Decompress | None = None
        self._is_begun = False

    def read(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._stream is None:
                if self._is_begun and self._window_bits != _GZIP:
                    raise Malformed(f"{self._title}: {len(data)} bytes or more after its end")
                self._stream, self._is_begun = zlib.decompressobj(self._window_bits), True
            try:
                piece = self._stream.decompress(data, STEP)
            except zlib.error as error:
                raise Malformed(f"{self._title}: {error}") from None
            if piece:
                yield piece
            if self._stream.eof:
                data, self._stream = self._stream.unused_data, None
            else:
                data = self._stream.unconsumed_tail
                if not piece and not data:
                    return

    def finish(self) -> None:
        if self._stream is not None or not self._is_begun:
            raise Malformed(f"{self._title}: it ends in the middle")


class _Lzw:
    def __init__(self) -> None:
        self._reader = LzwReader()

    def read(self, data: bytes) -> Iterator[bytes]:
        for at in range(0, len(data), _LZW_STEP):
            yield self._reader.read(data[at : at + _LZW_STEP])

    def finish(self) -> None:
        if not self._reader.is_ended:
            raise Malformed("LZW: it ends in the middle")


def decoder(compression: Compression) -> Decoder:
    """A decoder for one object."""
    match compression:
        case Compression.NONE:
            return _Plain()
        case Compression.GZIP:
            return _Deflated(_GZIP, "gzip")
        case Compression.ZLIB:
            return _Deflated(_ZLIB, "zlib")
        case Compression.LZW:
            return _Lzw()


async def decompress(
    chunks: AsyncIterable[bytes], compression: Compression, *, most: int
) -> AsyncGenerator[bytes, None]:
    """The content of a compressed stream. Raises `Malformed` if it can't be decoded, or has more than `most` bytes."""
    codec, size = decoder(compression), 0
    async for chunk in chunks:
        pieces = codec.read(chunk)
        while (piece := await in_thread(partial(next, pieces, None), len(chunk))) is not None:
            size += len(piece)
            if size > most:
                raise Malformed(f"its content has more than the allowed {most} bytes")
            if piece:
                yield piece
    codec.finish()


def compressor(compression: Compression) -> zlib._Compress | None:
    """A compressor from content to stored bytes; None if they are the same.

    Raises `ValueError` for a compression that is only read.
    """
    match compression:
        case Compression.NONE:
            return None
        case Compression.GZIP | Compression.ZLIB:
            bits = _GZIP if compression is Compression.GZIP else _ZLIB
            return zlib.compressobj(LEVEL, zlib.DEFLATED, bits)
        case Compression.LZW:
            raise ValueError("compression: found lzw, allowed are gzip, zlib and none; lzw is only read")


async def compress(chunks: AsyncIterable[bytes], compression: Compression) -> AsyncGenerator[bytes, None]:
    """The stored bytes of a content. Raises `ValueError` for a compression that is only read."""
    stream = compressor(compression)
    async for chunk in chunks:
        if stream is None:
            yield chunk
        elif compressed := await in_thread(partial(stream.compress, chunk), len(chunk)):
            yield compressed
    if stream is not None:
        yield stream.flush()


async def in_thread(work: Callable[[], T], size: int) -> T:
    """The result of work on this number of bytes: in a thread, if there are many. A simulation has no threads, and its
    time waits."""
    is_inline = size <= INLINE or isinstance(asyncio.get_running_loop(), VirtualLoop)
    return work() if is_inline else await asyncio.to_thread(work)
