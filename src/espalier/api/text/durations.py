"""Durations as Kubernetes writes and reads them: `10m0s`, `1h30m`, `0.5h`."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

_NUMBER = r"[0-9]+(?:\.[0-9]{1,9})?"
_DURATION = re.compile(rf"(?=.)(?:(?P<h>{_NUMBER})h)?(?:(?P<m>{_NUMBER})m)?(?:(?P<s>{_NUMBER})s)?(?:(?P<ms>[0-9]+)ms)?")


def seconds(text: str) -> int:
    """The whole seconds of a duration of hours, minutes and seconds. Raises `ValueError` for other text."""
    return int(exact_seconds(text))


@lru_cache(maxsize=256)  # rendering uses the same few values in all clusters
def exact_seconds(text: str) -> Fraction:
    """The same with fractions of a second."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f'"{text}" is not a duration; expected hours, minutes and seconds like 10m0s or 1h30m')
    hours, minutes, rest, thousandths = (Fraction(match[unit] or 0) for unit in ("h", "m", "s", "ms"))
    return (hours * 60 + minutes) * 60 + rest + thousandths / 1000
