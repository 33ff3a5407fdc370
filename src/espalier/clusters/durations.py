"""Durations as Kubernetes writes them: `10m0s`, `1h30m`."""

from __future__ import annotations

import re

_DURATION = re.compile(r"(?=.)(?:(?P<h>[0-9]+)h)?(?:(?P<m>[0-9]+)m)?(?:(?P<s>[0-9]+)s)?")


def seconds(text: str) -> int:
    """The seconds of a duration of hours, minutes and seconds. Raises `ValueError` for other text."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f'"{text}" is not a duration; expected hours, minutes and seconds like 10m0s or 1h30m')
    hours, minutes, rest = (int(match[unit] or 0) for unit in ("h", "m", "s"))
    return (hours * 60 + minutes) * 60 + rest
