"""The environment of a management cluster that a command creates: its machines, and while one is wanted, its
bootstrap.

The machines stand for an infrastructure, so they stay when the bootstrap goes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass

import structlog

from espalier.cli.kit.connecting.home import Home
from espalier.cli.programs.manager_task import ManagerTask

_PAUSE = 0.2
"""Seconds between two looks at the file that says whether a bootstrap is wanted."""

_log = structlog.get_logger("espalier.environment")

ManagementSide = Callable[[], AbstractAsyncContextManager[tuple[str, ManagerTask]]]
"""The API server and the manager of a bootstrap, while the block runs: its address, and the manager."""


@dataclass
class SelfManagedEnvironment:
    """The running environment; `url` is that of the bootstrap, else of the management cluster."""

    home: Home
    side: ManagementSide
    delete_data: Callable[[], None]
    """Deletes the data of a removed bootstrap, the one last that shows that it is not removed yet."""
    url: str = ""
    _running: tuple[AsyncExitStack, ManagerTask] | None = None

    @asynccontextmanager
    async def run(self) -> AsyncIterator[SelfManagedEnvironment]:
        """Start the bootstrap if it is wanted, or delete what a removed one left; stop it in the end."""
        try:
            await self._follow()
            yield self
        finally:
            await self._stop()

    async def until_failed_or(self, stop: asyncio.Event) -> None:
        """Start and remove the bootstrap as it is wanted, until `stop` is set; raise the error if its manager fails."""
        while not stop.is_set():
            if self._running is not None and self._running[1].task.done():
                self._running[1].task.result()
            await self._follow()
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _PAUSE)

    async def _follow(self) -> None:
        if self.home.has_bootstrap() and self._running is None:
            stack = AsyncExitStack()
            self.url, managing = await stack.enter_async_context(self.side())
            self._running = stack, managing
            _log.info("the bootstrap runs", url=self.url)
        elif not self.home.has_bootstrap():
            await self._stop()
            self.home.kubeconfig.unlink(missing_ok=True)
            self.delete_data()

    async def _stop(self) -> None:
        if self._running is not None:
            stack, _ = self._running
            self._running = None
            await stack.aclose()
