"""Times in annotations and statuses, as anybody may have written them."""

from __future__ import annotations

from datetime import datetime

from espalier.api.conditions import parse_timestamp


def past_time(text: str | None, now: datetime) -> datetime | None:
    """Parse the time at which something happened. None if there is none, if it can't be parsed or has no zone, or if it
    is yet to come: what is measured from such a time would never be over."""
    time = parse_timestamp(text or "")
    return time if time is not None and time <= now else None
