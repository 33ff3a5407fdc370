"""Controllers: watched changes become keys in a queue, and each key is reconciled by one call at a time.

An idle controller costs nothing: it has no waiting workers, only a timer while a key is delayed. A reconcile is a task
that is created when there is a key and a free worker.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

import structlog
from structlog.contextvars import bind_contextvars

from espalier.api.resource import Key
from espalier.kube.errors import Conflict, KubeError
from espalier.kube.objects import Object
from espalier.runtime.caches.cache import Cache
from espalier.runtime.caches.mapping import ToKeys, own_key
from espalier.runtime.controllers.outcome import Done, Fault, Outcome, Wait, fault_of
from espalier.runtime.controllers.predicates import Predicate, any_change
from espalier.runtime.controllers.queue import LOW_PRIORITY, Backoff, Taken, WorkQueue

if TYPE_CHECKING:  # commands import what declares controllers, and start faster without a library of metrics
    from espalier.runtime.metrics import ControllerMeasures, Metrics

Reconcile: TypeAlias = Callable[[Key], Awaitable[Outcome]]

RESYNC = 10 * 3600.0
"""Seconds between two reconciles of all objects, for changes that no watch reports; plus or minus 10 % at random."""

_SOON = 1.0
"""Seconds of a pause after a few failures: 5 ms, doubled each time."""

LONGEST_FAULT = 60.0
"""The most seconds between two attempts. The end of a cause (an unreachable server, missing rights, a webhook that
refuses) causes no event."""

_log = structlog.get_logger("espalier.controller")


class Controller:
    """Calls `reconcile` with keys: never twice at once for the same key, and for at most `workers` keys at a time.

    - `Done`, `Continue`: no further call until something changes. `Wait(after=…)`, `Done(after=…)`: the next call is
      after so many seconds; `Wait` without it: as for `Done`, an event will follow.
    - `Fault`: a retry after a pause that doubles from 5 ms to a minute, or after `after` seconds; `terminal`: none
      until something changes.
    - After each reconcile, a key is not reconciled for `spacing` seconds.
    - An exception is a `Fault`; unless it is a `KubeError`, it is a bug, logged with its traceback and counted as
      panic, and the pause grows to 1000 s.
    """

    def __init__(
        self,
        name: str,
        reconcile: Reconcile,
        *,
        workers: int = 10,
        backoff: Backoff | None = None,
        spacing: float = 0.0,
        resync: float | None = RESYNC,
        rng: random.Random | None = None,
    ) -> None:
        self.name = name
        self._reconcile = reconcile
        self._workers = workers
        self._resync = resync
        self._rng = rng or random.Random()  # noqa: S311 - spreads resyncs in time, guards nothing
        self._queue: WorkQueue[Key] = WorkQueue(backoff, spacing)
        self._watches: list[tuple[Cache, ToKeys]] = []
        self._measures: ControllerMeasures | None = None
        self._running_tasks: dict[asyncio.Task[None], None] = {}
        self._reconcile_ids = itertools.count(1)
        self._open = False
        self._start_is_due = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    def measured_by(self, metrics: Metrics) -> None:
        """Report to these metrics."""
        self._measures = metrics.controller(self.name, self._queue, self._workers, self._unfinished)

    def watch(
        self, cache: Cache, to_keys: ToKeys = own_key, *, predicate: Predicate = any_change, priority: int = 0
    ) -> None:
        """Enqueue the keys that `to_keys` returns for each changed object, before and after the change.

        Allowed while running; then await `cache.wait_synced()` before relying on its content.
        """
        self._watches.append((cache, to_keys))

        def changed(old: Object | None, new: Object | None, first: bool) -> None:
            try:
                wanted = predicate(old, new)
            except Exception:
                _log.exception(
                    "a predicate failed; reconciling the change", controller=self.name, object=repr(new or old)
                )
                wanted = True
            if wanted:
                for object_ in (old, new) if to_keys is not own_key else (new or old,):
                    if object_ is not None:
                        self._enqueue_all_of(to_keys, object_, LOW_PRIORITY if first else priority)

        cache.subscribe(changed)

    def enqueue(self, key: Key, after: float = 0.0, priority: int = 0) -> None:
        """Enqueue a reconcile of `key`, after so many seconds."""
        loop = asyncio.get_running_loop()
        self._queue.add(key, loop.time(), after=after, priority=priority)
        self._start_ready_soon(loop)

    @property
    def busy(self) -> bool:
        """True if a reconcile is running or ready to run; delayed keys do not count."""
        return bool(self._running_tasks or self._queue.depth())

    async def run(self) -> None:
        """Work until cancelled; starts once all watched caches are complete."""
        for cache, _ in list(self._watches):
            await cache.wait_synced()
        loop = asyncio.get_running_loop()
        self._open = True
        self._start_ready_soon(loop)
        try:
            if self._resync is None:
                await loop.create_future()
            else:
                await self._enqueue_all_every(self._resync)
        finally:
            self._close()
            await _cancel(list(self._running_tasks))

    async def drain(self) -> None:
        """Start no further reconcile, and wait for the running ones."""
        self._close()
        if self._running_tasks:
            await asyncio.wait(list(self._running_tasks))

    def _close(self) -> None:
        self._open = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _enqueue_all_of(self, to_keys: ToKeys, object_: Object, priority: int) -> None:
        try:
            for key in to_keys(object_):
                self.enqueue(key, priority=priority)
        except Exception:
            # An invalid object must not end the watch for all others.
            _log.exception("could not map an object to keys", controller=self.name, object=repr(object_))

    async def _enqueue_all_every(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds * (0.9 + 0.2 * self._rng.random()))
            for cache, to_keys in list(self._watches):
                await asyncio.sleep(0)  # a fleet has so many objects that webhooks would wait for all of them
                for object_ in cache.list():
                    self._enqueue_all_of(to_keys, object_, LOW_PRIORITY)

    def _start_ready_soon(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._open and not self._start_is_due:
            self._start_is_due = True
            loop.call_soon(self._start_ready)

    def _start_ready(self) -> None:
        """Start reconciles while there are keys and free workers, and set the timer for the next delayed key."""
        self._start_is_due = False
        if not self._open:
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        while len(self._running_tasks) < self._workers:
            entry = self._queue.take(now)
            if entry is None:
                break
            task = loop.create_task(self._reconcile_key(entry), name=f"{self.name} {entry.key}")
            self._running_tasks[task] = None
            task.add_done_callback(self._reconcile_done)
        self._set_timer(loop)

    def _set_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        due_at = self._queue.next_at()
        if self._timer is not None:
            if self._timer_at == due_at:
                return
            self._timer.cancel()
            self._timer = None
        if due_at is not None and len(self._running_tasks) < self._workers:
            # The handle may lack its time: uvloop returns a plain one if the time has come already.
            self._timer, self._timer_at = loop.call_at(due_at, self._wake), due_at

    def _wake(self) -> None:
        # Loops may call this a little early: then no key is ready, and the timer has to be set again.
        self._timer = None
        self._start_ready()

    def _reconcile_done(self, task: asyncio.Task[None]) -> None:
        del self._running_tasks[task]
        self._start_ready_soon(asyncio.get_running_loop())

    async def _reconcile_key(self, entry: Taken[Key]) -> None:
        key = entry.key
        loop = asyncio.get_running_loop()
        started = loop.time()
        bind_contextvars(
            controller=self.name, namespace=key.namespace, name=key.name, reconcile_id=next(self._reconcile_ids)
        )
        measures = self._measures
        if measures is not None:
            measures.active.inc()
            measures.waited.observe(max(0.0, started - entry.ready_at))
        panic = False
        try:
            outcome = await self._reconcile(key)
        except KubeError as error:
            outcome = fault_of(error)
        except Exception as error:
            outcome, panic = fault_of(error), True
            _log.exception("panic")
        except asyncio.CancelledError:
            self._queue.done(key, loop.time())
            raise
        self._settle(entry, outcome, loop.time(), panic=panic)
        if measures is not None:
            _measure(measures, outcome, loop.time() - started, panic)

    def _settle(self, entry: Taken[Key], outcome: Outcome, now: float, *, panic: bool) -> None:
        queue, key = self._queue, entry.key
        if isinstance(outcome, Fault):
            retry_in = self._retry(entry, outcome, now, panic=panic)
            # That somebody else wrote an object at the same time is ordinary, unless it happens again and again.
            is_ordinary = outcome.reason == Conflict.reason and retry_in is not None and retry_in < _SOON
            log = _log.debug if is_ordinary else _log.warning
            log("fault", reason=outcome.reason, message=outcome.message, retry_in_seconds=retry_in)
        else:
            _log.debug("reconcile", outcome=outcome)
            queue.forget(key)
            if isinstance(outcome, Wait | Done) and outcome.after is not None:
                queue.add(key, now, after=outcome.after, priority=entry.priority)
        queue.done(key, now)

    def _retry(self, entry: Taken[Key], fault: Fault, now: float, *, panic: bool) -> float | None:
        """Enqueue the next attempt; returns the pause."""
        if fault.terminal:
            return None
        if fault.after is None:
            longest = math.inf if panic else LONGEST_FAULT
            return self._queue.retry(entry.key, now, priority=entry.priority, longest=longest)
        self._queue.add(entry.key, now, after=fault.after, priority=entry.priority)
        return fault.after

    def _unfinished(self) -> list[float]:
        now = asyncio.get_running_loop().time()
        return [now - since for since in self._queue.taken.values()]


def _measure(measures: ControllerMeasures, outcome: Outcome, seconds: float, panic: bool) -> None:
    measures.active.dec()
    measures.time.observe(seconds)
    measures.worked.observe(seconds)
    if isinstance(outcome, Fault):
        measures.error.inc()
        measures.errors.inc()
        if outcome.terminal:
            measures.terminal_errors.inc()
        if panic:
            measures.panics.inc()
    elif isinstance(outcome, Wait | Done) and outcome.after is not None:
        measures.requeue_after.inc()
    else:
        measures.success.inc()


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
