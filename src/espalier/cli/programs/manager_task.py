"""A manager that runs beside a command: started, supervised and stopped in order."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from espalier.runtime.manager import Ending, Manager


@dataclass(frozen=True)
class ManagerTask:
    """A manager, and the task that runs it."""

    manager: Manager
    task: asyncio.Task[Ending]

    @classmethod
    def begin(cls, manager: Manager) -> ManagerTask:
        """Start the manager."""
        return cls(manager, asyncio.create_task(manager.run(), name="manager"))

    async def leading(self) -> None:
        """Return once controllers run; raise the error if the manager fails first."""
        await self._unless_it_ends(self.manager.leading)

    async def until_failed_or(self, stop: asyncio.Event) -> None:
        """Return when `stop` is set; raise the error if the manager fails first."""
        await self._unless_it_ends(stop)

    async def stop(self) -> None:
        """Stop the manager, and wait for it; its error was already raised to the supervisor."""
        self.manager.stop()
        await asyncio.gather(self.task, return_exceptions=True)

    async def _unless_it_ends(self, event: asyncio.Event) -> None:
        waiting = asyncio.create_task(event.wait())
        try:
            await asyncio.wait([waiting, self.task], return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if self.task.done():
            self.task.result()
