from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.api import conditions as condition_list
from espalier.api.gardener.extensions import leases

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.demand("G75")
@given(st.datetimes(timezones=st.just(UTC)))
def test_a_micro_time_is_read_as_it_was_written(moment: datetime) -> None:
    assert condition_list.parse_timestamp(leases.micro_time(moment)) == moment


@pytest.mark.demand("G75")
def test_a_micro_time_has_six_digits_and_is_in_utc() -> None:
    """G75."""
    east = timezone(timedelta(hours=2))
    assert leases.micro_time(datetime(2026, 1, 1, 2, tzinfo=east)) == "2026-01-01T00:00:00.000000Z"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026-01-01T00:00:01Z", 1),
        ("2026-01-01T00:00:01.5Z", 1.5),
        ("2026-01-01T02:00:01.000001+02:00", 1.000001),
        ("2026-01-01T00:00:00.000001999Z", 0.000001),
    ],
)
def test_leases_of_other_writers_are_read(text: str, seconds: float) -> None:
    assert condition_list.parse_timestamp(text) == NOW + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "never",
        "2026-13-01T00:00:00Z",
        "2026-01-01T25:00:00Z",
        "2026-01-01",
        "2026-01-01T00:00:00",
        "9999-12-31T23:59:59-23:59",
        "0001-01-01T00:00:00+23:59",
        "2026-01-01T00:00:00.0000000001Z",
        "2026-01-01T00:00:00Z\n",
        "２０２６-01-01T00:00:00Z",
    ],
)
def test_an_invalid_time_is_no_lease(text: str) -> None:
    assert condition_list.parse_timestamp(text) is None


@pytest.mark.demand("G76")
def test_a_renewal_counts_from_before_the_read() -> None:
    assert leases.renewed(NOW, timedelta(minutes=2)) == "2026-01-01T00:02:00.000000Z"
