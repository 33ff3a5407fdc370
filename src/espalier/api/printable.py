"""Text of others on its way to a terminal: what would steer the terminal is written as what it is."""

from __future__ import annotations

import re

from espalier.api.redaction import CUT

_STEERING = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""All control characters but the end of a line, and what turns the direction of writing."""


def printable(text: str) -> str:
    """The same text, without power over a terminal: ESC is written as `\\x1b`, a tab as a blank. Lines stay lines."""
    return _STEERING.sub(_escaped, text)


def in_one_line(text: str) -> str:
    """The same for a place that has one line: ends of lines become blanks."""
    return printable(" ".join(text.splitlines()) if "\n" in text or "\r" in text else text)


def quoted(text: str, most: int) -> str:
    """Text of others within a sentence: in one line, without power over a terminal, and cut after `most` characters."""
    if len(text) > most:
        text = f"{text[:most]}{CUT} ({len(text)} characters)"
    return in_one_line(text)


def json_text(text: str) -> str:
    """JSON that means the same, without such characters: those that may stand in it are within its strings."""
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    if found[0] == "\t":
        return " "
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
