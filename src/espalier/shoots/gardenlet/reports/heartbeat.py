"""Heartbeat of a seed: a Lease in the garden, renewed only while the seed's own API server answers.

A gardenlet that can't reach its seed lets the Lease expire. An annotation of the Lease has the gardenlet's times, for
plans of moves.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta

import structlog

from espalier.api.core import KUBE_SYSTEM, LEASE, NAMESPACE
from espalier.api.gardener import move_times, names
from espalier.api.gardener.extensions.leases import micro_time
from espalier.api.gardener.move_times import MoveTimes
from espalier.api.meta import Tree
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import AlreadyExists, KubeError, NotFound
from espalier.runtime.clock import Clock

_log = structlog.get_logger("espalier.heartbeat")


class Heartbeat:
    """Renews the Lease of a seed until cancelled."""

    def __init__(
        self, seed_name: str, seed: Client, garden: Client, clock: Clock, period: float, times: MoveTimes | None = None
    ) -> None:
        self._annotations = {move_times.KEY: times.render()} if times is not None else {}
        self._name, self._seed, self._garden, self._clock, self._period = seed_name, seed, garden, clock, period
        self._renewed = clock.monotonic()

    @property
    def is_lease_renewed(self) -> bool:
        """True if the Lease was renewed recently, or could not be renewed yet since the start."""
        return self._clock.monotonic() - self._renewed < 2.5 * self._period

    async def run(self) -> None:
        """Renew the Lease every period."""
        while True:
            try:
                async with asyncio.timeout(self._period):
                    await self.beat()
                self._renewed = self._clock.monotonic()
            except (KubeError, TimeoutError) as error:
                _log.warning("the Lease of the seed was not renewed", seed=self._name, reason=f"{error}")
            await asyncio.sleep(self._period)

    async def beat(self) -> None:
        """Read namespace kube-system in the seed, then renew the Lease, created if missing. Raises `KubeError`."""
        now = self._clock.now()
        await self._seed.get(NAMESPACE, KUBE_SYSTEM)
        lease: Tree = {
            "holderIdentity": self._name,
            "renewTime": micro_time(now),
            "leaseDurationSeconds": max(1, round(timedelta(seconds=4 * self._period).total_seconds())),
        }
        try:
            patch: Tree = {"metadata": {"annotations": self._annotations}, "spec": lease}
            await self._garden.patch(LEASE, self._name, names.SEED_LEASES, patch=patch, type=PatchType.MERGE)
        except NotFound:
            metadata = {"name": self._name, "namespace": names.SEED_LEASES, "annotations": self._annotations}
            try:
                await self._garden.create(LEASE, {"metadata": metadata, "spec": lease})
            except AlreadyExists:
                return
