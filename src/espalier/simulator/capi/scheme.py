"""The common dependencies of all controllers here."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from espalier.runtime.clock import Clock
from espalier.runtime.writer import Writer
from espalier.simulator.capi.inventory import Inventory
from espalier.simulator.capi.reaching import WorkloadClusters


@dataclass(frozen=True)
class Scheme:
    """Caches, writer, clock and random number generator. `rng` generates names and keys."""

    inventory: Inventory
    writer: Writer
    workload_clusters: WorkloadClusters
    clock: Clock
    rng: random.Random = field(repr=False)
    keys: random.Random | None = field(default=None, repr=False)
    """The source of private keys; None for the system's, another one only in reproducible simulations."""
