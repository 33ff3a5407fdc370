"""The work queue: which key is next. Pure: it is told the time and never waits itself.

A key is in it once, however often it is added, and in the hands of one worker at most; what is added meanwhile is kept
until that worker is done. Ready keys come by priority, then in the order of their arrival. Semantics of
controller-runtime's priority queue: adding again raises the priority and brings the time forward, never the reverse.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)

LOW = -100
"""The priority of initial lists and resyncs: real events go first."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses after failures in seconds: `first`, then twice as long each time, up to `longest`."""

    first: float = 0.005
    longest: float = 1000.0

    def pause(self, failures: int) -> float:
        """The pause after so many failures before this one."""
        return min(self.first * 2.0 ** min(failures, 64), self.longest)


class Taken(NamedTuple, Generic[K]):
    """A key in the hands of a worker, with its priority and when it became ready."""

    key: K
    priority: int
    ready_at: float


class _Entry(Generic[K]):
    """A key that waits. `place` is its order of arrival; `ready` tells in which heap it lies."""

    __slots__ = ("key", "place", "priority", "ready", "ready_at", "waiting")

    def __init__(self, key: K, place: int, priority: int, ready_at: float) -> None:
        self.key = key
        self.place = place
        self.priority = priority
        self.ready_at = ready_at
        self.ready = False
        self.waiting = True


class WorkQueue(Generic[K]):
    """Keys to work on. Counters (`adds`, `retries`) only grow; they are for metrics.

    A key rests for `spacing` seconds after each reconcile, however often it is added: a burst of events is one.
    """

    def __init__(self, backoff: Backoff | None = None, spacing: float = 0.0) -> None:
        self._backoff = backoff or Backoff()
        self._spacing = spacing
        self._resting: dict[K, float] = {}  # until when; oldest first
        self._entries: dict[K, _Entry[K]] = {}
        self._ready: list[tuple[int, int, _Entry[K]]] = []
        self._delayed: list[tuple[float, int, _Entry[K]]] = []
        self._failures: dict[K, int] = {}
        self._places = 0
        self.taken: dict[K, float] = {}
        """Keys in the hands of workers, and since when."""
        self.adds = 0
        self.retries = 0

    def __len__(self) -> int:
        """Number of waiting keys, delayed ones included."""
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def add(self, key: K, now: float, *, after: float = 0.0, priority: int = 0) -> None:
        """Ask for a reconcile on `key`, not before `after` seconds from now."""
        ready_at = max(now + after, self._resting.get(key, 0.0)) if self._resting else now + after
        entry = self._entries.get(key)
        if entry is None:
            self._places += 1
            self.adds += 1
            entry = self._entries[key] = _Entry(key, self._places, priority, ready_at)
            if key not in self.taken:
                self._enter(entry, now)
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
            self._enter(entry, now)

    def retry(self, key: K, now: float, *, priority: int = 0, longest: float = math.inf) -> float:
        """Ask for a retry after a failure. Returns the pause in seconds: it doubles until `forget`, up to `longest`."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self.retries += 1
        pause = min(self._backoff.pause(failures), longest)
        self.add(key, now, after=pause, priority=priority)
        return pause

    def forget(self, key: K) -> None:
        """The key did well: its next failure is a first one."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """Number of failures of the key in a row."""
        return self._failures.get(key, 0)

    def take(self, now: float) -> Taken[K] | None:
        """Hand out the next ready key, None when there is none. Give it back with `done`."""
        self._ripen(now)
        while self._ready:
            priority, _, entry = heappop(self._ready)
            if entry.waiting and -priority == entry.priority:
                entry.waiting = False
                del self._entries[entry.key]
                self.taken[entry.key] = now
                return Taken(entry.key, entry.priority, entry.ready_at)
        return None

    def done(self, key: K, now: float) -> None:
        """The worker is finished with the key; what was added meanwhile now waits like any other."""
        del self.taken[key]
        entry = self._entries.get(key)
        if self._spacing:
            self._rest(key, now)
            if entry is not None:
                entry.ready_at = max(entry.ready_at, self._resting[key])
        if entry is not None:
            self._enter(entry, now)

    def next_at(self) -> float | None:
        """Time at which the next delayed key becomes ready; None if none is delayed. Ready keys do not count."""
        while self._delayed:
            ready_at, _, entry = self._delayed[0]
            if entry.waiting and not entry.ready and ready_at == entry.ready_at:
                return ready_at
            heappop(self._delayed)
        return None

    def depth(self) -> dict[int, int]:
        """Number of ready keys by priority."""
        depth: dict[int, int] = {}
        for entry in self._entries.values():
            if entry.ready:
                depth[entry.priority] = depth.get(entry.priority, 0) + 1
        return depth

    def _rest(self, key: K, now: float) -> None:
        while self._resting:
            oldest = next(iter(self._resting))
            if self._resting[oldest] > now:
                break
            del self._resting[oldest]
        self._resting.pop(key, None)
        self._resting[key] = now + self._spacing

    def _enter(self, entry: _Entry[K], now: float) -> None:
        if entry.ready_at <= now:
            entry.ready = True
            heappush(self._ready, (-entry.priority, entry.place, entry))
        else:
            heappush(self._delayed, (entry.ready_at, entry.place, entry))

    def _ripen(self, now: float) -> None:
        while self._delayed and self._delayed[0][0] <= now:
            ready_at, _, entry = heappop(self._delayed)
            if entry.waiting and not entry.ready and ready_at == entry.ready_at:
                entry.ready = True
                heappush(self._ready, (-entry.priority, entry.place, entry))
