"""Actions of an election, for the driver of its state machines. Each ends with an event, except those on the proxy and
on etcd that say so."""

from __future__ import annotations

import msgspec

from espalier.api.etcd.ownership import CopyOperation, FirstStart


class Observe(msgspec.Struct, frozen=True):
    """Read both objects of the epoch with one client: `Observed` or `StoreFailed`, within the store's timeout."""


class PutOperation(msgspec.Struct, frozen=True):
    """Put the CopyOperation with a new nonce: `PutEnded`.

    If the store supports conditions, only if its version is still `version`; if `version` is empty, only if
    there is no object.
    """

    operation: CopyOperation
    version: str


class PutMarker(msgspec.Struct, frozen=True):
    """Put the first-start marker of the own epoch with a new nonce, if there is none: `PutEnded`."""

    marker: FirstStart


class ReadOwnMarker(msgspec.Struct, frozen=True):
    """Read the first-start marker of the own epoch in the own store: `OwnMarkerRead` or `StoreFailed`."""


class StartEtcd(msgspec.Struct, frozen=True):
    """Start etcd behind its proxy, which may be shut or open: `EtcdStarted`, or `EtcdEnded` if it does not start."""


class StopEtcd(msgspec.Struct, frozen=True):
    """End etcd with SIGTERM, later with SIGKILL: `EtcdEnded`."""


class OpenProxy(msgspec.Struct, frozen=True):
    """Let clients pass until this time of `CLOCK_BOOTTIME`; the guard compares it before each chunk. No event."""

    until: float


class ShutProxy(msgspec.Struct, frozen=True):
    """Let nothing pass from now on: `ProxyShut` once the guard has confirmed it."""


class TakeFinalSnapshot(msgspec.Struct, frozen=True):
    """Take a full snapshot and store it as final: `SnapshotStored` or `SnapshotFailed`, `SnapshotProgressed` before."""


class Copy(msgspec.Struct, frozen=True):
    """Copy the latest set, which must have the snapshot `final` if it is named: `Copied` or `CopyFailed`.

    The list of objects is made when the copy begins; later snapshots in the source are not copied.
    """

    final: str | None


AgentAction = Observe | PutOperation | PutMarker | StartEtcd | StopEtcd | OpenProxy | ShutProxy | TakeFinalSnapshot
CopierAction = Observe | PutOperation | PutMarker | ReadOwnMarker | Copy
