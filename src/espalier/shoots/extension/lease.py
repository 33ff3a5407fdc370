"""Leases of Clusters: until when extensions of this seed may act on a shoot.

A gardenlet renews `Cluster.spec.leaseExpiration` as long as it reads in the garden that the shoot is its seed's. Leases
are only ever extended, so a stale cache makes them end early, and no live read is needed.

Two clocks have to agree. The time of day says when the lease ends, and may be set; the time since boot, which also
advances while a machine is suspended, says how long ago the lease was seen to change, and can't be set.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

import msgspec

from espalier.api.conditions import parse_timestamp
from espalier.api.definitions.reference import ConditionProse
from espalier.api.etcd.timing import Timing
from espalier.api.gardener.vocabulary import reasons
from espalier.api.gardener.vocabulary.reasons import ExtensionReason
from espalier.api.resource import Key
from espalier.kube.errors import UNREADABLE
from espalier.kube.objects import Object
from espalier.runtime.caches.cache import Cache
from espalier.runtime.clock import Clock
from espalier.shoots.extension.views import ClusterObject

LEASE_VALID: Annotated[
    str,
    ConditionProse(
        (reasons.EXTENSION,),
        "False: the resource is left alone, because its seed may have lost the shoot. Absent until that was once so.",
    ),
] = "LeaseValid"


@dataclass(frozen=True, slots=True)
class Lease:
    """The state of a lease at a moment: valid for so many `seconds` more, or the reason why it is not."""

    seconds: float
    reason: str = ""
    message: str = ""

    @property
    def is_valid(self) -> bool:
        """True if extensions may act."""
        return self.seconds > 0


@dataclass(frozen=True, slots=True)
class _Renewal:
    expiration: str
    ends: float
    """The end of the lease by the time since boot."""


class Leases:
    """The leases of all clusters of a seed, from one cache of Clusters."""

    def __init__(self, clusters: Cache, clock: Clock, timing: Timing) -> None:
        self.clusters = clusters
        self._clock = clock
        self._timing = timing
        self._renewals: dict[str, _Renewal] = {}
        """Renewals as this process has seen them. After a restart, an older one counts until its own time at most."""
        clusters.subscribe(self._changed)

    def of(self, name: str) -> Lease:
        """The lease of a cluster, now."""
        cluster = self.clusters.get(Key("", name))
        if cluster is None:
            return _invalid(
                ExtensionReason.CLUSTER_MISSING, f"Cluster {name} does not exist; its gardenlet must create it"
            )
        if _is_leaving(cluster):
            return _invalid(
                ExtensionReason.SHOOT_MIGRATING,
                f"the shoot of cluster {name} moves to another seed: nothing is done for it here but to migrate",
            )
        expires = expiration_of(cluster)
        renewal = self._renewals.get(name)
        if expires is None or renewal is None:
            field = (
                "spec.leaseExpiration: found none that is valid, allowed: a time such as 2026-01-01T00:00:00.000000Z"
            )
            return _invalid(ExtensionReason.LEASE_MISSING, f"Cluster {name}: {field}; its gardenlet must write it")
        remaining = (expires - self._clock.now()).total_seconds()
        if remaining > self._timing.lease_validity + self._timing.clock_skew:
            return _invalid(
                ExtensionReason.CLOCK_SKEW,
                # Without the seconds that it is ahead: a message that changes all the time is written all the time.
                f"Cluster {name}: spec.leaseExpiration is further ahead than lease validity "
                f"({self._timing.lease_validity:g} s) and clock skew ({self._timing.clock_skew:g} s) allow; correct "
                "the clock of this machine (behind) or of its gardenlet (ahead)",
            )
        seconds = min(remaining, renewal.ends - self._clock.monotonic())
        if seconds <= 0:
            return _invalid(
                ExtensionReason.LEASE_EXPIRED,
                f"the lease of cluster {name} expired at {renewal.expiration}: waiting for its gardenlet to renew "
                "it, which it does once the garden confirms that the shoot still belongs to this seed",
            )
        return Lease(seconds)

    def _changed(self, old: Object | None, new: Object | None, _first: bool) -> None:
        if new is None:
            if old is not None:
                self._renewals.pop(old.name, None)
            return
        expires = expiration_of(new)
        if expires is None:
            self._renewals.pop(new.name, None)
            return
        expiration = _expiration_text(new)
        present = self._renewals.get(new.name)
        if present is not None and present.expiration == expiration:
            return
        valid = (expires - self._clock.now()).total_seconds()
        self._renewals[new.name] = _Renewal(
            expiration, self._clock.monotonic() + min(valid, self._timing.lease_validity)
        )


def expiration_of(cluster: Object) -> datetime | None:
    """The moment at which the lease of a Cluster ends; None if there is none, or if it can't be parsed."""
    return parse_timestamp(_expiration_text(cluster))


def _is_leaving(cluster: Object) -> bool:
    try:
        return cluster.decode(ClusterObject).is_leaving
    except (msgspec.ValidationError, *UNREADABLE):
        return False  # its lease can't be read either


def _expiration_text(cluster: Object) -> str:
    try:
        return cluster.decode(ClusterObject).spec.lease_expiration
    except (msgspec.ValidationError, *UNREADABLE):
        return ""


def _invalid(reason: str, message: str) -> Lease:
    return Lease(0.0, reason, message)
