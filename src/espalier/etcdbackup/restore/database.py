"""A restored database as one transaction on the file of a full snapshot: deltas, members, leases, raft position."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from espalier.etcd.bbolt.reading import Database
from espalier.etcd.bbolt.updating import updating
from espalier.etcd.database.backend import (
    CONSISTENT_INDEX,
    KEY,
    LEASE,
    META,
    SCHEDULED_COMPACTION,
    TERM,
    State,
    read_state,
    revision_key,
    stored_lease,
)
from espalier.etcdbackup.restore import wal
from espalier.etcdbackup.restore.members import Membership
from espalier.etcdbackup.restore.records import History
from espalier.etcdbackup.snapshots.deltas import Event

MEMBERS, REMOVED = b"members", b"members_removed"
CONF_STATE = b"confState"
_MAX_REVISION = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Contents:
    """The content of a restored database."""

    revision: int
    """The revision of the last change."""
    served: int
    """The first revision that a client sees: greater if revisions were skipped."""
    events: int
    leases: tuple[int, ...]
    """Leases that were granted again, because snapshots do not have them."""


def state_of(path: Path) -> State:
    """The content of a full snapshot's database. Raises `Damaged`, `OSError`."""
    with Database.open(path) as database:
        return read_state(database)


def complete(
    path: Path,
    state: State,
    events: Iterable[Sequence[Event]],
    membership: Membership,
    *,
    bump: Callable[[], int],
    lease_ttl: int,
) -> Contents:
    """Turn the database of a full snapshot into that of a new cluster, with these events in it. Blocks.

    `bump` is called after the last event and returns the number of revisions to skip. Earlier revisions are marked as
    compacted, so that a watch from an older revision fails and its client lists again. `lease_ttl` is in seconds.
    Raises `Malformed`, `Damaged`, `OSError`, and what `events` raises.
    """
    history = History(state.revision)
    served = 0

    def records() -> Iterator[tuple[bytes, bytes]]:
        nonlocal served
        for batch in events:
            yield from history.records(batch)
        skipped = bump()
        served = history.revision + skipped
        if served > _MAX_REVISION:
            raise ValueError(f"revisions to skip: found {skipped} after {history.revision}, allowed is up to 2^63-1")
        if skipped:
            yield revision_key(served), b""  # as etcdutl does

    with Database.open(path) as database:
        meta = dict(bucket.items()) if (bucket := database.bucket(META)) else {}
        stored = dict(bucket.items()) if (bucket := database.bucket(LEASE)) else {}
    with updating(path) as update:
        update.append(KEY, records())
        granted = sorted(history.leases - state.leases.keys())
        meta[CONSISTENT_INDEX] = wal.last_index(membership).to_bytes(8, "big")
        meta[TERM] = wal.TERM.to_bytes(8, "big")
        meta[CONF_STATE] = wal.conf_state(membership)
        if served > history.revision:
            meta[SCHEDULED_COMPACTION] = revision_key(served)
        update.replace(META, sorted(meta.items()))
        update.replace(LEASE, sorted((stored | dict(stored_lease(lease, lease_ttl) for lease in granted)).items()))
        update.replace(MEMBERS, sorted((member.key, member.encode()) for member in membership.members))
        update.replace(REMOVED, ())
    return Contents(history.revision, served, history.events, tuple(granted))
