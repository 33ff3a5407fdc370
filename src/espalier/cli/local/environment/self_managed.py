"""The environment of a management cluster that a command creates: its simulated machines, and while one is wanted, its
bootstrap.

The machines stand for an infrastructure, so they stay when the bootstrap goes.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass

import structlog

from espalier.api.eksa.group import BOOTSTRAP, SYSTEM_NAMESPACE
from espalier.cli.kit.home import Home
from espalier.cli.local.environment.hosts import Hosts
from espalier.cli.local.environment.simulated import machines_of, management_side
from espalier.cli.programs.manager_task import ManagerTask
from espalier.releases import Releases

_PAUSE = 0.2
"""Seconds between two looks at the file that says whether a bootstrap is wanted."""

_log = structlog.get_logger("espalier.environment")


@dataclass
class SelfManagedEnvironment:
    """The running environment; `url` is that of the bootstrap, else of the management cluster."""

    home: Home
    hosts: Hosts
    port: int
    releases: Releases
    url: str = ""
    _running: tuple[AsyncExitStack, ManagerTask] | None = None

    @classmethod
    @asynccontextmanager
    async def run(
        cls, home: Home, *, port: int, boot_seconds: float, releases: Releases
    ) -> AsyncIterator[SelfManagedEnvironment]:
        """Start the machines, and the bootstrap if it is wanted; or delete what a removed one left.

        Raises as `SimulatedEnvironment.run`.
        """
        home.create()
        async with machines_of(home, boot_seconds, releases) as hosts:
            environment = cls(home, hosts, port, releases)
            running = hosts.workloads.running(SYSTEM_NAMESPACE)
            environment.url = running[0].served.url if running else ""
            try:
                await environment._follow()
                yield environment
            finally:
                await environment._stop()

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
            side = management_side(self.home, self.hosts, port=self.port, releases=self.releases, name=BOOTSTRAP)
            self.url, managing = await stack.enter_async_context(side)
            self._running = stack, managing
            _log.info("the bootstrap runs", url=self.url)
        elif not self.home.has_bootstrap():
            await self._stop()
            self._delete()

    async def _stop(self) -> None:
        if self._running is not None:
            stack, _ = self._running
            self._running = None
            await stack.aclose()

    def _delete(self) -> None:
        """Delete the data of the bootstrap, its database last: it shows that a bootstrap is not removed yet."""
        self.home.kubeconfig.unlink(missing_ok=True)
        shutil.rmtree(self.home.authority, ignore_errors=True)
        for suffix in ("-wal", "-shm", ""):
            self.home.database.with_name(self.home.database.name + suffix).unlink(missing_ok=True)
