"""Probes of containers, in kubelet's order and at kubelet's times.

A probe is due at the start of a container and each `periodSeconds` after it; one that is due before
`initialDelaySeconds` have passed is left out. While a startup probe has not passed, no other probe is made. Results
count once as many as the threshold says have come in a row.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import structlog

from espalier.api.meta import Tree
from espalier.runtime.clock import Clock

_log = structlog.get_logger("espalier.simulator.pods")

Attempt = Callable[[Tree], Awaitable[bool]]


@dataclass(frozen=True)
class Probe:
    """A probe of a container, with kubelet's defaults."""

    action: Tree
    initial_delay: float = 0
    period: float = 10
    timeout: float = 1
    success_threshold: int = 1
    failure_threshold: int = 3
    grace: float | None = None
    """The container's grace period when this probe fails, instead of the pod's."""

    @classmethod
    def of(cls, container: Tree, name: str) -> Probe | None:
        """The container's `readinessProbe`, `livenessProbe` or `startupProbe`, if it has one."""
        tree: dict[str, Any] | None = container.get(name)
        if not tree:
            return None
        return cls(
            tree,
            initial_delay=tree.get("initialDelaySeconds") or 0,
            period=tree.get("periodSeconds") or 10,
            timeout=tree.get("timeoutSeconds") or 1,
            success_threshold=tree.get("successThreshold") or 1,
            failure_threshold=tree.get("failureThreshold") or 3,
            grace=tree.get("terminationGracePeriodSeconds"),
        )


class Threshold:
    """The aggregated results of a probe."""

    def __init__(self, probe: Probe, settled: bool | None = None) -> None:
        self._probe = probe
        self._last: bool | None = None
        self._in_a_row = 0
        self.settled = settled
        """The current result; None until there is one."""

    def take(self, passed: bool) -> bool:
        """Count a result; True if it reaches its threshold."""
        self._in_a_row = self._in_a_row + 1 if passed is self._last else 1
        self._last = passed
        if self._in_a_row < (self._probe.success_threshold if passed else self._probe.failure_threshold):
            return False
        self.settled = passed
        return True


@dataclass
class Health:
    """Carries out the probes of one run of a container."""

    container: Tree
    attempt: Attempt
    clock: Clock
    report: Callable[[bool, bool], Awaitable[None]]
    """Called with (started, ready) when one of them changes."""
    restart: Callable[[float | None], Awaitable[None]]
    """Called with the probe's grace period when the startup or liveness probe fails."""
    _began: float = 0.0

    async def watch(self) -> None:
        """Probe for as long as the container runs; cancelled when it has ended."""
        began = self._began = self.clock.monotonic()
        startup = Probe.of(self.container, "startupProbe")
        readiness, liveness = Probe.of(self.container, "readinessProbe"), Probe.of(self.container, "livenessProbe")
        if startup is not None:
            if not await self._first_result(startup, began):
                await self.restart(startup.grace)
                return
            await self.report(True, readiness is None)
        async with asyncio.TaskGroup() as group:
            if readiness is not None:
                group.create_task(self._ready(readiness, began if startup is None else None))
            if liveness is not None:
                group.create_task(self._lives(liveness, began if startup is None else self._next(liveness, began)))

    async def _first_result(self, probe: Probe, began: float) -> bool:
        threshold = Threshold(probe)
        async for passed in self._results(probe, began):
            if threshold.take(passed):
                return passed
        raise AssertionError("probes go on for ever")

    def _next(self, probe: Probe, began: float) -> float:
        """When a probe is due that was not made while the container started."""
        return began + math.ceil((self.clock.monotonic() - began) / probe.period) * probe.period

    async def _ready(self, probe: Probe, due: float | None) -> None:
        """Without a time it is due at once: the container has just started."""
        threshold, before = Threshold(probe, settled=False), False
        async for passed in self._results(probe, self.clock.monotonic() if due is None else due):
            if threshold.take(passed) and passed is not before:
                before = passed
                await self.report(True, passed)

    async def _lives(self, probe: Probe, due: float) -> None:
        threshold = Threshold(probe)
        async for passed in self._results(probe, due):
            if threshold.take(passed) and not passed:
                await self.restart(probe.grace)
                return

    async def _results(self, probe: Probe, due: float) -> AsyncIterator[bool]:
        """The results of a probe, each when it is due."""
        while True:
            await asyncio.sleep(max(0.0, due - self.clock.monotonic()))
            if self.clock.monotonic() - self._began >= probe.initial_delay:
                yield await self._once(probe)
            due += probe.period
            while due < self.clock.monotonic():  # a tick that passed during a slow probe is not made up for
                due += probe.period

    async def _once(self, probe: Probe) -> bool:
        try:
            async with asyncio.timeout(probe.timeout):
                return await self.attempt(probe.action)  # a command that it runs has ended when it is cancelled
        except TimeoutError:
            return False
        except Exception as error:
            _log.debug("a probe failed", container=self.container.get("name"), error=str(error))
            return False
