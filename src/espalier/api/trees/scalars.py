"""Meaning of a plain YAML scalar to kubectl.

The rules are those of sigs.k8s.io/yaml (YAML 1.1 as go-yaml v2 reads it), not those of PyYAML: `yes`, `on` and `y` are
booleans, `0o17`, `017` and `0b11` are integers, `12:30:45` and `2026-01-02` are strings, `1e3` is a number. What comes
out is what its JSON says: a number without a fraction is an integer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

Scalar = str | int | float | bool | None

_WORDS: Mapping[str, bool | None] = {
    form: value
    for value, words in ((True, ("y", "yes", "true", "on")), (False, ("n", "no", "false", "off")), (None, ("null",)))
    for word in words
    for form in (word, word.capitalize(), word.upper())
} | {"": None, "~": None}

_INTEGER = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0[bB][01]+|0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_A_NUMBER = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")

_LONGEST_INTEGER = 310
"""The maximum characters of a number; a longer one is text."""

_INTEGER_IN_JSON = 1e21
"""Below this, Go writes a float without a fraction as an integer."""


def resolve(text: str) -> Scalar:
    """The value of a plain scalar. Raises `ValueError` for what JSON cannot say (infinity, not a number)."""
    if text in _WORDS:
        return _WORDS[text]
    if _NOT_A_NUMBER.fullmatch(text):
        raise ValueError(f"{text} is not a value of the Kubernetes API; put it in quotes if it is text")
    digits = text.replace("_", "") if text[0] in "+-0123456789" else text
    if len(digits) <= _LONGEST_INTEGER and _INTEGER.fullmatch(digits):
        return _integer(digits)
    number = float(digits) if _FLOAT.fullmatch(digits) else math.inf
    if math.isinf(number):  # not a number, or too large for a float: the hash of a commit may look like one
        return text
    return int(number) if number.is_integer() and abs(number) < _INTEGER_IN_JSON else number


def _integer(digits: str) -> int:
    sign, magnitude = (-1, digits[1:]) if digits[0] == "-" else (1, digits.lstrip("+"))
    if len(magnitude) > 1 and magnitude[0] == "0" and magnitude[1].isdecimal():
        return sign * int(magnitude, 8)
    return sign * int(magnitude, 0)
