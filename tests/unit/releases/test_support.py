from __future__ import annotations

from datetime import UTC, datetime

import pytest

from espalier.releases.contents import is_due, support_text


@pytest.mark.parametrize(
    ("date", "words"),
    [
        ("2026-12-02", " (support ends on 2026-12-02)"),
        ("2026-11-22", " (support ends on 2026-11-22)"),
        ("2026-11-21", " (support ended on 2026-11-21)"),
        ("", ""),
    ],
)
def test_end_of_support_is_shown_around_its_date(date: str, words: str) -> None:
    assert support_text(date, datetime(2026, 11, 22, 23, tzinfo=UTC)) == words


@pytest.mark.parametrize(
    ("date", "due"),
    [
        ("2026-12-02", True),
        ("2020-01-01", True),
        ("2027-01-21", True),
        ("2027-01-22", False),
        ("", False),
        ("x", False),
    ],
)
def test_end_is_due_sixty_days_before_and_from_then_on(date: str, due: bool) -> None:
    assert is_due(date, datetime(2026, 11, 22, 23, tzinfo=UTC)) is due
