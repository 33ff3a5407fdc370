"""Times and counts of Events, by whichever API they were written."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from espalier.api.meta import Tree
from espalier.cli.kit.events import age, count_of, oldest_first, time_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MADE: Tree = {"creationTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("event", "time", "count"),
    [
        ({"metadata": MADE}, "2026-01-01T00:00:00Z", 1),
        ({"metadata": MADE, "lastTimestamp": "a", "eventTime": "b", "count": 4, "series": None}, "a", 4),
        ({"metadata": MADE, "eventTime": "b", "series": "?"}, "b", 1),
        ({"metadata": MADE, "lastTimestamp": "a", "series": {"count": 3, "lastObservedTime": "c"}}, "c", 3),
    ],
)
def test_events_of_either_api_have_time_and_count(event: Tree, time: str, count: int) -> None:
    assert (time_of(event), count_of(event)) == (time, count)


def test_fractions_of_a_second_count_in_order() -> None:
    times = ["2026-01-01T00:00:00.500000Z", "2026-01-01T00:00:00Z", "never"]
    ordered = oldest_first({"metadata": {}, "eventTime": time} for time in times)
    assert [event["eventTime"] for event in ordered] == times[::-1]


def test_what_is_no_time_has_no_age() -> None:
    assert age("2026-01-01T00:00:00", NOW) == age("never", NOW) == ""
    assert age("2025-12-31T23:55:00Z", NOW) == "5m"
