"""An election on its own thread, so that a busy event loop keeps the Lease, and a stuck one loses it.

The thread renews only if the event loop of the controllers has answered within the last two seconds: a process that
hangs must not keep others from taking over. Not for simulations, which have neither threads nor sockets.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from espalier.kube.client import Client
from espalier.kube.errors import KubeError
from espalier.runtime.leadership.election import Election
from espalier.runtime.leadership.fencing import Fence

T = TypeVar("T")

HEARTBEAT_TIMEOUT = 2.0
"""Seconds within which the event loop has to answer for the Lease to be renewed."""

_HEARTBEAT_SECONDS = 0.5

Candidate = Callable[[Client, Callable[[], bool]], Election]
"""Creates the election from the thread's client and a function that returns True while the event loop answers."""


class ElectionThread:
    """An `Election` for the Lease `name` on another thread than the event loop.

    `connect` creates its client on that thread, which alone uses it.
    """

    def __init__(self, name: str, candidate: Candidate, connect: Callable[[], Client], fence: Fence) -> None:
        self.name = name
        self.fence = fence
        self._candidate = candidate
        self._connect = connect
        self._last_heartbeat = time.monotonic()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: Client | None = None
        self._election: Election | None = None
        self._heartbeat_timer: asyncio.TimerHandle | None = None

    async def acquire(self) -> None:
        """Wait until this candidate leads."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._run, args=(self._loop,), name="leader election", daemon=True).start()
            self._heartbeat()
            await self._on_thread(self._start())
        await self._on_thread(self._started_election.acquire())

    async def hold(self) -> None:
        """Renew until leadership is lost; the fence is closed on return."""
        await self._on_thread(self._started_election.hold())

    async def release(self) -> None:
        """Release the Lease and end the thread."""
        if self._loop is None:
            return
        if self._heartbeat_timer is not None:
            self._heartbeat_timer.cancel()
        await self._on_thread(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._loop = None

    @property
    def trouble(self) -> KubeError | None:
        """The trouble of the `Election`; another thread reads the latest or the previous one."""
        return self._election.trouble if self._election is not None else None

    @property
    def _started_election(self) -> Election:
        if self._election is None:
            raise RuntimeError("the election has not started")
        return self._election

    async def _start(self) -> None:
        self._client = self._connect()
        self._election = self._candidate(self._client, self._loop_responds)

    async def _stop(self) -> None:
        if self._election is not None:
            await self._election.release()
        if self._client is not None:
            await self._client.close()

    def _loop_responds(self) -> bool:
        return time.monotonic() - self._last_heartbeat < HEARTBEAT_TIMEOUT

    def _heartbeat(self) -> None:
        self._last_heartbeat = time.monotonic()
        self._heartbeat_timer = asyncio.get_running_loop().call_later(_HEARTBEAT_SECONDS, self._heartbeat)

    async def _on_thread(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the thread and wait for it; cancelling the wait cancels the coroutine."""
        assert self._loop is not None  # noqa: S101 - set by acquire
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, self._loop))

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            loop.close()
