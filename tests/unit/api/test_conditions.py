from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
def test_a_status_that_anybody_may_have_written_is_read_without_harm(status: object, expected: bool) -> None:
    assert conditions.is_true_in(status, "Ready") is expected


def test_the_transition_time_moves_only_with_the_status() -> None:
    found = conditions.set([], condition("Ready", "False", message="0 of 3"), NOW)
    found = conditions.set(found, condition("Ready", "False", message="1 of 3"), NOW + timedelta(hours=1))
    assert [(c.message, c.last_transition_time) for c in found] == [("1 of 3", "2026-01-01T00:00:00Z")]
    found = conditions.set(found, condition("Ready", "True"), NOW + timedelta(hours=2))
    assert [c.last_transition_time for c in found] == ["2026-01-01T02:00:00Z"]


def test_setting_keeps_the_others_in_their_places() -> None:
    found = [condition("A", "True"), condition("B", "True"), condition("C", "True")]
    found = conditions.set(found, condition("B", "False"), NOW)
    assert [(c.type, c.status) for c in found] == [("A", "True"), ("B", "False"), ("C", "True")]


def test_a_summary_is_as_bad_as_its_worst_part_and_names_it_first() -> None:
    parts = [
        condition("ControlPlaneReady", "Unknown", "Starting", "the API server does not answer yet"),
        condition("WorkersReady", "False", "ScalingUp", "1 of 4 are ready"),
        condition("CNIReady", "True"),
        condition("NotMine", "False", "Elsewhere"),
    ]
    found = conditions.summary(parts, ["ControlPlaneReady", "WorkersReady", "CNIReady", "Later"], observed_generation=7)
    assert (found.type, found.status, found.reason, found.observed_generation) == ("Ready", "False", "ScalingUp", 7)
    assert found.message == (
        "WorkersReady: 1 of 4 are ready; ControlPlaneReady: the API server does not answer yet; Later: NotYetReported"
    )


@given(st.lists(st.sampled_from(["True", "False", "Unknown"]), min_size=1, max_size=5))
def test_a_summary_is_true_only_if_all_parts_are(statuses: list[str]) -> None:
    parts = [condition(f"P{place}", status) for place, status in enumerate(statuses)]
    found = conditions.summary(parts, [part.type for part in parts])
    assert (found.status == "True") == all(status == "True" for status in statuses)
    assert (found.status == "False") == ("False" in statuses)
    assert conditions.is_true([found], "Ready") == (found.status == "True")
