"""Durations for people, as kubectl shows ages."""

from __future__ import annotations

_SPANS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


def span(seconds: float) -> str:
    """A duration in its largest unit with at least two (`90m`, `25h`)."""
    for unit, size in _SPANS:
        if seconds >= 2 * size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"
