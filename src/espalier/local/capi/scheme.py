"""What every controller here is built from."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from espalier.api.resource import Key
from espalier.kube.errors import Conflict, NotFound
from espalier.local.capi.inventory import Inventory
from espalier.local.capi.reaching import WorkloadClusters
from espalier.local.capi.writer import Writer
from espalier.runtime.clock import Clock
from espalier.runtime.outcome import Outcome, Wait

Reconcile = Callable[[Key], Awaitable[Outcome]]


@dataclass(frozen=True)
class Scheme:
    """The observed world, the way to write to it, time and chance. `entropy` makes names and keys."""

    inventory: Inventory
    writer: Writer
    workload_clusters: WorkloadClusters
    clock: Clock
    entropy: random.Random = field(repr=False)
    keys: random.Random | None = field(default=None, repr=False)
    """Source of private keys; None for the system's, anything else only in simulations that must repeat."""


def replanned(reconcile: Reconcile) -> Reconcile:
    """A reconcile whose plan turned out to be older than the world waits for the newer state instead of failing."""

    async def attempt(key: Key) -> Outcome:
        try:
            return await reconcile(key)
        except (Conflict, NotFound) as stale:
            return Wait("PlanOutdated", f"the world changed while this was planned: {stale}", after=1.0)

    return attempt
