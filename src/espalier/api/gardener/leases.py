"""Leases of clusters: until when extensions in a seed may begin an operation for a shoot.

`Cluster.spec.leaseExpiration` is a time of day, so all clocks of a seed and its garden must agree up to `clock_skew`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from espalier.api.gardener.cluster import Cluster

_MICRO_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?(Z|[+-][0-9]{2}:[0-9]{2})"
)


def micro_time(moment: datetime) -> str:
    """A moment as Kubernetes writes a MicroTime: UTC, six digits of a second."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def parse_micro_time(text: str) -> datetime | None:
    """The moment, in UTC; None where the text is no time. Digits after the sixth are cut off: never later than it."""
    found = _MICRO_TIME.fullmatch(text)
    if found is None:
        return None
    whole, fraction, zone = found.groups()
    try:
        moment = datetime.fromisoformat(whole + ("+00:00" if zone == "Z" else zone))
        return moment.astimezone(UTC) + timedelta(microseconds=int((fraction or "").ljust(6, "0")[:6]))
    except (ValueError, OverflowError):
        return None


def expiration(cluster: Cluster) -> datetime | None:
    """When the lease expires; None where there is none, or nothing that can be read."""
    return parse_micro_time(cluster.spec.lease_expiration)


def remaining(cluster: Cluster, now: datetime, skew: timedelta) -> timedelta:
    """How long operations may still begin; zero or less when they may not, and where there is no lease."""
    expires = expiration(cluster)
    return expires - skew - now if expires is not None else timedelta()


def renewed(read_began: datetime, validity: timedelta) -> str:
    """The expiration of a lease that is renewed by a live read of the Shoot: it counts from before the read, as the
    answer may be from then."""
    return micro_time(read_began + validity)
