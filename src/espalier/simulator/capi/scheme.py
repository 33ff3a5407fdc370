"""What every controller here is built from."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from espalier.runtime.clock import Clock
from espalier.runtime.writer import Writer
from espalier.simulator.capi.inventory import Inventory
from espalier.simulator.capi.reaching import WorkloadClusters


@dataclass(frozen=True)
class Scheme:
    """The observed world, the way to write to it, time and chance. `rng` makes names and keys."""

    inventory: Inventory
    writer: Writer
    workload_clusters: WorkloadClusters
    clock: Clock
    rng: random.Random = field(repr=False)
    keys: random.Random | None = field(default=None, repr=False)
    """Source of private keys; None for the system's, anything else only in simulations that must repeat."""
