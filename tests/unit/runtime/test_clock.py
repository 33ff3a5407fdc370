"""The clock by which Leases run out."""

from __future__ import annotations

import time

import pytest

from espalier.runtime.clock import SystemClock

HOUR = 3600.0


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="only Linux counts the time of a suspended machine")
def test_time_in_which_the_machine_is_suspended_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Linux counts it: CLOCK_MONOTONIC stands still meanwhile, and CLOCK_BOOTTIME does not."""
    clock, read = SystemClock(), time.clock_gettime
    before = clock.monotonic()
    slept = {time.CLOCK_BOOTTIME: HOUR, time.CLOCK_REALTIME: HOUR}
    monkeypatch.setattr(time, "clock_gettime", lambda which: read(which) + slept.get(which, 0.0))
    assert HOUR <= clock.monotonic() - before < 2 * HOUR
