"""The work queue of keys. Pure: callers pass the time, and it never waits.

It holds each key once, however often it is added, and hands it to one worker at a time; a key that is added meanwhile
is kept until that worker is done. Ready keys are ordered by priority, then by arrival. As in controller-runtime's
priority queue, adding a key again can only raise its priority and move it forward.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)

LOW_PRIORITY = -100
"""The priority of initial lists and resyncs: real events go first."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses after failures in seconds: `first`, then twice as long each time, up to `longest`."""

    first: float = 0.005
    longest: float = 1000.0

    def pause(self, failures: int) -> float:
        """The pause after a failure that follows so many others."""
        return min(self.first * 2.0 ** min(failures, 64), self.longest)


class Taken(NamedTuple, Generic[K]):
    """A key taken by a worker, with its priority and the time at which it became ready."""

    key: K
    priority: int
    ready_at: float


class _Entry(Generic[K]):
    """A waiting key. `place` is its order of arrival; `ready` is True if it is in the heap of ready keys."""

    __slots__ = ("key", "place", "priority", "ready", "ready_at", "waiting")

    def __init__(self, key: K, place: int, priority: int, ready_at: float) -> None:
        self.key = key
        self.place = place
        self.priority = priority
        self.ready_at = ready_at
        self.ready = False
        self.waiting = True


class WorkQueue(Generic[K]):
    """Keys to reconcile. The counters `adds` and `retries`, for metrics, only grow.

    After each reconcile, a key waits for `spacing` seconds, so that a burst of events causes one reconcile.
    """

    def __init__(self, backoff: Backoff | None = None, spacing: float = 0.0) -> None:
        self._backoff = backoff or Backoff()
        self._spacing = spacing
        self._spaced_until: dict[K, float] = {}  # until when; oldest first
        self._entries: dict[K, _Entry[K]] = {}
        self._ready: list[tuple[int, int, _Entry[K]]] = []
        self._delayed: list[tuple[float, int, _Entry[K]]] = []
        self._failures: dict[K, int] = {}
        self._places = 0
        self.taken: dict[K, float] = {}
        """Keys taken by workers, and since when."""
        self.adds = 0
        self.retries = 0

    def __len__(self) -> int:
        """Number of waiting keys, delayed ones included."""
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def add(self, key: K, now: float, *, after: float = 0.0, priority: int = 0) -> None:
        """Add a key, to be ready after `after` seconds."""
        ready_at = max(now + after, self._spaced_until.get(key, 0.0)) if self._spaced_until else now + after
        entry = self._entries.get(key)
        if entry is None:
            self._places += 1
            self.adds += 1
            entry = self._entries[key] = _Entry(key, self._places, priority, ready_at)
            if key not in self.taken:
                self._place_entry(entry, now)
            return
        if priority <= entry.priority and ready_at >= entry.ready_at:
            return
        raised, sooner = priority > entry.priority, ready_at < entry.ready_at
        entry.priority = max(priority, entry.priority)
        entry.ready_at = min(ready_at, entry.ready_at)
        if key in self.taken:
            return
        if entry.ready:
            if raised:
                heappush(self._ready, (-entry.priority, entry.place, entry))
        elif sooner:
            self._place_entry(entry, now)

    def retry(self, key: K, now: float, *, priority: int = 0, longest: float = math.inf) -> float:
        """Add a key for a retry. Returns the pause in seconds, which doubles until `forget`, up to `longest`."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self.retries += 1
        pause = min(self._backoff.pause(failures), longest)
        self.add(key, now, after=pause, priority=priority)
        return pause

    def forget(self, key: K) -> None:
        """Reset the failures of a key after a success."""
        self._failures.pop(key, None)

    def take(self, now: float) -> Taken[K] | None:
        """Take the next ready key, or None. Call `done` for it afterwards."""
        self._move_due(now)
        while self._ready:
            priority, _, entry = heappop(self._ready)
            if entry.waiting and -priority == entry.priority:
                entry.waiting = False
                del self._entries[entry.key]
                self.taken[entry.key] = now
                return Taken(entry.key, entry.priority, entry.ready_at)
        return None

    def done(self, key: K, now: float) -> None:
        """Mark a key as finished by its worker; if it was added meanwhile, it now waits like any other."""
        del self.taken[key]
        entry = self._entries.get(key)
        if self._spacing:
            self._start_spacing(key, now)
            if entry is not None:
                entry.ready_at = max(entry.ready_at, self._spaced_until[key])
        if entry is not None:
            self._place_entry(entry, now)

    def next_at(self) -> float | None:
        """The time at which the next delayed key becomes ready; None if none is delayed. Ready keys do not count."""
        while self._delayed:
            ready_at, _, entry = self._delayed[0]
            if entry.waiting and not entry.ready and ready_at == entry.ready_at:
                return ready_at
            heappop(self._delayed)
        return None

    def depth(self) -> dict[int, int]:
        """The number of ready keys by priority."""
        depth: dict[int, int] = {}
        for entry in self._entries.values():
            if entry.ready:
                depth[entry.priority] = depth.get(entry.priority, 0) + 1
        return depth

    def _start_spacing(self, key: K, now: float) -> None:
        while self._spaced_until:
            oldest = next(iter(self._spaced_until))
            if self._spaced_until[oldest] > now:
                break
            del self._spaced_until[oldest]
        self._spaced_until.pop(key, None)
        self._spaced_until[key] = now + self._spacing

    def _place_entry(self, entry: _Entry[K], now: float) -> None:
        if entry.ready_at <= now:
            entry.ready = True
            heappush(self._ready, (-entry.priority, entry.place, entry))
        else:
            heappush(self._delayed, (entry.ready_at, entry.place, entry))

    def _move_due(self, now: float) -> None:
        while self._delayed and self._delayed[0][0] <= now:
            ready_at, _, entry = heappop(self._delayed)
            if entry.waiting and not entry.ready and ready_at == entry.ready_at:
                entry.ready = True
                heappush(self._ready, (-entry.priority, entry.place, entry))
