"""Untrusted text for a terminal: control characters are escaped."""

from __future__ import annotations

import re

from espalier.api.text.redaction import CUT

_STEERING = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""All control characters except newlines, and characters that change the direction of text."""


LONGEST_OBJECT_NAME = 253
"""The maximum characters of the name of an object."""


def printable(text: str) -> str:
    """The text with control characters escaped: ESC as `\\x1b`, a tab as a space. Newlines stay."""
    return _STEERING.sub(_escaped, text)


def in_one_line(text: str) -> str:
    """The same in one line: newlines become spaces."""
    return printable(" ".join(text.splitlines()) if "\n" in text or "\r" in text else text)


def quoted(text: str, most: int) -> str:
    """Untrusted text within a sentence: in one line, escaped, and cut after `most` characters."""
    if len(text) > most:
        text = f"{text[:most]}{CUT} ({len(text)} characters)"
    return in_one_line(text)


def json_text(text: str) -> str:
    """Equivalent JSON with these characters escaped: they can only be within its strings."""
    return _STEERING.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    if match[0] == "\t":
        return " "
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
