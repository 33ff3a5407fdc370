"""Settings of the garden, in seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GardenConfig:
    """When seeds count as silent, and when they are given up."""

    heartbeat_grace: float = 40.0
    """After so long without a renewed Lease, a seed's gardenlet is not ready: nothing is moved there."""
    give_up_after: float = 900.0
    """After so long without a sign of life, a seed from which a shoot is to be moved is given up: the destination
    begins without it. Seen by the garden itself, without a break: an outage of the garden is no silence of seeds."""
    look: float = 10.0
    """Between two looks at the Leases of seeds."""
