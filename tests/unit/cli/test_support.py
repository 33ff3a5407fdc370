from __future__ import annotations

from datetime import UTC, datetime

import pytest

from espalier.cli import support


@pytest.mark.parametrize(
    ("date", "told"),
    [
        ("2026-12-02", " (support ends on 2026-12-02)"),
        ("2026-11-22", " (support ends on 2026-11-22)"),
        ("2026-11-21", " (support ended on 2026-11-21)"),
        ("", ""),
    ],
)
def test_it_is_told_when_support_of_a_version_ends_or_that_it_ended(date: str, told: str) -> None:
    assert support.told(date, datetime(2026, 11, 22, 23, tzinfo=UTC)) == told
