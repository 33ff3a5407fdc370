from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from espalier.api import conditions
from espalier.api.meta import Condition

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def condition(type: str, status: str, reason: str = "Because", message: str = "") -> Condition:
    return Condition(type=type, status=status, reason=reason, message=message)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"conditions": [{"type": "Ready", "status": "True"}]}, True),
        ({"conditions": [7, None, {}, {"type": "Ready", "status": "False"}]}, False),
        ({"conditions": [{"type": "Other", "status": "True"}]}, False),
        (None, False),
        (7, False),
        ("Ready", False),
        ([], False),
        ({}, False),
        ({"conditions": None}, False),
        ({"conditions": "Ready"}, False),
    ],
)
def test_status_written_by_anybody_is_read_unharmed(status: object, expected: bool) -> None:
    assert conditions.is_true_in(status, "Ready") is expected


def test_transition_time_moves_only_with_status() -> None:
    listed = conditions.set([], condition("Ready", "False", message="0 of 3"), NOW)
    listed = conditions.set(listed, condition("Ready", "False", message="1 of 3"), NOW + timedelta(hours=1))
    assert [(c.message, c.last_transition_time) for c in listed] == [("1 of 3", "2026-01-01T00:00:00Z")]
    listed = conditions.set(listed, condition("Ready", "True"), NOW + timedelta(hours=2))
    assert [c.last_transition_time for c in listed] == ["2026-01-01T02:00:00Z"]


def test_setting_keeps_the_others_in_their_places() -> None:
    listed = [condition("A", "True"), condition("B", "True"), condition("C", "True")]
    listed = conditions.set(listed, condition("B", "False"), NOW)
    assert [(c.type, c.status) for c in listed] == [("A", "True"), ("B", "False"), ("C", "True")]
