"""The end of support of a Kubernetes version, from Bundles."""

from __future__ import annotations

from datetime import date, datetime, timedelta

NOTICE = timedelta(days=60)
"""Time before the end of support from which there is a warning."""


def told(ends: str, now: datetime) -> str:
    """A suffix for a version, with a leading space; empty without a date."""
    return f" (support {'ends' if ends >= now.date().isoformat() else 'ended'} on {ends})" if ends else ""


def is_due(ends: str, now: datetime) -> bool:
    """True if the end is near or past. False for an invalid date."""
    try:
        return date.fromisoformat(ends) <= (now + NOTICE).date()
    except ValueError:
        return False
