"""Probes of containers, in kubelet's order and at kubelet's times.

A probe is due at the start of a container and each `periodSeconds` after it; one that is due before
`initialDelaySeconds` have passed is left out. While a startup probe has not passed, no other probe is made. A result
counts when as many equal ones as its threshold have come in a row.
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
    """Counts the results of a probe against its success and failure thresholds."""

    def __init__(self, probe: Probe, result: bool | None = None) -> None:
        self._probe = probe
        self._last: bool | None = None
        self._in_a_row = 0
        self.result = result
        """The current result; None until there is one."""

    def count(self, passed: bool) -> bool:
        """Count a result; True if it reaches its threshold."""
        self._in_a_row = self._in_a_row + 1 if passed is self._last else 1
        self._last = passed
        if self._in_a_row < (self._probe.success_threshold if passed else self._probe.failure_threshold):
            return False
        self.result = passed
        return True


@dataclass
class Prober:
    """Makes the probes of one run of a container."""

    container: Tree
    attempt: Attempt
    clock: Clock
    report: Callable[[bool, bool], Awaitable[None]]
    """Called with (started, ready) when one of them changes."""
    restart: Callable[[float | None], Awaitable[None]]
    """Called with the probe's grace period when the startup or liveness probe fails."""
    _started: float = 0.0

    async def watch(self) -> None:
        """Probe for as long as the container runs; cancelled when it has ended."""
        started = self._started = self.clock.monotonic()
        startup = Probe.of(self.container, "startupProbe")
        readiness, liveness = Probe.of(self.container, "readinessProbe"), Probe.of(self.container, "livenessProbe")
        if startup is not None:
            if not await self._startup_result(startup, started):
                await self.restart(startup.grace)
                return
            await self.report(True, readiness is None)
        async with asyncio.TaskGroup() as group:
            if readiness is not None:
                group.create_task(self._probe_readiness(readiness, started if startup is None else None))
            if liveness is not None:
                group.create_task(
                    self._probe_liveness(liveness, started if startup is None else self._next_due(liveness, started))
                )

    async def _startup_result(self, probe: Probe, started: float) -> bool:
        threshold = Threshold(probe)
        async for passed in self._results(probe, started):
            if threshold.count(passed):
                return passed
        raise AssertionError("probes go on for ever")

    def _next_due(self, probe: Probe, started: float) -> float:
        """The next time at which a probe is due that was not made while the container started."""
        return started + math.ceil((self.clock.monotonic() - started) / probe.period) * probe.period

    async def _probe_readiness(self, probe: Probe, due: float | None) -> None:
        """Report readiness. `due`: None for at once, when the startup probe has just passed."""
        threshold, before = Threshold(probe, result=False), False
        async for passed in self._results(probe, self.clock.monotonic() if due is None else due):
            if threshold.count(passed) and passed is not before:
                before = passed
                await self.report(True, passed)

    async def _probe_liveness(self, probe: Probe, due: float) -> None:
        threshold = Threshold(probe)
        async for passed in self._results(probe, due):
            if threshold.count(passed) and not passed:
                await self.restart(probe.grace)
                return

    async def _results(self, probe: Probe, due: float) -> AsyncIterator[bool]:
        """The results of a probe, each when it is due."""
        while True:
            await asyncio.sleep(max(0.0, due - self.clock.monotonic()))
            if self.clock.monotonic() - self._started >= probe.initial_delay:
                yield await self._probe_once(probe)
            due += probe.period
            while due < self.clock.monotonic():  # times that passed during a slow probe are skipped
                due += probe.period

    async def _probe_once(self, probe: Probe) -> bool:
        try:
            async with asyncio.timeout(probe.timeout):
                return await self.attempt(probe.action)  # cancelling the attempt ends a command that it runs
        except TimeoutError:
            return False
        except Exception as error:
            _log.debug("a probe failed", container=self.container.get("name"), error=str(error))
            return False
