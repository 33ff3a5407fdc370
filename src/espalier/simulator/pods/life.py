"""The life of one run of a container: when it ends, all that it holds is taken away at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


class Over(ConnectionResetError):
    """The container has ended."""


class Life:
    """Ends once. What has to happen then, as the kernel does it for a process, is registered and done at once."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._ends: list[Callable[[], object]] = []
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def over(self) -> bool:
        """True once it has ended."""
        return self._over.done()

    def at_end(self, act: Callable[[], object]) -> None:
        """Call `act` when it ends, at once if it has; those registered last are called first."""
        if self.over:
            act()
        else:
            self._ends.append(act)

    def end(self) -> None:
        """End it; idempotent."""
        if self.over:
            return
        self._over.set_result(None)
        while self._ends:
            self._ends.pop()()

    async def during(self, work: Awaitable[T]) -> T:
        """The result of some work for another container, which may be cut off. Raises `Over` as soon as it ends."""
        task = asyncio.ensure_future(work)
        try:
            if not self.over:
                await asyncio.wait((task, self._over), return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
        except asyncio.CancelledError:
            task.cancel()
            raise
        finally:
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        raise Over(f"{self.name} has ended: connection reset by peer")
