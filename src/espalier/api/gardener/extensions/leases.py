"""Leases of Clusters: until when extensions in a seed may act on a shoot.

`Cluster.spec.leaseExpiration` is a time of day, so all clocks of a seed and its garden must agree up to `clock_skew`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from espalier.api.conditions import parse_timestamp
from espalier.api.gardener.extensions.cluster import Cluster


def micro_time(moment: datetime) -> str:
    """A time as Kubernetes writes a MicroTime: UTC, six digits of a second."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def expiration(cluster: Cluster) -> datetime | None:
    """The time at which the lease expires; None if there is none, or if it can't be parsed."""
    return parse_timestamp(cluster.spec.lease_expiration)


def renewed(read_began: datetime, validity: timedelta) -> str:
    """The expiration of a lease that a live read of the Shoot renews. It counts from before the read: the answer may be
    from then."""
    return micro_time(read_began + validity)
