"""Leases. Pure: callers pass the time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from espalier.simulator.etcd.state.refusals import Refusal

LEAST_TTL = 2
"""Seconds: the minimum TTL of an etcd with its default election timeout. A shorter TTL is rounded up."""
MOST_TTL = 9_000_000_000
"""Seconds: etcd's maximum TTL."""


@dataclass
class Lease:
    """A lease: its TTL in seconds, the time at which it expires, and its keys."""

    ttl: int
    expires: float
    keys: set[bytes] = field(default_factory=set)


class Leases:
    """Leases by ID. As in etcd, all are renewed when a member starts."""

    def __init__(self, granted: Mapping[int, int], now: float) -> None:
        self._leases = {id_: Lease(ttl, now + ttl) for id_, ttl in granted.items()}

    def __contains__(self, id_: object) -> bool:
        return id_ in self._leases

    def granted(self) -> dict[int, int]:
        """The TTL of all leases, by ID."""
        return {id_: lease.ttl for id_, lease in self._leases.items()}

    def get(self, id_: int) -> Lease | None:
        """A lease; None if it does not exist."""
        return self._leases.get(id_)

    def grant(self, id_: int, ttl: int, now: float) -> Lease:
        """Create a lease. Raises `EtcdError` for a TTL that is too long, or an ID in use."""
        if ttl > MOST_TTL:
            raise Refusal.TTL_TOO_LARGE.error()
        if id_ in self._leases:
            raise Refusal.LEASE_EXISTS.error()
        ttl = max(ttl, LEAST_TTL)
        lease = self._leases[id_] = Lease(ttl, now + ttl)
        return lease

    def renew(self, id_: int, now: float) -> int:
        """Renew a lease; return its TTL, 0 if it does not exist or has expired."""
        lease = self._leases.get(id_)
        if lease is None or lease.expires <= now:
            return 0
        lease.expires = now + lease.ttl
        return lease.ttl

    def revoke(self, id_: int) -> list[bytes]:
        """Remove a lease; return its keys in order, to be deleted. Raises `EtcdError` if it does not exist."""
        lease = self._leases.pop(id_, None)
        if lease is None:
            raise Refusal.LEASE_NOT_FOUND.error()
        return sorted(lease.keys)

    def attach(self, key: bytes, old: int, new: int) -> None:
        """Detach a key from its old lease, and attach it to a new one; 0 is none.

        A lease may be missing after a restore: then nothing is attached to it.
        """
        if old != new:
            if old in self._leases:
                self._leases[old].keys.discard(key)
            if new in self._leases:
                self._leases[new].keys.add(key)

    def expired(self, now: float) -> list[int]:
        """Expired leases, the oldest first."""
        expired = [(lease.expires, id_) for id_, lease in self._leases.items() if lease.expires <= now]
        return [id_ for _, id_ in sorted(expired)]

    def next_expiry(self) -> float | None:
        """The time of the next expiry; None without leases."""
        return min((lease.expires for lease in self._leases.values()), default=None)
