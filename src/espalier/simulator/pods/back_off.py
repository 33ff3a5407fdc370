"""The pauses before a container is started again, as kubelets make them; pure."""

from __future__ import annotations

FIRST_PAUSE, LONGEST_PAUSE = 10.0, 300.0
FORGOTTEN_AFTER = 2 * LONGEST_PAUSE
"""A container that ran this long is restarted without a pause."""


class BackOff:
    """None before the first restart, then 10 s, 20 s and so on up to 300 s."""

    def __init__(self) -> None:
        self._started_again: float | None = None
        self._next = FIRST_PAUSE

    def pause(self, ended: float) -> float:
        """Seconds from the end of a container to its next start."""
        if self._started_again is None or ended - self._started_again > FORGOTTEN_AFTER:
            pause, self._next = 0.0, FIRST_PAUSE
        else:
            pause, self._next = self._next, min(2 * self._next, LONGEST_PAUSE)
        self._started_again = ended + pause
        return pause
