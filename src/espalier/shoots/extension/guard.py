"""The guard between an operation and its provider: it checks calls, and cancels work that would outlive its lease."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import structlog

from espalier.api.gardener.vocabulary.reasons import ExtensionReason
from espalier.kube.transports import wire
from espalier.runtime.clock import Clock
from espalier.runtime.leadership.fencing import Fence, Fenced
from espalier.shoots.extension.errors import Stopped

P = ParamSpec("P")
T = TypeVar("T")

CHECK_INTERVAL = 5.0
"""Seconds between two checks of the clocks: timers do not notice a clock that was set, or a suspended machine."""

CLEANUP_TIMEOUT = 10.0
"""Seconds that a cancelled operation has to clean up. If it continues, it can no longer call its provider."""

_log = structlog.get_logger("espalier.extension")


@dataclass(frozen=True, slots=True)
class Verdict:
    """The seconds for which an operation may continue until it is judged again, or the reason why it may not."""

    seconds: float
    reason: str = ""
    message: str = ""


class Guard:
    """Guards one attempt at an operation.

    `judge` is called before each call, and again whenever the time that it allowed has passed.
    """

    def __init__(self, judge: Callable[[], Verdict], clock: Clock, longest: float) -> None:
        self._judge = judge
        self._clock = clock
        self._longest = longest
        self._until = clock.monotonic() + longest
        self._woken = asyncio.Event()
        self._stopped: Stopped | None = None

    def wake(self) -> None:
        """Call `judge` again at once, because something has changed."""
        self._woken.set()

    def check(self) -> None:
        """Raise `Stopped` if the operation may not continue. A stopped operation remains stopped."""
        self._verdict()

    async def call(self, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the provider. Raises `Stopped` instead if the operation may not continue."""
        self.check()
        return await function(*args, **kwargs)

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, which is cancelled when it may not continue. Raises `Stopped` then.

        Also raised if a call of `work` was refused and `work` returned as if nothing had happened.
        """
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                seconds = min(self._verdict().seconds, CHECK_INTERVAL)
                self._woken.clear()
                woken = asyncio.ensure_future(self._woken.wait())
                try:
                    await asyncio.wait((task, woken), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    woken.cancel()
            if self._stopped is not None:
                raise self._stopped
            return task.result()
        finally:
            self._stopped = self._stopped or Stopped("Ended", "the operation has ended")
            await _end(task)

    def _verdict(self) -> Verdict:
        if self._stopped is not None:
            raise self._stopped
        verdict = self._judge()
        left = self._until - self._clock.monotonic()
        if not verdict.reason and left <= 0:
            verdict = Verdict(
                0,
                ExtensionReason.OPERATION_TOO_LONG,
                f"the operation took longer than {self._longest:g} s; it will be retried",
            )
        if verdict.reason:
            self._stopped = Stopped(verdict.reason, verdict.message)
            raise self._stopped
        return Verdict(min(verdict.seconds, left))


class GuardFence(Fence):
    """Lets writes to the seed pass while the operation may continue."""

    def __init__(self, guard: Guard) -> None:
        super().__init__(lambda: 0.0)
        self._guard = guard

    @property
    def is_open(self) -> bool:
        """True if writes may be sent now."""
        try:
            self._guard.check()
        except Stopped:
            return False
        return True

    def require_open(self, request: wire.Request) -> None:
        """Raise `Fenced` if the request is a write and the operation may not continue."""
        if request.method not in wire.SAFE_METHODS and not self.is_open:
            raise Fenced(f"{request.method} {request.path} was not sent: the operation was stopped")


async def _end(task: asyncio.Future[Any]) -> None:
    if task.done():
        if not task.cancelled():
            task.exception()  # seen: it was raised, or the operation was stopped
        return
    task.cancel()
    await asyncio.wait((task,), timeout=CLEANUP_TIMEOUT)
    if not task.done():
        _log.error("a cancelled operation still runs; its calls to the provider are blocked")
    elif not task.cancelled():
        task.exception()
