"""Numbers in annotations and statuses, as anybody may have written them."""

from __future__ import annotations

MOST_DIGITS = 16
"""The largest number of digits: more than any epoch or revision has."""
LARGEST = 10**MOST_DIGITS - 1
"""The largest number that can be read."""


def whole_number(text: str | None) -> int | None:
    """Parse a number of ASCII digits alone; None for all else, also for digits of other scripts, which nobody sees in a
    terminal to be others."""
    if not text or len(text) > MOST_DIGITS or not (text.isascii() and text.isdigit()):
        return None
    return int(text)
