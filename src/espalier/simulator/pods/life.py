"""The life of one run of a container: when it ends, all that it holds is taken away at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


class Over(ConnectionResetError):
    """The container has ended."""


class Life:
    """Ends once. What has to happen then, as the kernel does it for a process, is registered and done at once."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._over = False
        self._ends: list[Callable[[], object]] = []
        self._waiting: set[asyncio.Future[None]] = set()

    @property
    def over(self) -> bool:
        """True once it has ended."""
        return self._over

    def at_end(self, act: Callable[[], object]) -> None:
        """Call `act` when it ends, at once if it has; those registered last are called first."""
        if self._over:
            act()
        else:
            self._ends.append(act)

    def end(self) -> None:
        """End it; idempotent."""
        if self._over:
            return
        self._over = True
        for waiting in self._waiting:
            _wake(waiting)
        while self._ends:
            self._ends.pop()()

    async def during(self, work: Awaitable[T]) -> T:
        """The result of some work for another container, which may be cut off. Raises `Over` as soon as it ends."""
        return await during((self,), work)

    def wake_at_end(self, waiting: asyncio.Future[None]) -> None:
        """Wake who waits when it ends, until `forget`."""
        self._waiting.add(waiting)

    def forget(self, waiting: asyncio.Future[None]) -> None:
        """Who waited does so no longer."""
        self._waiting.discard(waiting)


async def during(lives: Sequence[Life], work: Awaitable[T]) -> T:
    """The result of some work for others, which goes on without them once one of these lives ends. Raises `Over`."""
    task = asyncio.ensure_future(work)
    try:
        if not any(life.over for life in lives):
            await _until_done(task, lives)
        if task.done():
            return task.result()
    except asyncio.CancelledError:
        task.cancel()
        raise
    finally:
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
    over = next(life for life in lives if life.over)
    raise Over(f"{over.name} has ended: connection reset by peer")


async def _until_done(task: asyncio.Future[T], lives: Sequence[Life]) -> None:
    """Return when the task is done, or one of the lives over: one future, as this is on the way of each request."""
    waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    task.add_done_callback(lambda _done: _wake(waiting))
    for life in lives:
        life.wake_at_end(waiting)
    try:
        await waiting
    finally:
        for life in lives:
            life.forget(waiting)


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
