"""The times of an election: the defaults are safe, and what is not says which term is too small and by how much."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.api.etcd.timing import Timing, TimingError


def refused(**times: float) -> str:
    with pytest.raises(TimingError) as error:
        Timing(**times)
    return str(error.value)


def test_the_defaults_are_safe_and_leave_room() -> None:
    timing = Timing()
    assert timing.release == 25
    assert timing.fence(timing.release) == pytest.approx(25.25)
    assert timing.progress_timeout > timing.fence(timing.release)


@pytest.mark.demand(G52="times that are too short are refused")
def test_too_small_term_is_refused_with_its_sum() -> None:
    text = refused(progress_timeout=20)
    assert "progressTimeout: the destination would proceed without" in text
    assert "found 20 s, 5.25 s too small" in text
    assert "allowed: 25.25 s or more = (validity 15 + servingGrace 10) x 1.01" in text


def test_all_that_is_wrong_is_said_at_once() -> None:
    text = refused(validity=5, copy_timeout=100, lease_wait=100)
    assert [line.split(":")[0] for line in text.splitlines()] == ["validity", "copyTimeout", "leaseWait"]


@pytest.mark.parametrize(
    ("times", "field"),
    [
        ({"store_timeout": 6.0}, "pollPeriod"),
        ({"validity": 13.0}, "validity"),
        ({"snapshot_timeout": 3600.0}, "copyTimeout"),
        ({"lease_renewal": 50.0}, "leaseValidity"),
        ({"longest_reconcile": 600.0}, "leaseWait"),
        ({"clock_skew": 60.0}, "leaseWait"),
        ({"store_staleness": 60.0}, "progressTimeout"),
        ({"clock_drift": 2.0}, "progressTimeout"),
        ({"poll_period": 0.0}, "pollPeriod"),
        ({"poll_period": float("nan")}, "pollPeriod"),
        ({"store_staleness": -1.0}, "storeStaleness"),
    ],
)
def test_every_term_is_checked(times: dict[str, float], field: str) -> None:
    assert field in refused(**times)


def test_timing_from_a_file_is_checked() -> None:
    with pytest.raises(msgspec.ValidationError, match="validity"):
        msgspec.json.decode(b'{"validity": 3}', type=Timing)
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.json.decode(b'{"validty": 30}', type=Timing)


SECONDS = st.floats(0, 2000)


@pytest.mark.demand(G52="times that are too short are refused")
@given(st.fixed_dictionaries({}, optional=dict.fromkeys(Timing.__struct_fields__, SECONDS)))
def test_accepted_timing_never_lets_two_serve(times: dict[str, float]) -> None:
    try:
        timing = Timing(**times)
    except TimingError:
        return
    closed = timing.store_staleness + (timing.validity + timing.serving_grace) * (1 + timing.clock_drift)
    assert timing.progress_timeout >= closed
    assert timing.copy_timeout >= timing.snapshot_timeout
    assert timing.lease_wait >= timing.lease_validity + timing.longest_reconcile + timing.clock_skew


def test_a_much_too_small_time_is_reported_in_full() -> None:
    assert "found 1 s, 940.32 s too small; allowed: 941.32 s or more" in refused(copy_timeout=1)
    assert "found 1200 s, 1596 s too small" in refused(clock_drift=2)
    assert "validity: not a plausible time; found -1;" in refused(validity=-1)
