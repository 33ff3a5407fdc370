"""Lists within messages: the first parts, and how many are left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


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


def counted(number: int, noun: str) -> str:
    """A number of things: `1 object`, `2 objects`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


_MOST_SUBJECTS = 3


def merged(texts: Iterable[str]) -> list[str]:
    """Each `SUBJECT: TEXT` once for its text, in the order in which they came: `A, B, C and 2 more: TEXT`."""
    subjects: dict[tuple[str, str], list[str]] = {}
    for text in texts:
        subject, colon, rest = text.partition(": ")
        group = subjects.setdefault((rest if colon else text, colon), [])
        if subject not in group:
            group.append(subject)
    return [
        f"{first(group, _MOST_SUBJECTS)}{colon}{rest}" if colon else rest for (rest, colon), group in subjects.items()
    ]
