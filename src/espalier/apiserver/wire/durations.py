"""Durations in kubectl's short format."""

from __future__ import annotations

from datetime import UTC, datetime

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400

# Below each limit: the unit, and the smaller unit shown beside it (0: none).
_FORMS = (
    (2 * MINUTE, "s", 1, "", 0),
    (10 * MINUTE, "m", MINUTE, "s", 1),
    (3 * HOUR, "m", MINUTE, "", 0),
    (8 * HOUR, "h", HOUR, "m", MINUTE),
    (2 * DAY, "h", HOUR, "", 0),
    (8 * DAY, "d", DAY, "h", HOUR),
    (2 * YEAR, "d", DAY, "", 0),
    (8 * YEAR, "y", YEAR, "d", DAY),
)


def human_duration(seconds: float) -> str:
    """`95s`, `4m10s`, `3h5m`, `2d`, `1y40d`; times slightly in the future (clocks differ) are `0s`."""
    elapsed = int(seconds)
    if elapsed < 0:
        return "0s" if elapsed >= -1 else "<invalid>"
    for limit, letter, unit, small_letter, small_unit in _FORMS:
        if elapsed < limit:
            rest = elapsed % unit // small_unit if small_unit else 0
            return f"{elapsed // unit}{letter}" + (f"{rest}{small_letter}" if rest else "")
    return f"{elapsed // YEAR}y"


def age(timestamp: object, now: datetime) -> str:
    """The time since an RFC 3339 timestamp; `<unknown>` without one, `<invalid>` if it can't be parsed."""
    if not timestamp:
        return "<unknown>"
    try:
        moment = datetime.fromisoformat(str(timestamp))
    except ValueError:
        return "<invalid>"
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return human_duration((now - moment).total_seconds())
