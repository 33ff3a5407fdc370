"""Events as an API server has them, written by clients of either API: their times and how often they occurred. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from espalier.api.conditions import parse_timestamp
from espalier.api.meta import Tree
from espalier.api.text.spans import span


def time_of(event: Tree) -> str:
    """When the event occurred last, as it is written."""
    time = _series(event).get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    return str(time or event["metadata"].get("creationTimestamp", ""))


def count_of(event: Tree) -> int:
    """How often the event occurred."""
    return int(_series(event).get("count") or event.get("count") or 1)


def oldest_first(events: Iterable[Tree]) -> list[Tree]:
    """The events by time; those without one are first."""
    return sorted(events, key=lambda event: parse_timestamp(time_of(event)) or datetime.min.replace(tzinfo=UTC))


def age(moment: str, now: datetime) -> str:
    """The time since a moment, like `12s`, `5m`, `3h` or `2d`; empty if it is no time."""
    since = parse_timestamp(moment)
    return span((now - since).total_seconds()) if since is not None else ""


def _series(event: Tree) -> Tree:
    series: Any = event.get("series")
    return series if isinstance(series, dict) else {}
