"""LZW as etcd-backup-restore writes it (`compress/lzw` of Go, least significant bits first, 8-bit literals); read only.

The codes are those of GIF89a, Appendix F: 9 to 12 bits; 256 clears the table, 257 ends. Not those of `compress(1)`.
"""

from __future__ import annotations

from espalier.etcdbackup.snapshots.malformed import Malformed

_CLEAR, _END = 256, 257
_FIRST_WIDTH, _LAST_WIDTH = 9, 12


class LzwReader:
    """Decodes a stream in parts; its table has at most 4096 entries."""

    def __init__(self) -> None:
        self.is_ended = False
        """The end code was read."""
        self._bits = 0
        self._count = 0
        """Bits of an incomplete code."""
        self._clear()

    def _clear(self) -> None:
        self._table = [bytes((value,)) for value in range(256)] + [b"", b""]
        self._width = _FIRST_WIDTH
        self._last: bytes | None = None

    def read(self, data: bytes) -> bytes:
        """The content of the next bytes of the stream. Raises `Malformed`."""
        bits, count, out = self._bits, self._count, bytearray()
        table, width, last = self._table, self._width, self._last
        for at, byte in enumerate(data):
            if self.is_ended:
                raise Malformed(f"LZW: {len(data) - at} bytes after its end")
            bits |= byte << count
            count += 8
            if count < width:
                continue
            code = bits & ((1 << width) - 1)
            bits >>= width
            count -= width
            if code == _CLEAR:
                self._clear()
                table, width, last = self._table, self._width, self._last
                continue
            if code == _END:
                self.is_ended = True
                continue
            if code < len(table):
                entry = table[code]
            elif code == len(table) and last is not None:
                entry = last + last[:1]
            else:
                raise Malformed(f"LZW: found code {code}, allowed are those below {len(table)}")
            out += entry
            if last is not None and len(table) < 1 << _LAST_WIDTH:
                table.append(last + entry[:1])
            last = entry
            if len(table) >= 1 << width and width < _LAST_WIDTH:
                width += 1
        self._bits, self._count, self._width, self._last = bits, count, width, last
        return bytes(out)
