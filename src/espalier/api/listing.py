"""Lists within messages: the first parts, and how many are left out."""

from __future__ import annotations

from collections.abc import Sequence


def first(parts: Sequence[object], most: int, *, separator: str = ", ", of: str = "") -> str:
    """At most so many parts, joined: `a, b, c and 4 more`, and with `of` `a, b, c and 4 more objects`.

    Parts that contain commas are separated by something else: `a; b; and 4 more`.
    """
    shown = separator.join(map(str, parts[:most]))
    left_out = len(parts) - most
    if left_out <= 0:
        return shown
    last = " and " if separator == ", " else f"{separator}and "
    return f"{shown}{last if shown else ''}{left_out} more{f' {of}' if of else ''}"
