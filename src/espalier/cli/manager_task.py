"""A manager that runs beside a command: begun, watched over, and stopped in order."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from espalier.runtime.manager import Ending, Manager


@dataclass(frozen=True)
class ManagerTask:
    """A manager, and the task in which it runs."""

    manager: Manager
    task: asyncio.Task[Ending]

    @classmethod
    def begin(cls, manager: Manager) -> ManagerTask:
        """Have the manager run."""
        return cls(manager, asyncio.create_task(manager.run(), name="manager"))

    async def leading(self) -> None:
        """Returns once controllers run; raises what ended the manager before."""
        await self._unless_it_ends(self.manager.leading)

    async def until_failed_or(self, stop: asyncio.Event) -> None:
        """Returns when `stop` is set; raises what ended the manager, if that comes first."""
        await self._unless_it_ends(stop)

    async def stop(self) -> None:
        """Stop the manager, and wait for it; what ended it was raised to who watched."""
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
