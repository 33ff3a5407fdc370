"""The time for which each seed has been silent, as observed by this process without interruption; and whether the
clock of its gardenlet is another one."""

from __future__ import annotations

import asyncio
from datetime import datetime

import structlog

from espalier.api.conditions import parse_timestamp
from espalier.api.core import LEASE
from espalier.api.gardener import names
from espalier.kube.client import Client
from espalier.kube.errors import KubeError
from espalier.runtime.clock import Clock
from espalier.shoots.garden.config import GardenConfig

_RENEWALS = 3
"""Renewals in a row after which a clock counts as wrong: a single one may have been long on its way."""

_log = structlog.get_logger("espalier.garden")


class SeedLeases:
    """Reads the Leases of seeds, live and regularly.

    Silence counts from the last observed change of a Lease, and never from before this process started to observe. A
    read that failed or came late restarts the count: without observation there is no proof of silence.
    """

    def __init__(self, client: Client, clock: Clock, config: GardenConfig) -> None:
        self._client, self._clock, self._config = client, clock, config
        self._seen: dict[str, tuple[str, float]] = {}
        self._observing_since: float | None = None
        self._observed: float | None = None
        self._observed_at: datetime | None = None
        self._skews: dict[str, list[float]] = {}

    def silence(self, seed: str) -> float:
        """Seconds for which the seed was certainly silent."""
        if self._observing_since is None or self._observed is None:
            return 0.0
        _, changed = self._seen.get(seed, ("", self._observing_since))
        return max(0.0, self._observed - max(changed, self._observing_since))

    @property
    def is_observed(self) -> bool:
        """True if the Leases were read recently."""
        return self._observing_since is not None

    def has_lease(self, seed: str) -> bool:
        """True if a Lease of the seed was ever seen."""
        return seed in self._seen

    def skew(self, seed: str) -> float | None:
        """Seconds by which the clock of a seed's gardenlet is at least ahead of the garden's; negative if it is behind,
        0 if that is no more than `clock_skew`. None while the last renewals are too few, or differ.
        """
        skews = self._skews.get(seed, [])
        signs = {(skew > 0) - (skew < 0) for skew in skews}
        return min(skews, key=abs) if len(skews) == _RENEWALS and len(signs) == 1 else None

    async def run(self) -> None:
        """Read the Leases every `monitor_period` seconds, until cancelled."""
        while True:
            try:
                async with asyncio.timeout(self._config.monitor_period):
                    await self.observe()
            except (KubeError, TimeoutError) as error:
                self._observing_since = None
                _log.warning("can't read the Leases of seeds", reason=f"{error}")
            await asyncio.sleep(self._config.monitor_period)

    async def observe(self) -> None:
        """Read the Leases once."""
        leases = await self._client.list(LEASE, names.SEED_LEASES)
        now, at = self._clock.monotonic(), self._clock.now()
        is_late = self._observed is not None and now - self._observed > 3 * self._config.monitor_period
        if self._observing_since is None or is_late:
            self._observing_since, self._observed_at = now, None
        before, self._observed, self._observed_at = self._observed_at, now, at
        for lease in leases.items:
            renewed = str((lease.tree.get("spec") or {}).get("renewTime", ""))
            if self._seen.get(lease.name, ("", 0.0))[0] != renewed:
                time = parse_timestamp(renewed)
                if time is not None and before is not None:
                    skews = [*self._skews.get(lease.name, []), self._skew_of(time, before, at)]
                    self._skews[lease.name] = skews[-_RENEWALS:]
                self._seen[lease.name] = (renewed, now)

    def _skew_of(self, renewed: datetime, before: datetime, at: datetime) -> float:
        """The skew of a clock that showed `renewed` between two times of this one; 0 within `clock_skew`."""
        ahead, behind = (renewed - at).total_seconds(), (before - renewed).total_seconds()
        return ahead if ahead > self._config.clock_skew else -behind if behind > self._config.clock_skew else 0.0
