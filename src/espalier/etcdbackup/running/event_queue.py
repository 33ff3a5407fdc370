"""Delivers events to a state machine in sequence, and `Due` at the time that it has set."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Generic, TypeVar

from espalier.etcdbackup.election.events import Due
from espalier.runtime.clock import Clock

Event = TypeVar("Event")


class EventQueue(Generic[Event]):
    """Events in the order of their arrival, and the tasks that produce them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._tasks: dict[asyncio.Task[None], None] = {}  # in order: simulations repeat
        self._failure: asyncio.Future[None] | None = None

    def add(self, event: Event) -> None:
        """Add an event."""
        self._events.put_nowait(event)

    def start_task(self, work: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
        """Run some work in the background. `next` raises its errors, so that no caller misses a dead task."""
        task = asyncio.create_task(work, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._task_ended)
        return task

    async def next(self, due: float | None) -> tuple[Event | Due, float]:
        """The next event, and its time; `Due` at `due` if there is none by then."""
        loop = asyncio.get_running_loop()
        if self._failure is None:
            self._failure = loop.create_future()
        if not self._events.empty():
            return self._events.get_nowait(), self._clock.monotonic()
        receiving = asyncio.ensure_future(self._events.get())
        seconds = None if due is None else max(0.0, due - self._clock.monotonic())
        try:
            done, _ = await asyncio.wait(
                (receiving, self._failure), timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if self._failure in done:
                self._failure.result()
            now = self._clock.monotonic()
            if receiving in done:
                return receiving.result(), now
            return Due(), now if due is None else max(now, due)  # a timer may be early by its resolution
        finally:
            receiving.cancel()

    async def stop(self) -> None:
        """Cancel all work."""
        work = list(self._tasks)
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if self._failure is None:
            self._failure = asyncio.get_running_loop().create_future()
        if not self._failure.done():
            self._failure.set_exception(error)
