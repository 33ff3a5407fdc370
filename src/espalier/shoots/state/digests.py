"""Digests by which states are compared: equal for the same JSON value, however an API server formats it."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from espalier.api.trees import json_trees

_encode_sorted = msgspec.json.Encoder(order="sorted").encode
_EXACT_INTEGERS = 2.0**53

_MOST_KNOWN = 8192
_known: dict[str, str] = {}
"""Results by the digest of the text, so that no text is kept: they follow from it, in any process."""


def of_value(text: bytes) -> str:
    """The digest of a JSON value. Go's API servers sort fields, and write 1.0 as 1.

    Results are cached: a reconcile asks for all states, and few have changed. Raises `msgspec.MsgspecError`.
    """
    key = of_text(text)
    known = _known.get(key)
    if known is None:
        known = of_text(_encode_sorted(_plain(json_trees.decode(text))))
        if len(_known) >= _MOST_KNOWN:
            del _known[next(iter(_known))]
        _known[key] = known
    return known


def of_text(text: bytes) -> str:
    """The digest of the exact text, in hexadecimal."""
    return hashlib.sha256(text).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT_INTEGERS:
        return int(value)
    return value
