"""Rests after corrections: who makes the same edit again at once is answered every few seconds, not in a loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from espalier.api.resource import Key

SECONDS = 10.0
FIRST_PAUSE, LONGEST_PAUSE = 60.0, 3600.0
"""Seconds until a cluster that gave no answer is asked again: nothing else brings its key for hours."""


class RateLimits:
    """The clusters that were corrected a moment ago."""

    def __init__(self) -> None:
        self._resting: set[Key] = set()
        self._wanted: set[Key] = set()
        self._pauses: dict[Key, float] = {}
        self._trying: set[Key] = set()
        self.when_over: Callable[[Key], None] = lambda _key: None
        """Called when the rest of a cluster is over in which somebody asked for it, and to try again."""

    def is_limited(self, key: Key) -> bool:
        """Whether a cluster has to wait; if so, `when_over` says for how long."""
        if key in self._resting:
            self._wanted.add(key)
        return key in self._resting

    def rest(self, key: Key) -> None:
        """A cluster was corrected now."""
        self._resting.add(key)
        asyncio.get_running_loop().call_later(SECONDS, self._over, key)

    def try_again(self, key: Key) -> None:
        """A cluster gave no answer: it is looked at again, ever later while that lasts."""
        if key in self._trying:
            return
        pause = self._pauses.get(key, FIRST_PAUSE)
        self._pauses[key] = min(2 * pause, LONGEST_PAUSE)
        self._trying.add(key)
        asyncio.get_running_loop().call_later(pause, self._tried, key)

    def answered(self, key: Key) -> None:
        """It gave one, or is gone."""
        self._pauses.pop(key, None)

    def _tried(self, key: Key) -> None:
        self._trying.discard(key)
        if key in self._pauses:
            self.when_over(key)

    def _over(self, key: Key) -> None:
        self._resting.discard(key)
        if key in self._wanted:
            self._wanted.discard(key)
            self.when_over(key)
