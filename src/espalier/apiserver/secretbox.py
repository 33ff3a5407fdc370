"""NaCl's secretbox (XSalsa20-Poly1305), which Kubernetes has as a provider of encryption and our library has not.

The stream is made for all blocks at once: each word of the state is one integer with a lane of 64 bits for each block,
so that sums and rotations stay within their lane.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.poly1305 import Poly1305

KEY, NONCE, TAG = 32, 24, 16
"""Bytes of each."""

_SIGMA = struct.unpack("<4I", b"expand 32-byte k")
_ROUNDS = tuple(
    quarter
    for _ in range(10)
    for quarter in (
        *((0, 4, 8, 12), (5, 9, 13, 1), (10, 14, 2, 6), (15, 3, 7, 11)),
        *((0, 1, 2, 3), (5, 6, 7, 4), (10, 11, 8, 9), (15, 12, 13, 14)),
    )
)
_BLOCK = 64


class Forged(ValueError):
    """A box was not made with this key."""


def seal(key: bytes, nonce: bytes, clear: bytes) -> bytes:
    """A box: the tag, and the text."""
    stream = _stream(key, nonce, 32 + len(clear))
    text = _xor(clear, stream[32:])
    return Poly1305.generate_tag(stream[:32], text) + text


def unseal(key: bytes, nonce: bytes, box: bytes) -> bytes:
    """What is in a box. Raises `Forged`."""
    tag, text = box[:TAG], box[TAG:]
    stream = _stream(key, nonce, 32 + len(text))
    try:
        Poly1305.verify_tag(stream[:32], text, tag)
    except (InvalidSignature, ValueError):
        raise Forged("the box was not made with this key") from None
    return _xor(text, stream[32:])


def _stream(key: bytes, nonce: bytes, length: int) -> bytes:
    """So many bytes of XSalsa20."""
    first = _mixed(_state(key, struct.unpack("<4I", nonce[:16])), 1)
    subkey = struct.pack("<8I", *(first[place] for place in (0, 5, 10, 15, 6, 7, 8, 9)))
    blocks = -(-length // _BLOCK)
    state = _state(subkey, (*struct.unpack("<2I", nonce[16:]), 0, 0))
    ones = _lanes([1] * blocks)
    words = [word * ones for word in state]
    words[8], words[9] = _lanes(range(blocks)), 0
    mask = 0xFFFFFFFF * ones
    mixed = [(one + other) & mask for one, other in zip(_mixed(words, ones), words, strict=True)]
    columns = [memoryview(word.to_bytes(8 * blocks, "little")).cast("I")[::2] for word in mixed]
    return struct.pack(f"<{16 * blocks}I", *(word for block in zip(*columns, strict=True) for word in block))[:length]


def _state(key: bytes, middle: Sequence[int]) -> list[int]:
    words = struct.unpack("<8I", key)
    return [_SIGMA[0], *words[:4], _SIGMA[1], *middle, _SIGMA[2], *words[4:], _SIGMA[3]]


def _lanes(values: Sequence[int]) -> int:
    return int.from_bytes(struct.pack(f"<{len(values)}Q", *values), "little")


def _mixed(words: Sequence[int], ones: int) -> list[int]:
    """Twenty rounds of Salsa20."""
    x, mask = list(words), 0xFFFFFFFF * ones
    for a, b, c, d in _ROUNDS:
        for target, one, other, by in ((b, a, d, 7), (c, b, a, 9), (d, c, b, 13), (a, d, c, 18)):
            total = (x[one] + x[other]) & mask
            x[target] ^= ((total << by) | (total >> (32 - by))) & mask
    return x


def _xor(one: bytes, other: bytes) -> bytes:
    return (int.from_bytes(one, "little") ^ int.from_bytes(other[: len(one)], "little")).to_bytes(len(one), "little")
