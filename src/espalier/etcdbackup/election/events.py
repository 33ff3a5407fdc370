"""Events of an election: what was read, what ended, which call arrived, and time that passed.

Each event comes with its time of arrival: seconds of `CLOCK_BOOTTIME`, which continues while a machine is suspended.
"""

from __future__ import annotations

import msgspec

from espalier.api.etcd.ownership import CopyOperation, FirstStart, Unreadable


class Observed(msgspec.Struct, frozen=True):
    """The epoch's two objects in the source's store, read by one client with one set of credentials.

    `began` is the time at which the first of the two reads began. `version` is the store's version of the CopyOperation
    (an ETag or a generation), for a conditional put.
    """

    began: float
    operation: CopyOperation | Unreadable | None
    marker: FirstStart | Unreadable | None
    version: str = ""


class StoreFailed(msgspec.Struct, frozen=True):
    """The pending read has failed or timed out."""


class PutEnded(msgspec.Struct, frozen=True):
    """A put of a sync object succeeded, was refused, or has an unknown result. It counts only once it is read back."""


class Due(msgspec.Struct, frozen=True):
    """The time of `due()` has come."""


class EtcdStarted(msgspec.Struct, frozen=True):
    """The etcd process runs and is healthy behind its proxy."""


class EtcdEnded(msgspec.Struct, frozen=True):
    """The etcd process has ended, for whatever reason."""


class ProxyShut(msgspec.Struct, frozen=True):
    """The guard has confirmed that nothing passes any more.

    `idle_since`: the time since which no client is connected, silent clients included. None if that is not known.
    """

    idle_since: float | None = None


class SnapshotProgressed(msgspec.Struct, frozen=True):
    """This number of bytes of the final snapshot is stored."""

    stored: int


class SnapshotStored(msgspec.Struct, frozen=True):
    """The final snapshot is stored and was verified.

    `complete` if its etcd has the data directory in which all was acknowledged, not data restored from backups.
    """

    name: str
    complete: bool = True


class SnapshotFailed(msgspec.Struct, frozen=True):
    """The final snapshot was given up; the store may have parts of it."""


class InitiateCalled(msgspec.Struct, frozen=True):
    """`copyop/initiate` was called, with the agent's own epoch.

    `api_servers_ended`: according to the seed's API server, no pod of an API server is left that could answer for this
    epoch.
    """

    api_servers_ended: bool = False
    ended_for: float = 0
    """Seconds since which the caller has known that."""


class LeaderSeen(msgspec.Struct, frozen=True):
    """Of an etcd with several members: whether the own one leads."""

    leads: bool


class MemberClosed(msgspec.Struct, frozen=True):
    """The agent of another member has read the CopyOperation, and its proxy is shut for good.

    `silent`: nor does any API server answer from a cache that it filled through that proxy.
    """

    name: str
    silent: bool = False


class OwnMarkerRead(msgspec.Struct, frozen=True):
    """The first-start marker of the destination's own epoch in its own store."""

    marker: FirstStart | Unreadable | None


class Copied(msgspec.Struct, frozen=True):
    """All snapshots of the list are in the destination's store and were verified."""

    snapshots: tuple[str, ...]


class CopyFailed(msgspec.Struct, frozen=True):
    """The copy ended early; the next attempt finds what was copied."""


AgentEvent = (
    Observed
    | StoreFailed
    | PutEnded
    | Due
    | EtcdStarted
    | EtcdEnded
    | ProxyShut
    | SnapshotProgressed
    | SnapshotStored
    | SnapshotFailed
    | InitiateCalled
    | LeaderSeen
    | MemberClosed
)
CopierEvent = Observed | StoreFailed | PutEnded | Due | OwnMarkerRead | Copied | CopyFailed
