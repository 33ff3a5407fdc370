"""The copier of a destination: asks the source to close, waits for it within bounds, copies, and makes the own marker.

Nothing of the own epoch starts before that marker exists. A copier can be restarted at any moment, any number of times:
it reads the state and continues.

The machine has the form of the agent's: `step` records an event, then decides by state and time. Phases only go on:

- Checking -> Finished: the own marker exists, an earlier copier has finished. Checking -> Waiting: it does not.
- Waiting -> Copying: a read of the source's container has a CopyOperation with `Ready` or `Done`, together with the
  source's marker. Until then the copier puts `Initial` if there is no CopyOperation, and `Ready` itself once the source
  has made no progress for too long, but never before the source must have closed by itself (`gives_up_at`).
- Copying -> Recording: all snapshots of a list are copied; a copy that fails is tried again.
- Recording -> Finished: the own marker, which has that list, was put and read back. A put that was lost is repeated.

In Finished the epoch may start. What remains is `Done` in the source's CopyOperation, which nobody waits for.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

import msgspec
from msgspec.structs import replace

from espalier.api.etcd.ownership import CopyOperation, FirstStart, Status, Writer
from espalier.api.etcd.timing import Timing
from espalier.etcdbackup.election import events
from espalier.etcdbackup.election.actions import (
    CopierAction,
    Copy,
    Observe,
    PutMarker,
    PutOperation,
    ReadOwnMarker,
)


class Phase(Enum):
    """The phase of a copier."""

    CHECKING = "Checking"
    """It looks for its own marker: an earlier copier may have finished."""
    WAITING = "Waiting"
    """It asks the source to close, and waits for `Ready`."""
    COPYING = "Copying"
    """The source no longer serves anything; snapshots are being copied."""
    RECORDING = "Recording"
    """All is copied; the marker is put and read back."""
    FINISHED = "Finished"
    """The own epoch may start. All that remains is to write `Done`, for people."""


class Settings(msgspec.Struct, frozen=True):
    """The copier's settings, from the Etcd object and from its configuration."""

    epoch: int
    """The destination's own epoch."""
    predecessor: int
    """The epoch that has the data: the last earlier epoch that the garden allowed to start."""
    cluster: str
    timing: Timing

    def __post_init__(self) -> None:
        """Raise `ValueError` if the epochs do not increase: a garden that counts them never sends such a pair."""
        if self.predecessor >= self.epoch:
            raise ValueError(f"epoch {self.epoch} can't take over from epoch {self.predecessor}: it must be higher")


class Copier(msgspec.Struct, frozen=True):
    """The state of a copy. Times are seconds of `CLOCK_BOOTTIME`."""

    read_due: float
    phase: Phase = Phase.CHECKING
    reading: bool = False
    putting: bool = False
    unread: bool = False
    """A put has ended, and no read has succeeded since."""
    operation: CopyOperation | None = None
    """The CopyOperation as last read."""
    version: str = ""
    seen_since: float | None = None
    """The time since which the CopyOperation is known to exist in the source's store."""
    progress_since: float = 0
    release: float = 0
    """The promise of the source's marker: how long the source may serve after that."""
    copying: bool = False
    retry_due: float = 0
    snapshots: tuple[str, ...] = ()

    @property
    def ready(self) -> bool:
        """The answer of the readiness probe."""
        return self.phase is Phase.FINISHED


CopierStep = tuple[Copier, tuple[CopierAction, ...]]


def start(settings: Settings, at: float) -> Copier:
    """A copier that has just started and knows nothing."""
    return Copier(read_due=at + settings.timing.store_staleness)


def due(settings: Settings, copier: Copier) -> float | None:
    """The time at which the copier wants a `Due`; None while it waits for another event."""
    del settings
    return min(_due_times(copier), default=None)


def gives_up_at(timing: Timing, copier: Copier) -> float:
    """The time at which the destination continues without the source's `Ready`; infinity until it has read a
    CopyOperation.

    Never before the source must have closed by itself, whatever timeouts are set on this side.
    """
    if copier.seen_since is None:
        return float("inf")
    patience = min(copier.progress_since + timing.progress_timeout, copier.seen_since + timing.copy_timeout)
    return max(patience, copier.seen_since + timing.fence(copier.release))


def step(settings: Settings, copier: Copier, event: events.CopierEvent, at: float) -> CopierStep:
    """Return the copier after an event, and the actions in order."""
    copier, applied = _apply_event(settings, copier, event, at)
    copier, decided = _decide(settings, copier, at)
    return copier, (*applied, *decided)


