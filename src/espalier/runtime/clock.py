"""Time as an argument: code that needs the time gets a `Clock`."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

_SINCE_BOOT: int | None = getattr(time, "CLOCK_BOOTTIME", None)
"""The clock that also counts while the machine is suspended, if the system has one (Linux)."""


class Clock(Protocol):
    """The source of time. Timers belong to the event loop, whose time a simulation controls as well."""

    def now(self) -> datetime:
        """The wall clock, aware, UTC."""

    def monotonic(self) -> float:
        """Seconds that never go back."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """The wall clock, aware, UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds that never go back: not the loop's time, which some loops freeze while a callback runs.

        They include the time for which the machine was suspended, since a Lease expires meanwhile.
        """
        return time.monotonic() if _SINCE_BOOT is None else time.clock_gettime(_SINCE_BOOT)


class LoopClock:
    """A wall clock that starts at `epoch` and moves with the running loop's time: a simulated loop moves both."""

    def __init__(self, epoch: datetime) -> None:
        self._epoch = epoch
        self._start = asyncio.get_running_loop().time()

    def now(self) -> datetime:
        """The wall clock, aware, UTC."""
        return self._epoch + timedelta(seconds=self.monotonic() - self._start)

    def monotonic(self) -> float:
        """The running loop's time."""
        return asyncio.get_running_loop().time()
