"""The lifetime of one run of a container: at its end, all its resources are released at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


class ContainerEnded(ConnectionResetError):
    """The container has ended."""


class Life:
    """The lifetime of one run of a container. At its end the registered cleanups run, as the kernel's for a process."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._over = False
        self._cleanups: dict[object, Callable[[], object]] = {}

    @property
    def over(self) -> bool:
        """True once the container has ended."""
        return self._over

    def at_end(self, cleanup: Callable[[], object]) -> Callable[[], None]:
        """Call `cleanup` at the end, or now if it has ended; last registered, first called.

        Returns a function that removes it.
        """
        if self._over:
            cleanup()
            return _nothing
        key = object()
        self._cleanups[key] = cleanup

        def remove() -> None:
            self._cleanups.pop(key, None)

        return remove

    def end(self) -> None:
        """End the lifetime; idempotent."""
        if self._over:
            return
        self._over = True
        while self._cleanups:
            self._cleanups.popitem()[1]()

    async def during(self, work: Awaitable[T]) -> T:
        """The result of `work`, which continues in the background if this ends first: then `ContainerEnded`."""
        return await during((self,), work)


async def during(lives: Sequence[Life], work: Awaitable[T], timeout: float | None = None) -> T:
    """The result of `work`. Raises `ContainerEnded` as soon as one of the lives ends.

    Raises `TimeoutError` after `timeout` seconds. In both cases `work` continues in the background; on cancellation it
    is cancelled.
    """
    task = asyncio.ensure_future(work)
    try:
        if not any(life.over for life in lives):
            await _until_done(task, lives, timeout)
        if task.done():
            return task.result()
    except asyncio.CancelledError:
        task.cancel()
        raise
    finally:
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
    over = next((life for life in lives if life.over), None)
    if over is None:
        raise TimeoutError
    raise ContainerEnded(f"{over.name} has ended: connection reset by peer")


async def _until_done(task: asyncio.Future[T], lives: Sequence[Life], timeout: float | None) -> None:
    """Return when the task is done, one of the lives is over, or `timeout` seconds have passed.

    One future for all of them, because every request comes through here.
    """
    loop = asyncio.get_running_loop()
    waiting: asyncio.Future[None] = loop.create_future()

    def wake(_done: object = None) -> None:
        if not waiting.done():
            waiting.set_result(None)

    removals = [life.at_end(wake) for life in lives]
    task.add_done_callback(wake)
    timer = loop.call_later(timeout, wake) if timeout is not None else None
    try:
        await waiting
    finally:
        for remove in removals:
            remove()
        if timer is not None:
            timer.cancel()


def _nothing() -> None:
    pass
