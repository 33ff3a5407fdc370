"""Leases of Clusters: until when extensions in a seed may act on a shoot.

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
    """A time as Kubernetes writes a MicroTime: UTC, six digits of a second."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def parse_micro_time(text: str) -> datetime | None:
    """Parse a time; return it in UTC, or None if the text is no RFC 3339 time. Digits after the sixth are cut off."""
    match = _MICRO_TIME.fullmatch(text)
    if match is None:
        return None
    seconds, fraction, zone = match.groups()
    try:
        moment = datetime.fromisoformat(seconds + ("+00:00" if zone == "Z" else zone))
        return moment.astimezone(UTC) + timedelta(microseconds=int((fraction or "").ljust(6, "0")[:6]))
    except (ValueError, OverflowError):
        return None


def expiration(cluster: Cluster) -> datetime | None:
    """The time at which the lease expires; None if there is none, or if it can't be parsed."""
    return parse_micro_time(cluster.spec.lease_expiration)


def renewed(read_began: datetime, validity: timedelta) -> str:
    """The expiration of a lease that a live read of the Shoot renews. It counts from before the read: the answer may be
    from then."""
    return micro_time(read_began + validity)
