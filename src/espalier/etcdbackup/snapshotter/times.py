"""Times in the names of snapshots.

etcd-backup-restore orders snapshots by last revision and then by these seconds, and refuses a delta after a full
snapshot that adds nothing to it. Here deltas continue while a full snapshot is taken, and two snapshots may be stored
in one second: times are chosen so that a full snapshot sorts after every delta that ends with its revision.
"""

from __future__ import annotations

from collections.abc import Iterable

from espalier.etcdbackup.snapshots.names import LAST_SECOND
from espalier.etcdbackup.snapshots.sets import StoredSnapshot
from espalier.runtime.clock import Clock


class Times:
    """Chooses the times of one agent's snapshots, in seconds since 1970."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._delta = 0
        """The time of the newest delta, which may not be stored yet."""
        self._full = (0, 0)
        """Last revision and time of the newest full snapshot, begun or stored."""

    def of_full(self, last: int, stored: Iterable[StoredSnapshot]) -> int:
        """The time of a full snapshot of `last` revision that begins now, given what the store has."""
        equal = (
            stored_snapshot.snapshot.created for stored_snapshot in stored if stored_snapshot.snapshot.last == last
        )
        created = min(LAST_SECOND, max(self._now(), self._delta + 1, *(before + 1 for before in equal)))
        self._full = (last, created)
        return created

    def of_delta(self, last: int) -> int:
        """The time of a delta that is stored now and ends with `last` revision.

        A delta that adds nothing to a full snapshot gets an earlier time: its events were
        written before that snapshot began.
        """
        revision, full = self._full
        self._delta = min(self._now(), full - 1) if last <= revision else self._now()
        return self._delta

    def _now(self) -> int:
        return int(self._clock.now().timestamp())
