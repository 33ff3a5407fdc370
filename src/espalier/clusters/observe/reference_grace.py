"""The time in which objects that a Cluster refers to may still come: manifests are applied one object at a time, in the
order of their file, and nothing is wrong while the rest is on its way."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.resource import Key
from espalier.clusters.observe.scope import Scope

GRACE = 5.0
"""Seconds."""

_REPORTED = (Reason.MISSING_DEPENDENT_OBJECTS, Reason.CREDENTIALS_NOT_PERMITTED)


class ReferenceGrace:
    """Remembers since when objects are missing. Forgotten when the process ends: what was reported stays reported."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._since: dict[Key, tuple[int, datetime]] = {}

    def left(self, scope: Scope) -> float:
        """The seconds that are left for the missing objects of a Cluster; 0 if none is missing, or none would come."""
        awaited = scope.awaited
        is_awaited = bool(awaited) and all(missing.after is None for missing in awaited)
        if not is_awaited or scope.is_deleted or scope.status.failure_reason in _REPORTED:
            self.forget(scope.key)
            return 0.0
        now, generation = self._now(), scope.object.metadata.generation
        known = self._since.get(scope.key)
        if known is None or known[0] != generation:  # a changed Cluster may refer to other objects
            known = self._since[scope.key] = (generation, now)
        return max(0.0, (known[1] + timedelta(seconds=GRACE) - now).total_seconds())

    def forget(self, key: Key) -> None:
        """Forget a Cluster."""
        self._since.pop(key, None)
