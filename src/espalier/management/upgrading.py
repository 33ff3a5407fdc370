"""Upgrade of a management cluster in itself: what runs there first, then its control plane and workers.

A switch in the ConfigMap that names the record lets the manager act on it for as long as the upgrade takes. The new
manager makes the change; its replicas, and those of Cluster API, go from node to node with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from espalier.api.eksa.vocabulary.group import MANAGEMENT_UPGRADING
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.kube.client import Client
from espalier.management import installing, plan
from espalier.management import record as records
from espalier.management.creation import until_released
from espalier.management.plan import Planned
from espalier.management.steps import Actions, Progress
from espalier.management.webhook_certificates import certified
from espalier.moving.sides import Inventory, Side
from espalier.runtime.clock import SystemClock

_PAUSE = 0.5


class Settled(Protocol):
    """The knowledge of managers about clusters."""

    def is_settled(self, at: Inventory, key: Key) -> bool:
        """True if a Cluster is fully reconciled as it is written."""
        ...


@dataclass
class Upgrade:
    """The upgrade of a management cluster."""

    key: Key
    release: str
    cluster: Client
    cluster_api: Sequence[Tree]
    espalier: Sequence[Tree]
    progress: Progress
    write: Callable[[], Awaitable[None]]
    """Writes the manifest, or the release alone."""
    until_done: Callable[[], Awaitable[None]] | None
    """Waits until the cluster is ready as it is written; None if the manager is not to act on it."""
    judge: Settled
    now: Callable[[], datetime] = lambda: SystemClock().now()

    def steps(self) -> list[Planned]:
        """The steps, in order."""
        steps = plan.components if self.until_done is None else plan.upgrade
        return steps(self.key, self.cluster_api, self.espalier)

    @property
    def actions(self) -> Actions:
        """The action of each step."""
        return {
            "cluster-api": self._cluster_api,
            "espalier": self._espalier,
            "release": self.write,
            "change": self._change,
            "mark": lambda: records.mark(self.cluster, records.RUNNING),
        }

    async def _cluster_api(self) -> None:
        trees = await certified(self.cluster, self.cluster_api, self.now())
        await installing.install(self.cluster, trees, self.progress)

    async def _espalier(self) -> None:
        await installing.install(self.cluster, self.espalier, self.progress)
        await until_released(self.cluster, self.release, self.progress)

    async def _change(self) -> None:
        await self.write()  # while nobody acts on it, so all of it is there once somebody does
        await records.mark(self.cluster, MANAGEMENT_UPGRADING)
        side = await Side.of(self.cluster)
        if self.until_done is None or side is None:
            return
        # Ready does not tell: it may be that of the record before anybody acted on it.
        await self.until_done()
        while not self.judge.is_settled(await side.read(), self.key):
            self.progress.wait(f"cluster {self.key}: the change is in progress")
            await asyncio.sleep(_PAUSE)
            await self.until_done()
