"""Events of an election: what was read, what ended, what was called, and time that passed.

Each is stepped with the time at which it arrives: seconds of `CLOCK_BOOTTIME`, the clock that goes on while a machine
is suspended.
"""

from __future__ import annotations

import msgspec

from espalier.api.etcd.ownership import CopyOperation, FirstStart, Unreadable


class Observed(msgspec.Struct, frozen=True):
    """The epoch's two objects in the source's store, read by one client with one set of credentials.

    `began` is when the first of both reads was begun. `version` is the store's for the CopyOperation (an ETag or a
    generation), for a conditional put.
    """

    began: float
    operation: CopyOperation | Unreadable | None
    marker: FirstStart | Unreadable | None
    version: str = ""


class StoreFailed(msgspec.Struct, frozen=True):
    """The read that was under way has failed or timed out."""


class PutEnded(msgspec.Struct, frozen=True):
    """A put of a sync object was answered, refused, or nobody knows. It counts only once it is read back."""


class Due(msgspec.Struct, frozen=True):
    """Time has passed: that of `due()` has come."""


class EtcdStarted(msgspec.Struct, frozen=True):
    """The etcd process runs and is healthy behind its door."""


class EtcdEnded(msgspec.Struct, frozen=True):
    """The etcd process has ended, for whatever reason."""


class DoorShut(msgspec.Struct, frozen=True):
    """The guard has said that nothing passes any more.

    `idle_since`: since then no client was connected, silent ones included. None where that is not known.
    """

    idle_since: float | None = None


class SnapshotProgressed(msgspec.Struct, frozen=True):
    """So many bytes of the final snapshot are stored."""

    stored: int


class SnapshotStored(msgspec.Struct, frozen=True):
    """The final snapshot is stored and was verified.

    `complete` if its etcd has the data directory in which all was acknowledged, not one restored from backups.
    """

    name: str
    complete: bool = True


class SnapshotFailed(msgspec.Struct, frozen=True):
    """The final snapshot was given up; there may be parts of it in the store."""


class InitiateCalled(msgspec.Struct, frozen=True):
    """`copyop/initiate` was called, with the agent's own epoch.

    `api_servers_ended`: by the seed's API server, no pod of an API server is left that could answer for this epoch.
    """

    api_servers_ended: bool = False


class OwnMarkerRead(msgspec.Struct, frozen=True):
    """The first-start marker of the destination's own epoch in its own store."""

    marker: FirstStart | Unreadable | None


class Copied(msgspec.Struct, frozen=True):
    """All snapshots of the list are in the destination's store and were verified."""

    snapshots: tuple[str, ...]


class CopyFailed(msgspec.Struct, frozen=True):
    """The copy ended early; what is there already will be found again."""


AgentEvent = (
    Observed
    | StoreFailed
    | PutEnded
    | Due
    | EtcdStarted
    | EtcdEnded
    | DoorShut
    | SnapshotProgressed
    | SnapshotStored
    | SnapshotFailed
    | InitiateCalled
)
CopierEvent = Observed | StoreFailed | PutEnded | Due | OwnMarkerRead | Copied | CopyFailed
