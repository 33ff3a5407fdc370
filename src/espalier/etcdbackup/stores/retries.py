"""Timeouts and retries of a store as one value, whose total is known."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Retries:
    """Limits for operations of a store, in seconds.

    A small operation (anything but `stream` and `upload`) ends within `total`, retries included, so that pollers can
    compare it with their period. Long requests end when nothing moves: no byte for `stall`, or no part of an upload for
    `part`.
    """

    attempt: float = 5.0
    """For one request and its answer."""
    retries: int = 2
    """The number of retries of a request that failed temporarily."""
    longest_wait: float = 1.0
    """The longest wait between two requests; waits grow exponentially up to it, with jitter."""
    stall: float = 60.0
    """While an object is read: the longest wait for the next bytes."""
    part: float = 180.0
    """For one part of an upload."""

    def __post_init__(self) -> None:
        for name in ("attempt", "longest_wait", "stall", "part"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}: found {getattr(self, name):g}, allowed are seconds above 0")
        if self.retries < 0:
            raise ValueError(f"retries: found {self.retries}, allowed is 0 or more")

    @property
    def total(self) -> float:
        """Seconds within which a small operation ends, whatever the store does."""
        return (self.retries + 1) * self.attempt + self.retries * self.longest_wait
