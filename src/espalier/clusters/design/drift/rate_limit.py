"""Rate limits of drift correction: a field that is edited again at once is corrected every few seconds, not in a loop.

A field that is changed again and again, to whatever value, is corrected ever less often, and this is reported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from espalier.api.resource import Key
from espalier.runtime.controllers.sources import Source

SECONDS = 10.0
FIRST_PAUSE, LONGEST_PAUSE = 60.0, 3600.0
"""Seconds until an unreachable cluster is tried again (no event would enqueue it for hours), and until a field with
repeated corrections is corrected again."""

TOLERATED = 5
"""Corrections of a field, each within `FORGOTTEN_AFTER` of the last, until it counts as a conflict of writers."""

FORGOTTEN_AFTER = 600.0
"""Seconds without a change after which the corrections of a field are forgotten, on top of its pause."""


@dataclass(frozen=True, slots=True)
class _Corrected:
    """The number of corrections of a field, and the time of the last."""

    times: int
    last: float

    @property
    def pause(self) -> float:
        """Seconds until it may be corrected again."""
        doubled = min(self.times - TOLERATED, 10)  # the power would overflow in a conflict of weeks
        return 0.0 if doubled < 0 else min(FIRST_PAUSE * 2**doubled, LONGEST_PAUSE)

    def is_forgotten(self, now: float) -> bool:
        """True if the next correction counts as the first."""
        return now - self.last > self.pause + FORGOTTEN_AFTER


class RateLimits(Source):
    """The recently corrected clusters. Enqueues a cluster when its pause ends, and to retry."""

    def __init__(self) -> None:
        super().__init__()
        self._limited: set[Key] = set()
        self._deferred: set[Key] = set()
        self._pauses: dict[Key, float] = {}
        self._retrying: set[Key] = set()
        self._corrected: dict[Key, dict[str, _Corrected]] = {}
        self._scheduled: set[tuple[Key, float]] = set()

    def is_limited(self, key: Key) -> bool:
        """True if a cluster has to wait; it is enqueued later then."""
        if key in self._limited:
            self._deferred.add(key)
        return key in self._limited

    def limit(self, key: Key) -> None:
        """Record that a cluster was corrected now."""
        self._limited.add(key)
        asyncio.get_running_loop().call_later(SECONDS, self._end_limit, key)

    def corrected(self, key: Key, fields: Iterable[str]) -> None:
        """Record that these fields of a cluster's objects were corrected now, whatever they were changed to."""
        now = asyncio.get_running_loop().time()
        current = {
            name: corrected
            for name, corrected in self._corrected.get(key, {}).items()
            if not corrected.is_forgotten(now)
        }
        for name in fields:
            before = current.get(name)
            current[name] = _Corrected(before.times + 1 if before else 1, now)
        self._corrected[key] = current

    def disputed(self, key: Key, fields: Iterable[str]) -> dict[str, int]:
        """The fields with repeated corrections that must not be corrected now, and how often they were corrected.

        If there are any, the cluster is enqueued when the first of them may be corrected.
        """
        loop = asyncio.get_running_loop()
        known, now = self._corrected.get(key, {}), loop.time()
        held = {
            name: corrected
            for name in fields
            if (corrected := known.get(name)) is not None and now < corrected.last + corrected.pause
        }
        if held:
            due = min(corrected.last + corrected.pause for corrected in held.values())
            if (key, due) not in self._scheduled:
                self._scheduled.add((key, due))
                loop.call_at(due, self._send_if_corrected, key, due)
        return {name: corrected.times for name, corrected in held.items()}

    def forget(self, key: Key) -> None:
        """Forget a deleted cluster."""
        self.answered(key)
        self._corrected.pop(key, None)

    def _send_if_corrected(self, key: Key, due: float) -> None:
        self._scheduled.discard((key, due))
        if key in self._corrected:
            self.send(key)

    def try_again(self, key: Key) -> None:
        """Enqueue an unreachable cluster again, with growing delay while that lasts."""
        if key in self._retrying:
            return
        pause = self._pauses.get(key, FIRST_PAUSE)
        self._pauses[key] = min(2 * pause, LONGEST_PAUSE)
        self._retrying.add(key)
        asyncio.get_running_loop().call_later(pause, self._retry, key)

    def answered(self, key: Key) -> None:
        """Reset the delay: the cluster was reachable."""
        self._pauses.pop(key, None)

    def _retry(self, key: Key) -> None:
        self._retrying.discard(key)
        if key in self._pauses:
            self.send(key)

    def _end_limit(self, key: Key) -> None:
        self._limited.discard(key)
        if key in self._deferred:
            self._deferred.discard(key)
            self.send(key)
