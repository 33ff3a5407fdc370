"""Kubernetes minor versions, and how far apart they may be."""

from __future__ import annotations

MAXIMUM_WORKER_LAG = 2
"""How many minor versions workers may be behind the control plane."""


def minor(version: str) -> int:
    """A number for `1.35` by which versions can be subtracted. Raises `ValueError` when the text is no such version."""
    major, _, rest = version.partition(".")
    return int(major) * 1000 + int(rest)


def before(version: str, steps: int = 1) -> str:
    """The minor version so many before."""
    major, _, rest = version.partition(".")
    return f"{major}.{int(rest) - steps}"


def after(version: str, steps: int = 1) -> str:
    """The minor version so many after."""
    return before(version, -steps)
