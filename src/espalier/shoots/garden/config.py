"""Settings of the garden, in seconds."""

from __future__ import annotations

from dataclasses import dataclass

from espalier.api.etcd.timing import Timing


@dataclass(frozen=True)
class GardenConfig:
    """When seeds count as silent, and when they are given up."""

    heartbeat_grace: float = 40.0
    """Seconds without a renewed Lease after which a seed's gardenlet is not ready: nothing is moved there."""
    give_up_after: float = 900.0
    """Seconds of silence after which a seed from which a shoot is being moved is given up: the destination starts
    without it. Measured by the garden itself, without interruption: an outage of the garden is no silence of seeds."""
    monitor_period: float = 10.0
    """Seconds between two checks of the Leases of seeds."""
    clock_skew: float = Timing().clock_skew
    """Seconds by which the clock of a gardenlet may differ from the garden's: as for extensions, which pause beyond."""
