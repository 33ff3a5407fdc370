"""Strings that Go's decoder parses: bytes, quantities, times."""

from __future__ import annotations

import re
from typing import Any

from espalier.api import quantities

QUANTITY, TIME, MICRO_TIME = "Quantity", "Time", "MicroTime"
CHECKED = frozenset({QUANTITY, TIME, MICRO_TIME})
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_LAYOUTS = {TIME: "2006-01-02T15:04:05Z07:00", MICRO_TIME: "2006-01-02T15:04:05.000000Z07:00"}
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/\r\n]")
_QUANTITIES = r"quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def problem(value: Any, struct: str) -> str:
    """The error of Go's decoder for a value; empty when it is valid."""
    text = str(value)
    if struct == QUANTITY:
        return "" if quantities.QUANTITY.fullmatch(text) else _QUANTITIES
    if struct in _LAYOUTS:
        if not text or _TIME.fullmatch(text):
            return ""
        return f'parsing time "{text}" as "{_LAYOUTS[struct]}": cannot parse "{text}" as "2006"'
    return _of_base64(text)


def _of_base64(text: str) -> str:
    """The position of the first invalid base64 byte (RFC 4648, padded; line breaks are ignored)."""
    bare = text.rstrip("=\r\n")
    wrong = _NOT_BASE64.search(bare)
    padding = text[len(bare) :].count("=")
    length = len(bare.replace("\r", "").replace("\n", ""))
    if wrong is not None:
        place = wrong.start()
    elif length % 4 == 1 or (length + padding) % 4:
        place = length // 4 * 4 if not padding else len(text)
    elif padding > 2:
        place = len(bare)
    else:
        return ""
    return f"illegal base64 data at input byte {place}"