def _apply_event(settings: Settings, copier: Copier, event: events.CopierEvent, at: float) -> CopierStep:
    match event:
        case events.Observed():
            return _apply_read(settings, replace(copier, reading=False), event, at)
        case events.OwnMarkerRead(marker=marker):
            return _apply_own_marker(replace(copier, reading=False, unread=False), marker is not None, marker, at), ()
        case events.StoreFailed():
            return replace(copier, reading=False), ()
        case events.PutEnded():
            return replace(copier, putting=False, unread=True, read_due=at), ()
        case events.Copied(snapshots=snapshots):
            return replace(copier, copying=False, phase=Phase.RECORDING, snapshots=snapshots), ()
        case events.CopyFailed():
            return replace(copier, copying=False, retry_due=at + settings.timing.poll_period), ()
        case events.Due():
            return copier, ()


def _apply_own_marker(copier: Copier, is_present: bool, marker: object, at: float) -> Copier:
    if isinstance(marker, FirstStart):
        return replace(copier, phase=Phase.FINISHED, read_due=at)
    if not is_present and copier.phase is Phase.CHECKING:
        return replace(copier, phase=Phase.WAITING, read_due=at)
    return copier


def _apply_read(settings: Settings, copier: Copier, seen: events.Observed, at: float) -> CopierStep:
    """Apply a read of both objects of the predecessor.

    Only a read proves that the CopyOperation exists, and only together with the predecessor's marker: the answer to a
    put may come from a container that the source never reads.
    """
    copier = replace(copier, unread=False)
    if not isinstance(seen.marker, FirstStart):
        return copier, ()
    if isinstance(seen.operation, CopyOperation):
        return _apply_operation(settings, copier, seen.operation, seen.version, seen.marker, at)
    absent = seen.operation is None and copier.seen_since is None and copier.phase is Phase.WAITING
    if absent and not copier.putting:
        initial = CopyOperation(settings.predecessor, Status.INITIAL, Writer.DESTINATION)
        return replace(copier, putting=True), (PutOperation(initial, ""),)
    return copier, ()


def _apply_operation(
    settings: Settings, copier: Copier, operation: CopyOperation, version: str, marker: FirstStart, at: float
) -> CopierStep:
    known = copier.operation
    moved = known is None or (operation.progress, operation.status) != (known.progress, known.status)
    copier = replace(
        copier,
        operation=operation,
        version=version,
        seen_since=at if copier.seen_since is None else copier.seen_since,
        progress_since=at if moved else copier.progress_since,
        release=marker.release_seconds,
    )
    if copier.putting:
        return copier, ()
    if copier.phase is Phase.FINISHED:
        if operation.status is Status.DONE:
            return copier, ()
        done = replace(operation, status=Status.DONE, written_by=Writer.DESTINATION)
        return replace(copier, putting=True), (PutOperation(done, version),)
    if copier.phase is not Phase.WAITING:
        return copier, ()
    if operation.status is not Status.INITIAL:
        return replace(copier, phase=Phase.COPYING), ()
    if at < gives_up_at(settings.timing, copier):
        return copier, ()
    ready = CopyOperation(settings.predecessor, Status.READY, Writer.DESTINATION, None, operation.progress)
    return replace(copier, putting=True), (PutOperation(ready, version),)


def _decide(settings: Settings, copier: Copier, at: float) -> CopierStep:
    """Decide the actions by the copier's state and the time."""
    if copier.phase is Phase.COPYING:
        if copier.copying or at < copier.retry_due or copier.operation is None:
            return copier, ()
        return replace(copier, copying=True), (Copy(copier.operation.final_snapshot),)
    if copier.phase is Phase.RECORDING and not copier.putting and not copier.unread:
        return replace(copier, putting=True), (PutMarker(_marker(settings, copier)),)
    if not _wants_to_read(copier) or at < copier.read_due:
        return copier, ()
    own = copier.phase in (Phase.CHECKING, Phase.RECORDING)
    copier = replace(copier, reading=True, read_due=at + settings.timing.poll_period)
    return copier, (ReadOwnMarker() if own else Observe(),)


def _marker(settings: Settings, copier: Copier) -> FirstStart:
    return FirstStart(
        epoch=settings.epoch,
        cluster=settings.cluster,
        release_seconds=settings.timing.release,
        predecessor=settings.predecessor,
        snapshots=copier.snapshots,
        lossless=copier.operation is not None and copier.operation.final_snapshot is not None,
    )


def _wants_to_read(copier: Copier) -> bool:
    done = copier.phase is Phase.FINISHED and copier.operation is not None and copier.operation.status is Status.DONE
    return not copier.reading and not done and (copier.phase is not Phase.RECORDING or copier.unread)


def _due_times(copier: Copier) -> Iterator[float]:
    if copier.phase is Phase.COPYING:
        if not copier.copying:
            yield copier.retry_due
    elif _wants_to_read(copier):
        yield copier.read_due
