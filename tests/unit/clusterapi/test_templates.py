"""Templates keep their names as long as their content, and never change under a name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.clusterapi.infrastructures.templates import (
    are_of_same_series,
    choose_name,
    control_plane_template,
    next_name,
    worker_template,
)


@pytest.mark.parametrize(
    ("referenced", "existing", "chosen"),
    [
        (None, {}, "garden-control-plane-1"),
        ("garden-control-plane-1", {"garden-control-plane-1": True}, "garden-control-plane-1"),
        ("garden-control-plane-1", {"garden-control-plane-1": False}, "garden-control-plane-2"),
        ("garden-control-plane-9", {"garden-control-plane-9": False}, "garden-control-plane-10"),
        ("garden-control-plane-3", {}, "garden-control-plane-3"),
        ("by-hand", {"by-hand": False}, "by-hand-1"),
    ],
    ids=["first", "same content", "other content", "two digits", "gone: made again", "name without number"],
)
def test_other_content_gets_the_next_name(referenced: str | None, existing: dict[str, bool], chosen: str) -> None:
    assert choose_name(control_plane_template("garden"), referenced, existing, existing.__getitem__) == chosen


def test_template_of_a_reverted_change_is_unchanged() -> None:
    existing = {"garden-md-0-1": False, "garden-md-0-2": False}
    chosen = choose_name(worker_template("garden", "md-0"), "garden-md-0-1", existing, existing.__getitem__)
    assert chosen == "garden-md-0-3"


def test_leftover_template_of_equal_content_is_used() -> None:
    existing = {"garden-md-0-1": False, "garden-md-0-2": True}
    chosen = choose_name(worker_template("garden", "md-0"), "garden-md-0-1", existing, existing.__getitem__)
    assert chosen == "garden-md-0-2"


@given(st.text("abc-", min_size=1), st.integers(1, 10**6))
def test_the_next_name_has_the_next_number(base: str, number: int) -> None:
    assert next_name(f"{base}-{number}") == f"{base}-{number + 1}"


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ("garden-control-plane-1", True),
        ("garden-control-plane-12", True),
        ("garden-md-0-1", False),
        ("garden-control-plane", True),
        ("by-hand", False),
    ],
)
def test_templates_of_one_series_differ_by_number(other: str, expected: bool) -> None:
    assert are_of_same_series("garden-control-plane-1", other) is expected
