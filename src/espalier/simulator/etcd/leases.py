"""Leases. Pure: callers pass the time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from espalier.simulator.etcd.refusals import Refusal

LEAST_TTL = 2
"""Seconds, as of an etcd with its default election timeout; less is rounded up."""
MOST_TTL = 9_000_000_000


@dataclass
class Lease:
    """One lease."""

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
        """The seconds of all leases, by ID."""
        return {id_: lease.ttl for id_, lease in self._leases.items()}

    def get(self, id_: int) -> Lease | None:
        """A lease; None if it does not exist."""
        return self._leases.get(id_)

    def grant(self, id_: int, ttl: int, now: float) -> Lease:
        """Create a lease."""
        if ttl > MOST_TTL:
            raise Refusal.TTL_TOO_LARGE.error()
        if id_ in self._leases:
            raise Refusal.LEASE_EXISTS.error()
        ttl = max(ttl, LEAST_TTL)
        lease = self._leases[id_] = Lease(ttl, now + ttl)
        return lease

    def renew(self, id_: int, now: float) -> int:
        """Renew a lease; return its seconds, 0 if it does not exist or has expired."""
        lease = self._leases.get(id_)
        if lease is None or lease.expires <= now:
            return 0
        lease.expires = now + lease.ttl
        return lease.ttl

    def end(self, id_: int) -> list[bytes]:
        """End a lease; return its keys to delete, in order."""
        lease = self._leases.pop(id_, None)
        if lease is None:
            raise Refusal.LEASE_NOT_FOUND.error()
        return sorted(lease.keys)

    def move(self, key: bytes, old: int, new: int) -> None:
        """Attach a key to another lease, or to none if 0. Leases missing after a restore have no keys."""
        if old != new:
            if old in self._leases:
                self._leases[old].keys.discard(key)
            if new in self._leases:
                self._leases[new].keys.add(key)

    def expired(self, now: float) -> list[int]:
        """Expired leases, the oldest first."""
        out = [(lease.expires, id_) for id_, lease in self._leases.items() if lease.expires <= now]
        return [id_ for _, id_ in sorted(out)]

    def next_expiry(self) -> float | None:
        """The time of the next expiry."""
        return min((lease.expires for lease in self._leases.values()), default=None)
